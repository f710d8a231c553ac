"""Honest calls of every kind, made through the real gateway, and what an auditor is to read of each: one table,
`KINDS`. I/O: sockets on 127.0.0.1, processes, the log.
"""

import hashlib
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, NamedTuple

import rfc8785
from tests.world.authorization import GATEWAY, Trust
from tests.world.changing_server import Listed, pins
from tests.world.delegations import DAY
from tests.world.scenes import Caller, Scene
from tests.world.sealed import again
from tests.world.tokened import Tokened

from accredit.base.clock import unix_seconds
from accredit.consent.call import CallTerms
from accredit.gateway.settings import RoundsSettings
from accredit.jsonrpc.methods import Era
from accredit.keys import PrivateKeyFile, make_key
from accredit.policy.drill import DRILL, DRILL_SCOPE
from accredit.ratify import DelegationCert, Grant, issue_delegation
from accredit.ratify.constraints import Constraint, MaxAmount, MaxRate, TimeWindow
from accredit.rounds import KeyRing

INBOX: dict[str, Any] = {"name": "list_inbox", "arguments": {"folder": "é\u2028\U0001f511", "n": 1.5}}
SEND: dict[str, Any] = {"name": "send_email", "arguments": {"to": "bob"}}
PAY: dict[str, Any] = {"name": "pay", "arguments": {"amount": 5, "currency": "EUR"}}
LONG = "mail://" + "x" * 4_000
SHARED = RoundsSettings(KeyRing([b"k" * 32]), shared=True)


def sha256_of(value: object) -> str:
    """The digest of a value's RFC 8785 form."""
    return hashlib.sha256(rfc8785.dumps(value)).hexdigest()  # pyright: ignore[reportArgumentType]


# --- what is called -----------------------------------------------------------------------------------


async def over_http(scene: Scene) -> None:
    """Tools, resources and prompts; a tool that fails was allowed all the same."""
    async with scene.route() as caller:
        await caller.ask("tools/call", INBOX)
        await caller.ask("resources/read", {"uri": LONG})
        await caller.ask("prompts/get", {"name": "greet", "arguments": {"who": "ada"}})
        await caller.tell("tools/call", caller.proved("tools/call", {"name": "pay", "arguments": {"word": "x"}}))


async def over_stdio(scene: Scene) -> None:
    """The same at a server that is a child, which has no sessions of its own."""
    async with scene.route("stdio") as caller:
        await caller.ask("tools/call", INBOX)
        await caller.ask("resources/read", {"uri": LONG})


async def in_streams(scene: Scene) -> None:
    """Answers that come as event streams."""
    async with scene.route("sse") as caller:
        await caller.ask("tools/call", INBOX)


async def with_all_on_record(scene: Scene) -> None:
    """Records that hold the arguments as well."""
    async with scene.route(full=True) as caller:
        await caller.ask("tools/call", INBOX)


