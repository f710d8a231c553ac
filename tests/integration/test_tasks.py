"""Tasks, in both shapes and on every way: they belong to the call that made them, and to nobody else."""

import asyncio
import hashlib
import json
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from tests.world.agents import agent_files
from tests.world.authorization import GATEWAY, Signed, Trust, challenge_in
from tests.world.calls import SESSION, chunk, compact, event, meta, post
from tests.world.connected import Connected
from tests.world.cut_streams import CutStreams
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import RawServer
from tests.world.recorded import records_at, records_of, verified
from tests.world.routes import ROUTES, Route, messages_of
from tests.world.running import RunningGateway, run
from tests.world.stores import FailsAt
from tests.world.tasks_server import EXTENDED
from tests.world.tokened import Tokened

from accredit.consent.call import CallTerms
from accredit.gateway import HttpUpstream, create_app
from accredit.gateway.settings import RecordSettings
from accredit.jsonrpc.methods import Era
from accredit.policy.tasks import Owner, Task, task_key
from accredit.ratify.constraints import MaxAmount, MaxRate
from accredit.stores import MemoryStore, RevocationLists, Tasks
from accredit.stores.runners import SqliteRunner

READ_METHODS = {Era.LEGACY: ("tasks/get", "tasks/result"), Era.MODERN: ("tasks/get",)}
CHANGES = {Era.LEGACY: ("tasks/cancel",), Era.MODERN: ("tasks/update", "tasks/cancel")}
EVERYWHERE = pytest.mark.parametrize("name", ROUTES)


@pytest.fixture(scope="module")
def other(trust: Trust) -> Trust:
    """Another agent of the same owner."""
    found = Trust()
    found.owner = trust.owner
    return found


class Agent:
    """Who asks on a route, with proofs."""

    def __init__(self, route: Route, trust: Trust, chain: Any = None) -> None:
        self.route, self.trust = route, trust
        self.chain = chain or trust.chain()

    def proved(self, method: str, params: dict[str, Any], **signed: Any) -> dict[str, Any]:
        """Params with a proof that is bound to them."""
        signed.setdefault("session", self.route.session)
        proof = self.trust.proof(self.chain, method, params, Signed(**signed))
        return {**params, "_meta": {"ratify_proof": proof}}

    async def ask(self, method: str, params: dict[str, Any], **signed: Any) -> dict[str, Any]:
        """A request with a proof; one that is asked to sign a challenge does so."""
        answer = await self.route.ask(method, self.proved(method, params, **signed), capabilities=EXTENDED)
        if answer.get("error", {}).get("code") == -31002:
            signed["challenge"] = challenge_in(answer["error"])
            answer = await self.route.ask(method, self.proved(method, params, **signed), capabilities=EXTENDED)
        return answer

    async def make(self, tool: str = "list_inbox", **arguments: Any) -> dict[str, Any]:
        """A call that becomes a task; gives the answer."""
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if self.route.era is Era.LEGACY:
            params["task"] = {"ttl": 60_000}
        return await self.ask("tools/call", params)


def id_of(answer: dict[str, Any]) -> str:
    result = answer["result"]
    return (result.get("task") or result)["taskId"]


def unknown(answer: dict[str, Any]) -> bool:
    error = answer.get("error", {})
    return (error.get("code"), error.get("message"), error.get("data", {}).get("error")) == (
        -32602,
        "Invalid params",
        "unknown_task",
    )


def change(method: str, id: str) -> dict[str, Any]:
    return (
        {"taskId": id, "inputResponses": {"name": {"action": "accept"}}} if method == "tasks/update" else {"taskId": id}
    )


