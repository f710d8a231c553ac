"""The open requests between clients and one child, and the verdict on each line of the child. I/O: timers, the log.

A line is judged by `Expected.event`. An invalid line is never forwarded, unless it is only observed:

- [fails-request] if it answers a request, wholly or in part, that request fails with the reason. The id is searched
  even in a line that is no valid frame. An id in another type ("1" for 1) counts if it can mean only one request;
- [long-line] some lines can't be searched for the id: they are too long to be read, or are invalid, long, and have too
  many arrays and objects. Such a line belongs to the request whose id its ends show. If they show none, it belongs to
  all open requests, as it could answer any. If it does not begin as a message, it belongs to the only open request, if
  there is just one. A server's request of that length is answered with the reason;
- [late] the answer to a request that was abandoned is dropped in silence;
- [nameless] an error without an id answers the only open request, unless it may be about a notification or a response.
  It may be about one that was sent since the last request that the child has answered, and for which no such error has
  come yet;
- [other] anything else is dropped and counted: many servers print to their stdout.
"""

import asyncio
import codecs
import json
import re
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from accredit.base.caching import RecentlyUsed
from accredit.base.log_events import Pace
from accredit.errors import AnswerError, FrameError, LineTooLong, MessageId, RequestError
from accredit.gateway.counters import Counters
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.trace import set_current
from accredit.gateway.turns import in_turns
from accredit.gateway.upstream.stdio.calls import (
    Answered,
    Call,
    Deadline,
    Failed,
    Notified,
    UnexpectedAnswer,
    Unread,
    Verdict,
)
from accredit.jsonrpc.brackets import check_brackets
from accredit.jsonrpc.encode import INVALID_REQUEST, UPSTREAM_ERROR, to_json
from accredit.jsonrpc.ends import line_too_long
from accredit.jsonrpc.frames import Failure, Frame, Notification, Request, Success, message_id
from accredit.jsonrpc.methods import META_PROGRESS, Era
from accredit.jsonrpc.objects import members, split_batch
from accredit.jsonrpc.responses import Expected
from accredit.limits import LINE_END_BYTES, LONG_ANSWER_BYTES, MAX_OPEN_REQUESTS, SHORT_MESSAGE_BYTES

MAX_ENVELOPE_BYTES = 65_536
"""In how many bytes of an invalid line the id that it answers is searched, by a slow and lenient reader."""
REFUSED_LINES_PER_SECOND = 10
"""How many refused lines of a child's stdout are logged per second. All are counted."""


LATE = "the upstream did not answer in time"
CANCELLED = "notifications/cancelled"
_lenient = json.JSONDecoder()
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,15}")

_C = TypeVar("_C", bound=Call)


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
        return Unread(request.id, error).answer

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
            return self._refuse(await _searchable(line), AnswerError(error.detail, bound=error.bound))
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
        set_current(calls[0].request if calls else None)
        logged = bool(calls) or self._pace.admits(asyncio.get_running_loop().time())
        self._counters.refused(error, method=method, observed=observed, logged=logged)
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
        return Unread(line.id, error)


def cancellation(id: MessageId, reason: str) -> bytes:
    """Return the notification that cancels a request."""
    return to_json({"jsonrpc": "2.0", "method": CANCELLED, "params": {"requestId": id, "reason": reason}})


def progress_token(request: Request) -> MessageId | None:
    """Return a request's progress token, or None."""
    raw = request.in_meta(META_PROGRESS)
    try:
        return message_id(raw) if raw is not None else None
    except FrameError:
        return None


def member_id(notification: Notification, name: str) -> MessageId | None:
    """Return a member of a notification's params if it has the form of a request's id."""
    try:
        raw = notification.members.get(name)
        return message_id(raw) if raw is not None else None
    except FrameError:
        return None


async def _searchable(line: bytes | FrameError) -> bytes | FrameError:
    """Return an invalid line, or only the ids in its ends if it is long, with too many arrays and objects to search."""
    if not isinstance(line, bytes) or len(line) <= LONG_ANSWER_BYTES:
        return line
    try:
        await in_turns(check_brackets(line, "a line"))
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