async def in_a_batch(scene: Scene) -> None:
    """Each member of a batch is a call."""
    async with scene.before() as route:
        caller = Caller(scene.trust, scene.era, route.send, route.session)
        members = [caller.proved("tools/call", {"name": name, "arguments": {}}) for name in ("list_inbox", "pay")]
        answers = await route.batch(
            *(
                {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": each}
                for id, each in enumerate([*members, INBOX])
            )
        )
        assert sorted("result" in each for each in answers) == [False, True, True]


async def passed_on(scene: Scene) -> None:
    """An agent calls on what another one has passed on to it."""
    async with scene.route() as caller:
        now, other = unix_seconds(), make_key("agent", "Helper", unix_seconds() - DAY)
        first = scene.trust.chain("email:read", "identity:delegate")
        second = Grant(
            subject=other.public_key, cert_id="ab" * 16, scope=("email:read",), issued_at=now - 60, expires_at=now + DAY
        )
        trust = Trust()
        trust.owner, trust.agent = scene.trust.owner, other
        theirs = Caller(trust, scene.era, caller.send, caller.session)
        theirs.chain = (_issued(scene.trust.agent, second), *first)
        await theirs.ask("tools/call", INBOX)


def _issued(issuer: PrivateKeyFile, grant: Grant) -> DelegationCert:
    return issue_delegation(issuer.signer(), grant, vocabulary=grant.scope)


async def sensitive(scene: Scene) -> None:
    """A tool that takes only challenges of the gateway's own: the first leg is answered with one."""
    async with scene.route() as caller:
        await caller.ask("tools/call", SEND)


async def under_another_scope(scene: Scene) -> None:
    """A tool that accepts a scope besides its own: the agent signs for its own, and the chain covers the other."""
    async with scene.route() as caller:
        caller.chain = scene.trust.chain("comms:email:send", known=("comms:email:send",))
        await caller.ask("tools/call", SEND)


async def within_terms(scene: Scene) -> None:
    """Constraints: of those that name the call, the gateway, the time, the record is the answer."""
    async with scene.route() as caller:
        here: dict[str, Any] = {"gateway": GATEWAY, "method": "tools/call", "target": ("pay",)}
        terms: tuple[Constraint, ...] = (
            CallTerms(**here, params_sha256=sha256_of(PAY)).constraint(),
            CallTerms(**here).constraint(),
            TimeWindow("00:00", "23:59", "UTC"),
            CallTerms(**here, args={"/amount": (sha256_of(5),)}).constraint(),
            MaxRate(1, 600),
            MaxAmount("EUR", 10),
        )
        caller.chain = scene.trust.chain("payments:send", constraints=terms)
        await caller.ask("tools/call", PAY)


async def with_a_pinned_definition(scene: Scene) -> None:
    """A delegation that names the tool's definition, which is on record where pins are enforced, and only there."""
    listed = Listed(scene.audited.folder / "listed.json")
    for enforced in (True, False):
        pinned = pins(enforced=enforced)
        async with scene.route(listed=listed.path, pins=pinned) as caller:
            named = CallTerms(
                gateway=GATEWAY, method="tools/call", target=("list_inbox",), definition=pinned.tools["list_inbox"]
            )
            caller.chain = scene.trust.chain("email:read", constraints=(named.constraint(),))
            await caller.ask("tools/call", INBOX)


async def tasks(scene: Scene) -> None:
    """A call that becomes a task, and each request about that."""
    async with scene.route(serves_tasks=True) as caller:
        task = await caller.make_task()
        await caller.ask("tasks/get", task)
        if scene.era is Era.LEGACY:
            await caller.ask("tasks/result", task)
            await caller.ask("tasks/list", {})
            await caller.ask("tasks/list", {"cursor": "1"})
        else:
            answers = {"inputResponses": {"name": {"action": "accept"}}}
            await caller.ask("tasks/update", task | answers, scope="email:read")
        await caller.ask("tasks/cancel", task, scope="email:read")
        assert await caller.refused("tasks/get", caller.proved("tasks/get", {"taskId": "none"})) == "unknown_task"


async def tasks_of_a_sensitive_tool(scene: Scene) -> None:
    """To change a task of such a tool takes a challenge as well; what the call was held to is not held against it."""
    async with scene.route(serves_tasks=True) as caller:
        named = CallTerms(gateway=GATEWAY, method="tools/call", target=("send_email",))
        terms = (named.constraint(), MaxRate(1, 600))
        caller.chain = scene.trust.chain("comms:email:send", known=("comms:email:send",), constraints=terms)
        task = await caller.make_task("send_email")
        await caller.ask("tasks/get", task)
        await caller.ask("tasks/cancel", task, scope="email:send")


async def rounds(scene: Scene, **settings: Any) -> None:
    """A call whose server asks twice, and a prompt: each leg has its own proof. The delegation names the call."""
    async with scene.route(**settings) as caller:
        for method, name in (("tools/call", "list_inbox"), ("prompts/get", "greet")):
            first = {"name": name, "arguments": {"gives": ["state", None]}}
            named = CallTerms(gateway=GATEWAY, method=method, target=(name,), params_sha256=sha256_of(first))
            caller.chain = scene.trust.chain(constraints=(named.constraint(), MaxRate(1, 600)))
            leg = first
            for number in (1, 2):
                leg = again(first, (await caller.ask(method, leg))["requestState"], number)
            assert "resultType" not in await caller.ask(method, leg)


async def merged(scene: Scene) -> None:
    """Calls, and tasks, at the endpoint of several servers."""
    async with scene.several() as caller:
        await caller.ask("tools/call", {"name": "mail__list_inbox", "arguments": {}})
        await caller.ask("resources/read", {"uri": "accredit+mail:mail://1"})
        task = await caller.make_task("files__list_inbox")
        await caller.ask("tasks/get", task)
        await caller.ask("tasks/cancel", task, scope="email:read")
        nobodys = caller.proved("tools/call", {"name": "other__list_inbox", "arguments": {}})
        assert await caller.refused("tools/call", nobodys) == "unknown_tool"


async def one_of_several(scene: Scene) -> None:
    """Calls at a server's own endpoint, beside others."""
    async with scene.several("mail") as caller:
        await caller.ask("tools/call", INBOX)
        task = await caller.make_task()
        await caller.ask("tasks/cancel", task, scope="email:read")


async def observed(scene: Scene) -> None:
    """Proofs are only looked at: what would be allowed, what would be refused, and who has none."""
    async with scene.route(required=False, policy={"observes": True}) as caller:
        await caller.ask("tools/call", INBOX)
        await caller.ask("tools/call", SEND)
        once = caller.proved("tools/call", INBOX)
        for params in (once, once, INBOX, SEND):
            assert "result" in await caller.tell("tools/call", params)
        caller.chain = scene.trust.chain("email:send")
        await caller.ask("tools/call", INBOX)
        await caller.ask("tools/call", {"name": "nobodys", "arguments": {}}, scope="")


async def observed_tasks(scene: Scene) -> None:
    """The same of a task."""
    async with scene.route(required=False, policy={"observes": True}, serves_tasks=True) as caller:
        task = await caller.make_task()
        await caller.ask("tasks/get", task)
        await caller.ask("tasks/cancel", task, scope="email:read")


async def refused(scene: Scene) -> None:
    """Whoever may not, has no proof, or brings one once more."""
    async with scene.route() as caller:
        once = caller.proved("tools/call", INBOX)
        assert "result" in await caller.tell("tools/call", once)
        assert await caller.refused("tools/call", once) == "ratify_replayed"
        assert await caller.refused("tools/call", INBOX) == "missing_ratify_proof"
        assert await caller.refused("tools/call", SEND) == "ratify_challenge_required"
        assert await caller.refused("tools/call", {"name": "nobodys"}) == "unknown_tool"
        caller.chain = scene.trust.chain("email:send")
        assert await caller.refused("tools/call", caller.proved("tools/call", INBOX)) == "ratify_scope_denied"
        caller.chain = scene.trust.chain(issuer=scene.trust.stranger)
        assert await caller.refused("tools/call", caller.proved("tools/call", INBOX)) == "ratify_untrusted_root"


async def in_a_sealed_session(scene: Scene) -> None:
    """A session that any gateway of a cluster serves: a record has the digest of its id."""
    for way in ("http", "stdio"):
        async with scene.route(way, rounds=SHARED) as caller:
            await caller.ask("tools/call", INBOX)


async def with_tokens(scene: Scene) -> None:
    """A token beside the proof, wherever it is: what the agent signs is the call without it."""
    world = Tokened()
    token = world.token(sub=scene.trust.agent.id)
    async with scene.before(tokens=world.settings(), key_sets=world.key_sets, token=token) as route:
        in_header = Caller(scene.trust, scene.era, partial(route.send, token=token), route.session)
        await in_header.ask("tools/call", INBOX)
        caller = Caller(scene.trust, scene.era, route.send, route.session)
        proved = caller.proved("tools/call", INBOX)
        assert "result" in await caller.tell(
            "tools/call", proved | {"arguments": {**INBOX["arguments"], "_token": token}}
        )
        proved = caller.proved("tools/call", INBOX)
        assert "result" in await caller.tell("tools/call", proved | {"_meta": proved["_meta"] | {"token": token}})


async def drilled(scene: Scene) -> None:
    """A tool of the gateway's own, which no server hears of."""
    async with scene.route() as caller:
        caller.chain = scene.trust.chain(DRILL_SCOPE)
        await caller.ask("tools/call", {"name": DRILL, "arguments": {}}, scope=DRILL_SCOPE)


async def unbound(scene: Scene) -> None:
    """A proof that is bound to nothing would be good for another call."""
    async with scene.route() as caller:
        await caller.ask("tools/call", INBOX, bound=False)


async def by_digest(scene: Scene) -> None:
    """A gateway that is told to keep no proofs."""
    async with scene.route(keeps_proofs=False) as caller:
        await caller.ask("tools/call", INBOX)


async def without_proofs(scene: Scene) -> None:
    """Proofs are off."""
    async with scene.route(required=False) as caller:
        assert "result" in await caller.tell("tools/call", INBOX)


# --- what is told of them -----------------------------------------------------------------------------


PROVED = "allow; certificates and proof kept; allowed and signed shown"
UNSIGNED = "allow; certificates kept; allowed shown"
REFUSED, ASKED = "deny; nothing kept; nothing shown", "challenge; nothing kept; nothing shown"
KNOWN = "deny; certificates kept; nothing shown"
"""Refused, though all signatures were good."""


class Kind(NamedTuple):
    """Calls of one kind: who makes them, what is told of each once all is shown, and `bad`, what is wrong with a log of
    them where proofs are required. `row` is that of docs/reference/attestation.md, "What is kept of a call", by how it
    begins."""

    row: str
    play: Callable[[Scene], Coroutine[Any, Any, None]]
    told: tuple[str, ...]
    eras: tuple[Era, ...] = (Era.MODERN, Era.LEGACY)
    bad: str = ""


def of(method: str, *words: str) -> str:
    """What is told of a call that is proved, as that comes from `Told`; `words` are what is not answered."""
    return "; not ".join((f"{method} {PROVED}", *words))


TERMS, RATE = "certificate 0: dev.accredit.call", "certificate 0: max_rate"
CALL, GET, CANCEL = of("tools/call"), of("tasks/get"), of("tasks/cancel")
WOULD = CALL.replace("allow;", "would allow;")
LEGS = [of("tools/call", RATE), of("tools/call", TERMS, RATE), of("tools/call", TERMS, RATE)]
TOGETHER = (*LEGS, *(each.replace("tools/call", "prompts/get") for each in LEGS))
BOUND = "allowed, on a bound proof"
UNBOUND = "allowed, on a proof that is bound to nothing"
TASK, LEG, MERGED = "a request about a [task]", "a leg of a [multi-round-trip request]", "at the [merged]"
MODERN, LEGACY = (Era.MODERN,), (Era.LEGACY,)
KINDS: Mapping[str, Kind] = {
    "over HTTP": Kind(BOUND, over_http, (CALL, of("resources/read"), of("prompts/get"), CALL)),
    "over stdio": Kind(BOUND, over_stdio, (CALL, of("resources/read"))),
    "in streams": Kind(BOUND, in_streams, (CALL,)),
    "in a batch": Kind(BOUND, in_a_batch, (CALL, CALL, f"tools/call {REFUSED}"), LEGACY),
    "with all on record": Kind(BOUND, with_all_on_record, (CALL,)),
    "with tokens": Kind(BOUND, with_tokens, (CALL, CALL, CALL)),
    "passed on": Kind(BOUND, passed_on, (CALL,)),
    "of the gateway's own tool": Kind(BOUND, drilled, (CALL,)),
    "within terms": Kind(BOUND, within_terms, (of("tools/call", TERMS, RATE, "certificate 0: max_amount"),)),
    "with a pinned definition": Kind(BOUND, with_a_pinned_definition, (CALL, of("tools/call", TERMS))),
    "in a sealed session": Kind("in a session whose id is [sealed]", in_a_sealed_session, (CALL, CALL)),
    "under another scope": Kind("of a tool that [accepts]", under_another_scope, (f"tools/call {ASKED}", CALL)),
    "sensitive": Kind("refused, asked for a challenge", sensitive, (f"tools/call {ASKED}", CALL)),
    "tasks": Kind(TASK, tasks, (CALL, GET, of("tasks/update"), CANCEL, f"tasks/get {REFUSED}"), MODERN),
    "tasks of before": Kind(
        TASK, tasks, (CALL, GET, of("tasks/result"), *[of("tasks/list")] * 2, CANCEL, f"tasks/get {REFUSED}"), LEGACY,
    ),
    "tasks of a sensitive tool": Kind(
        TASK, tasks_of_a_sensitive_tool,
        (f"tools/call {ASKED}", of("tools/call", RATE), of("tasks/get", TERMS, RATE), f"tasks/cancel {ASKED}",
         of("tasks/cancel", TERMS, RATE)),
    ),
    "rounds": Kind(LEG, rounds, TOGETHER, MODERN),
    "rounds with all on record": Kind(LEG, partial(rounds, full=True), TOGETHER, MODERN),
    "merged": Kind(MERGED, merged, (CALL, of("resources/read"), CALL, GET, CANCEL, f"tools/call {REFUSED}")),
    "at one of several": Kind(BOUND, one_of_several, (CALL, CALL, CANCEL)),
    "observed": Kind(
        "one that was only [observed]", observed,
        (WOULD, WOULD, WOULD, *(f"tools/call would {each}" for each in (REFUSED, REFUSED, ASKED, KNOWN, KNOWN))),
    ),
    "observed tasks": Kind(
        "one that was only [observed]", observed_tasks,
        (WOULD, *(each.replace("allow;", "would allow;") for each in (GET, CANCEL))),
    ),
    "refused": Kind(
        "refused, asked for a challenge", refused,
        (CALL, *(f"tools/call {each}" for each in (REFUSED, REFUSED, ASKED, REFUSED, KNOWN, REFUSED))),
    ),
    "unbound": Kind(UNBOUND, unbound, (f"tools/call {UNSIGNED}",), bad="the proof was bound to no call"),
    "by digest": Kind(UNBOUND, by_digest, (f"tools/call {UNSIGNED}",), bad="its proof was not kept"),
    "without proofs": Kind(
        "without proofs", without_proofs, ("tools/call allow; nothing kept; nothing shown",), bad="nobody's authority"
    ),
}  # fmt: skip
