"""An agent behind the gateway: it gets what was decided, its tasks are their owners', and its answers are judged."""

import json
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.world.a2a import message, said, send, task, update
from tests.world.a2a_agents import ALL, NAME, VERIFIER, Raw, agent_scene, events
from tests.world.authorization import Trust
from tests.world.logs import Log, records_in, verified
from tests.world.tokened import Tokened

from accredit.a2a.call import skill_entries
from accredit.base.clock import unix_ms, unix_seconds
from accredit.client import AccreditedA2A, ProofPresenter
from accredit.gateway.front.a2a_relay import MAX_TASK_PAGES
from accredit.gateway.settings import AgentSettings, RecordSettings
from accredit.keys import write_key
from accredit.limits import MAX_TASKS_PER_OWNER
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.drill import DRILL, DRILL_SCOPE
from accredit.policy.tasks import Owner
from accredit.ports import Task
from accredit.ratify.constraints import MaxAmount
from accredit.stores import Tasks

pytestmark = [pytest.mark.slow, pytest.mark.holds("a2a/errors")]
SUMMARIZE = send(skill="summarize")
_TWO = Catalog(
    routes=skill_entries(
        Entry(scope="email:read"), {"summarize": Entry(scope="email:send"), "look": Entry(scope="files:read")}
    )
)
HOOK = "https://hooks.example/a"


def data_of(stream: str) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) for line in stream.splitlines() if line.startswith("data: ")]


def answer_with(answer: Raw, _: object) -> Raw:
    return answer


def stream_of(*results_and_request: Any) -> Raw:
    *results, asked = results_and_request
    return events(*results, id=asked["id"])


def code(answer: dict[str, Any]) -> int:
    return answer["error"]["code"]


@pytest.mark.holds("gateway/front/a2a_relay", "whole-body", "headers")
async def test_the_agent_gets_what_was_decided__without_the_proof() -> None:
    async with agent_scene() as at:
        params = {"metadata": {"dev.accredit/skill": "summarize", "n": 1.0}, "message": message("ä")}
        extra = {"x-own": "1", "x-forwarded-for": "1.2.3.4", "cookie": "a=1"}
        extra |= dict.fromkeys(("a2a-extensions", "a2a_extensions", "x-a2a-extensions"), "urn:other")
        answer = await at.ask("SendMessage", params, headers=extra)
        assert answer == {"jsonrpc": "2.0", "id": 1, "result": {"task": task("t-1", "c-t-1")}}
        assert at.agent.seen == [{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}]
        (headers,) = at.agent.headers
        assert (headers["a2a-version"], headers["x-own"]) == ("1.0", "1")
        assert not {"ratify-proof", "x-forwarded-for", "cookie"} & headers.keys()
        assert not [name for name in headers if "extensions" in name]


@pytest.mark.holds("gateway/front/a2a_relay", "drill")
@pytest.mark.holds("policy/drill", "skills")
async def test_a_delegation_for_a_drill_lets_nobody_ask_the_agent_or_take_a_conversation() -> None:
    async with agent_scene(agent=AgentSettings(client_contexts=True)) as at:
        drill = {"scope": DRILL_SCOPE, "chain": at.trust.chain(DRILL_SCOPE)}
        taken = await at.ask("SendMessage", send(skill=DRILL, contextId="c-9"), **drill)
        assert taken["result"]["message"]["role"] == "ROLE_AGENT"
        assert code(await at.ask("SendStreamingMessage", send(skill=DRILL), **drill)) == -32602
        assert code(await at.ask("SendMessage", SUMMARIZE, chain=drill["chain"])) == -31003
        assert code(await at.ask("SendMessage", send(skill=DRILL), scope=DRILL_SCOPE)) == -31003
        assert at.agent.seen == []
        other = _other_agent(at.trust)
        assert "result" in await at.ask("SendMessage", send(skill="summarize", contextId="c-9"), trust=other)
        card = await at.ask("GetExtendedAgentCard", {})
        assert {each["id"] for each in card["result"]["skills"]} == {"summarize", "wipe"}


