"""A reply that captures one server's answer to a message that goes to several. The client does not get it as it is. No
I/O."""

from collections.abc import Callable

from accredit.errors import AnswerError, FrameError, MessageId
from accredit.gateway.headers import SESSION_HEADER, RawHeaders, RequestHead
from accredit.gateway.recording.open_calls import OpenCalls
from accredit.gateway.upstream.reply import Reply
from accredit.jsonrpc.frames import Failure, Notification, Success, decode_error, decode_frame
from accredit.jsonrpc.sse import SseParser, pieces
from accredit.limits import LONG_ANSWER_BYTES


class Aside:
    """A `Reply` that keeps the answer. The client's connection is watched by the asking code, not here.

    `status` is the answer's, 0 before it; `session` is the id in an answer to `initialize`.
    """

    def __init__(self, reply: Reply, head: RequestHead, max_bytes: int = LONG_ANSWER_BYTES) -> None:
        """`reply` is the client's; the answer may have `max_bytes`, which are read in one step."""
        self._reply = reply
        self._max_bytes = max_bytes
        self._parser: SseParser | None = None
        self._texts: list[bytes] = []
        self._size = 0
        self.head = head
        self.speaker = reply.speaker
        self.carried = reply.carried
        self.calls = OpenCalls()
        self.hears: Callable[[Notification], Notification | None] | None = None
        self.started = False
        self.resumable = False
        self.replica = head.replica
        self.status = 0
        self.session = b""

    @property
    def peer(self) -> str:
        """The address of the client."""
        return self._reply.peer

    @property
    def proved(self) -> bool:
        """Whether the client has authenticated."""
        return self._reply.proved

    def negotiated(self, session: bytes, revision: str) -> None:
        """Note that the answer begins a session."""
        self.session = session

    async def reply(self, status: int, body: bytes = b"", headers: RawHeaders | None = None) -> None:
        """Keep a whole answer."""
        self.started = True
        self.status = status
        self._note_session(headers or [])
        if body:
            self._take(body)

    async def start(self, status: int, headers: RawHeaders) -> None:
        """Keep the head of a stream."""
        self.started = True
        self.status = status
        self._note_session(headers)
        self._parser = SseParser(self._max_bytes)

    async def write(self, chunk: bytes) -> None:
        """Keep the events in a piece of a stream."""
        if self._parser is not None:
            for piece in pieces(chunk):
                for event in self._parser.feed(piece):
                    if event.data:
                        self._take(event.data)

    async def end(self) -> None:
        """Do nothing: the events are kept already."""

    def watch(self) -> None:
        """Do nothing: the asking code watches the client."""

    def unwatch(self) -> bool:
        """Return False: no client interrupts this."""
        return False

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

    def _note_session(self, headers: RawHeaders) -> None:
        self.session = next((value for name, value in headers if name == SESSION_HEADER), self.session)

    def _take(self, text: bytes) -> None:
        self._size += len(text)
        if self._size > self._max_bytes:
            raise AnswerError(f"the answer is larger than {self._max_bytes} bytes", bound=True)
        self._texts.append(text)
