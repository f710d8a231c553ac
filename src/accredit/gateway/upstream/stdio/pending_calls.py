"""Who is owed what between clients and one child, and the judgement of each line that the child writes. No I/O
but timers and the log.

A line is judged by `Expected.event`. What is not valid is never forwarded, unless it is only observed:

1. where it answers a request, wholly or in part, that request fails with the reason; its id is looked for also in
   a line that is no valid frame, and taken for that of the one request whose id it spells in another type ("1" for 1);
2. a line too long to be read belongs to the request whose id its ends tell, or, where they tell none, to each of those
   that are open: it could be the answer to any. One that begins as no message belongs to the one request that is open,
   if there is one: what else could be so long. A request of the server's that is so long is answered with the reason;
3. the answer to a request that was given up before is dropped in silence;
4. anything else is dropped and counted (a server that prints to its stdout is common, and harms nobody so).
"""

import asyncio
import codecs
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from accredit.attest import Outcome
from accredit.base.caching import RecentlyUsed
from accredit.errors import AnswerError, FrameError, LineTooLong, MessageId, RequestError
from accredit.gateway.counters import Counters
from accredit.gateway.recording.open_calls import OpenCall, outcome_of, outcome_of_end
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.trace import set_current
from accredit.gateway.turns import opened
from accredit.gateway.upstream.stdio.deadline import Deadline
from accredit.gateway.upstream.stdio.pace import Pace
from accredit.jsonrpc.encode import INVALID_REQUEST, UPSTREAM_ERROR, error_frame, to_json
from accredit.jsonrpc.frames import Failure, Frame, Notification, Opened, Request, Success, message_id
from accredit.jsonrpc.methods import META_PROGRESS, Era
from accredit.jsonrpc.objects import members, split_batch
from accredit.jsonrpc.responses import Answers, Edit, Expected
from accredit.limits import MAX_ENVELOPE_BYTES, MAX_OPEN_REQUESTS, REFUSED_LINES_PER_SECOND

LATE = "the upstream did not answer in time"
_lenient = json.JSONDecoder()
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,15}")


class Call:
    """A client's request that the child owes an answer. `id` and `token` are what the child knows it by.

    `edit` is what becomes of its response; `record` is to be settled before its client sees an answer.
    """

    def __init__(self, request: Request, id: MessageId, token: MessageId | None) -> None:
        self.request = request
        self.id = id
        self.token = token
        self.deadline: Deadline | None = None
        self.edit: Edit | None = None
        self.record: OpenCall | None = None


class OwnCall(Call):
    """A request of the gateway's own. `answer` is the response's text, or None where there is none."""

    def __init__(self, request: Request) -> None:
        super().__init__(request, request.id, None)
        self.answer: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

    def settle(self, text: bytes | None) -> None:
        """Ends the wait for it, if anybody still waits."""
        if not self.answer.done():
            self.answer.set_result(text)


C = TypeVar("C", bound=Call)


@dataclass(frozen=True, slots=True)
class Answered(Generic[C]):
    """`text` is the answer to `calls`: to one, or to the members of a batch. `answers` are the responses in it; where
    it is not valid, but only observed, there is none, and `observed` says why."""

    calls: list[C]
    text: bytes
    frame: Frame | None = None
    answers: Answers = field(default_factory=lambda: Answers([]))
    observed: AnswerError | None = None

    @property
    def outcome(self) -> Outcome:
        """What came of the one call that is answered."""
        if self.answers.members:
            return outcome_of(self.answers.members[0][0])
        return outcome_of_end(self.observed)


@dataclass(frozen=True, slots=True)
class Failed(Generic[C]):
    """The answer to `calls` was not valid."""

    calls: list[C]
    error: AnswerError


@dataclass(frozen=True, slots=True)
class Notified(Generic[C]):
    """The child sends a notification; `call` is the one whose progress it reports."""

    notification: Notification
    call: C | None


@dataclass(frozen=True, slots=True)
class UnexpectedAnswer:
    """Not valid and nobody's answer, but only observed: forward it as it is."""

    text: bytes


@dataclass(frozen=True, slots=True)
class Unread:
    """A request of the child's that is not read: it is owed an error, which says why."""

    id: MessageId
    error: AnswerError

    @property
    def answer(self) -> bytes:
        """The error."""
        return error_frame(self.id, INVALID_REQUEST, f"Invalid Request: {self.error.detail}")


