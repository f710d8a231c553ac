"""A client's open request at a child, and the verdicts that `PendingCalls.judge` gives on a child's lines. I/O: a
timer."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from accredit.attest import Outcome
from accredit.errors import AnswerError, MessageId
from accredit.gateway.recording.open_calls import OpenCall, outcome_of, outcome_of_end
from accredit.jsonrpc.encode import INVALID_REQUEST, error_frame
from accredit.jsonrpc.frames import Frame, Notification, Request
from accredit.jsonrpc.responses import Answers, Edit


class Deadline:
    """Calls `late` once a child was silent about a request for `seconds`. Time in which `held` is true does not count.

    `touch` only reads the clock. If the timer then goes off too early, it is set again.
    """

    __slots__ = ("_heard", "_held", "_late", "_loop", "_seconds", "_timer")

    def __init__(self, seconds: float, late: Callable[[], None], held: Callable[[], bool]) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._late = late
        self._held = held
        self._heard = self._loop.time()
        self._timer = self._loop.call_later(seconds, self._ring)

    def touch(self) -> None:
        """Start the time again, as something came from the child."""
        self._heard = self._loop.time()

    def cancel(self) -> None:
        """Stop the timer."""
        self._timer.cancel()

    def _ring(self) -> None:
        if self._held():
            self.touch()
        left = self._heard + self._seconds - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._ring)
        else:
            self._late()


class Call:
    """A client's request that the child owes an answer. `id` and `token` are the request's id and progress token as the
    child knows them. `told` is how many messages without an answer were sent to the child before (`PendingCalls.told`).

    `edit` is for its response. `record` must be settled before the client sees an answer.
    """

    def __init__(self, request: Request, id: MessageId, token: MessageId | None) -> None:
        self.request = request
        self.id = id
        self.token = token
        self.told = 0
        self.deadline: Deadline | None = None
        self.edit: Edit | None = None
        self.record: OpenCall | None = None


class OwnCall(Call):
    """One of the gateway's own requests. `answer` is the response's text, or None."""

    def __init__(self, request: Request) -> None:
        super().__init__(request, request.id, None)
        self.answer: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

    def settle(self, text: bytes | None) -> None:
        """Set the answer, unless the wait is over."""
        if not self.answer.done():
            self.answer.set_result(text)


_C = TypeVar("_C", bound=Call)


@dataclass(frozen=True, slots=True)
class Answered(Generic[_C]):
    """`text` answers `calls`: one call, or the members of a batch. `answers` are the responses in it.

    If an invalid answer is only observed, it has no `answers`, and `observed` says what is wrong with it.
    """

    calls: list[_C]
    text: bytes
    frame: Frame | None = None
    answers: Answers = field(default_factory=lambda: Answers([]))
    observed: AnswerError | None = None

    async def outcome(self) -> Outcome:
        """Return the outcome of a single answered call."""
        if self.answers.members:
            return await outcome_of(self.answers.members[0][0])
        return outcome_of_end(self.observed)


@dataclass(frozen=True, slots=True)
class Failed(Generic[_C]):
    """The answer to `calls` was not valid."""

    calls: list[_C]
    error: AnswerError


@dataclass(frozen=True, slots=True)
class Notified(Generic[_C]):
    """A notification of the child; `call` is the one whose progress it reports, or None."""

    notification: Notification
    call: _C | None


@dataclass(frozen=True, slots=True)
class UnexpectedAnswer:
    """An invalid line that answers no request. It is forwarded unchanged, as invalid lines are only observed here."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Unread:
    """A child's request that is too long to be read. The child must get `answer`."""

    id: MessageId
    error: AnswerError

    @property
    def answer(self) -> bytes:
        """The error response with the reason."""
        return error_frame(self.id, INVALID_REQUEST, f"Invalid Request: {self.error.detail}")


Verdict = Answered[_C] | Failed[_C] | Notified[_C] | Request | UnexpectedAnswer | Unread | None
"""The verdict on a line. A `Request` is a request of the child. None means that the line is dropped."""
