"""One HTTP request and the one answer to it, over ASGI. I/O through `receive` and `send` only."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from contextlib import nullcontext
from io import BytesIO
from types import TracebackType
from typing import Any

from accredit.errors import ClientGone, MessageId, RequestError
from accredit.gateway.front.batch_answers import merged
from accredit.gateway.front.cors import answered
from accredit.gateway.headers import SESSION_HEADER, RawHeaders, fold
from accredit.gateway.recording.open_calls import OpenCalls
from accredit.gateway.room import Place, Rooms, peer_of
from accredit.jsonrpc.encode import INVALID_REQUEST
from accredit.jsonrpc.frames import Notification
from accredit.jsonrpc.sse import encode_event
from accredit.limits import (
    BODY_GRACE_SECONDS,
    BODY_ROOM_SECONDS,
    CLIENT_STALL_SECONDS,
    DISCONNECT_WATCH_SECONDS,
    MIN_BODY_BYTES_PER_SECOND,
    SMALL_BODY_BYTES,
)
from accredit.policy.passing import Speaker
from accredit.tokens import without_authorization

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApplication = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON = (b"content-type", b"application/json")
EVENT_STREAM: RawHeaders = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
]


_PIECE_BYTES = 262_144


class Exchange:
    """A client's HTTP request. `headers` are folded (`headers.fold`); `raw_headers` are as they came.

    `calls` are those that its answer concerns and whose outcomes are not on record yet. `credentials` are the
    Authorization fields, where they were taken off; `session_shown` makes of a session's id what the client gets to
    see; `speaker` is on whose authority its request comes; `asked` is the id of the one request in the body, once it
    was read; `resumable` says that its client has seen an event with an id, from which it may resume the stream. `peer`
    is the address that it comes from; `vouched` says that it has proved something itself, `proved` that it or its
    session has: there is more room for it then (`rooms`). `hears` says which notifications go to it, where not all do.
    """

    __slots__ = (
        "_body",
        "_origins",
        "_receive",
        "_refused",
        "_send",
        "_session",
        "asked",
        "calls",
        "credentials",
        "headers",
        "hears",
        "method",
        "path",
        "peer",
        "query",
        "raw_headers",
        "resumable",
        "rooms",
        "session_shown",
        "speaker",
        "started",
        "vouched",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send, rooms: Rooms, origins: tuple[str, ...] = ()) -> None:
        self._origins = origins
        self._receive = receive
        self._send = send
        self.rooms = rooms
        self.peer = peer_of((scope.get("client") or ("",))[0])
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: bytes = scope["query_string"]
        self.raw_headers: RawHeaders = list(scope["headers"])
        self.headers = fold(self.raw_headers)
        self.asked: MessageId | None = None
        self.credentials: RawHeaders = []
        self.session_shown: Callable[[bytes], bytes] | None = None
        self.speaker: Speaker | None = None
        self.started = False
        self.resumable = False
        self.calls = OpenCalls()
        self.hears: Callable[[Notification], bool] | None = None
        self._refused: tuple[bytes, ...] = ()
        self._session = self.headers.get(SESSION_HEADER)  # as the client knows it
        self.vouched = False
        self._body: Place | None = None

    @property
    def proved(self) -> bool:
        """Whether its caller, or one in its session, has proved something."""
        return self.vouched or (self._session is not None and self.rooms.has_proved(self._session))

    def vouch(self) -> None:
        """Its caller has proved something, in its session."""
        self.vouched = True
        if self._session is not None:
            self.rooms.proved(self._session)

    def over(self) -> None:
        """The answer is given: its body is needed no more."""
        if self._body is not None:
            self._body.leave()

    def take_credentials(self) -> None:
        """Takes the Authorization fields off: nothing forwards them from here on."""
        self.credentials = [pair for pair in self.raw_headers if pair[0].lower() == b"authorization"]
        self.raw_headers = without_authorization(self.raw_headers)
        self.headers.pop(b"authorization", None)

    def drop_headers(self, names: Collection[bytes]) -> None:
        """Takes header fields off that are not to go on."""
        if names:
            self.raw_headers = [pair for pair in self.raw_headers if pair[0] not in names]
            for name in names:
                self.headers.pop(name, None)

    def name_session(self, id: bytes) -> None:
        """Names another session."""
        self.raw_headers = [(name, id if name == SESSION_HEADER else value) for name, value in self.raw_headers]
        self.headers[SESSION_HEADER] = id

    async def body(self, limit: int) -> bytes:
        """The whole body. Raises `RequestError`: 413 as soon as it is known to pass `limit` bytes, 408 when it comes
        too slowly, 503 where others have taken all room for large and slow ones."""
        declared = self.headers.get(b"content-length", b"")
        length = int(declared) if declared.isdigit() else limit
        if length > limit:
            raise _too_large(limit)
        chunk, more = await self._piece()
        if not more and len(chunk) <= SMALL_BODY_BYTES:
            if len(chunk) > limit:
                raise _too_large(limit)
            return chunk
        # What has come counts as well: a server of another make may hand over the whole at once.
        size = max(length if more else len(chunk), SMALL_BODY_BYTES)
        self._body = await self.rooms.bodies.wait(self, size, BODY_ROOM_SECONDS)
        with self._body if more else nullcontext():
            return await self._rest(chunk, limit, more=more)

    async def _rest(self, chunk: bytes, limit: int, *, more: bool) -> bytes:
        whole = BytesIO()  # grows in place, and gives its bytes away without a copy
        loop = asyncio.get_running_loop()
        began = loop.time() + BODY_GRACE_SECONDS
        try:
            async with asyncio.timeout_at(began) as deadline:
                whole.write(chunk)
                while more and whole.tell() <= limit:
                    deadline.reschedule(began + whole.tell() / MIN_BODY_BYTES_PER_SECOND)
                    chunk, more = await self._piece()
                    whole.write(chunk)
        except TimeoutError:
            raise RequestError(INVALID_REQUEST, "The request did not come in time", status=408) from None
        if whole.tell() > limit:
            raise _too_large(limit)
        return whole.getvalue()

    async def _piece(self) -> tuple[bytes, bool]:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        return message.get("body", b""), message.get("more_body", False)

    def answer_also(self, refused: tuple[bytes, ...]) -> None:
        """Adds responses that go along with the answer, which is one to a batch then."""
        if refused:
            self._refused = refused
            self.headers[b"accept-encoding"] = b"identity"  # what is to be joined must be readable

    async def reply(self, status: int, body: bytes = b"", headers: RawHeaders | None = None) -> None:
        """Sends a whole answer. `headers` without `Content-Length`."""
        headers = headers or []
        if self._refused:
            status, body, headers = merged(self._refused, status, body, headers)
        length = [] if status == 204 else [(b"content-length", b"%d" % len(body))]
        await self._head(status, [*headers, *length])
        if len(body) > _PIECE_BYTES:
            for start in range(0, len(body), _PIECE_BYTES):
                await self.write(body[start : start + _PIECE_BYTES])
            body = b""
        await self._send({"type": "http.response.body", "body": body})

    async def start(self, status: int, headers: RawHeaders) -> None:
        """Sends the head of a stream of events, which follow in pieces."""
        await self._head(status, headers)
        if self._refused:
            await self.write(b"".join(encode_event(response) for response in self._refused))

    async def _head(self, status: int, headers: RawHeaders) -> None:
        self.started = True
        shown = self.session_shown
        if shown is not None:
            headers = [(name, shown(value) if name == SESSION_HEADER else value) for name, value in headers]
        told = answered(headers, self.headers.get(b"origin"), self._origins)
        await self._send({"type": "http.response.start", "status": status, "headers": told})

    async def write(self, chunk: bytes) -> None:
        """Sends a piece, and waits while the client is slow to read, but not for ever. Raises `ClientGone`."""
        try:
            async with asyncio.timeout(CLIENT_STALL_SECONDS):
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        except TimeoutError:
            raise ClientGone from None

    async def end(self) -> None:
        """Ends an answer that was begun with `start`."""
        await self._send({"type": "http.response.body", "body": b""})

    async def gone(self) -> None:
        """Returns when the client has closed its connection. The body must have been read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


class WhileConnected:
    """Within this context, a client that goes away cancels the work: it raises `ClientGone` there.

    The watch begins only after a moment: most calls are over by then, and need none.
    """

    __slots__ = ("_exchange", "_gone", "_task", "_timer", "_watcher")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._gone = False
        self._watcher: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task(loop)
        self._timer = loop.call_later(DISCONNECT_WATCH_SECONDS, self._watch, loop)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._watcher = loop.create_task(self._wait())

    async def _wait(self) -> None:
        await self._exchange.gone()
        self._gone = True
        if self._task is not None:
            self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        # A cancellation that came from elsewhere as well (the process is stopping) goes on.
        if self._gone and self._task is not None and self._task.uncancel() == 0 and kind is asyncio.CancelledError:
            raise ClientGone from None


def _too_large(limit: int) -> RequestError:
    return RequestError(INVALID_REQUEST, f"Invalid Request: the body is larger than {limit} bytes", status=413)
