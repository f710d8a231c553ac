"""A client's loop, rule by rule, with a made-up clock (docs/explanation/rounds.md)."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from mcp_types import CallToolRequestParams, CallToolResult, ElicitResult, EmptyResult, InputRequiredResult
from msgspec import structs
from tests.unit.rounds.script import CALL, YES, Announce, Dispatch, Pause, Script, asks, ended
from tests.world.running import run

from accredit.errors import (
    InputHandlerFailed,
    InputHandlerMissing,
    InputRequired,
    InvalidInputRequired,
    NoBackChannel,
    RequestTimeout,
    RoundsExceeded,
    RoundsTimeout,
    UnknownInputRequest,
    UnsupportedResultType,
)
from accredit.limits import LEG_SECONDS
from accredit.rounds import InputContext, LegOptions, RoundsOptions, input_required

pytestmark = [pytest.mark.holds("client/rounds"), pytest.mark.holds("rounds/options")]

__all__ = ["ended"]

FINAL = CallToolResult(content=[])
ANSWERED = {"a": YES.model_dump(mode="json", by_alias=True, exclude_none=True)}


@pytest.mark.parametrize("result", [{}, {"resultType": "complete"}, {"inputRequests": {}}, None, 7, EmptyResult()])
def test_a_result_that_does_not_say_input_required_is_complete(result: dict[str, Any]) -> None:
    script = Script()
    script.done(result)
    assert script.result is result


@pytest.mark.holds("client/rounds", "result")
@pytest.mark.parametrize("options", [RoundsOptions(), RoundsOptions(auto_fulfil=False)], ids=["driven", "by_hand"])
@pytest.mark.parametrize(
    ("result", "kind"),
    [
        ({"resultType": "task", "taskId": "1"}, "task"),
        ({"resultType": "vendor/other", "content": []}, "vendor/other"),
        ({"resultType": ""}, ""),
        ({"resultType": None}, None),
        ({"resultType": 7}, 7),
        ({"resultType": ["complete"]}, ["complete"]),
        (CallToolResult(content=[], result_type="vendor/other"), "vendor/other"),
    ],
)
def test_half_an_answer_is_not_taken_for_a_whole_one(options: RoundsOptions, result: object, kind: object) -> None:
    script = Script(options=options)
    with pytest.raises(UnsupportedResultType) as caught:
        script.done(result)
    assert caught.value.result_type == kind
    assert caught.value.result is result


@pytest.mark.holds("client/rounds", "announcement", "concurrent", "retry")
def test_a_round_is_announced_its_handlers_run_and_the_retry_has_answers_and_state() -> None:
    script = Script()
    script.done(asks("a", state="s1"))
    assert script.step == Announce(1, "round 1 of tools/call: elicitation/create")
    assert script.allowed == math.inf
    script.done()
    assert isinstance(script.step, Dispatch)
    assert [entry.key for entry in script.entries] == ["a"]
    script.answers()
    assert script.leg == {**CALL, "inputResponses": ANSWERED, "requestState": "s1"}
    script.done(FINAL)
    assert script.result is FINAL


def test_results_from_the_wire_are_driven_like_typed_ones() -> None:
    script = Script()
    script.done({"resultType": "input_required", "requestState": "s"})
    script.round()
    assert script.leg == {**CALL, "requestState": "s"}


@pytest.mark.holds("client/rounds", "retry")
def test_a_round_replaces_the_last_ones_answers_and_state__nothing_stale_is_sent() -> None:
    script = Script()
    script.done(asks("a", state="s1"))
    script.round()
    script.done(asks("b"))
    script.round()
    assert script.leg.keys() == {"name", "arguments", "inputResponses"}
    assert script.leg["inputResponses"].keys() == {"b"}
    script.done(input_required(request_state="s3"))
    script.round()
    assert script.leg == {**CALL, "requestState": "s3"}


@pytest.mark.parametrize("typed", [True, False])
def test_what_a_manual_round_left_in_the_params_is_sent_once_and_never_again(typed: bool) -> None:
    stale: Any = {**CALL, "inputResponses": {"old": {"action": "decline"}}, "requestState": "old"}
    if typed:
        stale = CallToolRequestParams.model_validate(stale)
    script = Script(stale)
    assert script.leg == stale
    script.done(asks("a"))
    script.round()
    expected: Any = {**CALL, "inputResponses": ANSWERED}
    assert script.leg == (CallToolRequestParams.model_validate(expected) if typed else expected)
    script.done(input_required(request_state="new"))
    script.round()
    expected = {**CALL, "requestState": "new"}
    assert script.leg == (CallToolRequestParams.model_validate(expected) if typed else expected)


def test_what_a_sender_writes_into_a_legs_params_is_in_no_other_leg__a_proof_is_good_for_one() -> None:
    params = {**CALL, "_meta": {"progressToken": 1}}
    script = Script(params)
    script.leg["_meta"]["ratify_proof"] = {}
    script.leg["arguments"]["_token"] = "t"
    script.done(asks("a"))
    script.round()
    assert script.leg == {**params, "inputResponses": ANSWERED}
    assert params == {**CALL, "_meta": {"progressToken": 1}}


def test_legs_are_numbered_from_0_and_no_number_comes_twice() -> None:
    script = Script(options=RoundsOptions(max_rounds=3))
    for _ in range(3):
        script.done(asks("a"))
        script.round()
    assert [leg.options.number for leg in script.legs] == [0, 1, 2, 3]


def test_a_leg_has_a_number_and_a_time_and_no_place_for_resumption_tokens_or_related_ids() -> None:
    assert {field.name for field in structs.fields(LegOptions)} == {"number", "timeout"}


# --- what ends a call -------------------------------------------------------------------------------


@pytest.mark.holds("client/rounds", "max-rounds")
@pytest.mark.parametrize("rounds", [0, 1, 10])
def test_a_server_that_asks_for_ever_is_asked_no_more_than_max_rounds_times(rounds: int) -> None:
    script = Script(options=RoundsOptions(max_rounds=rounds))
    for number in range(rounds):
        script.done(asks("a") if number % 2 else input_required(request_state="s"))
        script.round()
    last = asks("last", state="end")
    with pytest.raises(RoundsExceeded) as caught:
        script.done(last)
    assert caught.value.last_result is last
    assert len(script.legs) == rounds + 1


def test_the_default_is_ten_rounds() -> None:
    assert RoundsOptions() == RoundsOptions(auto_fulfil=True, max_rounds=10)


@pytest.mark.holds("client/rounds", "handlers")
@pytest.mark.parametrize("handled", [(), ("sampling/createMessage", "roots/list")])
def test_a_kind_without_a_handler_ends_the_call_before_any_handler_runs(handled: tuple[str, ...]) -> None:
    script = Script(handled=handled)
    with pytest.raises(InputHandlerMissing) as caught:
        script.done(asks("a"))
    assert (caught.value.key, caught.value.method) == ("a", "elicitation/create")


def test_a_method_that_is_not_one_of_the_three_ends_the_call__nothing_is_guessed() -> None:
    script = Script()
    entry = {"method": "elicitation/guess", "params": {}}
    with pytest.raises(UnknownInputRequest) as caught:
        script.done({"resultType": "input_required", "inputRequests": {"k": entry}})
    assert (caught.value.key, caught.value.method) == ("k", "elicitation/guess")


@pytest.mark.holds("client/rounds", "concurrent")
def test_a_handler_that_fails_ends_the_call_with_key_method_and_cause() -> None:
    script = Script()
    script.done(asks("a", "b"))
    script.done()
    failure = RuntimeError("window closed")
    with pytest.raises(InputHandlerFailed) as caught:
        script.fails("b", failure)
    assert (caught.value.key, caught.value.method) == ("b", "elicitation/create")
    assert caught.value.__cause__ is failure
    assert "window" not in str(caught.value)


@pytest.mark.holds("client/rounds", "result")
@pytest.mark.parametrize("auto_fulfil", [True, False])
@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("tools/call", {"resultType": "input_required"}),
        ("tools/call", {"resultType": "input_required", "inputRequests": {}}),
        ("tools/call", InputRequiredResult.model_construct()),
        ("tools/list", input_required(request_state="s")),
    ],
)
def test_an_invalid_input_required_fails_fast_in_manual_mode_too(
    method: str, result: object, auto_fulfil: bool
) -> None:
    script = Script(method=method, options=RoundsOptions(auto_fulfil=auto_fulfil))
    with pytest.raises(InvalidInputRequired):
        script.done(result)


@pytest.mark.holds("client/rounds", "manual")
def test_without_auto_fulfil_a_call_fails_with_what_was_asked_and_no_retry_is_sent() -> None:
    script = Script(options=RoundsOptions(auto_fulfil=False))
    asked = asks("a", state="s")
    with pytest.raises(InputRequired) as caught:
        script.done(asked)
    assert caught.value.result is asked
    assert len(script.legs) == 1


# --- time -------------------------------------------------------------------------------------------


STEPS: list[Callable[[Script, float], None]] = [
    lambda script, after: script.done(asks("a"), after=after),
    lambda script, after: script.done(after=after),
    lambda script, after: script.answers(after=after),
    lambda script, after: script.done(asks("b"), after=after),
]
"""A leg, its announcement, its handlers, and the next leg: each is done `after` some seconds."""


@pytest.mark.holds("client/rounds", "total-time", "announcement", "retry")
@pytest.mark.parametrize("late", range(len(STEPS)))
def test_whatever_took_the_rest_of_the_budget_nobody_is_asked_and_nothing_is_sent_after_it(late: int) -> None:
    script = Script(total=5)
    for step in STEPS[:late]:
        step(script, 1)
    legs = len(script.legs)
    with pytest.raises(RoundsTimeout) as caught:
        STEPS[late](script, 5 - late)
    assert (caught.value.max_total_timeout, caught.value.elapsed) == (5, 5)
    assert len(script.legs) == legs


@pytest.mark.holds("client/rounds", "concurrent", "announcement")
@pytest.mark.parametrize("early", [0, 0.001])
@pytest.mark.parametrize("ended", range(len(STEPS)))
def test_whatever_is_open_when_the_budget_ends_is_cancelled(ended: int, early: float) -> None:
    script = Script(timeout=5, total=5)
    for step in STEPS[:ended]:
        step(script, 1)
    assert script.allowed == 5 - ended
    with pytest.raises(RoundsTimeout) as caught:
        script.times_out(early=early)
    assert caught.value.elapsed == pytest.approx(5 - early)


def test_a_result_that_is_complete_is_given_even_if_it_came_late() -> None:
    script = Script(total=5)
    script.done(FINAL, after=6)
    assert script.result is FINAL


@pytest.mark.holds("client/rounds", "retry")
def test_a_leg_has_the_rest_of_the_budget_where_that_is_less_than_its_own_time() -> None:
    script = Script(timeout=4, total=10)
    assert script.allowed == 4
    script.done(asks("a"), after=3)
    script.round(after=1)
    assert script.allowed == 4
    script.done(asks("a"), after=2)
    script.round(after=1)
    assert script.allowed == 3
    with pytest.raises(RoundsTimeout) as caught:
        script.times_out(early=0.001)
    assert caught.value.max_total_timeout == 10


@pytest.mark.parametrize(("timeout", "allowed"), [(None, LEG_SECONDS), (7, 7), (math.inf, math.inf)])
def test_a_leg_without_a_time_of_its_own_has_a_default(timeout: float | None, allowed: float) -> None:
    assert Script(timeout=timeout).allowed == allowed


@pytest.mark.parametrize("total", [None, 100])
def test_a_leg_that_outlives_its_own_time_is_a_request_timeout(total: float | None) -> None:
    script = Script(timeout=4, total=total)
    with pytest.raises(RequestTimeout) as caught:
        script.times_out()
    assert caught.value.timeout == 4


@pytest.mark.parametrize("wrong", [0, -1, math.nan])
def test_a_time_that_is_not_above_zero_is_refused__not_a_number_would_never_end(wrong: float) -> None:
    with pytest.raises(ValueError, match="above zero"):
        Script(timeout=wrong)
    with pytest.raises(ValueError, match="above zero"):
        Script(total=wrong)


def test_a_number_of_rounds_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="max_rounds"):
        RoundsOptions(max_rounds=-1)


# --- rounds with a state only -----------------------------------------------------------------------


def paused(script: Script) -> float:
    script.done()
    assert isinstance(script.step, Pause)
    seconds = script.step.seconds
    script.done(after=seconds)
    return seconds


@pytest.mark.holds("client/rounds", "concurrent")
def test_a_round_with_a_state_only_waits_longer_each_time_and_starts_anew_after_one_with_requests() -> None:
    script = Script(options=RoundsOptions(max_rounds=20))
    seen: list[float] = []
    for _ in range(5):
        script.done(input_required(request_state="s"))
        assert isinstance(script.step, Announce)
        assert script.step.message.endswith(": state only")
        seen.append(paused(script))
    script.done(asks("a"))
    script.round()
    script.done(input_required(request_state="s"))
    seen.append(paused(script))
    assert seen == [0.05, 0.1, 0.2, 0.25, 0.25, 0.05]


def test_the_wait_never_goes_past_the_budget_and_no_leg_is_sent_after_it() -> None:
    script = Script(total=2)
    script.done(input_required(request_state="s"), after=1.96875)
    script.done()
    assert script.step == Pause(0.03125)
    with pytest.raises(RoundsTimeout):
        script.done(after=0.03)  # a timer that is a little early
    assert len(script.legs) == 1


def test_a_wait_that_the_world_made_longer_than_the_budget_sends_no_leg() -> None:
    script = Script(total=2)
    script.done(input_required(request_state="s"))
    script.done()
    with pytest.raises(RoundsTimeout):
        script.done(after=2)


def test_an_empty_map_of_requests_with_a_state_is_a_round_with_a_state_only() -> None:
    script = Script()
    script.done({"resultType": "input_required", "inputRequests": {}, "requestState": ""})
    script.done()
    assert isinstance(script.step, Pause)
    script.done()
    assert script.leg == {**CALL, "requestState": ""}


# --- what a handler is told -------------------------------------------------------------------------


def test_a_handler_is_told_key_method_and_params() -> None:
    script = Script()
    asked = asks("a")
    script.done(asked)
    script.done()
    (entry,) = script.entries
    assert asked.input_requests is not None
    assert entry == InputContext("a", "elicitation/create", asked.input_requests["a"].params)


def test_there_is_no_way_back_to_the_server_from_a_handler__it_is_told_what_to_do_instead() -> None:
    context = InputContext("k", "roots/list", None)
    with pytest.raises(NoBackChannel, match="return the answer"):
        _ = context.session
    with pytest.raises(NoBackChannel):
        run(context.send_request("ping", timeout=1))
    with pytest.raises(NoBackChannel):
        run(context.send_notification("progress"))


@pytest.mark.parametrize("returned", [YES, {"action": "accept", "content": {"sure": True}}])
def test_what_a_handler_returns_by_hand_is_as_good_as_built(returned: object) -> None:
    assert InputContext("k", "elicitation/create", None).answer(returned) == YES


@pytest.mark.parametrize("returned", [None, True, {"action": "perhaps"}, {"roots": []}, FINAL])
def test_what_is_no_answer_to_the_question_is_not_sent(returned: object) -> None:
    with pytest.raises(ValueError, match="ElicitResult"):
        InputContext("k", "elicitation/create", None).answer(returned)


def test_an_answer_keeps_a_null_that_a_person_gave() -> None:
    script = Script()
    script.done(asks("a"))
    script.done()
    script.done({"a": ElicitResult(action="accept", content={"sure": None})})
    assert script.leg["inputResponses"] == {"a": {"action": "accept", "content": {"sure": None}}}