Verdict = Answered[C] | Failed[C] | Notified[C] | Request | UnexpectedAnswer | Unread | None
"""What a line is; a `Request` is the child's own; None is to be dropped."""


class PendingCalls(Generic[C]):
    """The open calls of one child. `late` is told of a call about which the child was silent for too long."""

    def __init__(
        self,
        era: Era,
        settings: GatewaySettings,
        counters: Counters,
        late: Callable[[C], None],
        *,
        most: int = MAX_OPEN_REQUESTS,
    ) -> None:
        self._most = most
        self._settings = settings
        self._counters = counters
        self._late = late
        self._expected = Expected(era)
        self._pace = Pace(REFUSED_LINES_PER_SECOND)
        self._tokens: dict[MessageId, C] = {}
        self._asked: set[MessageId] = set()
        self._given_up = RecentlyUsed[MessageId, bool](self._most)
        self.calls: dict[MessageId, C] = {}

    def expect(self, era: Era) -> None:
        """Says by which era's rules the child is judged from now on."""
        self._expected.era = era

    def allow_batches(self) -> None:
        """From now on the child may answer with arrays."""
        self._expected.batch = True

    def open(self, call: C) -> None:
        """Adds a call. Raises `RequestError` when its id is in use, or too many are open."""
        if call.id in self.calls:
            detail = "Invalid Request: a request with this id is still open"
            raise RequestError(INVALID_REQUEST, detail, id=call.request.id)
        if len(self.calls) >= self._most:
            raise RequestError(UPSTREAM_ERROR, "Too many open requests", id=call.request.id, status=503)
        self._given_up.forget(call.id)
        self.calls[call.id] = call
        self._expected.open[call.id] = call.request
        if call.edit is not None:
            self._expected.edits[call.id] = call.edit
        if call.token is not None:
            self._tokens[call.token] = call
        seconds = self._settings.patience
        call.deadline = Deadline(seconds, lambda: self._late(call), lambda: bool(self._asked))

    def close(self, call: C) -> None:
        """Removes a call that has had its answer, or needs none."""
        if self.calls.pop(call.id, None) is None:
            return
        self._expected.open.pop(call.id, None)
        self._expected.edits.pop(call.id, None)
        if call.token is not None and self._tokens.get(call.token) is call:
            del self._tokens[call.token]
        if call.deadline is not None:
            call.deadline.cancel()

    def give_up(self, call: C) -> None:
        """Removes a call whose answer nobody waits for any more; the child may still send one."""
        if call.id in self.calls:
            self.close(call)
            self._given_up.put(call.id, True)

    def settles(self, response: Success | Failure) -> bool:
        """Whether a client's response answers a request of the child; it is answered then."""
        if response.id is None or response.id not in self._asked:
            return False
        self._asked.remove(response.id)
        self._heard()
        return True

    def unanswered(self, line: LineTooLong) -> list[MessageId]:
        """Which requests of the child a client's line that can't be read may answer: they get no other answer."""
        if line.kind == "call" or not line.is_message:
            return []
        asked = [id for id in self._asked if line.id in (None, id)]
        self._asked.difference_update(asked)
        self._heard()
        return asked

    def _heard(self) -> None:
        for call in self.calls.values():
            if call.deadline is not None:
                call.deadline.touch()

    async def opened(self, line: bytes | FrameError) -> Opened | None:
        """Opens a line, if it is a long one, for `judge`: meanwhile others are served."""
        return await opened(line, self._expected.era) if isinstance(line, bytes) else None

    def judge(self, line: bytes | FrameError, long: Opened | None = None) -> Verdict[C]:
        """Says what a line of the child is. Whatever it answers is closed."""
        try:
            if isinstance(line, FrameError):
                raise line
            text, frame = self._expected.event(line, long)
            if isinstance(frame, Request):
                self._ask(frame)
        except FrameError as error:
            return self._refuse(line, AnswerError(error.detail, bound=error.bound))
        if self._expected.era is Era.LEGACY:
            self._heard()  # it is one client's, and has not said which call this is about
        match frame:
            case Request():
                return frame
            case Notification():
                return Notified(frame, self._subject(frame))
            case _:
                return Answered(self._taken(frame), text, frame, self._expected.answers)

    def _ask(self, request: Request) -> None:
        if request.id in self._asked:
            raise FrameError("a request from the upstream with the id of another that is open")
        if len(self._asked) >= MAX_OPEN_REQUESTS:
            raise FrameError("too many open requests from the upstream", bound=True)
        self._asked.add(request.id)

    def _subject(self, notification: Notification) -> C | None:
        if notification.method == "notifications/cancelled":
            id = member_id(notification, "requestId")
            if id is not None:
                self._asked.discard(id)
        if notification.method != "notifications/progress":
            return None
        token = member_id(notification, "progressToken")
        call = self._tokens.get(token) if token is not None else None
        if call is not None and call.deadline is not None:
            call.deadline.touch()
        return call

    def _taken(self, frame: Frame | None) -> list[C]:
        """Closes and gives the calls that `Expected` has just taken for answered."""
        if isinstance(frame, Success | Failure) and frame.id is not None:
            taken = [self.calls[frame.id]]
        else:
            taken = [call for id, call in self.calls.items() if id not in self._expected.open]
        for call in taken:
            self.close(call)
        return taken

    def _refuse(self, line: bytes | FrameError, error: AnswerError) -> Verdict[C]:
        if isinstance(line, LineTooLong) and line.kind == "call":
            return self._unread(line, error)
        said = answered_ids(line) if isinstance(line, bytes) else []
        ids = self._ids(line, said)
        if ids != said and said:
            error = AnswerError("the id is of another type than the request's")
        if len(ids) == 1 and ids[0] in self._given_up:
            self._given_up.forget(ids[0])
            return None
        calls = [self.calls[id] for id in ids if id in self.calls] if ids else self._possible(line, error)
        for call in calls:
            self.close(call)
        observed = isinstance(line, bytes) and not self._settings.enforce and not error.bound
        method = calls[0].request.method if calls else None
        set_current(calls[0].request if calls else None)
        logged = bool(calls) or self._pace.admits(asyncio.get_running_loop().time())
        self._counters.refused(error, method=method, observed=observed, logged=logged)
        if isinstance(line, bytes) and observed:
            return Answered(calls, line, observed=error) if calls else UnexpectedAnswer(line)
        return Failed(calls, error) if calls else None

    def _ids(self, line: bytes | FrameError, said: list[MessageId]) -> list[MessageId]:
        """Which requests a bad line answers, as far as it says."""
        if isinstance(line, LineTooLong) and line.id is not None:
            return [line.id]
        return list(dict.fromkeys(map(self._meant, said)))

    def _meant(self, id: MessageId) -> MessageId:
        """The id of the request that an answer's id spells in another type, if it is that of none."""
        if id in self.calls or id in self._given_up:
            return id
        other: MessageId = str(id) if isinstance(id, int) else int(id) if _INTEGER.fullmatch(id) else id
        return other if other in self.calls or other in self._given_up else id

    def _possible(self, line: bytes | FrameError, error: AnswerError) -> list[C]:
        """Rule 2, for a line that tells no id."""
        if isinstance(line, LineTooLong) and line.is_message:
            return list(self.calls.values())
        too_long = error.bound or (isinstance(line, bytes) and len(line) > MAX_ENVELOPE_BYTES)
        return list(self.calls.values()) if too_long and len(self.calls) == 1 else []

    def _unread(self, line: LineTooLong, error: AnswerError) -> Verdict[C]:
        """A request or a notification of the child's that is too long."""
        self._counters.refused(error, logged=self._pace.admits(asyncio.get_running_loop().time()))
        return Unread(line.id, error) if line.id is not None and line.id not in self._asked else None


def cancellation(id: MessageId, reason: str) -> bytes:
    """The notification that a request's answer is not waited for any more."""
    return to_json(
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": reason}}
    )


def progress_token(request: Request) -> MessageId | None:
    """The token that a request asks to be told its progress by, if it does."""
    raw = request.in_meta(META_PROGRESS)
    try:
        return message_id(raw) if raw is not None else None
    except FrameError:
        return None


def member_id(notification: Notification, name: str) -> MessageId | None:
    """The member of a notification's params that names a request, where it has the form of an id."""
    try:
        raw = notification.members.get(name)
        return message_id(raw) if raw is not None else None
    except FrameError:
        return None


def answered_ids(line: bytes) -> list[MessageId]:
    """The ids in what looks like a response, or a batch of them, be it valid or not, where they can be read."""
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
        return int(id)  # 1.0 for 1
    return id if isinstance(id, str | int) and not isinstance(id, bool) else None
