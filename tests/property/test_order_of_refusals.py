"""Of a request that has several faults at once the refusal is that of the first rule in the documented order, on the
fast and the ASGI road and at the endpoint of several servers.

Which rule comes first says what a stranger can learn and make the gateway do: whoever has no token is not told which
tools there are, and a proof that is forged spends no challenge. `ORDER` is that order as data; each rule names where it
is documented.
"""

import json
from collections.abc import Collection, Iterable
from functools import cache
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import pytest
import uvloop
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs
from tests.world.authorization import CATALOG, GATEWAY, Signed
from tests.world.calls import REVISION, meta
from tests.world.decisions import Known
from tests.world.delegations import DAY
from tests.world.issuer import AUDIENCE
from tests.world.two_roads import ASGI, FAST, TOKENED, TRUST, URL, Records, Server, told

from accredit.attest import CallDecision
from accredit.base.clock import unix_seconds
from accredit.errors import StoreUnavailable, UpstreamUnavailable
from accredit.gateway import create_app
from accredit.gateway.front.callers import MAX_SEALED_SESSION_ID_BYTES
from accredit.gateway.merging import merged_settings
from accredit.gateway.settings import GatewaySettings, HttpUpstream, RecordSettings
from accredit.gateway.upstream.http.client import Answer
from accredit.jsonrpc.methods import Era
from accredit.pins.definitions import Pins
from accredit.policy.merging import merged_name
from accredit.policy.quotas import QUOTA_UNITS, Quota, Quotas
from accredit.ratify import DelegationCert
from accredit.ratify.constraints import MaxAmount
from accredit.stores import MemoryStore

pytestmark = pytest.mark.slow

MERGED = "merged"
MOST_BYTES = 60_000
SPENT = b"s" * 32


class Rule(NamedTuple):
    """A fault that a request can have, the rule that refuses it, and how: status, code, and what the error says."""

    fault: str
    rule: str
    status: int
    code: int
    says: str