@pytest.mark.holds("gateway/front/a2a_relay", "refusal")
async def test_a_refusal_is_an_error_of_json_rpc_with_status_200__and_nothing_reaches_the_agent() -> None:
    async with agent_scene() as at:
        bare = await at.ask("SendMessage", SUMMARIZE, bare=True, id="a")
        assert (bare["id"], code(bare), bare["error"]["data"]["error"]) == ("a", -31001, "missing_ratify_proof")
        assert bare["error"]["data"]["_meta"]["ratify_verifier"] == VERIFIER
        challenged = await at.ask("SendMessage", send(skill="wipe"))
        assert code(challenged) == -31002
        assert challenged["error"]["data"]["_meta"]["ratify_challenge"]["verifier_id"] == VERIFIER
        assert code(await at.ask("SendMessage", send(skill="other"))) == -32602
        assert code(await at.ask("message/send", {}, bare=True)) == -32601
        assert code(await at.ask("SendMessage", SUMMARIZE, bare=True, headers={"a2a-version": "0.3"})) == -32009
        assert code(await at.ask("SendMessage", {**SUMMARIZE, "tenant": "x"}, bare=True)) == -32001
        assert code(await at.ask("SendMessage", SUMMARIZE, verifier="mail-gateway/other")) == -31003
        unknown = await at.ask("GetTask", {"id": "t-9"})
        assert unknown["error"]["message"] == "Task not found"
        assert unknown["error"]["data"][0]["reason"] == "TASK_NOT_FOUND"
        assert at.agent.seen == []


@pytest.mark.holds("gateway/admission/a2a_gate", "owner-first")
async def test_a_task_is_its_maker_s__and_nobody_else_s() -> None:
    async with agent_scene() as at:
        made = await at.ask("SendMessage", SUMMARIZE)
        id = made["result"]["task"]["id"]
        assert (await at.ask("GetTask", {"id": id}))["result"]["id"] == id
        assert (await at.ask("CancelTask", {"id": id}, challenge=None))["result"]["id"] == id
        more = await at.ask("SendMessage", send(skill="summarize", taskId=id))
        assert more["result"]["task"]["id"] == id
        subscribed = await at.post("SubscribeToTask", {"id": id})
        assert [each["result"] for each in data_of(subscribed.text)] == [{"task": task(id, f"c-{id}")}]
        other = _other_agent(at.trust)
        seen = len(at.agent.seen)
        asked: list[tuple[str, Any]] = [
            ("GetTask", {"id": id}),
            ("CancelTask", {"id": id}),
            ("SubscribeToTask", {"id": id}),
            ("SendMessage", send(skill="summarize", taskId=id)),
            ("SendMessage", send(skill="summarize", referenceTaskIds=[id])),
            ("SendMessage", send(skill="summarize", contextId=f"c-{id}")),
            ("ListTasks", {"contextId": f"c-{id}"}),
        ]
        told = [await at.ask(method, params, trust=other) for method, params in asked]
        assert [code(each) for each in told] == [-32001] * len(asked)
        assert len({json.dumps(each) for each in told}) == 1
        assert len(at.agent.seen) == seen


async def test_a_list_has_own_tasks_alone__and_counts_no_others() -> None:
    async with agent_scene() as at:
        other = _other_agent(at.trust)
        for who in (at.trust, other, other):
            await at.ask("SendMessage", SUMMARIZE, trust=who)
        listed = [(await at.ask("ListTasks", {}, trust=who))["result"] for who in (at.trust, other)]
        assert [each["totalSize"] for each in listed] == [1, 2]
        assert [[one["id"] for one in each["tasks"]] for each in listed] == [["t-1"], ["t-2", "t-3"]]


