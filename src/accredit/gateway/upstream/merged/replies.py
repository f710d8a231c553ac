"""The `Reply` objects for one server's answers, on behalf of a client of several servers. Also maps that server's event
streams. No I/O of its own.

- [headers] Only an answer's transport headers are forwarded: no server's cookie or session. A server's 401 concerns the
  gateway, as a client has no credentials for that server.
- [observed] Even where invalid answers are only observed, an answer that can't be read, or is to another request, is
  refused: a client could take it for another server's.
- [captured] The answer to a message that goes to several servers is kept and read here. It has `LONG_ANSWER_BYTES` at
  most, as it is read in one step.

Of an event of a server's stream:

- [answers] An answer's text stays: it was mapped where it was judged (`messages.result_edit`). On a resumed stream,
  only answers to the stream's own request pass. Other messages are mapped, or dropped. A server's request is dropped
  too, and never answered, if its id can't be mapped without collision.
- [event-ids] The id becomes one of the merged endpoint, or is left out if that would be too long.
- [dropped] Notifications that `hears` refuses (others' tasks) are dropped. So are those that name another subscription
  than the stream's.
- [shared-stream] On a stream shared by several servers, neither answers nor comments of a server pass: an answer does
  not end the stream, and comments are the gateway's own.
"""

import contextlib
import logging
from collections.abc import Awaitable, Callable

from msgspec import Raw

from accredit.base.log_events import log_event
from accredit.errors import AnswerError, FrameError, MessageId, UpstreamRefuses
from accredit.gateway.counters import Counters
from accredit.gateway.headers import JSON, SESSION_HEADER, RawHeaders, RequestHead
from accredit.gateway.recording.open_calls import OpenCalls
from accredit.gateway.replies import refusal, session_not_found
from accredit.gateway.turns import next_turn, turn
from accredit.gateway.upstream.merged.messages import ToClientMapper
from accredit.gateway.upstream.reply import Reply
from accredit.jsonrpc.encode import METHOD_NOT_FOUND
from accredit.jsonrpc.frames import (
    MESSAGE,
    Failure,
    Notification,
    Request,
    Success,
    decode_error,
    decode_frame,
    frame_of,
)
from accredit.jsonrpc.methods import META_SUBSCRIPTION
from accredit.jsonrpc.objects import may_hold, message_id, unambiguous_members
from accredit.jsonrpc.sse import Event, SseParser, encode_event, pieces
from accredit.jsonrpc.text import check_structures
from accredit.limits import LONG_ANSWER_BYTES, SHORT_MESSAGE_BYTES

_COMES_BACK = frozenset({b"cache-control", b"content-encoding", b"content-type", b"retry-after", b"x-accel-buffering"})
_ID_LINE = (b"id:", b"id\r", b"id\n")
_log = logging.getLogger("accredit.gateway.merged")

Hears = Callable[[Notification], Notification | None]


class InnerReply:
    """The common base of the two kinds of `Reply` for one server. It has the client's authority, but a request head for
    this server."""

    def __init__(self, reply: Reply, head: RequestHead) -> None:
        self._reply = reply
        self.head = head
        self.speaker = reply.speaker
        self.carried = reply.carried
        self.calls = OpenCalls()
        self.hears: Callable[[Notification], Notification | None] | None = None
        self.started = False
        self.resumable = False
        self.replica = head.replica

    @property
    def peer(self) -> str:
        """The address of the client."""
        return self._reply.peer

    @property
    def proved(self) -> bool:
        """Whether the client has authenticated by now."""
        return self._reply.proved

    def negotiated(self, session: bytes, revision: str) -> None:
        """Do nothing: a server's session is not the client's."""

    async def end(self) -> None:
        """Do nothing: the pieces were taken."""

    def watch(self, on_gone: Callable[[], None] | None) -> None:
        """Do nothing: the calling code watches the client."""