INTAKE, BEARER, DECIDE, VERIFY, GATE = (
    "gateway/front/endpoint", "gateway/admission/bearer", "policy/decide", "ratify/verify", "gateway/admission/gate",
)  # fmt: skip
ORDER = (
    Rule("another host", f"{INTAKE} 1", 403, -32600, "this Host is not allowed"),
    Rule("another origin", f"{INTAKE} 1", 403, -32600, "this Origin is not allowed"),
    Rule("no method of MCP", f"{INTAKE} 2", 405, -32600, "Method not allowed"),
    Rule("a long session", f"{INTAKE} 2", 400, -32600, "Mcp-Session-Id has more than"),
    Rule("a bad token", f"{INTAKE} 2", 401, -31010, "invalid_token"),
    Rule("another type", f"{INTAKE} 3", 415, -32600, "Content-Type must be application/json"),
    Rule("a coding", f"{INTAKE} 3", 415, -32600, "Content-Encoding must be absent"),
    Rule("two sessions", f"{INTAKE} 3", 400, -32600, "Mcp-Session-Id"),
    Rule("too long", f"{INTAKE} 4", 413, -32600, "60000 bytes"),
    Rule("no JSON", f"{INTAKE} 4", 400, -32700, "Parse error"),
    Rule("no message", f"{INTAKE} 4", 400, -32600, "Invalid Request"),
    Rule("no metadata", f"{INTAKE} 5", 400, -32602, "params._meta lacks"),
    Rule("another era", f"{INTAKE} 5", 400, -32020, "MCP-Protocol-Version differs"),
    Rule("another method in the header", f"{INTAKE} 5", 400, -32020, "Mcp-Method differs"),
    Rule("another name in the header", f"{INTAKE} 5", 400, -32020, "Mcp-Name differs"),
    Rule("no token", f"{INTAKE} 6", 401, -31011, "missing_token"),
    Rule("a token for less", f"{BEARER} 4", 403, -31010, "insufficient_scope"),
    Rule("an unknown session", f"{INTAKE} 6", 404, -32600, "Session not found"),
    Rule("an unknown tool", f"{DECIDE} 3", 200, -32602, "unknown_tool"),
    Rule("no proof", f"{DECIDE} 4", 200, -31001, "missing_ratify_proof"),
    Rule("an unreadable proof", f"{DECIDE} 4", 200, -31003, "ratify_invalid"),
    Rule("a foreign proof", f"{DECIDE} 4", 200, -31004, "ratify_untrusted_root"),
    Rule("another agent's token", f"{DECIDE} 2", 200, -31003, "token_mismatch"),
    Rule("bound to another gateway", f"{VERIFY} 5", 200, -31003, "session_context"),
    Rule("a spent challenge", f"{VERIFY} 6", 200, -31005, "ratify_replayed"),
    Rule("an expired delegation", f"{VERIFY} 11", 200, -31003, "ratify_expired"),
    Rule("a revoked delegation", f"{VERIFY} 11", 200, -31003, "ratify_revoked"),
    Rule("a forged delegation", f"{VERIFY} 11", 200, -31003, "bad_signature"),
    Rule("an old proof", f"{VERIFY} 12", 200, -31003, "stale"),
    Rule("a forged proof", f"{VERIFY} 13", 200, -31003, "bad_challenge_sig"),
    Rule("another definition", f"{DECIDE} 6", 200, -31012, "definition_changed"),
    Rule("a broken constraint", f"{DECIDE} 8", 200, -31003, "ratify_constraint_denied"),
    Rule("no scope", f"{DECIDE} 8", 200, -31003, "ratify_scope_denied"),
    Rule("a raw state", f"{GATE} 4", 200, -32602, "Invalid or expired requestState"),
    Rule("no quota", f"{DECIDE} 8", 200, -31013, "quota_exceeded"),
    Rule("no record", f"{DECIDE} 9", 200, -31006, "record_unavailable"),
    Rule("no session", "gateway/upstream/merged/sessions", 400, -32600, "Mcp-Session-Id is missing"),
    Rule("a server that is away", f"{INTAKE} 8", 502, -32000, "unavailable"),
)
RANK = {each.fault: rank for rank, each in enumerate(ORDER)}
MODERN_ONLY = {"no metadata", "another era", "another method in the header", "another name in the header"}
"""Faults of what the other era does not have."""
OF_TOKEN = {"a token for less", "another agent's token"}
OF_SETTINGS = {"no quota", "another definition"}
OF_CHAIN = {"no scope", "a foreign proof", "a broken constraint", "an expired delegation", "a forged delegation"}
"""Faults of what is made once for all calls that have the same."""


class Denied(Known):
    """Revocations that know of all."""

    async def is_revoked(self, cert_id: str) -> bool:
        """Everybody is."""
        return True


class NoRecords(Records):
    """A log that takes nothing."""

    async def begin(self, decided: CallDecision) -> None:
        """It is not there."""
        raise StoreUnavailable("no log")


class Away(Server):
    """A server that nobody reaches."""

    async def send(self, *args: Any, **more: Any) -> Answer:
        """It is away."""
        raise UpstreamUnavailable("no connection")


@cache
def chain(faults: frozenset[str]) -> tuple[DelegationCert, ...]:
    """A delegation for `pay` with these faults."""
    (cert,) = TRUST.chain(
        "email:read" if "no scope" in faults else "payments:send",
        issuer=TRUST.stranger if "a foreign proof" in faults else None,
        constraints=(MaxAmount(currency="EUR", max_amount=1),) if "a broken constraint" in faults else (),
        begins=-2 * DAY,
        ends=-DAY if "an expired delegation" in faults else DAY,
    )
    return (structs.replace(cert, issued_at=cert.issued_at - 1),) if "a forged delegation" in faults else (cert,)


def proof(faults: frozenset[str], params: dict[str, Any]) -> Any:
    """The proof for a call of `pay`, with these faults."""
    if "an unreadable proof" in faults:
        return {"v": 1}
    signed = Signed(
        gateway="another" if "bound to another gateway" in faults else GATEWAY,
        challenge=SPENT if "a spent challenge" in faults else None,
        age=120 if "an old proof" in faults else 0,
        scope="payments:send",
    )
    made = TRUST.proof(chain(faults & OF_CHAIN), "tools/call", params, signed)
    if "a forged proof" in faults:
        text = made["challenge_sig"]["ml_dsa_65"]
        made["challenge_sig"]["ml_dsa_65"] = ("B" if text[0] == "A" else "A") + text[1:]
    return made


