"""A client's request over HTTP and the one answer to it, whatever carries them: what all carriers share.

A carrier is a subclass: `asgi.AsgiExchange` is one. It brings the body in pieces, and sends heads and pieces;
everything that is said of a request, and what every answer gets on its way, is here. I/O through the subclass only.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from io import BytesIO

from accredit.base.addresses import peer_of
from accredit.errors import AnswerError, MessageId, RequestError
from accredit.gateway.front.cors import add_cors_headers
from accredit.gateway.headers import SESSION_HEADER, RawHeaders, RequestHead
from accredit.gateway.recording.open_calls import OpenCalls
from accredit.gateway.room import Rooms, Slot
from accredit.jsonrpc.encode import INVALID_REQUEST
from accredit.jsonrpc.frames import Notification
from accredit.jsonrpc.sse import encode_event
from accredit.limits import BODY_ROOM_SECONDS
from accredit.policy.passing import CallerIdentity
from accredit.tokens import SubjectToken

BODY_GRACE_SECONDS = 10.0
"""How late a request's body may be: its first bytes, and whatever a slow or interrupted line delays."""
MIN_BODY_BYTES_PER_SECOND = 65_536
"""The minimum rate of a body after that grace: memory held for it is held from others. 0.5 Mbit/s."""
SMALL_BODY_BYTES = 65_536
"""Bytes of a body that takes no such room if it arrives at once, as calls do (some 1 KiB): as many are read from each
connection anyway. A slow body counts for at least as many."""


class Exchange(ABC):
    """A request and its answer: a `Reply` (`upstream.reply`), and what the intake knows besides.

    `address` is where it comes from. `credentials` are the Authorization fields, once they were taken off.
    `session_shown` returns the id that the client sees for a session's id at a replica, if any; `learn_revision` is
    told the revision and the replica of a session that the answer begins (`session_binding`). `request_id` is that of
    the one request in the body, once it was read. `vouched` says that the caller has proved something itself, `proved`
    that it or its session has: it gets more room then (`rooms`).
    """

    __slots__ = (
        "_body",
        "_origins",
        "_refused",
        "_session",
        "address",
        "calls",
        "carried",
        "credentials",
        "head",
        "hears",
        "learn_revision",
        "peer",
        "replica",
        "request_id",
        "resumable",
        "rooms",
        "session_shown",
        "speaker",
        "started",
        "stateless",
        "vouched",
    )

    def __init__(self, head: RequestHead, address: str, rooms: Rooms, origins: tuple[str, ...] = ()) -> None:
        self._origins = origins
        self.head = head
        self.address = address
        self.peer = peer_of(address)
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
        self.calls = OpenCalls()
        self.hears: Callable[[Notification], Notification | None] | None = None
        self.stateless = head.is_modern
        """Whether it is of the era that has no sessions: then no answer of a server names one to the client."""
        self._refused: tuple[bytes, ...] = ()
        self._session = head.in_era.headers.get(SESSION_HEADER)  # as the client knows it
        self.vouched = False
        self._body: Slot | None = None

    @property
    def proved(self) -> bool:
        """Whether its caller, or one in its session, has proved something."""
        return self.vouched or (self._session is not None and self.rooms.has_proved(self._session))

    def vouch(self) -> None:
        """Note that the caller has proved something, in its session."""
        self.vouched = True
        if self._session is not None:
            self.rooms.proved(self._session)

    def over(self) -> None:
        """Release the body: the answer is given."""
        if self._body is not None:
            self._body.leave()

    def negotiated(self, session: bytes, revision: str) -> None:
        """Note that the answer begins this session, as the server calls it, in this revision. Raises `AnswerError`."""
        if self.learn_revision is not None:
            self.learn_revision(session, revision, self.replica)

    def take_credentials(self) -> None:
        """Take the Authorization fields off: from here on nothing forwards them."""
        self.credentials, self.head = self.head.credentials, self.head.without_credentials

    async def body(self, limit: int) -> bytes:
        """Return the whole body.

        Raises `RequestError`: 413 as soon as it is known to pass `limit` bytes, 408 if it comes too slowly, 503 if
        others have taken all room for large and slow ones.
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
        # What has come counts as well: a server of another make may hand over the whole at once.
        size = max(length if more else len(chunk), SMALL_BODY_BYTES)
        self._body = await self.rooms.bodies.wait(self, size, BODY_ROOM_SECONDS)
        if more:
            with self._body:
                return await self._rest(chunk, limit)
        return chunk

    async def _rest(self, chunk: bytes, limit: int) -> bytes:
        whole = BytesIO()  # grows in place, and gives its bytes away without a copy
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
        """Add responses that go along with the answer, which is the answer to a batch then."""
        self._refused = refused
        self.head = self.head.with_field(b"accept-encoding", b"identity")  # what is to be joined must be readable

    async def reply(self, status: int, body: bytes = b"", headers: RawHeaders | None = None) -> None:
        """Send a whole answer. `headers` must not hold `Content-Length`."""
        headers = headers or []
        if self._refused:
            status, body, headers = _with_refusals(self._refused, status, body, headers)
        length = [] if status == 204 else [(b"content-length", b"%d" % len(body))]
        self.started = True
        await self._send_whole(status, self._shown([*headers, *length]), body)

    async def start(self, status: int, headers: RawHeaders) -> None:
        """Send the head of a stream of events, which follow in pieces."""
        self.started = True
        await self._send_head(status, self._shown(headers))
        if self._refused:
            await self.write(b"".join(encode_event(response) for response in self._refused))

    def _shown(self, headers: RawHeaders) -> RawHeaders:
        """Return an answer's headers as the client gets them."""
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
        """Send a whole answer; its headers are complete."""

    @abstractmethod
    async def _send_head(self, status: int, headers: RawHeaders) -> None:
        """Send the head of an answer that follows in pieces; its headers are complete."""

    @abstractmethod
    async def write(self, chunk: bytes) -> None:
        """Send a piece. Wait while the client is slow to read, up to a bound. Raises `ClientGone`."""

    @abstractmethod
    async def end(self) -> None:
        """End an answer that was begun with `start`."""

    @abstractmethod
    def watch(self) -> None:
        """From here on, let a client that goes away interrupt the work. Its body must have been read."""

    @abstractmethod
    def unwatch(self) -> bool:
        """Stop that. Return whether the client interrupted the work, and nothing else did."""


def _too_large(limit: int) -> RequestError:
    return RequestError(INVALID_REQUEST, f"Invalid Request: the body is larger than {limit} bytes", status=413)


def _no_session(session: bytes, replica: str) -> None: ...


def _with_refusals(
    refused: tuple[bytes, ...], status: int, body: bytes, headers: RawHeaders
) -> tuple[int, bytes, RawHeaders]:
    """Return the answer to a batch with the `refused` responses in its array. Raises `AnswerError` if it is encoded.

    An error status stays as it is: then the whole batch has failed.
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