@pytest.mark.holds("policy/decide", "authority")
@EVERYWHERE
async def test_a_task_is_its_makers__and_for_all_others_it_is_as_if_there_were_none(
    name: str, trust: Trust, other: Trust, tmp_path: Path
) -> None:
    async with Route(name, trust, tmp_path, serves_tasks=True) as route:
        mine, theirs = Agent(route, trust), Agent(route, other)
        id = id_of(await mine.make())
        methods = (*READ_METHODS[route.era], *CHANGES[route.era])
        for method in methods:
            scope = "email:read" if method in CHANGES[route.era] else ""
            missing = await route.ask(method, change(method, id), capabilities=EXTENDED)
            assert missing["error"]["code"] == -31001
            stranger = await route.ask(method, change(method, "none"), capabilities=EXTENDED)
            assert stranger["error"]["message"].replace("none", id) == missing["error"]["message"]
            assert set(stranger["error"]["data"]) == set(missing["error"]["data"])
            refused = await theirs.ask(method, change(method, id), scope=scope)
            forged = await mine.ask(method, change(method, f"{id}0"), scope=scope)
            assert unknown(refused), refused
            assert unknown(forged), forged
            assert refused["error"] == forged["error"]
        assert route.received(*methods) == []
        for method in methods:
            scope = "email:read" if method in CHANGES[route.era] else ""
            answer = await mine.ask(method, change(method, id), scope=scope)
            assert "result" in answer, (method, answer)
        assert [came["method"] for came in route.received(*methods)] == list(methods)
        for came in route.received(*methods):
            assert "ratify_proof" not in came["params"]["_meta"]
            assert came["params"]["_meta"]["dev.accredit/authorization"]["agent_id"] == trust.agent.id


