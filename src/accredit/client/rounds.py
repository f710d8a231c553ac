"""Running a call with its rounds: carries out the steps of `accredit.rounds.drive`, and reports outcomes and times.

I/O: timers. What sends a request, asks a person or shows progress is passed in. Each step has its time; whatever it
began is cancelled and awaited when that is over, when a sibling fails, and when the caller cancels the call. All rules
are the driver's; these are only about carrying them out:

1. a leg, an announcement and all handlers of a round each run under a deadline of the event loop's clock;
2. the handlers of a round run concurrently; the first that fails cancels the others, and one that has not begun yet
   does not begin;
3. a handler's result is checked while the others still run;
4. whatever fails after its time is over has timed out, whatever it made of its cancellation.

Not checked: that a sender can be cancelled. One that shields itself delays the end of its call; its result is judged by
the time at which it came.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from typing import Any, Generic, TypeVar

import anyio
from mcp_types import InputRequiredResult, InputResponse

from accredit.errors import InputRequired
from accredit.rounds.driver import RoundsOptions, drive
from accredit.rounds.results import Params
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

_Result = TypeVar("_Result")

_Sender = Callable[[Params, LegOptions], Awaitable[_Result | InputRequiredResult]]
"""Sends one leg, with an id that was not used before. It adds what all legs have in common (headers, the progress
callback) by itself. The params are its own copy, so that a proof may be written into them."""

InputHandler = Callable[..., Awaitable[Any]]
"""`async def handler(context, params)`, which returns its kind's result; one for roots may omit `params`."""

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
    """Send `params` until the result is complete, fulfilling the server's requests for input in between.

    `handlers` are by the embedded request's method. `timeout` is for each leg (None: a minute), `max_total_timeout` for
    the whole call, both in seconds. Raises `RequestTimeout`, everything under `RoundsError`, and what `send_leg` and
    `progress` raise.
    """
    world = _World(send_leg, handlers, progress, clock)
    machine = drive(
        method,
        params,
        options,
        handled=handlers.keys(),
        timeout=timeout,
        max_total_timeout=max_total_timeout,
        now=clock(),
    )
    with closing(machine):
        try:
            step = next(machine)
            while True:
                step = machine.send(await world.do(step))
        except StopIteration as stop:
            return stop.value


async def run_leg(
    send_leg: _Sender[Params, _Result],
    params: Params,
    method: str,
    *,
    timeout: float | None = None,
    max_total_timeout: float | None = None,
) -> _Result | InputRequiredResult:
    """Send `params` once and return the result, even one that asks for input (`allow_input_required=True`).

    Raises as `run_rounds` does; an `input_required` that the protocol does not allow is an error here, too.
    """
    try:
        return await run_rounds(
            send_leg, {}, params, method, _BY_HAND, timeout=timeout, max_total_timeout=max_total_timeout
        )
    except InputRequired as required:
        return required.result


async def call_handler(handler: InputHandler, context: InputContext) -> InputResponse:
    """Return a handler's answer. Raises `ValueError` if it does not answer `context`, and what the handler raises."""
    if context.method == "roots/list" and not _takes_params(handler):
        return context.answer(await handler(context))
    return context.answer(await handler(context, context.params))


def _takes_params(handler: InputHandler) -> bool:
    try:
        inspect.signature(handler).bind(None, None)
    except TypeError:
        return False
    return True


class _World(Generic[Params, _Result]):
    """Carries out the machine's steps."""

    def __init__(
        self,
        send_leg: _Sender[Params, _Result],
        handlers: Mapping[str, InputHandler],
        progress: _Progress | None,
        clock: Callable[[], float],
    ) -> None:
        self._send_leg = send_leg
        self._handlers = handlers
        self._progress = progress
        self._clock = clock

    async def do(self, step: Step[Params]) -> Outcome:
        if isinstance(step, Pause):
            await anyio.sleep(step.seconds)
            return Done(self._clock())
        with anyio.move_on_after(step.options.timeout if isinstance(step, SendLeg) else step.timeout) as deadline:
            try:
                return await self._carry_out(step)
            except Exception:
                if not deadline.cancel_called:
                    raise
        return TimedOut(self._clock())

    async def _carry_out(self, step: SendLeg[Params] | Announce | Dispatch) -> Outcome:
        if isinstance(step, Dispatch):
            return await self._dispatch(step.entries)
        result = None
        if isinstance(step, SendLeg):
            result = await self._send_leg(step.params, step.options)
        elif self._progress is not None:
            await self._progress(step.number, None, step.message)
        return Done(self._clock(), result)

    async def _dispatch(self, entries: tuple[InputContext, ...]) -> Outcome:
        answers: dict[str, InputResponse] = {}
        failures: list[tuple[InputContext, BaseException | None]] = []

        async def fulfil(entry: InputContext) -> None:
            if failures:
                return
            try:
                answers[entry.key] = await call_handler(self._handlers[entry.method], entry)
            except Exception as error:  # a handler is the caller's code, and may raise anything
                failures.append((entry, error))
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for entry in entries:
                group.start_soon(fulfil, entry)
        # A handler that cancelled itself has neither answered nor raised.
        failures += [(entry, None) for entry in entries if entry.key not in answers]
        if failures:
            return Failed(self._clock(), *failures[0])
        return Done(self._clock(), answers)
