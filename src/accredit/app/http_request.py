"""One request of a client's connection and its one response, and the gateway's exchange over it. I/O through the
connection only.

- [http-1-0] A client of HTTP/1.0 gets no chunks: a response without a length ends with the connection (RFC 9112 section
  6.1).
- [disconnect] The end of a connection interrupts its request, but not in the first `DISCONNECT_WATCH_SECONDS`: most
  requests are over by then.
- [body-end] Only this module says how a body ends. An application's `Transfer-Encoding` is dropped, and so is its
  `Connection`, except for `close`. If there were two ways to read a body's length, requests could be smuggled.
- [failure] If the work for a request fails, or does not answer, the response is a 500. If the head is sent already, the
  connection ends.
"""

import asyncio
import http
import logging
import re
from collections.abc import Callable
from typing import Any

from accredit.app.connection import ClientConnection
from accredit.base.addresses import Network
from accredit.errors import ClientGone
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.headers import RawHeaders, RequestHead
from accredit.gateway.room import Rooms
from accredit.limits import ANSWER_PIECE_BYTES, CLIENT_STALL_SECONDS, DISCONNECT_WATCH_SECONDS

CLOSING = b"connection: close\r\n\r\n"
"""The end of the head of a connection's last response."""

_FIELDS = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: [^\0-\x08\x0a-\x1f\x7f]*\r\n)*")
_field = b"%b: %b\r\n".__mod__
_FAILED = b"Internal Server Error"
_WITHOUT_BODY = frozenset({204, 304})
_OF_CONNECTION = frozenset({b"connection", b"transfer-encoding"})
_STATUS = {each.value: b"HTTP/1.1 %d %b\r\n" % (each.value, each.phrase.encode()) for each in http.HTTPStatus}

_logger = logging.getLogger("accredit.app")


def status_line(status: int) -> bytes:
    """Return the first line of a response."""
    return _STATUS.get(status) or b"HTTP/1.1 %d \r\n" % status


