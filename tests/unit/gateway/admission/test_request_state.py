"""What the gateway seals and opens, without a transport: any state, any spelling of a call, and what is no state."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.world.calls import compact, meta
from tests.world.sealed import SealedCall, again

from accredit.base.clock import unix_seconds
from accredit.base.steps import at_one_go
from accredit.errors import FrameError, RequestError
from accredit.gateway.admission.gate import Gate
from accredit.gateway.admission.request_state import RequestStateSealer, principal_of
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.call import Call
from accredit.gateway.counters import Counters
from accredit.gateway.settings import GatewaySettings, HttpUpstream, RoundsSettings
from accredit.jsonrpc.frames import Notification, Request, Success
from accredit.policy.decision import Authority
from accredit.rounds import KeyRing
from accredit.rounds.sealing import MAX_STATE_BYTES

RING = KeyRing([b"k" * 32])
SEALS = RequestStateSealer(RoundsSettings(RING))
CALL: dict[str, Any] = {"name": "deploy", "arguments": {"env": "prod", "replicas": 2}}
AGENT = ("proof", "owner", "agent")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


def request(params: dict[str, Any], method: str = "tools/call", *, modern: bool = True) -> Request:
    sent = {**params, "_meta": meta()} if modern else params
    text = compact({"jsonrpc": "2.0", "id": 7, "method": method, "params": sent})
    return Request(7, method, Raw(compact(sent)), text)


def success(result: object) -> Success:
    return Success(7, Raw(compact(result)), compact({"jsonrpc": "2.0", "id": 7, "result": result}))


def asks(**members: object) -> dict[str, object]:
    return {"resultType": "input_required", "inputRequests": {"a": 1}, **members}


def opened(request: Request, principal: tuple[str, ...] = (), seals: RequestStateSealer = SEALS) -> Call:
    call = Call(request)
    call.onward = seals.open(request, call, principal)
    return call


def edited(leg: Call, result: object) -> dict[str, Any]:
    assert leg.edit is not None
    return json.loads(at_one_go(leg.edit(success(result))))["result"]


def params_of(leg: Call) -> dict[str, Any]:
    assert isinstance(leg.onward, Request)
    assert leg.onward.params is not None
    params = json.loads(bytes(leg.onward.params))
    assert json.loads(leg.onward.text)["params"] == params
    del params["_meta"]
    return params


@pytest.mark.holds("gateway/admission/request_state", "round", "always-sealed")
@given(TEXTS, TEXTS, TEXTS)
def test_any_state_comes_back_as_it_was_given__and_stays_with_who_was_asked(state: str, agent: str, other: str) -> None:
    sealed = edited(opened(request(CALL), ("proof", "owner", agent)), asks(requestState=state))
    assert sealed == asks(requestState=sealed["requestState"])
    back = opened(request(again(CALL, sealed["requestState"])), ("proof", "owner", agent))
    assert params_of(back) == again(CALL, state)
    assert back.round == 1
    if other != agent:
        with pytest.raises(RequestError, match=r"^Invalid or expired requestState$") as refused:
            opened(request(again(CALL, sealed["requestState"])), ("proof", "owner", other))
        assert (refused.value.code, refused.value.status, refused.value.id) == (-32602, 200, 7)


@pytest.mark.holds("gateway/admission/request_state", "round", "always-sealed")
def test_a_flow_keeps_its_name_and_counts_its_rounds__with_a_state_or_without() -> None:
    leg, flows = opened(request(CALL), AGENT), list[tuple[str, int]]()
    for given_state in ("one", None, None, "two"):
        flows.append((leg.flow, leg.round))
        result = edited(leg, asks() if given_state is None else asks(requestState=given_state))
        seen = SealedCall("tools/call", CALL, AGENT).open(result["requestState"], RING)
        assert (seen.state, seen.flow, seen.round) == (given_state, leg.flow, leg.round + 1)
        leg = opened(request(again(CALL, result["requestState"])), AGENT)
        assert params_of(leg).get("requestState", None) == given_state
        assert ("requestState" in params_of(leg)) is (given_state is not None)
    assert flows == [(flows[0][0], number) for number in range(4)]
    assert len(flows[0][0]) == 32
    assert opened(request(CALL), AGENT).flow != flows[0][0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            b'{"name":"a","arguments":{"x":1,"y":"\xc3\xa9"}}',
            b'{"arguments":{"y":"\\u00e9","x":1.0} , "name":"\\u0061"}',
        ),
        (b'{"uri":"a:b"}', b' { "uri" : "a\\u003ab" } '),
    ],
)
def test_a_retry_may_be_spelled_in_another_way(before: bytes, after: bytes) -> None:
    method = "resources/read" if b"uri" in before else "tools/call"

    def spelled(text: bytes, state: str | None = None) -> Request:
        added = b',"_meta":' + compact(meta()) + (b',"requestState":"%s"' % state.encode() if state else b"")
        params = text.strip()[:-1] + added + b"}"
        return Request(7, method, Raw(params), b'{"jsonrpc":"2.0","id":7,"params":%s}' % params)

    state = edited(opened(spelled(before)), asks(requestState="mine"))["requestState"]
    assert params_of(opened(spelled(after, state)))["requestState"] == "mine"


def test_what_is_not_changed_stays_as_it_was_spelled() -> None:
    call = request(CALL)
    assert opened(call).onward is call
    edit = opened(call).edit
    assert edit is not None
    done = Success(7, Raw(b'{"content" : [ ]}'), b'{"id":7 , "result":{"content" : [ ]},"jsonrpc":"2.0"}')
    assert at_one_go(edit(done)) is done.text
    text = b'{"resultType":"input\\u005frequired", "inputRequests" : {"a": 1e0 },"requestState":"\\u006dine"}'
    response = Success(7, Raw(text), b'{"id":7 ,"more": [ ], "result":' + text + b"}")
    assert b'"inputRequests":{"a": 1e0 }' in at_one_go(edit(response))
    assert b'"more":[ ]' in at_one_go(edit(response))
    assert b"mine" not in at_one_go(edit(response))


@pytest.mark.parametrize("method", ["tools/list", "ping", "subscriptions/listen", "x/requestState"])
def test_other_methods_have_no_rounds(method: str) -> None:
    call = request({"requestState": "theirs"}, method)
    leg = opened(call)
    assert (leg.onward, leg.edit, leg.flow, leg.round) == (call, None, "", 0)
    assert opened(Request(7, method, None, b"")).edit is None


def test_in_the_legacy_era_nothing_is_sealed_and_nothing_opens() -> None:
    leg = opened(request(CALL, modern=False))
    assert (leg.edit, leg.flow) == (None, "")
    with pytest.raises(RequestError):
        opened(request(again(CALL, "mine"), modern=False))


def test_an_answer_that_nobody_has_judged_is_sealed_or_left() -> None:
    """Over HTTP+SSE of 2024-11-05 the rules of the modern era are not asked about."""
    leg = opened(request(CALL))
    for result in ([], None, "input_required", {}, {"resultType": 7}, {"resultType": "complete", "requestState": "x"}):
        assert edited(leg, result) == result
    odd = edited(leg, {"resultType": "input_required", "requestState": {"a": 1}})
    assert SealedCall("tools/call", CALL).open(odd["requestState"], RING).state is None


def test_a_state_that_is_too_long_makes_the_answer_an_invalid_one() -> None:
    leg = opened(request(CALL))
    assert edited(leg, asks(requestState="x" * MAX_STATE_BYTES))
    with pytest.raises(FrameError, match="requestState: the state has more than") as refused:
        edited(leg, asks(requestState="x" * (MAX_STATE_BYTES + 1)))
    assert refused.value.bound


def test_a_state_opens_for_as_many_seconds_as_the_settings_say() -> None:
    lives: list[int] = []
    for seconds in (60, 86_400):
        result = edited(opened(request(CALL), seals=RequestStateSealer(RoundsSettings(RING, seconds))), asks())
        lives.append(SealedCall("tools/call", CALL).open(result["requestState"], RING).expires_at - unix_seconds())
    assert 0 < lives[0] <= 60
    assert 600 < lives[1] <= 86_400


@pytest.mark.parametrize("number", [2**53, -(2**60), 2**64, 10**30])
def test_params_without_a_canonical_form_are_bound_as_they_are_spelled(number: int) -> None:
    call = {"name": "deploy", "arguments": {"id": number}}
    state = edited(opened(request(call)), asks())["requestState"]
    swapped = {"arguments": call["arguments"], "name": "deploy"}
    assert params_of(opened(request(again(swapped, state))))["arguments"]["id"] == number
    for other in (number + 1, float(number), str(number)):
        with pytest.raises(RequestError):
            opened(request(again({"name": "deploy", "arguments": {"id": other}}, state)))


@pytest.mark.parametrize("params", [{}, {"name": 7}, {"name": None, "arguments": []}])
def test_a_call_without_a_target_is_bound_by_its_params(params: dict[str, Any]) -> None:
    """Where proofs are off it passes, and is the upstream's to judge."""
    state = edited(opened(request(params)), asks(requestState="mine"))["requestState"]
    assert params_of(opened(request(again(params, state))))["requestState"] == "mine"
    with pytest.raises(RequestError):
        opened(request(again({**params, "name": "x"}, state)))