@pytest.mark.holds("gateway/front/a2a_relay", "pages")
async def test_a_list_passes_over_pages_that_have_no_own_tasks__and_asks_for_no_end_of_them() -> None:
    async with agent_scene() as at:
        await at.ask("SendMessage", SUMMARIZE)
        own, others = at.agent.tasks["t-1"], task("t-x")

        def page(asked: dict[str, Any]) -> object:
            number = int(asked["params"].get("pageToken", "0"))
            more = str(number + 1) if number < 30 else ""
            return {"tasks": [own if number in (2, 30) else others], "nextPageToken": more, "totalSize": 31}

        at.agent.says = page
        at.agent.seen.clear()
        first = (await at.ask("ListTasks", {}))["result"]
        assert ([one["id"] for one in first["tasks"]], first["nextPageToken"]) == (["t-1"], "3")
        second = (await at.ask("ListTasks", {"pageToken": "3"}))["result"]
        assert (second["tasks"], second["nextPageToken"]) == ([], "23")
        assert len(at.agent.seen) == 3 + MAX_TASK_PAGES
        last = (await at.ask("ListTasks", {"pageToken": "23"}))["result"]
        assert ([one["id"] for one in last["tasks"]], last["nextPageToken"]) == (["t-1"], "")
        assert {each["totalSize"] for each in (first, second, last)} == {1}


@pytest.mark.holds("gateway/front/a2a_relay", "total")
@pytest.mark.parametrize(("pages", "asked", "total"), [(4, 4, 2), (40, MAX_TASK_PAGES, 3)], ids=["counted", "too long"])
async def test_a_list_with_a_filter_counts_what_the_filter_leaves__of_own_tasks_alone(
    pages: int, asked: int, total: int
) -> None:
    async with agent_scene() as at:
        for _ in range(3):
            await at.ask("SendMessage", SUMMARIZE)
        own, others = [at.agent.tasks["t-1"], at.agent.tasks["t-2"]], task("t-x")
        counted: list[dict[str, Any]] = []

        def page(sent: dict[str, Any]) -> object:
            params = sent["params"]
            if "includeArtifacts" in params:
                counted.append(params)
            number = int(params.get("pageToken") or "0")
            tasks = [own[number], others] if number < 2 else [others]
            return {"tasks": tasks, "nextPageToken": str(number + 1) if number + 1 < pages else "", "totalSize": 99}

        at.agent.says = page
        for token in ("", "1"):
            counted.clear()
            params = {"status": "TASK_STATE_WORKING", **({"pageToken": token} if token else {})}
            found = (await at.ask("ListTasks", params))["result"]
            assert [one["id"] for one in found["tasks"]] == [own[int(token or 0)]["id"]]
            assert (found["totalSize"], len(counted)) == (total, asked)
            assert {each["status"] for each in counted} == {"TASK_STATE_WORKING"}
        counted.clear()
        assert (await at.ask("ListTasks", {}))["result"]["totalSize"] == 3  # known without counting
        assert not counted


@pytest.mark.holds("gateway/admission/a2a_gate", "context")
async def test_a_conversation_that_is_remembered_no_more_becomes_nobody_else_s() -> None:
    tasks = _Forgetful()
    async with agent_scene(tasks=tasks) as at:
        other = _other_agent(at.trust)
        made = await at.ask("SendMessage", SUMMARIZE)
        named = send(skill="summarize", contextId=made["result"]["task"]["contextId"])
        for hours in (20, 180, 340):  # a week from each message that names it
            tasks.ahead = hours * 3_600
            assert "result" in await at.ask("SendMessage", named)
            assert code(await at.ask("SendMessage", named, trust=other)) == -32001
        tasks.ahead = 600 * 3_600
        for who in (other, at.trust):  # the agent may still know it
            assert code(await at.ask("SendMessage", named, trust=who)) == -32001
            assert code(await at.ask("ListTasks", {"contextId": "new"}, trust=who)) == -32001


