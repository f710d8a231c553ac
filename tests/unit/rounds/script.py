"""Plays the world for the driver: says what became of each step, with a made-up clock."""

from typing import Any

from mcp_types import ElicitResult, InputRequiredResult, InputResponse

from accredit.rounds import RoundsOptions, drive, elicit, input_required
from accredit.rounds.driver import Announce, Dispatch, Done, Failed, InputContext, Pause, SendLeg, TimedOut

FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
YES = ElicitResult(action="accept", content={"sure": True})
CALL: dict[str, Any] = {"name": "deploy", "arguments": {"env": "prod"}}
KINDS = ("elicitation/create", "sampling/createMessage", "roots/list")
STARTED = 1_000.0


def asks(*keys: str, state: str | None = None) -> InputRequiredResult:
    """A result that asks for a form by each key."""
    return input_required(input_requests={key: elicit("Sure?", FORM) for key in keys}, request_state=state)


class Script:
    """One call. `step` is what the driver wants done; each method says what happened, and how long it took."""

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
        self.legs: list[SendLeg[Any]] = []
        self.result: Any = None
        self._machine = drive(
            method,
            params,
            options or RoundsOptions(),
            handled=handled,
            timeout=timeout,
            max_total_timeout=total,
            now=self.now,
        )
        self.step: Any = None
        self._go(None)

    def done(self, value: object = None, *, after: float = 0.0) -> None:
        """The step was done."""
        self.now += after
        self._go(Done(self.now, value))

    def times_out(self, *, early: float = 0.0) -> None:
        """The step's time was over. Timers may be a little early."""
        self.now += self.allowed - early
        self._go(TimedOut(self.now))

    def fails(self, key: str, error: BaseException | None = None) -> None:
        """A handler failed."""
        (entry,) = [entry for entry in self.entries if entry.key == key]
        self._go(Failed(self.now, entry, error))

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

    @property
    def allowed(self) -> float:
        """How long the step may take."""
        return self.step.options.timeout if isinstance(self.step, SendLeg) else self.step.timeout

    @property
    def entries(self) -> tuple[InputContext, ...]:
        assert isinstance(self.step, Dispatch)
        return self.step.entries

    @property
    def leg(self) -> dict[str, Any]:
        """The params of the leg that is to be sent."""
        assert isinstance(self.step, SendLeg)
        return self.step.params

    def _go(self, outcome: Done | TimedOut | Failed | None) -> None:
        try:
            self.step = next(self._machine) if outcome is None else self._machine.send(outcome)
        except StopIteration as stop:
            self.step, self.result = None, stop.value
        if isinstance(self.step, SendLeg):
            self.legs.append(self.step)