class MemberReply(InnerReply):
    """The reply for a message that goes to one server only. It forwards the server's answer to the client ([headers]
    and [observed]).

    `mapped`, if given, maps the bytes of an event stream for the client. `failed`, if set, maps the body of a whole
    answer that may be an error. `answers`, if set, is the id of the request that a whole answer must be about
    ([observed]). `renewable` says that a new session can be started if the server does not know this one.
    """

    def __init__(
        self, reply: Reply, head: RequestHead, mapped: Callable[[bytes], Awaitable[bytes]] | None = None
    ) -> None:
        super().__init__(reply, head)
        self._mapped = mapped
        self.failed: Callable[[bytes], bytes] | None = None
        self.answers: MessageId | None = None
        self.renewable = False
        self.calls = reply.calls
        self.hears = reply.hears
        self.started = reply.started

    async def reply(self, status: int, body: bytes = b"", headers: RawHeaders | None = None) -> None:
        """Send a whole answer. Raises `UpstreamRefuses` for a 401 ([headers]), `AnswerError` if it is unreadable or to
        another request ([observed]), and `RequestError` (404) for a lost session that is renewable."""
        if status == 401:
            raise UpstreamRefuses
        if status == 404 and self.renewable and await _may_be_of_session(body):
            raise session_not_found()
        if self.answers is not None and body:
            try:
                await self._check(status, body, self.answers)
            except AnswerError as error:
                if status < 400:
                    raise
                body, headers = refusal(error).frame(), [JSON]
        self.started = True
        if self.failed is not None:
            body = self.failed(body)
        await self._reply.reply(status, body, _coming_back(headers or []))

    async def _check(self, status: int, body: bytes, asked: MessageId) -> None:
        try:
            await turn(len(body))
            frame = decode_frame(body) if status < 400 else decode_error(body)
        except FrameError as error:
            raise AnswerError(error.detail, bound=error.bound) from None
        if not isinstance(frame, Success | Failure) or frame.id not in ((asked,) if status < 400 else (asked, None)):
            raise AnswerError("an answer to what another server may have been asked")

    async def start(self, status: int, headers: RawHeaders) -> None:
        """Send the head of a stream."""
        self.started = True
        await self._reply.start(status, _coming_back(headers))

    async def write(self, chunk: bytes) -> None:
        """Send a piece. Raises `ClientGone`."""
        if self._mapped is not None:
            chunk = await self._mapped(chunk)
        if chunk:
            await self._reply.write(chunk)

    async def end(self) -> None:
        """End an answer started with `start`."""
        await self._reply.end()

    def watch(self, on_gone: Callable[[], None] | None) -> None:
        """Call `on_gone` when the client disconnects from now on; None ends that."""
        self._reply.watch(on_gone)


class CapturedReply(InnerReply):
    """The reply for one of several servers that get the same message. It keeps the server's answer, to be read here
    ([captured]).

    `status` is the answer's status, 0 before there is one. `session` is the session id in an answer to `initialize`.
    """

    def __init__(self, reply: Reply, head: RequestHead, max_bytes: int = LONG_ANSWER_BYTES) -> None:
        """`reply` is the client's; the answer may have `max_bytes`, which are read in one step."""
        super().__init__(reply, head)
        self._max_bytes = max_bytes
        self._parser: SseParser | None = None
        self._texts: list[bytes] = []
        self._size = 0
        self.status = 0
        self.session = b""

    def negotiated(self, session: bytes, revision: str) -> None:
        """Note that the answer begins a session."""
        self.session = session

    async def reply(self, status: int, body: bytes = b"", headers: RawHeaders | None = None) -> None:
        """Keep a whole answer."""
        self._begin(status, headers or [])
        if body:
            self._take(body)

    async def start(self, status: int, headers: RawHeaders) -> None:
        """Keep the head of a stream."""
        self._begin(status, headers)
        self._parser = SseParser(self._max_bytes)

    async def write(self, chunk: bytes) -> None:
        """Keep the events in a piece of a stream."""
        if self._parser is not None:
            for piece in pieces(chunk):
                for event in self._parser.feed(piece):
                    if event.data:
                        self._take(event.data)

    def response(self, id: MessageId) -> Success | Failure | None:
        """Return the response to the request with this id, or None."""
        for text in self._texts:
            try:
                frame = decode_frame(text) if self.status < 400 else decode_error(text)
            except FrameError:
                continue
            if isinstance(frame, Success | Failure) and frame.id in (id, None):
                return frame
        return None

    def _begin(self, status: int, headers: RawHeaders) -> None:
        self.started, self.status = True, status
        self.session = next((value for name, value in headers if name == SESSION_HEADER), self.session)

    def _take(self, text: bytes) -> None:
        self._size += len(text)
        if self._size > self._max_bytes:
            raise AnswerError(f"the answer is larger than {self._max_bytes} bytes", bound=True)
        self._texts.append(text)