@pytest.mark.holds("gateway/admission/a2a_gate", "context")
async def test_a_conversation_belongs_to_the_first_who_names_it__where_clients_may_make_them_up() -> None:
    async with agent_scene(agent=AgentSettings(client_contexts=True)) as at:
        other = _other_agent(at.trust)
        named = send(skill="summarize", contextId="mine")
        assert (await at.ask("SendMessage", named))["result"]["task"]["contextId"] == "mine"
        assert "result" in await at.ask("SendMessage", named)
        assert code(await at.ask("SendMessage", named, trust=other)) == -32001
        for who in (other, at.trust):  # whoever only asks for a list makes nothing theirs
            assert (await at.ask("ListTasks", {"contextId": "new"}, trust=who))["result"]["totalSize"] in (0, 2)
        assert "result" in await at.ask("SendMessage", send(skill="summarize", contextId="new"))


@pytest.mark.holds("gateway/admission/a2a_gate", "room")
@pytest.mark.parametrize("server", ["helper", "helper contexts"])
async def test_where_a_task_could_not_be_remembered_the_agent_is_not_asked(server: str) -> None:
    trust, tasks = Trust(), Tasks()
    owner = Owner(trust.owner.id, trust.agent.id).at(server)
    for number in range(MAX_TASKS_PER_OWNER):
        other = Task(owner, "SendMessage", "", b"{}", "")
        await tasks.keep(number.to_bytes(32, "big"), other, keep_until=unix_seconds() + 60, now=unix_seconds())
    async with agent_scene(trust=trust, tasks=tasks) as at:
        answer = await at.ask("SendMessage", SUMMARIZE)
        assert answer["error"]["data"]["reason"].startswith("store_unavailable")
        assert at.agent.seen == []


@pytest.mark.holds("gateway/admission/a2a_gate", "known-id")
async def test_an_agent_that_hands_out_another_s_task_is_not_believed() -> None:
    async with agent_scene() as at:
        await at.ask("SendMessage", SUMMARIZE)
        other = _other_agent(at.trust)
        for result in (
            {"task": task("t-1", "new")},
            {"task": task("new", "c-t-1")},
            {"message": said(contextId="c-t-1")},
        ):
            at.agent.says = lambda _, result=result: result
            assert code(await at.ask("SendMessage", SUMMARIZE, trust=other)) == -32006
            at.agent.says = lambda asked, result=result: events(result, id=asked["id"])
            assert code(await at.ask("SendStreamingMessage", SUMMARIZE, trust=other)) == -32006


@pytest.mark.holds("gateway/front/a2a_relay", "answer")
async def test_a_stream_is_judged_event_by_event() -> None:
    async with agent_scene() as at:
        stream = await at.post("SendStreamingMessage", SUMMARIZE)
        assert stream.headers["content-type"] == "text/event-stream"
        assert [each["result"] for each in data_of(stream.text)] == [
            {"task": task("t-1", "c-t-1")},
            update("t-1", "c-t-1"),
        ]
        invalid = [update("t-9", "c"), {"task": task("t-9")}, {"message": said()}, {"statusUpdate": {}}, 5]
        for number, bad in enumerate(invalid):
            id = f"s-{number}"
            good = {"task": task(id, "c")}
            at.agent.says = partial(stream_of, good, bad, update(id, "c"))
            told = data_of((await at.post("SendStreamingMessage", SUMMARIZE)).text)
            assert told[0]["result"] == good
            assert [code(each) for each in told[1:]] == [-32006]
        at.agent.says = lambda asked: events(5, id=asked["id"])
        assert code(await at.ask("SendStreamingMessage", SUMMARIZE)) == -32006
        at.agent.says = lambda asked: events(id=asked["id"])
        assert code(await at.ask("SendStreamingMessage", SUMMARIZE)) == -32006


