"""The replies into which one server answers, on behalf of the client of several. No own I/O.

- [headers] Of an answer's headers only those that say how it is carried come back, but no server's cookie or session. A
  server's 401 is about the gateway, as a client has no credentials for that server.
- [observed] Even where invalid answers are only observed, one that can't be read, or that answers another request, is
  refused: a client could take it for another server's.
- [captured] The answer to a message that goes to several servers is kept and read here. It has `LONG_ANSWER_BYTES` at
  most, as it is read in one step.
"""

from collections.abc import Awaitable, Callable

from accredit.errors import AnswerError, FrameError, MessageId, RequestError, UpstreamRefuses
from accredit.gateway.headers import JSON, SESSION_HEADER, RawHeaders, RequestHead
from accredit.gateway.recording.open_calls import OpenCalls
from accredit.gateway.replies import refusal
from accredit.gateway.turns import in_turns
from accredit.gateway.upstream.merged.answers import read_frame
from accredit.gateway.upstream.reply import Reply
from accredit.jsonrpc.encode import INVALID_REQUEST, METHOD_NOT_FOUND
from accredit.jsonrpc.frames import (
    Failure,
    Notification,
    Success,
    decode_error,
    decode_error_in_steps,
    decode_frame,
)
from accredit.jsonrpc.sse import SseParser, pieces
from accredit.limits import LONG_ANSWER_BYTES

_COMES_BACK = frozenset({b"cache-control", b"content-encoding", b"content-type", b"retry-after", b"x-accel-buffering"})


class InnerReply:
    """The part of a `Reply` for one server that does not depend on where its answer goes. It has the client's
    authority, and a head of its own."""

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

    def watch(self) -> None:
        """Do nothing: the asking code watches the client."""

    def unwatch(self) -> bool:
        """Return False: no client interrupts this."""
        return False


class MemberReply(InnerReply):
    """The reply for the one server that a client's message goes to. What the server sends, the client gets ([headers]
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
        """Send a whole answer. Raises `UpstreamRefuses` by [headers], `AnswerError` by [observed], and `RequestError`
        (404) for a lost session that is renewable."""
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
            frame = await (read_frame(body) if status < 400 else in_turns(decode_error_in_steps(body)))
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

    def watch(self) -> None:
        """Interrupt the work if the client disconnects from now on."""
        self._reply.watch()

    def unwatch(self) -> bool:
        """Stop watching; return whether the client interrupted the work."""
        return self._reply.unwatch()


class CapturedReply(InnerReply):
    """The reply for one of several servers that get a message. What the server sends is kept, and read here
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


def session_not_found() -> RequestError:
    """Return the refusal of a session that is over."""
    return RequestError(INVALID_REQUEST, "Session not found", status=404, word="session_not_found")


def _coming_back(headers: RawHeaders) -> RawHeaders:
    return [pair for pair in headers if pair[0] in _COMES_BACK]


async def _may_be_of_session(body: bytes) -> bool:
    """Return whether a 404 may mean an unknown session. It does not if it is an error about the method, or a message
    other than an error; such a message passes where answers are only observed."""
    if not body.lstrip().startswith((b"{", b"[")):
        return True
    try:
        return (await in_turns(decode_error_in_steps(body))).code != METHOD_NOT_FOUND
    except FrameError:
        return False