def request(faults: frozenset[str], era: Era, road: str) -> bytes:
    """A call of `pay` with these faults: the head and the body."""
    own = "nothing" if "an unknown tool" in faults else "pay"
    name = merged_name("mail", own) if road == MERGED else own
    params: dict[str, Any] = {"name": name, "arguments": {"amount": 5, "currency": "EUR"}}
    if "a raw state" in faults:
        params["requestState"] = "raw"
    _meta = meta() if era is Era.MODERN and "no metadata" not in faults else {}
    if "no proof" not in faults:
        _meta["ratify_proof"] = proof(faults, params)
    params["_meta"] = _meta
    message = {"jsonrpc": "1.0" if "no message" in faults else "2.0", "id": 7, "method": "tools/call", "params": params}
    body = json.dumps(message).encode()
    if "no JSON" in faults:
        body = body[:-1]
    if "too long" in faults:
        body += b" " * MOST_BYTES
    lines = [
        b"%b /mcp HTTP/1.1" % (b"PUT" if "no method of MCP" in faults else b"POST"),
        b"Host: " + (b"evil.example" if "another host" in faults else b"127.0.0.1:8484"),
        b"Content-Type: " + (b"text/plain" if "another type" in faults else b"application/json"),
        b"Accept: application/json, text/event-stream",
        *headers(faults, era, name),
        b"Content-Length: %d" % len(body),
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def headers(faults: frozenset[str], era: Era, name: str) -> list[bytes]:
    """The other lines of the head."""
    lines: list[bytes] = []
    if era is Era.MODERN:
        other = "2099-01-01" if "another era" in faults else REVISION[era]
        method = "tools/list" if "another method in the header" in faults else "tools/call"
        lines += [f"MCP-Protocol-Version: {other}".encode(), f"Mcp-Method: {method}".encode()]
        lines.append(f"Mcp-Name: {'another' if 'another name in the header' in faults else name}".encode())
    else:
        lines.append(f"MCP-Protocol-Version: {REVISION[era]}".encode())
    if "a bad token" in faults:
        lines.append(b"Authorization: Bearer no.such.token")
    elif "no token" not in faults:
        lines.append(b"Authorization: Bearer " + token(faults & OF_TOKEN).encode())
    if "another origin" in faults:
        lines.append(b"Origin: https://evil.example")
    if "a coding" in faults:
        lines.append(b"Content-Encoding: gzip")
    id = b"s" * (MAX_SEALED_SESSION_ID_BYTES + 1) if "a long session" in faults else b"one"
    if "two sessions" in faults:
        lines += [b"Mcp-Session-Id: " + id, b"Mcp-Session-Id: two"]
    elif faults & {"an unknown session", "a long session"}:
        lines.append(b"Mcp-Session-Id: " + id)
    return lines


@cache
def token(faults: frozenset[str]) -> str:
    """A token of the agent's that is good for `pay`, with these faults."""
    subject = "another" if "another agent's token" in faults else TRUST.agent.id
    scope = "see" if "a token for less" in faults else "see pay"
    return TOKENED.token(sub=subject, scope=scope, exp=unix_seconds() + DAY)


@cache
def gateway_settings(faults: frozenset[str], road: str) -> list[GatewaySettings]:
    """The settings of the gateway that has these faults."""
    each = [settings_of(faults, name) for name in (("mail", "files") if road == MERGED else ("",))]
    if road != MERGED:
        return each
    pins = Pins(tools={merged_name("mail", "pay"): "0" * 64}) if "another definition" in faults else None
    whole = merged_settings(each, path="/mcp", gateway_id=GATEWAY, resource=AUDIENCE, pins=pins)
    return [*each, whole]


def settings_of(faults: frozenset[str], server: str) -> GatewaySettings:
    """Those of one server."""
    sums = Quota(by="principal", tools=frozenset({"pay"}), window_s=3_600, window="1h", most=QUOTA_UNITS, fact="amount")
    policy = {
        "catalog": CATALOG,
        "server": server,
        "quotas": Quotas((sums,) if "no quota" in faults else (), server),
        "bind_agent": True,
    }
    return TRUST.settings(
        HttpUpstream(URL),
        policy=policy,
        server=server,
        path=f"/mcp/{server}" if server else "/mcp",
        tokens=TOKENED.settings(tool_scopes={"pay": "pay"}),
        records=RecordSettings(GATEWAY),
        pins=Pins(tools={"pay": "0" * 64}) if "another definition" in faults else None,
        max_request_bytes=MOST_BYTES,
    )


def answer(faults: frozenset[str], era: Era, road: str) -> tuple[int, dict[str, Any], int]:
    """What a client gets for a call with these faults: the status, and the message. And how much the server got."""
    return uvloop.run(_answer(faults, era, road))


async def _answer(faults: frozenset[str], era: Era, road: str) -> tuple[int, dict[str, Any], int]:
    store, server = MemoryStore(), Away() if "a server that is away" in faults else Server()
    if "a spent challenge" in faults:
        now = unix_seconds()
        await store.spend(SPENT, b"", issued=False, keep_until=now + DAY, now=now)
    gateway = create_app(
        gateway_settings(faults & OF_SETTINGS, road),
        store=store,
        revocations=Denied() if "a revoked delegation" in faults else Known(),
        key_sets=TOKENED.key_sets,
        records=NoRecords() if "no record" in faults else Records(),
    )
    pipe = await told(road, gateway, server, [request(faults, era, road)])
    await gateway.aclose()
    head, _, body = bytes(pipe.written).partition(b"\r\n\r\n")
    calls = sum(b'"tools/call"' in body for _, _, body in server.asked)
    return int(head.split()[1]), json.loads(body), calls


def first(faults: Collection[str]) -> Rule:
    """The rule that refuses a request with these faults."""
    return ORDER[min(RANK[each] for each in faults)]


WAYS = pytest.mark.parametrize(("road", "era"), [(road, era) for road in (FAST, ASGI, MERGED) for era in Era])


def present(faults: Collection[str], road: str, era: Era) -> frozenset[str]:
    """The faults that a request of this era can have at once on this road, with the one that it always has there."""
    cannot = {"no session"} | (MODERN_ONLY if era is Era.LEGACY else set[str]())
    if "an unknown tool" in faults:
        cannot |= {"a token for less"}  # nobody has said which scope such a tool needs
    always = {"no session"} if (road, era) == (MERGED, Era.LEGACY) else set[str]()
    return frozenset(faults) - cannot | always


def misjudged(faults: frozenset[str], road: str, era: Era) -> str:
    """What is wrong with the answer to a request with these faults; "" if nothing is."""
    status, message, calls = answer(faults, era, road)
    if not faults:
        return "" if (status, "result" in message, calls) == (200, True, 1) else f"{status} {message}"
    rule, error = first(faults), message.get("error", {})
    right = (status, error.get("code")) == (rule.status, rule.code) and rule.says in json.dumps(error)
    reached = calls > 0
    return "" if right and not reached else f"{sorted(faults)}: expected {rule}, got {status} {error}, {reached=}"


def are_all_right(many: Iterable[Collection[str]], road: str, era: Era) -> None:
    """Fails with each set of faults that is answered otherwise than by the first one's rule."""
    wrong = [misjudged(each, road, era) for each in {present(faults, road, era) for faults in many}]
    if any(wrong):
        pytest.fail("\n".join(filter(None, wrong)))


@WAYS
def test_each_fault_alone_is_refused_by_its_own_rule__and_without_any_a_call_passes(road: str, era: Era) -> None:
    are_all_right([(), *((each,) for each in RANK)], road, era)


@WAYS
def test_of_two_faults_whose_rules_follow_each_other_the_first_one_is_told(road: str, era: Era) -> None:
    are_all_right(pairwise(each for each in RANK if each in present([each], road, era)), road, era)


@pytest.mark.long
@WAYS
def test_of_any_two_faults_the_first_one_is_told(road: str, era: Era) -> None:
    are_all_right(combinations(RANK, 2), road, era)


@WAYS
@settings(max_examples=40)
@example(faults={"no method of MCP", "two sessions"})
@given(faults=st.sets(st.sampled_from(list(RANK)), min_size=2))
def test_of_many_faults_the_first_one_is_told__and_nothing_reaches_the_server(
    road: str, era: Era, faults: set[str]
) -> None:
    are_all_right([faults], road, era)