@pytest.mark.holds("gateway/admission/a2a_gate", "push")
async def test_an_agent_pushes_only_to_addresses_that_are_configured() -> None:
    def configured(url: str) -> dict[str, Any]:
        return {**SUMMARIZE, "configuration": {"taskPushNotificationConfig": {"url": url}}}

    async with agent_scene() as at:
        await at.ask("SendMessage", SUMMARIZE)
        for method, params in (
            ("SendMessage", configured(HOOK)),
            ("CreateTaskPushNotificationConfig", {"taskId": "t-1", "url": HOOK}),
            ("ListTaskPushNotificationConfigs", {"taskId": "t-1"}),
        ):
            assert code(await at.ask(method, params)) == -32003
        assert len(at.agent.seen) == 1
    async with agent_scene(agent=AgentSettings(push_urls=(HOOK,))) as at:
        assert "result" in await at.ask("SendMessage", configured(HOOK))
        assert code(await at.ask("SendMessage", configured(HOOK + "/b"))) == -32003


@pytest.mark.holds("gateway/front/a2a_relay", "card")
async def test_the_card_names_the_gateway__and_a_proof_leaves_its_skills() -> None:
    async with agent_scene() as at, httpx2.AsyncClient() as client:
        url = f"{at.url}/.well-known/agent-card.json"
        card = (await client.get(url)).json()
        assert card["supportedInterfaces"][0]["url"] == at.url
        assert [skill["id"] for skill in card["skills"]] == ["summarize", "wipe"]
        assert (await client.get(url)).json() == card
        named = (await client.get(url, headers={"host": "localhost:1"})).json()
        assert named["supportedInterfaces"][0]["url"] == "http://localhost:1/agents/helper"
        assert at.agent.seen == [{"path": "/.well-known/agent-card.json"}]
        less = at.trust.chain("email:read", "email:send")
        extended = await at.ask("GetExtendedAgentCard", {}, chain=less)
        assert [skill["id"] for skill in extended["result"]["skills"]] == ["summarize"]
        assert code(await at.ask("GetExtendedAgentCard", {}, bare=True)) == -31001
        refused = await client.get(url, headers={"ratify-proof": "x"})
        assert (refused.status_code, refused.json()["error"]) == (403, "ratify_invalid")


async def test_where_the_agent_hangs_or_is_away_a_client_is_told_so() -> None:
    async with agent_scene(upstream_timeout_seconds=0.2) as at:
        released = threading.Event()

        def hang() -> Iterator[bytes]:
            released.wait()
            yield b""

        at.agent.says = lambda _: Raw("application/json", hang())
        assert code(await at.ask("SendMessage", SUMMARIZE)) == -32603
        at.agent.says = lambda _: Raw("text/event-stream", hang())
        assert code(await at.ask("SendStreamingMessage", SUMMARIZE)) == -32603
        released.set()
        at.agent.__exit__(None, None, None)
        assert code(await at.ask("SendMessage", SUMMARIZE)) == -32603


@pytest.mark.holds("gateway/front/a2a_relay", "outcome")
async def test_each_request_is_on_record__and_its_proof_verifies(tmp_path: Path) -> None:
    path = tmp_path / "records.sqlite"
    async with (
        Log(path, clock=unix_ms) as log,
        agent_scene(records=log.records, record=RecordSettings("mail-gateway")) as at,
    ):
        await at.ask("SendMessage", SUMMARIZE)
        await at.ask("GetTask", {"id": "t-1"})
        await at.ask("CancelTask", {"id": "t-1"})
        await at.post("SendStreamingMessage", SUMMARIZE)
        await at.ask("ListTasks", {})
        await at.ask("SendMessage", SUMMARIZE, bare=True)
        at.agent.says = lambda _: {"message": {}}
        await at.ask("SendMessage", SUMMARIZE)
    found = records_in(tmp_path / "records.sqlite")
    decided = [
        (each.call.protocol, each.call.method, each.call.target, each.decision.verdict)
        for each in found
        if each.decision
    ]
    assert decided == [
        ("a2a", "SendMessage", "summarize", "allow"),
        ("a2a", "GetTask", "t-1", "allow"),
        ("a2a", "CancelTask", "t-1", "allow"),
        ("a2a", "SendStreamingMessage", "summarize", "allow"),
        ("a2a", "ListTasks", "", "allow"),
        ("a2a", "SendMessage", "summarize", "deny"),
        ("a2a", "SendMessage", "summarize", "allow"),
    ]
    assert [each.outcome.status for each in found if each.outcome] == ["ok"] * 5 + ["upstream_invalid"]
    assert verified(tmp_path / "records.sqlite").valid


