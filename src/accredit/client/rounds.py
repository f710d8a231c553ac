"""Runs a call with its rounds, to its result. I/O: timers. Sending, asking a person and showing progress are passed in.

A leg of a call is one request with its answer. A round is an answer that asks for input (`input_required`), and the
retry that brings the input.

Source: 2026-07-28, basic/patterns/mrtr, "Client Requirements". A round, in this order:

- [result] The result is read (`accredit.rounds.results`). If the protocol does not allow it, or does not know its kind,
  the call ends, in manual mode too.
- [manual] In manual mode the call ends with `InputRequired`.
- [max-rounds] After `max_rounds` retries the call ends with `RoundsExceeded`.
- [total-time] If the whole call's time is used up, the call ends with `RoundsTimeout`, before anybody is asked for
  anything.
- [handlers] Every requested input must have a handler here. Otherwise the call ends with `InputHandlerMissing`, before
  any handler runs.
- [announcement] The round is announced, and [total-time] is checked again.
- [concurrent] If inputs are requested, their handlers run concurrently, for the time that is left. The first that fails
  ends the call: it cancels the others, and those that have not started yet don't start. If none is requested, there is
  a pause instead. It grows from round to round; a round with requests resets it.
- [retry] [total-time] is checked again. Then the retry is sent, with the original params and only this round's answers
  and state. It may take a leg's time or the time that is left, whichever is less.

Throughout:

- [deadline] A leg, an announcement, and all handlers of a round together each have a deadline. When it is over, or the
  caller cancels the call, everything they started is cancelled and awaited.
- [checking] A handler's result is checked while the others still run.
- [late] Work that fails after its deadline has timed out, even if it reacts to its cancellation with another error.

Not checked: the content of a state or an answer, whether the answers reach the server that asked, and whether a sender
can be cancelled. A sender that shields itself delays the end of its call. Its result counts as late if it comes after
the deadline.
"""

import copy
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar, cast

import anyio
from mcp_types import InputRequiredResult, InputResponse

from accredit.errors import (
    InputHandlerFailed,
    InputHandlerMissing,
    InputRequired,
    InvalidInputRequired,
    RequestTimeout,
    RoundsExceeded,
    RoundsTimeout,
)
from accredit.limits import LEG_SECONDS, MAX_DIALOGS
from accredit.rounds.options import InputContext, LegOptions, RoundsOptions
from accredit.rounds.results import (
    Params,
    check_result_type,
    is_input_required_result,
    read_input_required,
    with_retry_params,
)

STATE_ONLY_FIRST_SECONDS = 0.05
"""The first pause before a call is repeated for a server that requests no input and only wants to be called again. It
doubles from round to round."""
STATE_ONLY_MAX_SECONDS = 0.25
"""The longest such pause, since somebody may be waiting for the answer."""


_Result = TypeVar("_Result")

_Sender = Callable[[Params, LegOptions], Awaitable[_Result | InputRequiredResult]]
"""Sends one leg, with a new id. It adds by itself what all legs share (headers, the progress callback). It gets a copy
of the params, so that it may write a proof into them."""

InputHandler = Callable[..., Awaitable[Any]]
"""`async def handler(context, params)`. It returns the result for its kind of request. A handler for roots may omit
`params`."""

_Progress = Callable[[float, float | None, str | None], Awaitable[None]]
"""The SDK's progress callback: `(progress, total, message)`."""

_BY_HAND = RoundsOptions(auto_fulfil=False)


async def run_rounds(
    send_leg: _Sender[Params, _Result],
    handlers: Mapping[str, InputHandler],
    params: Params,
    method: str,
    options: RoundsOptions,
    *,
    timeout: float | None = None,
    max_total_timeout: float | None = None,
    progress: _Progress | None = None,
    clock: Callable[[], float] = anyio.current_time,
) -> _Result:
    """Send `params` until the result is complete. In between, answer the server's requests for input.

    `handlers` has the handler of each method that the server may request. `timeout` is for each leg (None: a minute),
    `max_total_timeout` for the whole call with all its legs and handlers (None: unbounded), both in seconds. Raises
    `ValueError` for times that are not positive, `RequestTimeout` for a late leg, everything under `RoundsError` but
    `SealError`, and what `send_leg` and `progress` raise.
    """
    leg_time = _positive(LEG_SECONDS if timeout is None else timeout)
    budget = _Budget(_positive(math.inf if max_total_timeout is None else max_total_timeout), clock)
    retry, legs, delay = params, 0, STATE_ONLY_FIRST_SECONDS  # the first leg may continue rounds made by hand
    while True:
        left = budget.left()
        allowed = min(leg_time, left)
        # A copy: the sender adds proofs and tokens to it that are valid for this leg only.
        sending = send_leg(copy.deepcopy(retry), LegOptions(legs, allowed))
        result = await within(allowed, sending, budget.error if allowed == left else partial(RequestTimeout, allowed))
        legs += 1
        check_result_type(result)
        if not is_input_required_result(result):
            return cast("_Result", result)
        requested = read_input_required(method, result)
        if not options.auto_fulfil:
            raise InputRequired(requested)
        if legs > options.max_rounds:
            raise RoundsExceeded(requested)
        left = budget.left()
        entries = _entries(requested, handlers)
        if progress is not None:
            kinds = ", ".join(sorted({entry.method for entry in entries})) or "state only"
            await within(left, progress(legs, None, f"round {legs} of {method}: {kinds}"), budget.error)
        left = budget.left()
        answers = None
        if entries:
            delay = STATE_ONLY_FIRST_SECONDS
            answers = await within(left, _answers(entries, handlers), budget.error)
        else:
            await anyio.sleep(min(delay, left))
            if delay >= left:
                raise budget.error()
            delay = min(2 * delay, STATE_ONLY_MAX_SECONDS)
        retry = with_retry_params(params, input_responses=answers, request_state=requested.request_state)


