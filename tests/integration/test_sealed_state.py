"""A server that believes any state is not deceived: what does not open never reaches it, whatever the transport."""

import asyncio
import base64
import copy
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.world.authorization import Signed, Trust
from tests.world.calls import Posted, compact, initialize, notification, post
from tests.world.delegations import DAY
from tests.world.routes import Route, messages_of
from tests.world.sealed import FORMS, SealedCall, again

from accredit.base.clock import unix_seconds
from accredit.gateway.settings import RoundsSettings
from accredit.jsonrpc.methods import Era
from accredit.keys import make_key
from accredit.policy.passing import AUTHORIZATION
from accredit.rounds import FlowState, KeyRing
from accredit.rounds.sealing import MAX_STATE_BYTES

KEY, OTHER = b"k" * 32, b"o" * 32
REFUSED = {"code": -32602, "message": "Invalid or expired requestState"}
MODERN = ["http-modern", "sse-modern", "stdio-modern"]
TARGETS = {"tools/call": "list_inbox", "prompts/get": "greet"}

everywhere = pytest.mark.parametrize("name", MODERN)


def route(
    name: str, trust: Trust, folder: Path, *keys: bytes, required: bool = False, seconds: int = 600, **settings: Any
) -> Route:
    rounds = RoundsSettings(KeyRing(keys or [KEY]), seconds)
    return Route(name, trust, folder, required=required, rounds=rounds, **settings)


async def asked(route: Route, params: dict[str, Any], method: str = "tools/call") -> dict[str, Any]:
    """A call by a client that can fill in forms; its result."""
    answer = await route.ask(method, params, capabilities=FORMS)
    assert "result" in answer, answer
    return answer["result"]


def call(*gives: str | None, **arguments: Any) -> dict[str, Any]:
    return {"name": "list_inbox", "arguments": {"gives": list(gives), **arguments}}


def sealed_with(
    params: dict[str, Any], *, keys: Sequence[bytes] = (KEY,), principal: Sequence[str] = (), age: int = 0
) -> dict[str, Any]:
    """The first retry of a call, with a state that was sealed by the library so many seconds ago."""
    state = FlowState("approved", "f" * 32, 1, unix_seconds() - age + 600)
    return again(params, SealedCall("tools/call", params, principal).seal(state, KeyRing(keys)))


# --- what is opened ---------------------------------------------------------------------------------


@pytest.mark.holds("gateway/admission/gate", "edits")
@everywhere
@pytest.mark.parametrize("method", TARGETS)
async def test_the_upstream_gets_its_own_state_back__and_the_client_never_sees_it(
    name: str, method: str, trust: Trust, tmp_path: Path
) -> None:
    gives = ["plain", 'é\x00\n"\\ \U0001f511 </script>', "", None, '{"step":3}', "x" * MAX_STATE_BYTES]

    async with route(name, trust, tmp_path) as way:
        params = {"name": TARGETS[method], "arguments": {"gives": gives}}
        leg, states = params, list[str]()
        for number in range(len(gives)):
            result = await asked(way, leg, method)
            assert result["resultType"] == "input_required"
            assert result["inputRequests"]["leg"]["params"]["message"] == f"{number + 1}?"
            states.append(result["requestState"])
            leg = again(params, states[-1], number + 1)
        assert "resultType" not in await asked(way, leg, method)
        came = way.received(method)
        assert [one["params"].get("requestState") for one in came] == [None, *gives]
        assert ["requestState" in one["params"] for one in came] == [False, *(state is not None for state in gives)]
        assert [one["params"]["arguments"] for one in came] == [{"gives": gives}] * 7
        for state, given in zip(states, gives, strict=True):
            assert given is None or given == "" or given not in state


@everywhere
async def test_a_resource_that_asks_is_sealed_as_well(name: str, trust: Trust, tmp_path: Path) -> None:
    """Which the plain server does not do: a state of the library's shows that it opens for its URI, and no other."""

    async with route(name, trust, tmp_path) as way:
        for uri, opens in (("mail://inbox", True), ("mail://outbox", False)):
            state = FlowState("page 2", "f", 1, unix_seconds() + 600)
            text = SealedCall("resources/read", {"uri": "mail://inbox"}).seal(state, KeyRing([KEY]))
            answer = await way.ask("resources/read", {"uri": uri, "requestState": text})
            assert ("result" in answer) is opens, answer
            assert opens or answer["error"] == REFUSED
        (came,) = way.received("resources/read")
        assert came["params"]["requestState"] == "page 2"


