"""Plays the world for a client's loop, step by step: says what became of each step, with a made-up clock."""

import asyncio
import math
import selectors
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from mcp_types import ElicitResult, InputRequiredResult, InputResponse

from accredit.client.rounds import run_rounds
from accredit.rounds import InputContext, LegOptions, RoundsOptions, elicit, input_required

FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
YES = ElicitResult(action="accept", content={"sure": True})
CALL: dict[str, Any] = {"name": "deploy", "arguments": {"env": "prod"}}
KINDS = ("elicitation/create", "sampling/createMessage", "roots/list")
STARTED = 1_000.0


def asks(*keys: str, state: str | None = None) -> InputRequiredResult:
    """A result that asks for a form by each key."""
    return input_required(input_requests={key: elicit("Sure?", FORM) for key in keys}, request_state=state)


class SendLeg(NamedTuple):
    """A leg is to be sent."""

    params: Any
    options: LegOptions


class Announce(NamedTuple):
    """A round is to be shown."""

    number: float
    message: str


class Dispatch(NamedTuple):
    """Handlers have begun."""

    entries: tuple[InputContext, ...]


class Pause(NamedTuple):
    """The loop sleeps."""

    seconds: float


class _Selector(selectors.DefaultSelector):
    """Never waits; `idle` is called where it would."""

    def __init__(self) -> None:
        super().__init__()
        self.idle: Callable[[], None] = lambda: None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self.idle()
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    """Runs until all wait. Its time, from 0, goes on only where it is told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept = 0.0
        """How long whoever slept last wanted to."""
        self._timers: list[asyncio.TimerHandle] = []
        selector = _Selector()
        super().__init__(selector)
        selector.idle = self.stop

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:
        self.slept = delay
        return super().call_later(delay, *args, **kwargs)

    def call_at(self, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:
        self._timers.append(super().call_at(*args, **kwargs))
        return self._timers[-1]

    @property
    def next_timer(self) -> float:
        """When the first of those that wait is woken up."""
        self._timers = [each for each in self._timers if not each.cancelled() and each.when() > self.now]
        return min((each.when() for each in self._timers), default=math.inf)


_opened: list["Script"] = []


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """For each file that plays: whatever a test has left open ends with it."""
    yield
    while _opened:
        _opened.pop().close()


class Script:
    """One call. `step` is what the loop waits for; each method says what happened, and how long it took by the clock
    that the loop is given. Its timers go by the event loop's own time, which passes where time is over."""

    def __init__(
        self,
        params: Any = CALL,
        *,
        method: str = "tools/call",
        options: RoundsOptions | None = None,
        handled: tuple[str, ...] = KINDS,
        timeout: float | None = None,
        total: float | None = None,
    ) -> None:
        self.now = STARTED
        self.legs: list[SendLeg] = []
        self.step: Any = None
        self.result: Any = None
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._loop = _Loop()
        _opened.append(self)
        self._call = self._loop.create_task(
            run_rounds(
                self._send,
                dict.fromkeys(handled, self._handle),
                params,
                method,
                options or RoundsOptions(),
                timeout=timeout,
                max_total_timeout=total,
                progress=self._progress,
                clock=lambda: self.now,
            )
        )
        self._go()

    def done(self, value: Any = None, *, after: float = 0.0) -> None:
        """The step was done: a leg by a result, handlers by their answers."""
        self.now += after
        if isinstance(self.step, Pause):
            self._loop.now = self._loop.next_timer
        for key, future in self._waiting.items():
            future.set_result(value[key] if isinstance(self.step, Dispatch) else value)
        self._go()

    def times_out(self, *, early: float = 0.0) -> None:
        """The step's time was over. Timers may be a little early."""
        self.now += self.allowed - early
        self._loop.now = self._loop.next_timer
        self._go()

    def fails(self, key: str, error: BaseException) -> None:
        """A handler failed."""
        self._waiting[key].set_exception(error)
        self._go()

    def answers(self, *, after: float = 0.0) -> None:
        """Every handler said yes."""
        self.done({entry.key: self.answer_for(entry) for entry in self.entries}, after=after)

    def answer_for(self, entry: InputContext) -> InputResponse:
        """The answer that `answers` gives."""
        assert entry.method == "elicitation/create"
        return YES

    def round(self, *, after: float = 0.0) -> None:
        """From an announcement to the next leg."""
        assert isinstance(self.step, Announce)
        self.done()
        if isinstance(self.step, Dispatch):
            self.answers(after=after)
        else:
            assert isinstance(self.step, Pause)
            self.done(after=self.step.seconds)

    def close(self) -> None:
        """Whatever waits is let go."""
        if not self._call.done():
            self._call.cancel()
            self._loop.run_forever()
            self._loop.close()

    @property
    def allowed(self) -> float:
        """How long the step may take."""
        return self._loop.next_timer - self._loop.now

    @property
    def entries(self) -> tuple[InputContext, ...]:
        assert isinstance(self.step, Dispatch)
        return self.step.entries

    @property
    def leg(self) -> dict[str, Any]:
        """The params of the leg that is to be sent."""
        assert isinstance(self.step, SendLeg)
        return self.step.params

    async def _send(self, params: Any, options: LegOptions) -> Any:
        self.step = SendLeg(params, options)
        self.legs.append(self.step)
        return await self._wait("")

    async def _progress(self, number: float, total: float | None, message: str | None) -> None:
        assert total is None
        assert message is not None
        self.step = Announce(number, message)
        await self._wait("")

    async def _handle(self, context: InputContext, params: object) -> Any:
        assert params is context.params
        self.step = Dispatch((*(self.step.entries if isinstance(self.step, Dispatch) else ()), context))
        return await self._wait(context.key)

    def _wait(self, key: str) -> asyncio.Future[Any]:
        self._waiting[key] = self._loop.create_future()
        return self._waiting[key]

    def _go(self) -> None:
        self.step, self._waiting = None, {}
        self._loop.run_forever()
        if self._call.done():
            self._loop.close()
            self.result = self._call.result()
        elif self.step is None:
            self.step = Pause(self._loop.slept)
        elif isinstance(self.step, SendLeg):
            assert self.step.options.timeout == pytest.approx(self.allowed)