async def test_in_observe_mode_nothing_is_refused_for_want_of_authority() -> None:
    async with agent_scene(policy={"observes": True}) as at:
        assert "result" in await at.ask("SendMessage", SUMMARIZE, bare=True)
        assert "result" in await at.ask("GetTask", {"id": "t-1"}, bare=True)
        assert "result" in await at.ask("SendMessage", send(skill="wipe"), verifier="other")
        listed = await at.ask("ListTasks", {}, bare=True)
        assert len(listed["result"]["tasks"]) == 2
        assert code(await at.ask("SendMessage", {"message": message(task_id="x")}, bare=True)) == -32602


@pytest.mark.holds("client/agents", "challenge", "one-scope", "own-url", "tries")
async def test_the_agents_author_s_transport_proves_each_request__and_answers_challenges(tmp_path: Path) -> None:
    async with agent_scene() as at:
        write_key(tmp_path / "agent.key", at.trust.agent)
        presenter = ProofPresenter(tmp_path / "agent.key", [at.trust.chain(*ALL, known=("comms:email:delete",))])
        transport = AccreditedA2A(httpx2.AsyncHTTPTransport(), presenter, VERIFIER, at.url)
        async with httpx2.AsyncClient(transport=transport) as client:

            async def ask(method: str, params: object) -> dict[str, Any]:
                body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                answer = await client.post(at.url, json=body, headers={"a2a-version": "1.0"})
                if answer.headers["content-type"] == "text/event-stream":
                    return data_of(answer.text)[-1]
                return answer.json()

            for params in (SUMMARIZE, send(skill="wipe"), send()):
                assert "result" in await ask("SendMessage", params)
            assert "result" in await ask("SendStreamingMessage", SUMMARIZE)
            assert "result" in await ask("GetTask", {"id": "t-1"})
            assert "result" in await ask("CancelTask", {"id": "t-1"})
            assert "result" in await ask("CancelTask", {"id": "t-2"})
            assert code(await ask("GetTask", {"id": "t-9"})) == -32001
            assert (await client.get(f"{at.url}/.well-known/agent-card.json")).status_code == 200
            proved = presenter.calls_proved
            elsewhere = at.url.replace("/helper", "/other")
            assert (await client.post(elsewhere, json={}, headers={"a2a-version": "1.0"})).status_code == 404
            assert code((await client.post(at.url, json={}, headers={"a2a-version": "1.0"})).json()) == -32600
            assert presenter.calls_proved == proved
            at.trust.owner = at.trust.stranger
            unknown = ProofPresenter(tmp_path / "agent.key", [at.trust.chain(*ALL, known=("comms:email:delete",))])
            again = AccreditedA2A(httpx2.AsyncHTTPTransport(), unknown, VERIFIER, at.url)
            async with httpx2.AsyncClient(transport=again) as other:
                body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": SUMMARIZE}
                refused = await other.post(at.url, json=body, headers={"a2a-version": "1.0"})
                assert code(refused.json()) == -31004
            assert unknown.calls_proved == 1


