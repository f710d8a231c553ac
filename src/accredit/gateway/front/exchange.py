"""A client's HTTP request and its answer: what all carriers have in common.

A carrier is a subclass, such as `asgi.AsgiExchange`. It reads the body in pieces, and sends heads and pieces. All facts
about a request, and what is added to every answer, are here. I/O through the subclass only.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from io import BytesIO

from accredit.base.addresses import Network, client_address, peer_of
from accredit.errors import AnswerError, FrameError, MessageId, RequestError
from accredit.gateway.front.cors import add_cors_headers
from accredit.gateway.headers import EVENT_STREAM, SESSION_HEADER, RawHeaders, RequestHead
from accredit.gateway.recording.open_calls import OpenCalls
from accredit.gateway.room import Rooms, Slot
from accredit.gateway.turns import next_turn
from accredit.jsonrpc.encode import INVALID_ANSWER, INVALID_REQUEST, UPSTREAM_ERROR, error_frame, to_json
from accredit.jsonrpc.frames import Notification, decode_error
from accredit.jsonrpc.sse import encode_event
from accredit.limits import ANSWER_PIECE_BYTES, BODY_ROOM_SECONDS, SHORT_MESSAGE_BYTES
from accredit.policy.passing import CallerIdentity
from accredit.tokens.access import SubjectToken
from accredit.tokens.carried import CREDENTIALS

BODY_GRACE_SECONDS = 10.0
"""How many seconds a request's body may be late. This covers the time to its first bytes, and delays on a slow or
interrupted line."""
MIN_BODY_BYTES_PER_SECOND = 65_536
"""The minimum rate of a body once `BODY_GRACE_SECONDS` are over: it occupies memory that others need. 0.5 Mbit/s."""
SMALL_BODY_BYTES = 65_536
"""A body of up to this size that arrives at once reserves no memory in a room, because the gateway reads that much
from each connection anyway. Most calls are like that (some 1 KiB). A body that arrives slowly reserves at least this
much."""


class Exchange(ABC):
    """A request and its answer. It is the `Reply` for the backend (`upstream.reply`), and has what the intake needs
    besides.

    `server` is the name of the server that the request is for. `metadata_url` is named in refusals. Both are "" if
    there is none. `calls` is set before a backend gets the exchange. `address` is the connection's address. `client` is
    the client's own, which differs behind a trusted proxy (`proxies`); `peer` identifies the client. `credentials` are
    its Authorization fields, once removed from the head. `session_shown` maps a session's id at a replica to the
    client's id, if any. `learn_revision` is called if the answer begins a session, with the session's revision and
    replica (`callers`). `request_id` is the id of the single request in the body, once that is read. `vouched` says
    that the caller itself has authenticated. `proved` says that the caller or its session has authenticated, and so
    gets more room (`rooms`). `shows_pages` says that the client has declared, in this `initialize` or in that of its
    session, that it can show people the page at a URL.
    """

    __slots__ = (
        "_begun",
        "_origins",
        "_refused",
        "_session",
        "address",
        "body_place",
        "calls",
        "carried",
        "client",
        "credentials",
        "head",
        "hears",
        "learn_revision",
        "metadata_url",
        "peer",
        "replica",
        "request_id",
        "resumable",
        "rooms",
        "server",
        "session_shown",
        "shows_pages",
        "speaker",
        "started",
        "stateless",
        "vouched",
    )

    def __init__(
        self,
        head: RequestHead,
        address: str,
        rooms: Rooms,
        origins: tuple[str, ...] = (),
        proxies: tuple[Network, ...] = (),
    ) -> None:
        self._origins = origins
        self.head = head
        self.address = address
        self.client = client_address(address, head.forwarded_for, proxies) if proxies else address
        self.peer = peer_of(self.client)
        self.rooms = rooms
        self.request_id: MessageId | None = None
        self.credentials: RawHeaders = []
        self.session_shown: Callable[[bytes, str], bytes | None] | None = None
        self.learn_revision: Callable[[bytes, str, str], None] | None = None
        self.replica = ""
        self.speaker: CallerIdentity | None = None
        self.carried: SubjectToken | None = None
        self.started = False
        self.resumable = False
        self.calls: OpenCalls
        self.hears: Callable[[Notification], Notification | None] | None = None
        self.stateless = head.is_modern
        """Whether the request belongs to the era without sessions. If so, no answer shows the client a session's id."""
        self._refused: tuple[bytes, ...] = ()
        self._session = None if head.is_modern else head.headers.get(SESSION_HEADER)  # as the client knows it
        self.vouched = self.shows_pages = self._begun = False
        self.server = self.metadata_url = ""
        self.body_place: Slot | None = None
        """The body's place in its room, which is left once the answer is sent. None for a small body."""

    @property
    def proved(self) -> bool:
        """Whether the caller has authenticated, or an earlier caller in the same session."""
        return self.vouched or (self._session is not None and self.rooms.has_proved(self._session))

    def vouch(self) -> None:
        """Note that the caller has authenticated, also for later requests in its session."""
        self.vouched = True
        if self._session is not None:
            self.rooms.proved(self._session)

    def negotiated(self, session: bytes, revision: str) -> None:
        """Note that the answer begins a session in this revision. `session` is its id at the server. Raises
        `AnswerError`."""
        if self.learn_revision is not None:
            self.learn_revision(session, revision, self.replica)

    def take_credentials(self) -> None:
        """Remove the Authorization fields from the head, so that nothing forwards them."""
        if not self.head.headers.keys().isdisjoint(CREDENTIALS):
            self.credentials, self.head = self.head.credentials, self.head.without_credentials

    async def body(self, limit: int) -> bytes:
        """Return the whole body.

        Raises `RequestError`: 413 as soon as the body is certain to exceed `limit` bytes, 408 if it comes too slowly,
        503 if other large or slow bodies occupy all the room.
        """
        declared = self.head.headers.get(b"content-length", b"")
        length = int(declared) if declared.isdigit() else limit
        if length > limit:
            raise _too_large(limit)
        chunk, more = await self._piece()
        if not more and len(chunk) > limit:
            raise _too_large(limit)
        if not more and len(chunk) <= SMALL_BODY_BYTES:
            return chunk
        # Bytes that have arrived count as well: another ASGI server may hand over the whole at once.
        size = max(length if more else len(chunk), SMALL_BODY_BYTES)
        self.body_place = place = await self.rooms.bodies.wait(self, size, BODY_ROOM_SECONDS)
        if more:
            with place:
                return await self._rest(chunk, limit)
        return chunk

    async def _rest(self, chunk: bytes, limit: int) -> bytes:
        whole = BytesIO()  # grows in place, and yields its bytes without a copy
        whole.write(chunk)
        began = asyncio.get_running_loop().time() + BODY_GRACE_SECONDS
        more = True
        try:
            async with asyncio.timeout_at(began) as deadline:
                while more and whole.tell() <= limit:
                    deadline.reschedule(began + whole.tell() / MIN_BODY_BYTES_PER_SECOND)
                    chunk, more = await self._piece()
                    whole.write(chunk)
        except TimeoutError:
            raise RequestError(INVALID_REQUEST, "The request did not come in time", status=408) from None
        if whole.tell() > limit:
            raise _too_large(limit)
        return whole.getvalue()

    def answer_also(self, refused: tuple[bytes, ...]) -> None:
        """Add the responses to the `refused` requests of a batch to the answer, which then answers the whole batch."""
        self._refused = refused
        self.head = self.head.with_field(b"accept-encoding", b"identity")  # a coded answer could not be joined

    async def begin(self) -> None:
        """Begin the answer to a single request as an event stream, although nobody knows yet what it will be.

        Events may be written from then on. Whatever `reply` or `start` send later is the rest of this stream. The
        status and the headers of a later answer are lost: an error is told by its JSON-RPC response alone.
        """
        self._begun = True
        self.head = self.head.with_field(b"accept-encoding", b"identity")  # a coded answer could not be an event
        await self._send_head(200, self._shown([*EVENT_STREAM, (b"x-accel-buffering", b"no")]))

    async def reply(self, status: int, body: bytes = b"", headers: RawHeaders | None = None) -> None:
        """Send a whole answer. `headers` must not hold `Content-Length`."""
        if self._begun:
            self.started = True
            await self._finish(body if status < 400 and body else await self._failed(status, body))
            return
        headers = headers or []
        if self._refused:
            status, body, headers = _with_refusals(self._refused, status, body, headers)
        length = [] if status == 204 else [(b"content-length", b"%d" % len(body))]
        self.started = True
        await self._send_whole(status, self._shown([*headers, *length]), body)

    async def start(self, status: int, headers: RawHeaders) -> None:
        """Send the head of an event stream; the events follow in pieces."""
        self.started = True
        if self._begun:
            return
        await self._send_head(status, self._shown(headers))
        if self._refused:
            await self.write(b"".join(encode_event(response) for response in self._refused))

    async def _finish(self, response: bytes) -> None:
        """End a stream that was begun early with the response."""
        event = encode_event(response)
        for start in range(0, len(event), ANSWER_PIECE_BYTES):
            await self.write(event[start : start + ANSWER_PIECE_BYTES])
        await self.end()

    async def _failed(self, status: int, body: bytes) -> bytes:
        """Return the body of an error status as the response to the one request. In a stream, an error without its
        request's id would answer nothing."""
        try:
            if len(body) > SHORT_MESSAGE_BYTES:
                await next_turn()
            failure = decode_error(body)
        except FrameError:
            return error_frame(self.request_id, UPSTREAM_ERROR, INVALID_ANSWER, f"status {status}")
        if failure.id is not None:
            return body
        return to_json({"jsonrpc": "2.0", "id": self.request_id, "error": failure.error})

    def _shown(self, headers: RawHeaders) -> RawHeaders:
        """Return an answer's headers in the form for the client."""
        shown = _no_session if self.stateless else self.session_shown
        if shown is not None:
            headers = [
                (name, seen)
                for name, value in headers
                if (seen := shown(value, self.replica) if name == SESSION_HEADER else value) is not None
            ]
        return add_cors_headers(headers, self.head.headers.get(b"origin"), self._origins) if self._origins else headers

    @abstractmethod
    async def _piece(self) -> tuple[bytes, bool]:
        """Return the next piece of the body, and whether more may come. Raises `ClientGone`."""

    @abstractmethod
    async def _send_whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """Send a whole answer. `headers` is complete."""

    @abstractmethod
    async def _send_head(self, status: int, headers: RawHeaders) -> None:
        """Send the head of an answer whose body follows in pieces. `headers` is complete."""

    @abstractmethod
    async def write(self, chunk: bytes) -> None:
        """Send a piece. If the client is slow, wait up to a bound. Raises `ClientGone`."""

    @abstractmethod
    async def end(self) -> None:
        """End an answer started with `start`."""

    @abstractmethod
    def watch(self, on_gone: Callable[[], None] | None) -> None:
        """From now on, call `on_gone` when the client disconnects. None ends that."""


def _too_large(limit: int) -> RequestError:
    return RequestError(INVALID_REQUEST, f"Invalid Request: the body is larger than {limit} bytes", status=413)


def _no_session(session: bytes, replica: str) -> None: ...


def _with_refusals(
    refused: tuple[bytes, ...], status: int, body: bytes, headers: RawHeaders
) -> tuple[int, bytes, RawHeaders]:
    """Return the answer to a batch with the `refused` responses added. Raises `AnswerError` if it is content-coded.

    An error status is kept, because then the whole batch has failed.
    """
    if status >= 400:
        return status, body, headers
    if any(name == b"content-encoding" for name, _ in headers):
        raise AnswerError("a Content-Encoding that was not asked for")
    body = body.strip(b" \t\r\n")
    if not body:
        headers = [*headers, (b"content-type", b"application/json")]
    theirs = [body[1:-1]] if body.startswith(b"[") else [body] if body else []
    return 200, b"[" + b",".join([*theirs, *refused]) + b"]", headers