async def run_leg(
    send_leg: _Sender[Params, _Result],
    params: Params,
    method: str,
    *,
    timeout: float | None = None,
    max_total_timeout: float | None = None,
) -> _Result | InputRequiredResult:
    """Send `params` once and return the result, even one that asks for input (`allow_input_required=True`).

    Raises as `run_rounds` does. A request for input that the protocol does not allow is an error here, too.
    """
    try:
        return await run_rounds(
            send_leg, {}, params, method, _BY_HAND, timeout=timeout, max_total_timeout=max_total_timeout
        )
    except InputRequired as required:
        return required.result


async def call_handler(handler: InputHandler, context: InputContext) -> InputResponse:
    """Return a handler's answer. Raises `ValueError` if it is not of the kind that `context` requests, and what the
    handler raises."""
    if context.method == "roots/list" and not _takes_params(handler):
        return context.answer(await handler(context))
    return context.answer(await handler(context, context.params))


def _takes_params(handler: InputHandler) -> bool:
    try:
        inspect.signature(handler).bind(None, None)
    except TypeError:
        return False
    return True


class _Budget:
    """The time that a whole call may take, in seconds from the moment when this is made."""

    def __init__(self, total: float, clock: Callable[[], float]) -> None:
        self._total = total
        self._clock = clock
        self._started = clock()

    def left(self) -> float:
        """Return how many seconds are left. Raises `RoundsTimeout` if there are none ([total-time])."""
        left = self._total - (self._clock() - self._started)
        if left <= 0:
            raise self.error()
        return left

    def error(self) -> RoundsTimeout:
        return RoundsTimeout(self._total, self._clock() - self._started)


def _positive(seconds: float) -> float:
    if not seconds > 0:
        raise ValueError("a timeout is a number of seconds above zero")
    return seconds


def _entries(requested: InputRequiredResult, handlers: Mapping[str, InputHandler]) -> tuple[InputContext, ...]:
    requests = requested.input_requests or {}
    if len(requests) > MAX_DIALOGS:
        raise InvalidInputRequired(f"more than {MAX_DIALOGS} requests at once")
    entries = tuple(InputContext(key, request.method, request.params) for key, request in requests.items())
    for entry in entries:
        if entry.method not in handlers:
            raise InputHandlerMissing(entry.key, entry.method)
    return entries


async def within(seconds: float, work: Awaitable[_Result], over: Callable[[], Exception]) -> _Result:
    """Await `work`, and raise what it raises. If it takes longer than `seconds`, raise `over()`."""
    with anyio.move_on_after(seconds) as deadline:
        try:
            return await work
        except Exception:
            if not deadline.cancel_called:
                raise
    raise over()


async def _answers(entries: tuple[InputContext, ...], handlers: Mapping[str, InputHandler]) -> dict[str, InputResponse]:
    """Return each handler's answer by its entry's key. Raises `InputHandlerFailed`."""
    answers: dict[str, InputResponse] = {}
    failures: list[tuple[InputContext, BaseException | None]] = []

    async def fulfil(entry: InputContext) -> None:
        if failures:
            return
        try:
            answers[entry.key] = await call_handler(handlers[entry.method], entry)
        except Exception as error:  # a handler is the caller's code, and may raise anything
            failures.append((entry, error))
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for entry in entries:
            group.start_soon(fulfil, entry)
    # A handler that cancelled itself has neither answered nor raised.
    failures += [(entry, None) for entry in entries if entry.key not in answers]
    if failures:
        entry, cause = failures[0]
        raise InputHandlerFailed(entry.key, entry.method) from cause
    return answers