@everywhere
async def test_flow_and_round_go_on__and_flows_side_by_side_stay_apart(name: str, trust: Trust, tmp_path: Path) -> None:
    async def flow(way: Route, number: int) -> str:
        params = call("a", None, "b", n=number)
        opener = SealedCall("tools/call", params)
        leg, seen = params, list[FlowState]()
        for answered in range(1, 4):
            state = (await asked(way, leg))["requestState"]
            seen.append(opener.open(state, KeyRing([KEY])))
            leg = again(params, state, answered)
        assert "resultType" not in await asked(way, leg)
        assert [(state.state, state.round) for state in seen] == [("a", 1), (None, 2), ("b", 3)]
        assert len({state.flow for state in seen}) == 1
        assert all(0 < state.expires_at - unix_seconds() <= 600 for state in seen)
        return seen[0].flow

    async with route(name, trust, tmp_path) as way:
        flows = await asyncio.gather(*(flow(way, number) for number in range(8)))
        assert len(set(flows)) == 8
        assert len(way.received("tools/call")) == 8 * 4


# --- what is not ------------------------------------------------------------------------------------


@pytest.mark.holds("gateway/admission/gate", "state")
@everywhere
async def test_what_was_not_sealed_for_this_call_never_reaches_the_server(
    name: str, trust: Trust, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    params = call("approved")
    good = sealed_with(params)["requestState"]
    flipped = base64.urlsafe_b64decode(good[3:] + "=" * (-(len(good) - 3) % 4))
    flipped = "s1." + base64.urlsafe_b64encode(flipped[:-1] + bytes([flipped[-1] ^ 1])).decode().rstrip("=")
    bad: list[dict[str, Any]] = [
        again({**params, "name": "send_email"}, good),
        again({**params, "arguments": {**params["arguments"], "amount": 1}}, good),
        again({**params, "task": {"ttl": 1}}, good),
        sealed_with(params, age=3_600),
        sealed_with(params, age=601),
        sealed_with(params, keys=[OTHER]),
        sealed_with(params, principal=("proof", trust.owner.id, trust.agent.id)),
        sealed_with(params, principal=("token", "https://issuer", "alice")),
        *(again(params, state) for state in (flipped, good[:-1], good[: len(good) // 2], good[:3], good * 2)),
        *(again(params, state) for state in (good + good[3:], f" {good}", f"{good}=", "s2" + good[2:])),
        *(again(params, state) for state in ("s1." + "A" * 1_048_576, "x" * 1_048_576, "", "approved", "é\x00")),
        *(again(params, state) for state in (None, 7, True, {"state": good}, [good])),
    ]
    caplog.set_level(logging.DEBUG)

    async with route(name, trust, tmp_path) as way:
        for leg in bad:
            answer = await way.ask("tools/call", leg)
            assert answer["error"] == REFUSED, leg
            assert set(answer) == {"jsonrpc", "id", "error"}
        refused = await way.ask("prompts/get", {**params, "requestState": good})
        assert refused["error"] == REFUSED
        assert way.received("tools/call", "prompts/get") == []
        assert "result" in await way.ask("tools/call", again(params, good))
        (came,) = way.received("tools/call")
        assert came["params"]["requestState"] == "approved"
    told = [record for record in caplog.records if record.message == "state_refused"]
    assert len(told) == len(bad) + 1
    logged = " ".join(str(vars(record)) for record in caplog.records)
    for reason in ("expired", "no key of this ring", "too long", "no string", "not sealed here", "sealed for another"):
        assert reason in logged
    assert good[3:40] not in logged


@everywhere
async def test_the_state_of_another_agent_opens_for_nobody_else(name: str, trust: Trust, tmp_path: Path) -> None:
    """Each leg has its own proof, over the params with the sealed state and the answers in them."""
    other = copy.copy(trust)
    other.agent = make_key("agent", "Other", unix_seconds() - DAY)
    params = call("approved", "again")

    def proven(who: Trust, leg: dict[str, Any], session: str = "") -> dict[str, Any]:
        proof = who.proof(who.chain(), "tools/call", leg, Signed(session=session))
        return {**leg, "_meta": {"ratify_proof": proof}}

    async with route(name, trust, tmp_path, required=True) as way:
        first = (await asked(way, proven(trust, params)))["requestState"]
        leg = again(params, first)
        answer = await way.ask("tools/call", proven(other, leg))
        assert answer["error"] == REFUSED
        unproven = await way.ask("tools/call", leg)
        assert unproven["error"]["code"] == -31001
        swapped = proven(trust, leg) | {"inputResponses": {"leg": {"action": "decline"}}}
        answer = await way.ask("tools/call", swapped)
        assert answer["error"]["data"]["reason"].startswith("session_context_mismatch")
        assert len(way.received("tools/call")) == 1
        second = (await asked(way, proven(trust, leg)))["requestState"]
        assert "resultType" not in await asked(way, proven(trust, again(params, second, 2)))
        came = way.received("tools/call")
        assert [one["params"].get("requestState") for one in came] == [None, "approved", "again"]
        assert all(one["params"]["_meta"][AUTHORIZATION]["agent_id"] == trust.agent.id for one in came)


@everywhere
async def test_a_state_is_no_way_around_a_proof(name: str, trust: Trust, tmp_path: Path) -> None:
    async with route(name, trust, tmp_path, required=True) as way:
        leg = sealed_with(call("approved"), principal=("proof", trust.owner.id, trust.agent.id))
        assert (await way.ask("tools/call", leg))["error"]["code"] == -31001
        unknown = await way.ask("tools/call", again({"name": "secret_tool"}, "forged"))
        assert unknown["error"]["data"]["error"] == "unknown_tool"
        assert way.received("tools/call") == []


@pytest.mark.parametrize("name", ["http-legacy", "sse-legacy", "stdio-legacy"])
async def test_a_legacy_call_is_as_it_was__but_for_a_state_that_a_careless_server_would_read(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with route(name, trust, tmp_path) as way:
        result = await asked(way, call("mine"))
        assert result["requestState"] == "mine"
        for state in ("mine", sealed_with(call("mine"))["requestState"]):
            leg = again(call("other"), state)
            assert (await way.ask("tools/call", leg))["error"] == REFUSED
        assert len(way.received("tools/call")) == 1


@pytest.mark.parametrize("name", ["http-legacy", "stdio-legacy"])
async def test_the_members_of_a_batch_are_judged_one_by_one(name: str, trust: Trust, tmp_path: Path) -> None:
    async with route(name, trust, tmp_path) as way:
        way.session = ""
        begun = await way.send(initialize("2025-03-26"))
        way.session = begun.header("mcp-session-id") or ""
        forged = {"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": again(call(), "forged")}
        plain = {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": call()}
        answers = {answer["id"]: answer for answer in await way.batch(forged, plain)}
        assert answers["a"]["error"] == REFUSED
        assert "result" in answers["b"]
        assert [one["id"] for one in way.received("tools/call")] == ["b"]


@everywhere
async def test_a_call_without_an_id_or_by_another_spelling_of_its_name_brings_no_state_either(
    name: str, trust: Trust, tmp_path: Path
) -> None:
    async with route(name, trust, tmp_path) as way:
        told = notification(Era.MODERN, "tools/call").and_header("Mcp-Name", "list_inbox")
        sent = {"jsonrpc": "2.0", "method": "tools/call", "params": again(call(), "forged")}
        answer = await way.send(Posted(told.headers, compact(sent)))
        assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, -32600)
        answer = await way.ask("Tools/call", again(call(), "forged"))
        assert answer["error"] == REFUSED
        assert way.received("tools/call", "Tools/call") == []


# --- what the upstream may ask ----------------------------------------------------------------------


async def refused(way: Route, params: dict[str, Any], capabilities: dict[str, Any]) -> str:
    """A call that the upstream answers badly; what is said of the answer."""
    answer = await way.send(post(way.era, "tools/call", params, capabilities=capabilities))
    error = messages_of(answer)[-1]["error"]
    assert error["message"] == "Invalid upstream JSON-RPC response"
    return error["data"]


@everywhere
async def test_what_the_client_did_not_declare_it_is_not_asked(name: str, trust: Trust, tmp_path: Path) -> None:
    async with route(name, trust, tmp_path) as way:
        undeclared: list[dict[str, Any]] = [{}, {"elicitation": {"url": {}}}, {"sampling": {}, "roots": {}}]
        for capabilities in undeclared:
            assert "did not declare" in await refused(way, call("mine"), capabilities)
        assert "requestState" in await asked(way, call("mine"))


@everywhere
@pytest.mark.parametrize("enforce", [True, False])
async def test_a_state_that_is_too_long_to_be_sealed_is_no_valid_answer(
    name: str, enforce: bool, trust: Trust, tmp_path: Path
) -> None:
    async with route(name, trust, tmp_path, enforce=enforce) as way:
        for state in ("x" * (MAX_STATE_BYTES + 1), "\u00e9" * (MAX_STATE_BYTES // 2 + 1)):
            told = await refused(way, call(state), FORMS)
            assert told == f"requestState: the state has more than {MAX_STATE_BYTES} bytes"
