"""For any script of rounds: state comes back byte for byte, no leg twice, nothing stale; and no bytes escape."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import CallToolRequestParams, ElicitResult, InputResponse
from tests.unit.rounds.script import STARTED, Announce, Dispatch, Pause, Script, SendLeg, asks, ended

from accredit.errors import RequestTimeout, RoundsError, RoundsExceeded, RoundsTimeout, SealError
from accredit.rounds import (
    FlowState,
    InputContext,
    KeyRing,
    accepted_content,
    input_response,
    is_input_required_result,
    partition_input_responses,
    read_input_required,
    state_binding,
)

pytestmark = pytest.mark.slow

__all__ = ["ended"]

# Of round n everything is marked with n, so that a leg shows what it holds.
_MARK = "<{}>"
_ROUNDS = st.lists(
    st.tuples(st.lists(st.sampled_from("abc"), max_size=3, unique=True), st.none() | st.text(max_size=8)).filter(any),
    max_size=6,
)
_FIRST: dict[str, Any] = {"name": "n", "arguments": {"a": [1]}}
_STALE: dict[str, Any] = {
    **_FIRST,
    "inputResponses": {"old": {"action": "accept", "content": {"x": _MARK.format(0)}}},
    "requestState": _MARK.format(0),
}


class MarkedScript(Script):
    """Answers with the round's mark."""

    number = 0

    def answer_for(self, entry: InputContext) -> InputResponse:
        return ElicitResult(action="accept", content={"x": _MARK.format(self.number)})


@settings(max_examples=100)
@given(_ROUNDS, st.booleans(), st.booleans())
def test_any_script_of_rounds_echoes_its_state_and_carries_nothing_on(
    rounds: list[tuple[list[str], str | None]], typed: bool, stale: bool
) -> None:
    first = _STALE if stale else _FIRST
    script = MarkedScript(CallToolRequestParams.model_validate(first) if typed else first)
    assert wire_of(script.leg) == first
    for number, (keys, state) in enumerate(rounds, 1):
        script.number = number
        marked = None if state is None else state + _MARK.format(number)
        script.done(asks(*(key + _MARK.format(number) for key in keys), state=marked))
        script.round()
        leg = wire_of(script.leg)
        assert leg.get("requestState") == marked
        assert ("requestState" in leg) == (state is not None)
        assert [*leg.get("inputResponses", {})] == [key + _MARK.format(number) for key in keys]
        others = set(range(len(rounds) + 1)) - {number}
        assert not [other for other in others if _MARK.format(other) in json.dumps(leg)]
        assert {name: leg[name] for name in _FIRST} == _FIRST
    numbers = [leg.options.number for leg in script.legs]
    assert numbers == list(range(len(rounds) + 1))
    script.close()


def wire_of(params: CallToolRequestParams | dict[str, Any]) -> dict[str, Any]:
    if isinstance(params, dict):
        return params
    return params.model_dump(by_alias=True, exclude_none=True)


_SECONDS = st.sampled_from([0.0, 0.01, 0.25, 1.0, 2.0, 3.5])


@settings(max_examples=100)
@given(st.data())
def test_however_long_things_take_nothing_begins_after_the_budget_or_may_outlive_it(data: st.DataObject) -> None:
    timeout, total = data.draw(st.sampled_from([None, 1.0, 4.0])), data.draw(st.sampled_from([None, 2.0, 8.0]))
    script = Script(timeout=timeout, total=total)
    ends = STARTED + (math.inf if total is None else total)
    with pytest.raises((RequestTimeout, RoundsTimeout, RoundsExceeded)):
        play(script, data, 60 if timeout is None else timeout, ends)


def play(script: Script, data: st.DataObject, timeout: float, ends: float) -> None:
    """A server that asks for ever, until the call fails."""
    while True:
        before = script.now
        assert before < ends
        if isinstance(script.step, Pause):
            assert before + script.step.seconds <= ends + 1e-6
            script.done(after=script.step.seconds)
            continue
        assert 0 < script.allowed <= ends - before + 1e-6
        took = data.draw(_SECONDS)
        if took >= script.allowed:
            script.times_out()
        elif isinstance(script.step, SendLeg):
            assert script.allowed <= timeout + 1e-6
            script.done(data.draw(st.sampled_from([asks("a"), asks(state="s")])), after=took)
        elif isinstance(script.step, Dispatch):
            script.answers(after=took)
        else:
            assert isinstance(script.step, Announce)
            script.done(after=took)


_NAMES = st.sampled_from(["method", "params", "action", "content", "roots", "role", "mode", "message", "url", "result"])
_WORDS = st.sampled_from(
    ["elicitation/create", "sampling/createMessage", "roots/list", "accept", "user", "form", "url"]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | _WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES | st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)
_RESULTS = st.dictionaries(
    st.sampled_from(["inputRequests", "requestState", "_meta"]),
    st.dictionaries(st.text(max_size=3), _VALUES, max_size=2) | _VALUES,
    max_size=3,
).map(lambda members: {**members, "resultType": "input_required"})


@settings(max_examples=200)
@given(_RESULTS, st.sampled_from(["tools/call", "resources/read", "tools/list"]))
def test_any_result_is_read_or_refused_with_a_short_text(result: dict[str, Any], method: str) -> None:
    assert is_input_required_result(result)
    refusal = ""
    try:
        asked = read_input_required(method, result)
    except RoundsError as error:
        refusal = str(error)
    else:
        assert asked.input_requests or asked.request_state is not None
    assert refusal.isascii()
    assert len(refusal) < 200


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from("ab"), _VALUES) | _VALUES)
def test_any_answers_are_read_without_surprises(raw: Any) -> None:
    accepted, dropped = partition_input_responses(raw)
    assert isinstance(raw, dict) or not (accepted or dropped)
    assert input_response(raw, "a").kind in ("missing", "elicit", "sampling", "roots")
    assert accepted_content(accepted, "a") == accepted_content(raw if "a" in accepted else None, "a")


_KEY = b"k" * 32
_BINDING = state_binding(("a",), "tools/call", "n", b"d" * 32)


@settings(max_examples=100)
@given(
    st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.integers(0, 2**40),
    st.binary(min_size=12, max_size=12),
    st.data(),
)
def test_a_sealed_state_opens_to_itself_and_nothing_else_opens(
    state: str | None, now: int, nonce: bytes, data: st.DataObject
) -> None:
    ring = KeyRing([_KEY])
    flow = FlowState(state, "f", 1, now)
    text = ring.seal(flow, _BINDING, nonce)
    assert ring.open(text, _BINDING, now) == flow
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    changed = text[:start] + data.draw(st.text(max_size=3) | st.just(text)) + text[end:]
    if changed != text:
        with pytest.raises(SealError):
            ring.open(changed, _BINDING, now)
    with pytest.raises(SealError):
        ring.open(text, data.draw(st.binary(min_size=32, max_size=32)), now)