@pytest.mark.holds("client/agents", "all-scopes")
async def test_of_several_delegations_the_one_that_covers_agent_and_skill_is_presented(tmp_path: Path) -> None:
    async with agent_scene() as at:
        write_key(tmp_path / "agent.key", at.trust.agent)
        chains = [at.trust.chain("email:read"), at.trust.chain("email:read", "email:send")]
        presenter = ProofPresenter(tmp_path / "agent.key", chains)
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": SUMMARIZE}
        for scope in (None, "email:read"):  # the caller may name the agent's scope, and not know the skill's
            transport = AccreditedA2A(httpx2.AsyncHTTPTransport(), presenter, VERIFIER, at.url, scope=scope)
            async with httpx2.AsyncClient(transport=transport) as client:
                answer = await client.post(at.url, json=body, headers={"a2a-version": "1.0"})
            assert "result" in answer.json(), answer.text
        unnamed = await at.ask("SendMessage", send(), bare=True)
        needed = ["email:read", "email:send", "comms:email:delete"]
        assert unnamed["error"]["data"]["required_scopes"] == needed
        assert len(at.agent.seen) == 2


@pytest.mark.holds("client/agents", "next-delegation")
async def test_a_delegation_that_does_not_allow_a_message_does_not_keep_the_next_one_from_it(tmp_path: Path) -> None:
    async with agent_scene() as at:
        write_key(tmp_path / "agent.key", at.trust.agent)
        known = ("comms:email:delete",)
        little = at.trust.chain(*ALL, known=known, constraints=(MaxAmount(max_amount=10.0, currency="EUR"),))
        presenter = ProofPresenter(tmp_path / "agent.key", [little, at.trust.chain(*ALL, known=known)])
        transport = AccreditedA2A(httpx2.AsyncHTTPTransport(), presenter, VERIFIER, at.url)
        async with httpx2.AsyncClient(transport=transport) as client:
            for params in (SUMMARIZE, send(skill="wipe")):  # the second needs a challenge for each delegation
                body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
                answer = await client.post(at.url, json=body, headers={"a2a-version": "1.0"})
                assert "result" in answer.json(), answer.text
        assert len(at.agent.seen) == 2


@pytest.mark.holds("gateway/admission/call_gate", "token")
async def test_a_token_that_denies_a_skill_sends_no_message_that_could_be_for_it() -> None:
    world = Tokened()
    async with agent_scene(tokens=world.settings(), key_sets=world.key_sets) as at:
        for denied, params, status in (
            (["wipe"], send(), 403),
            (["wipe"], send(skill="wipe"), 403),
            (["wipe"], SUMMARIZE, 200),
            ([], send(), 200),
        ):
            token = world.token(denied_tools=denied)
            answer = await at.post("SendMessage", params, headers={"authorization": f"Bearer {token}"})
            assert answer.status_code == status
        assert len(at.agent.seen) == 1  # a message for any skill needs a challenge


@pytest.mark.holds("gateway/admission/call_gate", "token")
async def test_a_token_for_some_skills_sees_its_tasks__and_changes_none_of_other_skills() -> None:
    world = Tokened()
    async with agent_scene(tokens=world.settings(), key_sets=world.key_sets) as at:

        async def status(allowed: list[str] | None, method: str, params: object) -> int:
            token = {"authorization": f"Bearer {world.token(allowed_tools=allowed)}"}
            return (await at.post(method, params, headers=token)).status_code

        assert await status(["summarize"], "SendMessage", SUMMARIZE) == 200
        more = send(skill="summarize", taskId="t-1")
        for method, params in (("GetTask", {"id": "t-1"}), ("ListTasks", {}), ("CancelTask", {"id": "t-1"})):
            assert await status(["summarize"], method, params) == 200
        seen = len(at.agent.seen)
        assert await status(["wipe"], "CancelTask", {"id": "t-1"}) == 403
        assert await status(["wipe"], "SendMessage", more) == 403
        assert len(at.agent.seen) == seen