def test_whom_a_state_is_given_to() -> None:
    authority = Authority(
        principal_id="owner", principal_name="Owner", agent_id="agent", granted_scope=(), cert_ids=(), bound=True
    )
    assert principal_of(None) == ()
    assert principal_of(authority) == AGENT
    assert principal_of(authority, ("https://issuer", "alice")) == ("token", "https://issuer", "alice")
    assert principal_of(None, ("https://issuer", "alice")) == ("token", "https://issuer", "alice")


def test_settings_are_alike_whatever_key_they_drew__and_each_draws_its_own() -> None:
    one, two = (GatewaySettings(HttpUpstream("http://u/")) for _ in range(2))
    assert one == two
    state = edited(opened(request(CALL), seals=RequestStateSealer(one.rounds)), asks())["requestState"]
    assert opened(request(again(CALL, state)), seals=RequestStateSealer(one.rounds)).round == 1
    with pytest.raises(RequestError):
        opened(request(again(CALL, state)), seals=RequestStateSealer(two.rounds))


@pytest.mark.holds("gateway/admission/gate", "state")
def test_a_refused_state_is_answered_like_a_call_without_a_proof__so_where_its_transport_reads_answers() -> None:
    """Over HTTP+SSE of 2024-11-05 that is the stream, and not the POST."""
    counters = Counters()
    gate = Gate(GatewaySettings(HttpUpstream("http://u/")), counters, ToolDirectory())
    call = Call(request(again(CALL, "mine")))
    asyncio.run(gate.admit(call))
    assert call.onward is None
    error = {"code": -32602, "message": "Invalid or expired requestState"}
    assert json.loads(call.answer) == {"jsonrpc": "2.0", "id": 7, "error": error}
    assert counters.counts == {"request_refused": 1}
    with pytest.raises(RequestError) as refused:
        asyncio.run(gate.admit(Call(Notification("tools/call", request(again(CALL, "mine")).params, b""))))
    assert refused.value.status == 400
