"""The open requests between clients and one child, and the verdict on each line of the child. I/O: timers, the log.

A line is judged by `Expected.event`. An invalid line is never forwarded, unless it is only observed:

- [fails-request] if it answers a request, wholly or in part, that request fails with the reason. The id is looked for
  even in a line that is not a valid frame. An id in another type ("1" for 1) counts if it can mean only one request;
- [long-line] a line may be too long to be read, or long and invalid with too many arrays and objects. Then the id is
  looked for at the line's two ends only. If it is not there, the line belongs to all open requests, as it could answer
  any. A line that does not even begin as a message belongs to the open request, if there is exactly one. A server's
  request of that length is answered with the reason;
- [late] the answer to a request that was abandoned is dropped in silence;
- [nameless] an error without an id answers the only open request, unless it may be about a notification or a response
  to the child. It may be if one was sent after the last request that the child has answered. One error is allowed for
  each of these;
- [other] anything else is dropped and counted: many servers print to their stdout.
"""

import asyncio
import codecs
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from accredit.attest import Outcome
from accredit.base.caching import RecentlyUsed
from accredit.base.log_events import Pace
from accredit.errors import AccreditError, AnswerError, FrameError, LineTooLong, MessageId, RequestError
from accredit.gateway.counters import Counters
from accredit.gateway.recording.open_calls import OpenCall, outcome_of, outcome_of_end
from accredit.gateway.settings import GatewaySettings, StdioUpstream
from accredit.gateway.turns import in_turns
from accredit.jsonrpc.encode import INVALID_REQUEST, UPSTREAM_ERROR, error_frame
from accredit.jsonrpc.frames import Failure, Frame, Notification, Request, Success, member_id, progress_token
from accredit.jsonrpc.lines import line_too_long
from accredit.jsonrpc.methods import CANCELLED, Era
from accredit.jsonrpc.objects import members, message_id, split_batch
from accredit.jsonrpc.responses import Answers, Edit, Expected
from accredit.jsonrpc.text import check_structures
from accredit.limits import LINE_END_BYTES, MAX_OPEN_REQUESTS, SHORT_MESSAGE_BYTES
from accredit.telemetry.tracing import set_current_message

MAX_ENVELOPE_BYTES = 65_536
"""How many bytes of an invalid line a slow and lenient reader searches for the id that it answers."""
REFUSED_LINES_PER_SECOND = 10
"""How many refused lines of a child's stdout are logged per second. All are counted."""

_lenient = json.JSONDecoder()
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,15}")


class Deadline:
    """Calls `late` once a child has been silent about a request for `seconds`. Time during which `held` is true does
    not count.

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
        """Start the time again, as the child has sent something."""
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


class Call(ABC):
    """A client's request that the child owes an answer. `id` and `token` are the request's id and progress token as the
    child knows them: a `number` of the gateway's own stands for both, if it is given. `told` is how many messages
    without an answer were sent to the child before (`PendingCalls.told`).

    `edit` is for its response. `record` must be settled before the client sees an answer.
    """

    def __init__(self, request: Request, edit: Edit | None = None, number: int | None = None) -> None:
        token = progress_token(request)
        self.request = request
        self.id = request.id if number is None else number
        self.token = token if number is None or token is None else number
        self.told = 0
        self.deadline: Deadline | None = None
        self.edit = edit
        self.record: OpenCall | None = None

    @abstractmethod
    def reply(self, text: bytes) -> None:
        """Send the client this response."""

    @abstractmethod
    def refuse(self, error: AccreditError) -> None:
        """Send the client the error response."""


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
class UnreadableRequest:
    """A child's request that is too long to be read. The child must get `answer`."""

    id: MessageId
    error: AnswerError

    @property
    def answer(self) -> bytes:
        """The error response with the reason."""
        return error_frame(self.id, INVALID_REQUEST, f"Invalid Request: {self.error.detail}")


Verdict = Answered[_C] | Failed[_C] | Notified[_C] | Request | UnexpectedAnswer | UnreadableRequest | None
"""The verdict on a line. A `Request` is a request of the child. None means that the line is dropped."""