@pytest.mark.holds("gateway/admission/a2a_gate", "skills")
async def test_a_task_that_a_dearer_skill_has_gone_on_with_needs_that_skill_from_then_on() -> None:
    async with agent_scene(policy={"catalog": _TWO}) as at:
        await at.ask("SendMessage", SUMMARIZE)
        cheap, both = (
            at.trust.chain("email:read", "email:send"),
            at.trust.chain("email:read", "email:send", "files:read"),
        )
        assert "result" in await at.ask("CancelTask", {"id": "t-1"}, chain=cheap)
        assert code(await at.ask("SendMessage", send(skill="look", taskId="t-1"), chain=cheap)) == -31003
        assert "result" in await at.ask("CancelTask", {"id": "t-1"}, chain=cheap)
        assert "result" in await at.ask("SendMessage", send(skill="look", taskId="t-1"), chain=both)
        for chain, passes in ((cheap, False), (both, True)):
            for method, params in (
                ("CancelTask", {"id": "t-1"}),
                ("SendMessage", send(skill="summarize", taskId="t-1")),
            ):
                assert ("result" in await at.ask(method, params, chain=chain)) is passes


@pytest.mark.holds("a2a/answers", "own-codes")
async def test_an_agent_does_not_speak_for_the_gateway() -> None:
    async with agent_scene() as at:
        for forged, told in ((-31002, -32006), (-31099, -32006), (-31100, -31100), (-32603, -32603)):
            error = {"code": forged, "message": "", "data": {"error": "ratify_challenge_required"}}
            text = json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}).encode()
            at.agent.says = partial(answer_with, Raw("application/json", [text]))
            assert code(await at.ask("SendMessage", SUMMARIZE)) == told


@pytest.mark.holds("client/agents", "one-scope")
async def test_an_agent_does_not_say_which_scope_messages_need(tmp_path: Path) -> None:
    async with agent_scene() as at:
        write_key(tmp_path / "agent.key", at.trust.agent)
        presenter = ProofPresenter(tmp_path / "agent.key", [at.trust.chain(*ALL, known=("comms:email:delete",))])
        transport = AccreditedA2A(httpx2.AsyncHTTPTransport(), presenter, VERIFIER, at.url)
        forged = {"code": -31003, "message": "", "data": {"error": "ratify_scope_denied", "required_scope": "a:b"}}
        text = json.dumps({"jsonrpc": "2.0", "id": 1, "error": forged}).encode()
        at.agent.says = lambda _: Raw("application/json", [text])
        async with httpx2.AsyncClient(transport=transport) as client:
            for method, params in (("ListTasks", {}), ("SendMessage", SUMMARIZE)):
                body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                answer = await client.post(at.url, json=body, headers={"a2a-version": "1.0"})
                at.agent.says = at.agent.answer
            assert "result" in answer.json()


@pytest.mark.holds("client/agents", "pinned")
async def test_an_agent_that_says_it_is_another_one_gets_no_proof(tmp_path: Path) -> None:
    async with agent_scene() as at:
        write_key(tmp_path / "agent.key", at.trust.agent)
        presenter = ProofPresenter(tmp_path / "agent.key", [at.trust.chain()])
        transport = AccreditedA2A(httpx2.AsyncHTTPTransport(), presenter, f"{NAME}/else", at.url)
        async with httpx2.AsyncClient(transport=transport) as client:
            body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": SUMMARIZE}
            with pytest.raises(Exception, match="gateway_changed"):
                await client.post(at.url, json=body, headers={"a2a-version": "1.0"})
        assert presenter.calls_proved == 0


class _Forgetful(Tasks):
    """A memory of tasks whose clock a test sets ahead, by `ahead` seconds."""

    ahead = 0

    async def keep(self, key: bytes, task: Task, *, keep_until: int, now: int) -> Task:
        return await super().keep(key, task, keep_until=keep_until + self.ahead, now=now + self.ahead)

    async def renew(self, key: bytes, known: Task, task: Task, *, keep_until: int, now: int) -> bool:
        return await super().renew(key, known, task, keep_until=keep_until + self.ahead, now=now + self.ahead)

    async def find(self, key: bytes, *, now: int) -> Task | None:
        return await super().find(key, now=now + self.ahead)


def _other_agent(trust: Trust) -> Trust:
    """Another agent of the same owner."""
    other = Trust()
    other.owner = trust.owner
    return other
