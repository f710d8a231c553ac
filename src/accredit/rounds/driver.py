"""The loop of one call with rounds, as a state machine. No I/O: it yields steps and is sent their outcomes.

Source: 2026-07-28, basic/patterns/mrtr, "Client Requirements". Time is in seconds on any monotonic clock. A round, in
this order:

1. the result is read (`results`); one that the protocol does not allow, or does not know, ends the call, in manual mode
   too;
2. in manual mode the call ends with `InputRequired`;
3. after `max_rounds` retries it ends with `RoundsExceeded`;
4. once the whole call's time is used up it ends with `RoundsTimeout`, before anybody is asked for anything;
5. every entry must have a handler here, or the call ends with `InputHandlerMissing` before any of them runs;
6. the round is announced, and rule 4 is checked again;
7. with requests: their handlers run concurrently, for the time that is left; the first that fails ends the call;
   without: a pause, which grows from round to round until a round with requests resets it;
8. rule 4 is checked again; then the retry is sent, with the original params and only this round's answers and state,
   for its own time or the time that is left, whichever is less.

Not checked: the content of a state or an answer, and whether the answers reach the server that asked.
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
    InvalidInputRequired,
    RequestTimeout,
    RoundsExceeded,
    RoundsTimeout,
)
from accredit.limits import LEG_SECONDS, MAX_DIALOGS, MAX_ROUNDS, STATE_ONLY_FIRST_SECONDS, STATE_ONLY_MAX_SECONDS
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

    Without `auto_fulfil` a call that gets one fails, unless its caller asked to see it. `max_rounds` bounds the retries
    of one call (0: none).
    """

    auto_fulfil: bool = True
    max_rounds: int = MAX_ROUNDS

    def __post_init__(self) -> None:
        """Raise `ValueError` for a negative number of rounds."""
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
    """Run one call to its result. `handled` are the methods that have a handler; `now` is when the call begins.

    `timeout` bounds each leg (None: a minute), `max_total_timeout` the call with all its legs and handlers (None:
    unbounded), in seconds. Raises `ValueError` for times that are not positive, every error under `RoundsError` except
    `SealError`, and `RequestTimeout` for a leg.
    """
    call = _Call(method, params, timeout, max_total_timeout, now)
    result = yield from call.leg(None, None)
    delay = STATE_ONLY_FIRST_SECONDS
    while is_input_required_result(result):
        requested = read_input_required(method, result)
        if not options.auto_fulfil:
            raise InputRequired(requested)
        if call.legs > options.max_rounds:
            raise RoundsExceeded(requested)
        call.check_budget()
        entries = _entries(requested, handled)
        yield from call.announce(entries)
        if entries:
            delay = STATE_ONLY_FIRST_SECONDS
            answers = yield from call.answers(entries)
        else:
            answers = None
            yield from call.pause(delay)
            delay = min(2 * delay, STATE_ONLY_MAX_SECONDS)
        result = yield from call.leg(answers, requested.request_state)
    return result


def _entries(requested: InputRequiredResult, handled: Collection[str]) -> tuple[InputContext, ...]:
    requests = requested.input_requests or {}
    if len(requests) > MAX_DIALOGS:
        raise InvalidInputRequired(f"more than {MAX_DIALOGS} requests at once")
    entries = tuple(InputContext(key, request.method, request.params) for key, request in requests.items())
    for entry in entries:
        if entry.method not in handled:
            raise InputHandlerMissing(entry.key, entry.method)
    return entries


class _Call(Generic[Params]):
    """The state of one call: its params, its number of legs, and the time that is left."""

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
        # The first leg is sent as it is: the caller may be continuing rounds made by hand.
        params = self._params
        if self.legs:
            params = with_retry_params(params, input_responses=answers, request_state=state)
        left = self._left
        timeout = min(self._timeout, left)
        # A copy: the sender adds proofs and tokens to it that are valid for this leg only.
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