class PendingCalls(Generic[_C]):
    """The open requests between clients and one child. `late` gets a call about which the child was silent for too
    long."""

    def __init__(
        self,
        era: Era,
        settings: GatewaySettings,
        counters: Counters,
        late: Callable[[_C], None],
        *,
        max_open: int = MAX_OPEN_REQUESTS,
    ) -> None:
        self._max_open = max_open
        self.settings = settings
        self._counters = counters
        self._late = late
        self._expected = Expected(era)
        self._pace = Pace(REFUSED_LINES_PER_SECOND)
        self._told = 0
        self._tokens: dict[MessageId, _C] = {}
        self._child_requests: set[MessageId] = set()
        self._abandoned = RecentlyUsed[MessageId, bool](self._max_open)
        self.calls: dict[MessageId, _C] = {}

    def expect(self, era: Era) -> None:
        """Set the era by whose rules the child is judged from now on."""
        self._expected.era = era

    def allow_batches(self) -> None:
        """Allow the child to answer with arrays from now on."""
        self._expected.batch = True

    def told(self, messages: int = 1) -> None:
        """Count messages to the child that need no answer: notifications or responses."""
        self._told += messages
        self._expected.told += messages

    def open(self, call: _C) -> None:
        """Add a call. Raises `RequestError` if its id is in use, or too many are open."""
        if call.id in self.calls:
            detail = "Invalid Request: a request with this id is still open"
            raise RequestError(INVALID_REQUEST, detail, id=call.request.id)
        if len(self.calls) >= self._max_open:
            raise RequestError(UPSTREAM_ERROR, "Too many open requests", id=call.request.id, status=503)
        self._abandoned.forget(call.id)
        call.told = self._told
        self.calls[call.id] = call
        self._expected.open[call.id] = call.request
        if call.edit is not None:
            self._expected.edits[call.id] = call.edit
        if call.token is not None:
            self._tokens[call.token] = call
        seconds = self.settings.patience
        call.deadline = Deadline(seconds, lambda: self._late(call), lambda: bool(self._child_requests))

    def close(self, call: _C) -> None:
        """Remove a call that was answered, or needs no answer."""
        if self.calls.pop(call.id, None) is None:
            return
        self._expected.open.pop(call.id, None)
        self._expected.edits.pop(call.id, None)
        if call.token is not None and self._tokens.get(call.token) is call:
            del self._tokens[call.token]
        if call.deadline is not None:
            call.deadline.cancel()
            call.deadline = None  # breaks the reference cycle, which would keep both and the answer until a collection

    def abandon(self, call: _C) -> None:
        """Abandon a call; the child may still answer it."""
        if call.id in self.calls:
            self.close(call)
            self._abandoned.put(call.id, True)

    def cancelled_by(self, notification: Notification) -> _C | None:
        """Return the open call that a notification cancels, or None."""
        id = member_id(notification, "requestId") if notification.method == CANCELLED else None
        return self.calls.get(id) if id is not None else None

    def awaits(self, responses: Collection[Success | Failure]) -> bool:
        """Return whether each of a client's responses answers a request of the child, and no two the same one."""
        ids = {response.id for response in responses}
        return len(ids) == len(responses) and ids <= self._child_requests

    def settles(self, response: Success | Failure) -> bool:
        """Remove the request of the child that a client's response answers; return whether there was one."""
        if response.id is None or response.id not in self._child_requests:
            return False
        self._child_requests.remove(response.id)
        self.told()
        self._touch_all()
        return True

    def refusal(self, request: Request, error: AnswerError) -> bytes:
        """Remove a request of the child that is refused with this error. Return the response for the child."""
        self._child_requests.discard(request.id)
        self.told()
        return UnreadableRequest(request.id, error).answer

    def unanswered(self, line: LineTooLong) -> list[MessageId]:
        """Remove and return the requests of the child that an unreadable line of the client may have answered."""
        if line.kind == "call" or not line.is_message:
            return []
        lost = [id for id in self._child_requests if line.id in (None, id)]
        self._child_requests.difference_update(lost)
        self.told(len(lost))
        self._touch_all()
        return lost

    def _touch_all(self) -> None:
        for call in self.calls.values():
            if call.deadline is not None:
                call.deadline.touch()

    async def judge(self, line: bytes | FrameError) -> Verdict[_C]:
        """Return the verdict on a line of the child, and close the calls that it answers. Long lines take turns."""
        try:
            if isinstance(line, FrameError):
                raise line
            if len(line) <= SHORT_MESSAGE_BYTES:
                text, frame = self._expected.event(line)
            else:
                text, frame = await in_turns(self._expected.judging(line))
            if isinstance(frame, Request):
                self._ask(frame)
        except FrameError as error:
            return self._refuse(_searchable(line), AnswerError(error.detail, bound=error.bound))
        if self._expected.era is Era.LEGACY:
            self._touch_all()  # with one client, any line shows that the child is at work
        match frame:
            case Request():
                return frame
            case Notification():
                self._counters.notified(frame.method)
                return Notified(frame, self._subject(frame))
            case _:
                return Answered(self._taken(frame), text, frame, self._expected.take_answers())

    def _ask(self, request: Request) -> None:
        if request.id in self._child_requests:
            raise FrameError("a request from the upstream with the id of another that is open")
        if len(self._child_requests) >= MAX_OPEN_REQUESTS:
            raise FrameError("too many open requests from the upstream", bound=True)
        self._child_requests.add(request.id)

    def _subject(self, notification: Notification) -> _C | None:
        if notification.method == CANCELLED:
            id = member_id(notification, "requestId")
            if id is not None:
                self._child_requests.discard(id)
        if notification.method != "notifications/progress":
            return None
        token = member_id(notification, "progressToken")
        call = self._tokens.get(token) if token is not None else None
        if call is not None and call.deadline is not None:
            call.deadline.touch()
        return call

    def _taken(self, frame: Frame | None) -> list[_C]:
        """Close and return the calls that `Expected` has just marked as answered."""
        if isinstance(frame, Success | Failure) and frame.id is not None:
            taken = [self.calls[frame.id]]
        else:
            taken = [call for id, call in self.calls.items() if id not in self._expected.open]
        for call in taken:
            self._expected.told = min(self._expected.told, self._told - call.told)
            self.close(call)
        return taken

    def _refuse(self, line: bytes | FrameError, error: AnswerError) -> Verdict[_C]:
        if isinstance(line, LineTooLong) and line.kind == "call":
            return self._unread(line, error)
        named = answered_ids(line) if isinstance(line, bytes) else []
        ids = self._ids(line, named)
        if ids != named and named:
            error = AnswerError("the id is of another type than the request's")
        if len(ids) == 1 and ids[0] in self._abandoned:
            self._abandoned.forget(ids[0])
            return None
        calls = [self.calls[id] for id in ids if id in self.calls] if ids else self._possible(line, error)
        for call in calls:
            self.close(call)
            call.request.failed(error)
        observed = isinstance(line, bytes) and not self.settings.enforce and not error.bound
        method = calls[0].request.method if calls else None
        set_current_message(calls[0].request if calls else None)
        logged = bool(calls) or self._pace.admits(asyncio.get_running_loop().time())
        self._counters.refused(error, method=method, observed=observed, logged=logged)
        upstream = self.settings.upstream
        if isinstance(upstream, StdioUpstream) and upstream.on_stray_line and isinstance(line, bytes) and not calls:
            upstream.on_stray_line(line)
        if isinstance(line, bytes) and observed:
            return Answered(calls, line, observed=error) if calls else UnexpectedAnswer(line)
        return Failed(calls, error) if calls else None

    def _ids(self, line: bytes | FrameError, named: list[MessageId]) -> list[MessageId]:
        """Return the ids of the requests that an invalid line answers, as far as they can be read."""
        if isinstance(line, LineTooLong) and line.id is not None:
            return [line.id]
        return list(dict.fromkeys(map(self._respelled, named)))

    def _respelled(self, id: MessageId) -> MessageId:
        """Return the id of the open request that this id spells in another type ("1" for 1), else the id itself."""
        if id in self.calls or id in self._abandoned:
            return id
        other: MessageId = str(id) if isinstance(id, int) else int(id) if _INTEGER.fullmatch(id) else id
        return other if other in self.calls or other in self._abandoned else id

    def _possible(self, line: bytes | FrameError, error: AnswerError) -> list[_C]:
        """Return the calls that a line without a readable id may answer ([long-line])."""
        if isinstance(line, LineTooLong) and line.is_message:
            return list(self.calls.values())
        too_long = error.bound or (isinstance(line, bytes) and len(line) > MAX_ENVELOPE_BYTES)
        return list(self.calls.values()) if too_long and len(self.calls) == 1 else []

    def _unread(self, line: LineTooLong, error: AnswerError) -> Verdict[_C]:
        """Refuse a child's request or notification that is too long."""
        self._counters.refused(error, logged=self._pace.admits(asyncio.get_running_loop().time()))
        if line.id is None or line.id in self._child_requests:
            return None
        self.told()
        return UnreadableRequest(line.id, error)