class HttpRequest:
    """A request and its response. `body` is given if all of it has come already.

    Otherwise the connection adds what comes to `body`, clears `more` at the body's end, and then calls `wake`. `begun`
    says that any of the body has come, or that there is none; `lost` that the connection has ended, and `answered` that
    the response is complete.
    """

    __slots__ = (
        "_chunked",
        "_expects",
        "_given",
        "_looks",
        "_on_lost",
        "_to_send",
        "_waiter",
        "_watched_since",
        "answered",
        "begun",
        "body",
        "connection",
        "head",
        "keep_alive",
        "lost",
        "more",
        "started",
        "version",
    )

    def __init__(
        self,
        connection: ClientConnection,
        head: RequestHead,
        version: str,
        *,
        keep_alive: bool,
        body: bytes | None = None,
    ) -> None:
        self.connection = connection
        self.head = head
        self.version = version
        self.keep_alive = keep_alive
        self.body = bytearray() if body is None else body
        self.more = body is None
        self.lost = self.started = self.answered = False
        self.begun = body is not None
        self._given = False
        """Whether `piece` has returned the end of the body."""
        self._expects = body is None and head.headers.get(b"expect", b"").lower() == b"100-continue"
        self._waiter: asyncio.Future[None] | None = None
        self._on_lost: Callable[[], None] | None = None
        self._watched_since = 0.0
        self._looks = False
        self._chunked = False
        self._to_send: int | None = None
        """How many bytes of the response's body are still to be sent; None if its length was not announced."""

    def wake(self) -> None:
        """Wake the code that waits in `piece`, so that it checks for new bytes."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def lose(self) -> None:
        """Note that the connection has ended."""
        self.lost = True
        self.wake()
        if self._on_lost is not None:
            loop = self.connection.loop
            loop.call_at(max(loop.time(), self._watched_since + DISCONNECT_WATCH_SECONDS), self._interrupt)

    def look_later(self) -> None:
        """Resume reading once, after a moment, even though requests are queued. Otherwise a disconnect would go
        unnoticed."""
        if self._on_lost is not None and not self._looks:
            self._looks = True
            self.connection.loop.call_later(DISCONNECT_WATCH_SECONDS, self._look)

    async def piece(self) -> tuple[bytes, bool]:
        """Return the next piece of the body, and whether more may come. If the whole body has been returned already,
        wait until the request is answered. Raises `ClientGone` if the client is gone or the request is answered."""
        if self._expects:
            self.connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._expects = False
        if self.connection.read_paused and not self.lost and not self.answered:
            self.connection.resume_reading()
        while not self.lost and not self.answered and not self.body and (self.more or self._given):
            self._waiter = self.connection.loop.create_future()
            await self._waiter
        if self.lost or self.answered:
            raise ClientGone
        self._given = not self.more
        body, self.body = bytes(self.body), bytearray()
        return body, self.more

    def watch(self, on_lost: Callable[[], None] | None) -> None:
        """From now on, call `on_lost` when the connection has ended ([disconnect]). None ends that."""
        self._on_lost = on_lost
        if on_lost is not None:
            self._watched_since = self.connection.loop.time()
            if self.lost:
                self.lose()
            elif self.connection.read_paused:
                self.look_later()

    def send_whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """Send a whole response. `headers` must give the length of the body; they are written as they are."""
        if self.lost:
            return
        end = b"\r\n" if self.keep_alive else CLOSING
        sent = b"" if self.head.method == "HEAD" else body
        self.connection.write(b"".join((status_line(status), _field_text(headers), end, sent)))
        self.started = True
        self._end()

    def send_head(self, status: int, headers: RawHeaders) -> None:
        """Send the head of a response whose body follows in pieces. Raises `RuntimeError` for a field that can't be
        sent."""
        if self.lost:
            return
        for name, value in headers:
            if name == b"content-length":
                self._to_send = int(value)
            elif name == b"connection" and b"close" in map(bytes.strip, value.lower().split(b",")):
                self.keep_alive = False
        fields = _field_text([each for each in headers if each[0] not in _OF_CONNECTION])
        if self.head.method == "HEAD" or status in _WITHOUT_BODY:
            self._to_send = 0
        elif self._to_send is None and self.version == "1.0":
            self.keep_alive = False  # ([http-1-0])
        elif self._to_send is None:
            self._chunked = True
            fields += b"transfer-encoding: chunked\r\n"
        self.connection.write(b"".join((status_line(status), fields, b"\r\n" if self.keep_alive else CLOSING)))
        self.started, self._expects = True, False

    async def write(self, chunk: bytes) -> None:
        """Send a piece of the body. Wait while the client is slow to read. Raises `RuntimeError` for more bytes than
        were announced."""
        if self.connection.write_paused and not self.lost:
            await self.connection.drain()
        if self.lost or not chunk or self.head.method == "HEAD":
            return
        if self._chunked:
            self.connection.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            return
        if self._to_send is not None:
            if len(chunk) > self._to_send:
                raise RuntimeError("a response is longer than it says")
            self._to_send -= len(chunk)
        self.connection.write(chunk)

    def end(self) -> None:
        """End a response that was sent in pieces. Raises `RuntimeError` if it is shorter than announced."""
        if self.lost:
            return
        if self._to_send:
            raise RuntimeError("a response is shorter than it says")
        if self._chunked:
            self.connection.write(b"0\r\n\r\n")
        self._end()

    def end_work(self, task: Any, error: BaseException | None) -> None:
        """Note that the task that answers the request has ended. If it failed or did not answer, send a 500, or end the
        connection ([failure])."""
        self.connection.server_state.tasks.discard(task)
        if error is not None:
            self._fail("a request's answer has failed", error)
        elif not self.answered and not self.lost:
            self._fail("a request was not answered to its end", None)

    def _fail(self, why: str, error: BaseException | None) -> None:
        _logger.error(why, exc_info=error)
        if self.started or self.answered:
            self.connection.close()
            return
        self.keep_alive = False
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(_FAILED))]
        self.send_whole(500, headers, _FAILED)

    def _end(self) -> None:
        self.answered = True
        self.wake()
        if not self.keep_alive:
            self.connection.close()
        self.connection.has_answered()

    def _interrupt(self) -> None:
        if self._on_lost is not None:
            self._on_lost()

    def _look(self) -> None:
        if self._on_lost is not None:
            self.connection.resume_reading()


class HttpExchange(Exchange):
    """The gateway's exchange with a client, over one request of a connection."""

    __slots__ = ("_request",)

    def __init__(
        self, request: HttpRequest, rooms: Rooms, origins: tuple[str, ...] = (), proxies: tuple[Network, ...] = ()
    ) -> None:
        super().__init__(request.head, request.connection.address, rooms, origins, proxies)
        self._request = request

    async def _piece(self) -> tuple[bytes, bool]:
        return await self._request.piece()

    async def _send_whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        if not self._request.connection.write_paused and len(body) <= ANSWER_PIECE_BYTES:
            self._request.send_whole(status, headers, body)
            return
        await self._send_head(status, headers)
        for start in range(0, len(body), ANSWER_PIECE_BYTES):
            await self.write(body[start : start + ANSWER_PIECE_BYTES])
        await self.end()

    async def _send_head(self, status: int, headers: RawHeaders) -> None:
        self._request.send_head(status, headers)

    async def write(self, chunk: bytes) -> None:
        """Send a piece of the body. Wait for a slow client, up to a limit. Raises `ClientGone`."""
        if not self._request.connection.write_paused:
            await self._request.write(chunk)
            return
        try:
            async with asyncio.timeout(CLIENT_STALL_SECONDS):
                await self._request.write(chunk)
        except TimeoutError:
            raise ClientGone from None

    async def end(self) -> None:
        """End an answer that was begun with `start`."""
        self._request.end()

    def watch(self, on_gone: Callable[[], None] | None) -> None:
        """From now on, call `on_gone` when the client disconnects. None ends that."""
        self._request.watch(on_gone)


def _field_text(headers: RawHeaders) -> bytes:
    """Return header fields as they are sent. Raises `RuntimeError` if one can't be sent."""
    fields = b"".join(map(_field, headers))
    if fields.count(b"\n") != len(headers) or not _FIELDS.fullmatch(fields):
        raise RuntimeError("a header field that can't be sent")
    return fields
