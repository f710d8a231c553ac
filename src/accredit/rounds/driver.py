"""How one call with rounds goes on: a state machine. No I/O: it says what to do, and is sent what happened and when.

Source: 2026-07-28, basic/patterns/mrtr, "Client Requirements". `drive` yields a step and is sent its outcome; time is
in seconds on any clock that only goes forward. A round, in this order:

1. the result is read (`results`); what the protocol does not allow, or does not know, ends the call, in manual mode
   too;
2. in manual mode the call ends with `InputRequired`;
3. `max_rounds` retries were made: `RoundsExceeded`;
4. nothing is left of the whole call's time: `RoundsTimeout`, before anyone is asked for anything;
5. every entry has a handler here: `InputHandlerMissing` otherwise, before any of them runs;
6. the round is announced, and rule 4 is checked again;
7. with requests: their handlers run at once, for as long as is left; the first that fails ends the call;
   without: a wait, longer from round to round, that a round with requests makes short again;
8. rule 4 is checked again; then the retry is sent, with the original params and this round's answers and state
   alone, for its own time or for what is left, whichever is less.

Not checked: what is in a state or an answer; whether the answers reach the server that asked.
"""

import copy
import math
from collections.abc import Collection, Generator, Mapping
from typing import Any, Generic, cast

from mcp_types import InputRequiredResult, InputResponse
from msgspec import Struct

from accredit.errors import (
    InputHandlerFailed,
    InputHandlerMissing,
    InputRequired,
    RequestTimeout,
    RoundsExceeded,
    RoundsTimeout,
)
from accredit.limits import LEG_SECONDS, MAX_ROUNDS, STATE_ONLY_FIRST_SECONDS, STATE_ONLY_MAX_SECONDS
from accredit.rounds.results import (
    Params,
    check_result_type,
    is_input_required_result,
    read_input_required,
    with_retry_params,
)
from accredit.rounds.steps import (
    Announce,
    Dispatch,
    Done,
    Failed,
    InputContext,
    LegOptions,
    Outcome,
    Pause,
    SendLeg,
    Step,
    TimedOut,
)


class RoundsOptions(Struct, frozen=True):
    """How a client deals with `input_required`.

    Without `auto_fulfil` a call that gets one fails, unless it asked to see it; `max_rounds` bounds the retries of one
    call (0: none).
    """

    auto_fulfil: bool = True
    max_rounds: int = MAX_ROUNDS

    def __post_init__(self) -> None:
        """Raises `ValueError` for a number that is none of rounds."""
        if self.max_rounds < 0:
            raise ValueError("max_rounds is 0 or more")


def drive(
    method: str,
    params: Params,
    options: RoundsOptions,
    *,
    handled: Collection[str],
    timeout: float | None = None,
    max_total_timeout: float | None = None,
    now: float,
) -> Generator[Step[Params], Outcome, Any]:
    """Runs one call to its result. `handled` are the methods that have a handler; `now` is when it begins.

    `timeout` bounds each leg (a minute where it is None), `max_total_timeout` the call with all its legs and handlers
    (None: nothing does), in seconds. Raises `ValueError` for times that are not above zero, and each error under
    `RoundsError` but `SealError`; `RequestTimeout` for a leg.
    """
    call = _Call(method, params, timeout, max_total_timeout, now)
    result = yield from call.leg(None, None)
    delay = STATE_ONLY_FIRST_SECONDS
    while is_input_required_result(result):
        asked = read_input_required(method, result)
        if not options.auto_fulfil:
            raise InputRequired(asked)
        if call.legs > options.max_rounds:
            raise RoundsExceeded(asked)
        call.check_budget()
        entries = _entries(asked, handled)
        yield from call.announce(entries)
        if entries:
            delay = STATE_ONLY_FIRST_SECONDS
            answers = yield from call.answers(entries)
        else:
            answers = None
            yield from call.pause(delay)
            delay = min(2 * delay, STATE_ONLY_MAX_SECONDS)
        result = yield from call.leg(answers, asked.request_state)
    return result


def _entries(asked: InputRequiredResult, handled: Collection[str]) -> tuple[InputContext, ...]:
    requests = asked.input_requests or {}
    entries = tuple(InputContext(key, request.method, request.params) for key, request in requests.items())
    for entry in entries:
        if entry.method not in handled:
            raise InputHandlerMissing(entry.key, entry.method)
    return entries


class _Call(Generic[Params]):
    """One call: what was asked for, how often, and what is left of its time."""

    def __init__(
        self, method: str, params: Params, timeout: float | None, max_total_timeout: float | None, now: float
    ) -> None:
        self.legs = 0
        self._method = method
        self._params = params
        self._timeout = _seconds(LEG_SECONDS if timeout is None else timeout)
        self._total = _seconds(math.inf if max_total_timeout is None else max_total_timeout)
        self._started = self._now = now

    def leg(
        self, answers: Mapping[str, InputResponse] | None, state: str | None
    ) -> Generator[Step[Params], Outcome, Any]:
        self.check_budget()
        # The first leg is as the caller gave it: it may go on with rounds that were made by hand.
        params = self._params
        if self.legs:
            params = with_retry_params(params, input_responses=answers, request_state=state)
        left = self._left
        timeout = min(self._timeout, left)
        # A copy: whoever sends it adds proofs and tokens, which are good for this leg alone.
        leg = SendLeg(copy.deepcopy(params), LegOptions(self.legs, timeout))
        self.legs += 1
        outcome = yield from self._do(leg)
        if isinstance(outcome, Done):
            check_result_type(outcome.value)
            return outcome.value
        if timeout == left:
            raise self._out_of_time()
        raise RequestTimeout(timeout)

    def announce(self, entries: tuple[InputContext, ...]) -> Generator[Step[Params], Outcome, None]:
        kinds = ", ".join(sorted({entry.method for entry in entries})) or "state only"
        message = f"round {self.legs} of {self._method}: {kinds}"
        outcome = yield from self._do(Announce(self.legs, message, self._left))
        if isinstance(outcome, TimedOut):
            raise self._out_of_time()
        self.check_budget()

    def answers(self, entries: tuple[InputContext, ...]) -> Generator[Step[Params], Outcome, dict[str, InputResponse]]:
        outcome = yield from self._do(Dispatch(entries, self._left))
        if isinstance(outcome, Failed):
            raise InputHandlerFailed(outcome.entry.key, outcome.entry.method) from outcome.error
        if isinstance(outcome, TimedOut):
            raise self._out_of_time()
        return cast("dict[str, InputResponse]", outcome.value)

    def pause(self, delay: float) -> Generator[Step[Params], Outcome, None]:
        left = self._left
        yield from self._do(Pause(min(delay, left)))
        if delay >= left:
            raise self._out_of_time()

    def check_budget(self) -> None:
        if self._left <= 0:
            raise self._out_of_time()

    @property
    def _left(self) -> float:
        return self._total - (self._now - self._started)

    def _do(self, step: Step[Params]) -> Generator[Step[Params], Outcome, Outcome]:
        outcome = yield step
        self._now = outcome.now
        return outcome

    def _out_of_time(self) -> RoundsTimeout:
        return RoundsTimeout(self._total, self._now - self._started)


def _seconds(seconds: float) -> float:
    if not seconds > 0:
        raise ValueError("a timeout is a number of seconds above zero")
    return seconds