class EventMapper:
    """Maps the bytes of a server's stream to bytes for the client. `id_outside` maps an event's id.

    `subscription` is the id of the request that opened the stream, if that is a subscription. `may_answer` returns
    whether the stream may answer the request with an id. On a shared stream, `answered` gets the text of each answer
    ([shared-stream]). `seen` gets each notification for the client, and returns whether it passes.
    """

    def __init__(
        self,
        outward: ToClientMapper,
        id_outside: Callable[[bytes], bytes | None],
        *,
        max_event_bytes: int,
        counters: Counters,
        hears: Hears | None = None,
        subscription: MessageId | None = None,
        may_answer: Callable[[MessageId], bool] | None = None,
        answered: Callable[[bytes], None] | None = None,
        seen: Callable[[Notification], bool] | None = None,
    ) -> None:
        self._outward = outward
        self._id_outside = id_outside
        self._parser = SseParser(max_event_bytes)
        self._counters = counters
        self._hears = hears
        self._subscription = subscription
        self._may_answer = may_answer
        self._answered = answered
        self._seen = seen

    async def feed(self, chunk: bytes) -> bytes:
        """Map a stream's next bytes, in turns if they are many. Raises `AnswerError` if a bound is exceeded."""
        if len(chunk) <= SHORT_MESSAGE_BYTES:
            return b"".join(map(self._mapped, self._parser.feed(chunk)))
        mapped: list[bytes] = []
        for piece in pieces(chunk):
            await next_turn()
            mapped += map(self._mapped, self._parser.feed(piece))
        return b"".join(mapped)

    def _mapped(self, event: Event) -> bytes:
        if not event.data:
            return self._without_data(event)
        found = self._members(event.data)
        if "method" not in found:
            return self._answer(event, event.data)
        try:
            call = frame_of(found, event.data)
            mapped = self._call(call) if isinstance(call, Request | Notification) else None
        except FrameError:
            mapped = None  # an error here would come again whenever the stream is resumed
        if mapped is None:
            self._counters.counts["notifications_dropped"] += 1
            return self._place(event)
        return encode_event(mapped.text, name=event.name, id=self._id(event))

    def _members(self, text: bytes) -> dict[str, Raw]:
        """Return the members of a message that may be a call; none if it is invalid and only observed."""
        try:
            if not may_hold(Raw(text), b"method"):
                return {}
            check_structures(text)
            return unambiguous_members(text, MESSAGE)
        except FrameError:
            return {}

    def _call(self, call: Request | Notification) -> Request | Notification | None:
        if isinstance(call, Request):
            return self._outward.request(call)
        mapped = self._outward.notification(call)
        if mapped is None or self._is_of_another(mapped) or (self._seen is not None and not self._seen(mapped)):
            return None
        return mapped if self._hears is None else self._hears(mapped)

    def _is_of_another(self, notification: Notification) -> bool:
        """Return whether a notification names another subscription than the stream's."""
        named = notification.in_meta(META_SUBSCRIPTION)
        return named is not None and message_id(named) != self._subscription

    def _answer(self, event: Event, text: bytes) -> bytes:
        if self._answered is None:
            return self._with_id(event) if self._is_due(text) else self._place(event)
        self._answered(text)
        return self._place(event)

    def _is_due(self, text: bytes) -> bool:
        if self._may_answer is None:
            return True
        with contextlib.suppress(FrameError):
            response = decode_frame(text)
            if isinstance(response, Success | Failure) and response.id is not None and self._may_answer(response.id):
                return True
        log_event(_log, logging.WARNING, "response_dropped", detail="it answers what another server was asked")
        return False

    def _without_data(self, event: Event) -> bytes:
        """Return a comment, or an event with an id only."""
        if event.id is not None:
            return self._place(event) if self._answered is not None else self._with_id(event)
        return b"" if self._answered is not None else event.raw

    def _with_id(self, event: Event) -> bytes:
        if event.id is None:
            return event.raw
        id = self._id(event)
        lines = event.raw.splitlines(keepends=True)
        bare = b"".join([line for line in lines if not line.startswith(_ID_LINE)])
        return b"id: %s\n%s" % (id, bare) if id is not None else bare

    def _place(self, event: Event) -> bytes:
        """Return an event that only marks the stream's position."""
        id = self._id(event)
        return b"id: %s\n\n" % id if id is not None else b""

    def _id(self, event: Event) -> bytes | None:
        return self._id_outside(event.id) if event.id else None


def _coming_back(headers: RawHeaders) -> RawHeaders:
    return [pair for pair in headers if pair[0] in _COMES_BACK]


async def _may_be_of_session(body: bytes) -> bool:
    """Return whether a 404 may mean an unknown session. It does not if it is an error about the method, or a message
    other than an error; such a message passes where answers are only observed."""
    if not body.lstrip().startswith((b"{", b"[")):
        return True
    try:
        await turn(len(body))
        return decode_error(body).code != METHOD_NOT_FOUND
    except FrameError:
        return False