@pytest.mark.holds("policy/decide", "authority")
@EVERYWHERE
async def test_to_change_a_task_needs_the_scope_of_its_tool__and_its_challenge(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with Route(name, trust, tmp_path, serves_tasks=True) as route:
        mine = Agent(route, trust)
        id = id_of(await mine.make("send_email"))
        narrow = Agent(route, trust, trust.chain("email:read"))
        for method in CHANGES[route.era]:
            params = change(method, id)
            # Its own challenge is not enough for a sensitive tool's task.
            asked = await route.ask(method, mine.proved(method, params, scope="email:send"), capabilities=EXTENDED)
            assert asked["error"]["data"]["error"] == "ratify_challenge_required"
            signed = {"scope": "email:send", "challenge": challenge_in(asked["error"])}
            # ... nor is a challenge for another task, nor a binding to another scope.
            wrong = mine.proved(method, params, **{**signed, "scope": "email:read"})
            answer = await route.ask(method, wrong, capabilities=EXTENDED)
            assert answer["error"]["data"]["error"] == "ratify_invalid", answer
            denied = await narrow.ask(method, params, scope="email:send")
            assert denied["error"]["data"]["error"] == "ratify_scope_denied"
            assert denied["error"]["data"]["required_scope"] == "email:send"
            assert route.received(method) == []
            proved = mine.proved(method, params, **signed)
            assert "result" in await route.ask(method, proved, capabilities=EXTENDED)
            again = await route.ask(method, proved, capabilities=EXTENDED)
            assert again["error"]["data"]["error"] == "ratify_replayed"
            assert len(route.received(method)) == 1
        for method in READ_METHODS[route.era]:
            assert "result" in await narrow.ask(method, {"taskId": id})


@pytest.mark.parametrize("name", ["http-legacy", "http-modern"])
async def test_constraints_are_held_against_the_call_that_made_the_task__and_no_use_is_taken(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with Route(name, trust, tmp_path, serves_tasks=True) as route:
        once = MaxRate(count=1, window_s=3600)
        maker = Agent(route, trust, trust.chain("payments:send", constraints=(once,)))
        id = id_of(await maker.make("pay", amount=50, currency="EUR"))
        assert (await maker.make("pay", amount=1))["error"]["data"]["error"] == "ratify_constraint_denied"
        method = CHANGES[route.era][0]
        assert "result" in await maker.ask(method, change(method, id), scope="payments:send")
        assert "result" in await maker.ask(method, change(method, id), scope="payments:send")
        little = MaxAmount(max_amount=10, currency="EUR")
        poor = Agent(route, trust, trust.chain("payments:send", constraints=(little,)))
        answer = await poor.ask(method, change(method, id), scope="payments:send")
        assert answer["error"]["data"]["error"] == "ratify_constraint_denied", answer
        assert len(route.received(method)) == 2


@pytest.mark.parametrize("name", ["http-legacy", "http-modern"])
async def test_a_certificate_for_one_very_call_changes_the_task_of_that_call__and_of_no_other(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    """... and what is remembered for it holds none of the call's arguments."""

    def granted(**terms: Any) -> Any:
        call = CallTerms(gateway=GATEWAY, method="tools/call", target=("list_inbox",), **terms).constraint()
        return trust.chain("email:read", constraints=(call, MaxRate(1, 600)))

    async with Route(name, trust, tmp_path, serves_tasks=True, store=MemoryStore()) as route:
        params: dict[str, Any] = {"name": "list_inbox", "arguments": {"of": "ada", "id": "t"}}
        if route.era is Era.LEGACY:
            params["task"] = {"ttl": 60_000}
        others = {**params, "arguments": {"of": "bob", "id": "u"}}
        other_params = {"params_sha256": sha256(others)}
        ada, bob = ({"args": {"/of": (sha256(each),)}} for each in ("ada", "bob"))
        method = CHANGES[route.era][0]
        for whole, args, wrong, id in (
            (True, {}, other_params, "t"),
            (False, ada, bob, "u"),
            (True, ada, {**other_params, **ada}, "v"),
        ):
            made = {**params, "arguments": {"of": "ada", "id": id}}
            terms: dict[str, Any] = {**args, **({"params_sha256": sha256(made)} if whole else {})}
            chain = granted(**terms)
            assert id_of(await Agent(route, trust, chain).ask("tools/call", made)) == id
            for _ in range(2):  # no use is taken
                answer = await Agent(route, trust, chain).ask(method, change(method, id), scope="email:read")
                assert "result" in answer, answer
            unnamed = granted(args={"/id": (sha256(id),)})
            for held in (granted(**wrong), unnamed):
                answer = await Agent(route, trust, held).ask(method, change(method, id), scope="email:read")
                assert answer["error"]["data"]["error"].startswith("ratify_constraint_"), answer
        assert len(route.received(method)) == 6


def sha256(value: Any) -> str:
    return hashlib.sha256(rfc8785.dumps(value)).hexdigest()


@pytest.mark.parametrize("name", ["http-legacy", "sse-legacy", "stdio-legacy"])
async def test_a_list_of_tasks_shows_ones_own(name: str, trust: Trust, other: Trust, tmp_path: Path) -> None:
    async with Route(name, trust, tmp_path, serves_tasks=True) as route:
        mine, theirs = Agent(route, trust), Agent(route, other)
        ids = [id_of(await mine.make()), id_of(await theirs.make()), id_of(await mine.make("pay"))]
        assert (await route.ask("tasks/list", {}))["error"]["code"] == -31001
        for agent, own in ((mine, {ids[0], ids[2]}), (theirs, {ids[1]})):
            answer = await agent.ask("tasks/list", {})
            assert {task["taskId"] for task in answer["result"]["tasks"]} == own


@pytest.mark.holds("gateway/admission/tasks", "known-id")
@EVERYWHERE
async def test_an_id_that_is_known_is_no_other_tasks__else_a_task_would_get_another_scope(
    name: str, trust: Trust, other: Trust, tmp_path: Path
) -> None:
    async with Route(name, trust, tmp_path, serves_tasks=True) as route:
        mine, theirs = Agent(route, trust), Agent(route, other)
        assert id_of(await mine.make("pay", id="t", amount=5)) == "t"
        for agent, tool, arguments in (
            (mine, "list_inbox", {}),
            (mine, "pay", {"amount": 1}),
            (mine, "pay", {"amount": 5, "note": "for another"}),
            (theirs, "pay", {"amount": 5}),
        ):
            params: dict[str, Any] = {"name": tool, "arguments": {**arguments, "id": "t"}}
            if route.era is Era.LEGACY:
                params["task"] = {}
            answer = await raw(route, agent.proved("tools/call", params))
            assert b"Invalid upstream JSON-RPC response" in answer.body, answer
            assert b"taskId" not in answer.body
        assert "result" in await mine.make("pay", id="t", amount=5)  # asked once more: the same task
        method = CHANGES[route.era][0]
        denied = await mine.ask(method, change(method, "t"), scope="email:read")
        assert denied["error"]["data"]["error"] == "ratify_invalid"
        assert "result" in await mine.ask(method, change(method, "t"), scope="payments:send")


@pytest.mark.slow
@pytest.mark.holds("gateway/admission/tasks", "scope")
@pytest.mark.parametrize("name", ["stdio-legacy"])
async def test_servers_that_count_their_tasks_in_each_session_are_told_apart(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with Route(name, trust, tmp_path, serves_tasks=True) as route:
        mine = Agent(route, trust)
        assert id_of(await mine.make("pay")) == "1"
        first = route.session
        route.session = ""
        await route._begin_session()  # pyright: ignore[reportPrivateUsage]
        assert route.session != first
        assert unknown(await mine.ask("tasks/get", {"taskId": "1"}))
        assert id_of(await mine.make("list_inbox")) == "1"
        route.session = first
        denied = await mine.ask("tasks/cancel", {"taskId": "1"}, scope="email:read")
        assert denied["error"]["data"]["error"] == "ratify_invalid"


@pytest.mark.holds("jsonrpc/tasks", "announced")
@pytest.mark.parametrize("name", ["http-legacy", "http-modern"])
async def test_a_task_that_was_not_asked_for_is_no_answer(name: str, trust: Trust, tmp_path: Path) -> None:
    async with Route(name, trust, tmp_path, serves_tasks=True) as route:
        mine = Agent(route, trust)
        params = {"name": "list_inbox", "arguments": {"announce": True, "id": "t"}}
        answer = await raw(route, mine.proved("tools/call", params), capabilities={})
        assert b"Invalid upstream JSON-RPC response" in answer.body, answer
        assert unknown(await mine.ask("tasks/get", {"taskId": "t"}))


class Noted(Tasks):
    """Notes for how many seconds it is asked to keep each task."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[int] = []

    async def keep(self, key: bytes, task: Task, *, keep_until: int, now: int) -> Task:
        self.seconds.append(keep_until - now)
        return await super().keep(key, task, keep_until=keep_until, now=now)


@pytest.mark.parametrize("name", ["http-legacy", "http-modern"])
async def test_a_task_is_known_for_its_ttl_and_a_minute_more__a_day_without_one__a_year_at_most(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    noted = Noted()
    async with Route(name, trust, tmp_path, serves_tasks=True, tasks=noted) as route:
        mine = Agent(route, trust)
        for ttl in (60_000, 1, 0, None, 10**15):
            id_of(await mine.make(ttl=ttl))
    assert noted.seconds == [120, 61, 60, 86_400, 31_536_060]


class NoTasks(FailsAt, Tasks):
    """Fails at one of its questions."""


@pytest.mark.holds("gateway/admission/tasks", "owner-first")
@pytest.mark.parametrize("broken", ["keep", "find", "owned"])
@EVERYWHERE
def test_without_an_answer_of_the_store_no_task_is_given_and_nothing_is_forwarded(
    name: str, broken: str, trust: Trust, tmp_path: Path
) -> None:
    async def main() -> None:
        async with Route(name, trust, tmp_path, serves_tasks=True, tasks=NoTasks(broken)) as route:
            mine = Agent(route, trust)
            made = await mine.make()
            if broken == "keep":
                assert made["error"]["data"]["reason"].startswith("store_unavailable")
                assert unknown(await mine.ask("tasks/get", {"taskId": "1"}))
                return
            method = "tasks/list" if broken == "owned" else "tasks/get"
            if broken == "owned" and route.era is Era.MODERN:
                return
            answer = await mine.ask(method, {} if broken == "owned" else {"taskId": id_of(made)})
            assert answer["error"]["data"]["reason"].startswith("store_unavailable"), answer
            assert "secret-place" not in json.dumps(answer)
            assert route.received("tasks/get", "tasks/list") == []

    run(main())


@pytest.mark.holds("gateway/admission/request_state", "task-state")
@pytest.mark.parametrize("name", ["http-modern", "sse-modern", "stdio-modern"])
async def test_the_state_of_a_task_is_sealed_and_a_raw_one_never_reaches_the_server(
    name: str, trust: Trust, other: Trust, tmp_path: Path
) -> None:
    async with Route(name, trust, tmp_path, serves_tasks=True) as route:
        mine = Agent(route, trust)
        made = await mine.make(state="upstream-secret")
        id, state = id_of(made), made["result"]["requestState"]
        assert "upstream-secret" not in json.dumps(made)
        raw_state = {**change("tasks/update", id), "requestState": "upstream-secret"}
        refused = await mine.ask("tasks/update", raw_state, scope="email:read")
        assert refused["error"]["message"] == "Invalid or expired requestState"
        second = id_of(await mine.make(state="another"))
        borrowed = {**change("tasks/update", second), "requestState": state}
        assert (await mine.ask("tasks/update", borrowed, scope="email:read"))["error"]["code"] == -32602
        assert route.received("tasks/update") == []
        told = await mine.ask("tasks/get", {"taskId": id, "requestState": state})
        assert told["result"]["requestState"] != "upstream-secret"
        good = {**change("tasks/update", id), "requestState": told["result"]["requestState"]}
        assert "result" in await mine.ask("tasks/update", good, scope="email:read")
        (came,) = route.received("tasks/update")
        assert came["params"]["requestState"] == "upstream-secret"


@pytest.mark.parametrize("name", ["http-modern", "stdio-modern"])
async def test_a_subscription_names_ones_own_tasks(name: str, trust: Trust, other: Trust, tmp_path: Path) -> None:
    async with Route(name, trust, tmp_path, serves_tasks=True) as route:
        mine, theirs = Agent(route, trust), Agent(route, other)
        id = id_of(await mine.make())
        foreign = id_of(await theirs.make())
        params: dict[str, Any] = {"notifications": {"taskIds": [id, foreign]}}
        for asked in (params, {"notifications": {"taskIds": ["none"]}}):
            assert unknown(await mine.ask("subscriptions/listen", asked, bound=False))
        missing = await route.ask("subscriptions/listen", params, capabilities=EXTENDED)
        assert missing["error"]["code"] == -31001
        wrong = {"notifications": {"taskIds": [7]}}
        assert (await mine.ask("subscriptions/listen", wrong, bound=False))["error"]["code"] == -32602
        assert route.received("subscriptions/listen") == []
        own = {"notifications": {"taskIds": [id]}}
        assert "result" in await mine.ask("subscriptions/listen", own, bound=False)


@pytest.mark.holds("gateway/admission/tasks", "notifications")
@pytest.mark.parametrize("name", ["sse-legacy", "sse-modern"])
async def test_what_is_told_of_somebody_elses_task_is_not_delivered(
    name: str, trust: Trust, other: Trust, tmp_path: Path
) -> None:
    async with Route(name, trust, tmp_path, serves_tasks=True) as route:
        mine, theirs = Agent(route, trust), Agent(route, other)
        id = id_of(await mine.make())
        session, route.session = route.session, "another-session" if route.session else ""
        foreign = id_of(await theirs.make())
        route.session = session
        status = "notifications/tasks" if route.era is Era.MODERN else "notifications/tasks/status"
        related = {"io.modelcontextprotocol/related-task": {"taskId": foreign}}
        route.tells(
            {"jsonrpc": "2.0", "method": status, "params": {"taskId": foreign, "status": "completed"}},
            {"jsonrpc": "2.0", "method": status, "params": {"taskId": 7}},
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x", "_meta": related}},
            {"jsonrpc": "2.0", "method": status, "params": {"taskId": id, "requestState": "raw"}},
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "news"}},
        )
        answer = await raw(route, mine.proved("tasks/get", {"taskId": id}), method="tasks/get")
        told = [each for each in messages_of(answer) if "method" in each]
        assert [each["params"].get("taskId", "") for each in told] == [id, ""], told
        assert "requestState" not in json.dumps(told)


@EVERYWHERE
async def test_with_tokens_alone_a_task_is_its_subjects(name: str, trust: Trust, tmp_path: Path) -> None:
    tokened = Tokened()
    mine, theirs = tokened.token(), tokened.token(sub="somebody else")
    settings = tokened.settings(sources=("header", "meta"), tool_scopes={"pay": "pay:send"})
    more: dict[str, Any] = {"required": False, "tokens": settings, "key_sets": tokened.key_sets}
    async with Route(name, trust, tmp_path, serves_tasks=True, token=mine, **more) as route:
        sessions = {mine: route.session, theirs: await route.another_session(theirs)}

        async def ask(token: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
            route.session = sessions[token]
            return await route.ask(method, {**params, "_meta": {"token": token}}, capabilities=EXTENDED)

        call: dict[str, Any] = {"name": "list_inbox", "arguments": {}}
        id = id_of(await ask(mine, "tools/call", {**call, "task": {}} if route.era is Era.LEGACY else call))
        methods = (*READ_METHODS[route.era], *CHANGES[route.era])
        for method in methods:
            foreign = await ask(theirs, method, change(method, id))
            missing = await ask(theirs, method, change(method, "none"))
            assert unknown(foreign), foreign
            assert foreign["error"] == missing["error"]
            assert unknown(await ask(mine, method, change(method, "none")))
        assert route.received(*methods) == []
        for method in methods:
            assert "result" in await ask(mine, method, change(method, id))
        assert len(route.received(*methods)) == len(methods)
        if route.era is Era.LEGACY:
            for token, own in ((mine, {id}), (theirs, set[str]())):
                listed = await ask(token, "tasks/list", {})
                assert {task["taskId"] for task in listed["result"]["tasks"]} == own


@EVERYWHERE
async def test_a_revocation_while_a_task_is_open_ends_what_its_maker_may_ask(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    revoked = Revoked()
    async with Route(name, trust, tmp_path, serves_tasks=True, revocations=revoked) as route:
        mine = Agent(route, trust)
        id = id_of(await mine.make())
        methods = (*READ_METHODS[route.era], *CHANGES[route.era])
        assert "result" in await mine.ask("tasks/get", {"taskId": id})
        revoked.ids.add(mine.chain[0].cert_id)
        for method in methods:
            scope = "email:read" if method in CHANGES[route.era] else ""
            answer = await mine.ask(method, change(method, id), scope=scope)
            assert answer["error"]["data"]["error"] == "ratify_revoked", answer
        assert len(route.received(*methods)) == 1


class Revoked(RevocationLists):
    """Who knows of revocations that come while the gateway runs."""

    def __init__(self) -> None:
        super().__init__((), {})
        self.ids: set[str] = set()

    async def is_revoked(self, cert_id: str) -> bool:
        return cert_id in self.ids


async def test_a_task_that_is_told_of_waits_for_no_input_that_its_client_did_not_declare(
    trust: Trust, tmp_path: Path
) -> None:
    form = {"method": "elicitation/create", "params": {"mode": "form", "message": "who?", "requestedSchema": {}}}

    async with Route("sse-modern", trust, tmp_path, serves_tasks=True) as route:
        mine = Agent(route, trust)
        id = id_of(await mine.make())
        for asks, declared, passes in (
            ({"a": form}, {"elicitation": {}}, True),
            ({}, {}, True),
            ({"a": form}, {}, False),
            ({"a": {"method": "shell/run"}}, {"elicitation": {}}, False),
            ([form], {"elicitation": {}}, False),
        ):
            told = {"taskId": id, "status": "input_required", "inputRequests": asks}
            route.tells({"jsonrpc": "2.0", "method": "notifications/tasks", "params": told})
            proved = mine.proved("tasks/get", {"taskId": id})
            answer = await raw(route, proved, method="tasks/get", capabilities={**EXTENDED, **declared})
            assert (b"notifications/tasks" in answer.body) is passes, answer
            assert (b"Invalid upstream JSON-RPC response" in answer.body) is not passes, answer


async def raw(
    route: Route, params: dict[str, Any], *, method: str = "tools/call", capabilities: Any = EXTENDED
) -> RawAnswer:
    """A request whose answer may have any status."""
    return await route.send(post(route.era, method, params, id=99, capabilities=capabilities))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["stdio-legacy", "http-modern"])
@pytest.mark.parametrize("tool", ["list_inbox", "send_email"])
async def test_a_host_that_knows_nothing_of_proofs_has_its_tasks_through_connect(
    tool: str, name: str, trust: Trust, tmp_path: Path
) -> None:
    files = agent_files(tmp_path, trust, "email:read", "email:send")
    modern = name.endswith("modern")
    more: dict[str, Any] = {"_meta": meta(**EXTENDED)} if modern else {"task": {}}
    about: dict[str, Any] = {"_meta": meta(**EXTENDED)} if modern else {}

    def host(port: int) -> list[Any]:
        with Connected(files.folder, f"http://127.0.0.1:{port}/mcp", *files.options) as connected:
            if not modern:
                connected.initialize()
            made = connected.ask("tools/call", {"name": tool, "arguments": {}, **more})
            id = id_of(made)
            methods = (
                *READ_METHODS[Era.MODERN if modern else Era.LEGACY],
                *CHANGES[Era.MODERN if modern else Era.LEGACY],
            )
            told = [connected.ask(method, {**change(method, id), **about}) for method in methods]
            return [*told, connected.ask("tasks/get", {"taskId": "none", **about})]

    async with Route(name, trust, tmp_path, serves_tasks=True) as route:
        *told, foreign = await asyncio.to_thread(host, route.port)
        assert all("result" in each for each in told), told
        assert foreign["error"]["data"]["error"] == "unknown_task"


@EVERYWHERE
async def test_what_is_asked_about_a_task_is_recorded_and_joined_to_the_call_that_made_it(
    name: str, trust: Trust, other: Trust, tmp_path: Path
) -> None:
    records = records_at(tmp_path / "log.db")
    async with Route(name, trust, tmp_path, serves_tasks=True, records=records) as route:
        mine = Agent(route, trust)
        id = id_of(await mine.make())
        methods = (*READ_METHODS[route.era], *CHANGES[route.era])
        for method in methods:
            scope = "email:read" if method in CHANGES[route.era] else ""
            assert "result" in await mine.ask(method, change(method, id), scope=scope)
        assert unknown(await Agent(route, other).ask("tasks/get", {"taskId": id}))
        found = records_of(route.log)
    made, *asked = [each for each in found if each.outcome is not None]
    assert made.outcome is not None
    assert (made.call.method, made.outcome.status) == ("tools/call", "task")
    assert made.call.flow
    assert [(each.call.method, each.call.target, each.call.flow) for each in asked] == [
        (method, id, made.call.flow) for method in methods
    ]
    assert all(each.outcome is not None and each.outcome.status == "ok" for each in asked)
    refused = found[-1]
    assert refused.decision is not None
    assert (refused.decision.verdict, refused.decision.error) == ("deny", "unknown_task")
    assert refused.call.flow is None
    assert verified(tmp_path / "log.db").valid


@pytest.mark.parametrize("name", ["http-modern", "stdio-modern"])
async def test_a_task_waits_for_no_input_that_its_client_did_not_declare(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    form = {"method": "elicitation/create", "params": {"mode": "form", "message": "who?", "requestedSchema": {}}}
    page = {
        "method": "elicitation/create",
        "params": {"mode": "url", "message": "log in", "url": "https://evil.example"},
    }

    async with Route(name, trust, tmp_path, serves_tasks=True) as route:
        mine = Agent(route, trust)
        for asks, declared, passes in (
            ({"a": form}, {"elicitation": {}}, True),
            ({"a": form}, {}, False),
            ({"a": form, "b": page}, {"elicitation": {}}, False),
            ({"a": {"method": "shell/run"}}, {"elicitation": {}}, False),
            ([form], {"elicitation": {}}, False),
        ):
            id = id_of(await mine.make(asks=asks))
            proved = mine.proved("tasks/get", {"taskId": id})
            answer = await raw(route, proved, method="tasks/get", capabilities={**EXTENDED, **declared})
            assert (b'"result"' in answer.body) is passes, answer
            assert (b"Invalid upstream JSON-RPC response" in answer.body) is not passes, answer


@pytest.mark.slow
@pytest.mark.parametrize("recorded", [False, True])
async def test_a_task_that_is_announced_on_a_resumed_stream_is_its_makers__and_what_nobody_asked_is_no_task(
    recorded: bool, trust: Trust, other: Trust, tmp_path: Path
) -> None:
    upstream = CutStreams()
    params: dict[str, Any] = {"name": "list_inbox", "arguments": {}, "task": {}}
    made = {"taskId": "t", "status": "working", "ttl": None}

    file = tmp_path / "tasks.db"
    records = records_at(tmp_path / "log.db") if recorded else None
    async with RawServer(upstream) as server:
        settings = trust.settings(HttpUpstream(server.url), records=RecordSettings(GATEWAY) if recorded else None)
        app = create_app(
            settings,
            store=MemoryStore(),
            revocations=RevocationLists((), {}),
            records=records,
            tasks=Tasks(SqliteRunner(file)),
        )
        async with RunningGateway(app) as gateway:
            proof = trust.proof(trust.chain(), "tools/call", params, Signed(session=SESSION))
            posted = post(Era.LEGACY, "tools/call", {**params, "_meta": {"ratify_proof": proof}}, id=7)
            async with RawClient(gateway.port) as client:
                await client.ask("POST", "/mcp", posted.headers, posted.body)
                assert b'"error"' not in (await client.answer()).body
            async with RawClient(gateway.port) as client:
                resume = [("Accept", "text/event-stream"), ("Mcp-Session-Id", SESSION), ("Last-Event-ID", "1")]
                await client.ask("GET", "/mcp", resume)
                assert (await client.head())[0] == 200
                told: list[Any] = []
                for id, task in ((7, made), (8, {**made, "taskId": "u"})):
                    announced = {"jsonrpc": "2.0", "id": id, "result": {"task": task}}
                    await upstream.resumed[-1].send(chunk(event(compact(announced), id=str(id))))
                    came = await client.event()
                    assert came is not None
                    told.append(json.loads(came.data or b""))
                assert told[0]["result"]["task"] == made
                assert "result" not in told[1]
                assert told[1]["error"]["data"]["reason"].startswith("store_unavailable")
    async with aclosing(Tasks(SqliteRunner(file))) as store:
        now, owner = int(time.time()), Owner(trust.owner.id, trust.agent.id).at("")
        found = await store.find(task_key("", "t"), now=now)
        assert found is not None
        assert found.owner == owner
        assert await store.find(task_key("", "u"), now=now) is None