def _searchable(line: bytes | FrameError) -> bytes | FrameError:
    """Return an invalid line, or only the ids in its ends if it has too many arrays and objects to search."""
    if not isinstance(line, bytes):
        return line
    try:
        check_structures(line)
    except FrameError as error:
        return line_too_long(error.detail, line[:LINE_END_BYTES], line[-LINE_END_BYTES:])
    return line


def answered_ids(line: bytes) -> list[MessageId]:
    """Return the ids in what looks like a response, valid or not, or like a batch of them."""
    line = line.removeprefix(codecs.BOM_UTF8)
    try:
        parts = split_batch(line) if line.startswith(b"[") else [line]
    except FrameError:
        return []
    return list(dict.fromkeys(id for part in parts if (id := _answered_id(part)) is not None))


def _answered_id(text: bytes) -> MessageId | None:
    try:
        found = members(text)
        return message_id(found["id"]) if "id" in found and "method" not in found else None
    except FrameError:
        pass
    if len(text) > MAX_ENVELOPE_BYTES:
        return None
    try:
        value: object = _lenient.raw_decode(text.decode("utf-8", "replace"))[0]
    except (ValueError, RecursionError):
        return None
    found = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    id = found.get("id") if "method" not in found else None
    if isinstance(id, float) and id.is_integer():
        return int(id)  # some servers write 1.0 for 1
    return id if isinstance(id, str | int) and not isinstance(id, bool) else None
