"""uvicorn's HTTP/1.1 protocol with the bounds that it lacks. Runs in the event loop.

uvicorn reads a request's head without limits of time or size, takes the trailers of a chunked body for headers, and
queues any number of pipelined requests. Here:

1. a connection has `REQUEST_HEAD_SECONDS`, from its beginning or from the first byte after a response, until the next
   request's head and the first byte of its body; when there are too many connections, those that have waited longest
   make room (rule 8);
2. bytes outside bodies (head, trailers, chunk extensions) are bounded by `MAX_REQUEST_HEAD_BYTES` at a time, fields by
   `MAX_HEADERS`, and pipelined requests by `MAX_PIPELINED_REQUESTS`;
3. an ambiguous head is refused: a version other than 1.0 and 1.1, a transfer coding other than `chunked`, any coding
   in HTTP/1.0 (RFC 9112 section 6.1), a target whose host is not `Host` (section 3.2.2);
4. trailers are read and dropped;
5. `Upgrade` is ignored, and the request answered in HTTP/1.1 (RFC 9110 section 7.8);
6. a client of HTTP/1.0 gets no chunks: a response without a length ends with the connection (RFC 9112 section 6.1);
7. an invalid request is answered only if that can't be mistaken for the response to an earlier one;
8. at the limit of connections (`listener.client_connections`), the one that has been idle longest (no request, or no
   byte of its body has come) makes room for the next; if none is idle, the next gets a 503.

A response's head and body leave in one write (`one_write`).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, cast
from weakref import WeakKeyDictionary

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from accredit.app.listener import client_connections
from accredit.app.one_write import OneWriteTransport
from accredit.limits import BUSY_RETRY_SECONDS, MAX_HEADERS

MAX_PIPELINED_REQUESTS = 16
"""Requests of one connection that wait for the answer to an earlier one. Clients and proxies send one at a time; a
read of the event loop brings some 10,000 at once, each of which costs a kilobyte and, when its turn comes, time."""
MAX_REQUEST_HEAD_BYTES = 65_536
"""Bytes of a request outside its body, at a time: its head, its trailers, a chunk's extension. Clients and proxies
themselves stop at 8 to 64 KiB."""
REQUEST_HEAD_SECONDS = 20.0
"""The time from a connection's beginning, or the first byte of its next request, to the end of that request's head. A
head is one or two packets; a connection that sends none holds a file descriptor."""


_TOO_LARGE = "The request's head is too large."
_FRAMING = (b"content-length", b"transfer-encoding")
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: %d\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


_resting: WeakKeyDictionary[ServerState, "OrderedDict[EdgeProtocol, None]"] = WeakKeyDictionary()
"""A server's idle connections, the longest idle first."""


class _Refused(Exception):
    """Stops the parser: an exception in a callback ends as an `HttpParserError`."""


class EdgeProtocol(HttpToolsProtocol):
    """One client's connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._without_progress = 0
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._rest_ends: float | None = None
        self._resuming = False
        self._fault = ""
        self._resting = _resting.setdefault(self.server_state, OrderedDict())

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Start the clock of the first request."""
        super().connection_made(OneWriteTransport(transport, self.loop))
        self._start_clock()
        if len(self.connections) > self._most():
            self._make_room()
        if not self.transport.is_closing():
            self._resting[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        self._stop_clock()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
        self._resting.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser, then check its progress."""
        self._unset_keepalive_if_required()
        self._without_progress += len(data)
        try:
            self._feed(data)
        except HttpParserError:
            self.send_400_response(self._fault or "Invalid HTTP request received.")
        if self.transport.is_closing():
            return
        if self._without_progress > MAX_REQUEST_HEAD_BYTES:
            self.send_400_response(_TOO_LARGE)
        elif self._head_timer is None and not self._is_answering():
            self._start_clock()

    def send_400_response(self, msg: str) -> None:
        """Close; send a 400 first if that answers the current request."""
        self.logger.warning(msg)
        cycle = cast("RequestResponseCycle | None", self.cycle)  # uvicorn's annotation forgets the beginning
        coming = cycle is None or cycle.response_complete or (cycle.more_body and not cycle.response_started)
        if coming and not self.pipeline:
            super().send_400_response(msg)
        else:
            self.transport.close()

    def on_message_begin(self) -> None:
        """A request begins."""
        if not self._resuming:
            self._head_bytes = 0
            super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """The target of a request, or a part of it."""
        if not self._resuming:
            self._count(len(url))
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header field, or a trailer."""
        if not self._resuming:
            self._count(len(name) + len(value))
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is complete: later fields are trailers."""
        if self._resuming:
            return
        self._without_progress = self._head_bytes = 0
        self._check_head()
        super().on_headers_complete()
        self.headers = []
        if len(self.pipeline) > MAX_PIPELINED_REQUESTS:
            self._refuse("Too many requests at once.")
        if self.scope["http_version"] == "1.0":
            self.cycle.send = _without_chunks(self.cycle)  # pyright: ignore[reportAttributeAccessIssue]

    def on_body(self, body: bytes) -> None:
        """Part of a body: from here on the application sets the pace, unless it has already responded."""
        self._without_progress = 0
        if self._is_answering():
            self._has_come()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request's last byte."""
        if self.parser.should_upgrade():  # the parser does not read a body behind an offer
            return
        self._without_progress = 0
        self._has_come()
        super().on_message_complete()

    def answer_last(self) -> None:
        """Close the connection after the response to the last request received."""
        if self._is_answering():
            self.cycle.keep_alive = False

    def on_response_complete(self) -> None:
        """A response is complete: start the next request, or idle. uvicorn's own method sets a timer each time."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self.cycle.response_complete:
            self._resting[self] = None
            self._rest_ends = self.loop.time() + self.timeout_keep_alive
            if self.timeout_keep_alive_task is None:
                self.timeout_keep_alive_task = self.loop.call_at(self._rest_ends, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that has been idle too long. One timer serves all its idle periods."""
        self.timeout_keep_alive_task = None
        if self._rest_ends is None or self.transport.is_closing():
            return  # the next rest sets it anew
        if self._rest_ends > self.loop.time():
            self.timeout_keep_alive_task = self.loop.call_at(self._rest_ends, self.timeout_keep_alive_handler)
        else:
            self.transport.close()

    def _unset_keepalive_if_required(self) -> None:
        self._rest_ends = None

    def _feed(self, data: bytes) -> None:
        while True:
            try:
                self.parser.feed_data(data)
            except HttpParserUpgrade as offer:
                data = data[offer.args[0] :]
                self._pass_over()
            else:
                return

    def _pass_over(self) -> None:
        """Ignore an `Upgrade`: the parser stopped after the head, so a new one reads the body."""
        self.parser = HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
        framing = [b"%b: %b\r\n" % pair for pair in self.scope["headers"] if pair[0] in _FRAMING]
        self._resuming = True
        self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(framing))
        self._resuming = False

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if len(self.headers) >= MAX_HEADERS or self._head_bytes > MAX_REQUEST_HEAD_BYTES:
            self._refuse(_TOO_LARGE)

    def _check_head(self) -> None:
        version = self.parser.get_http_version()
        if version not in ("1.1", "1.0"):
            self._refuse("This is HTTP/1.1.")
        codings = [value.lower() for name, value in self.headers if name == b"transfer-encoding"]
        if codings and (codings != [b"chunked"] or version == "1.0"):
            self._refuse("The request's transfer coding is not known here.")
        if not self.url.startswith(b"/"):
            hosts = [value.lower() for name, value in self.headers if name == b"host"]
            if [self.url.partition(b"://")[2].partition(b"/")[0].lower()] != hosts:
                self._refuse("The request's target is not of this host.")

    def _refuse(self, why: str) -> NoReturn:
        self._fault = why
        raise _Refused

    def _is_answering(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is not None and not cycle.response_complete

    def _has_come(self) -> None:
        self._stop_clock()
        if self._is_answering():
            self._resting.pop(self, None)

    def _begin_whole(self) -> None:
        """A whole request came after idling: stop the head's clock."""
        self._rest_ends = None
        if self._head_timer is not None:
            self._stop_clock()
        self._resting.pop(self, None)

    def _most(self) -> int:
        return client_connections()

    def _make_room(self) -> None:
        """Abort the longest idle connection, or refuse the new one with a 503 (rule 8)."""
        if self._resting:
            self._resting.popitem(last=False)[0].transport.abort()
        else:
            self.transport.write(_BUSY % BUSY_RETRY_SECONDS)
            self.transport.close()

    def _start_clock(self) -> None:
        self._head_timer = self.loop.call_later(REQUEST_HEAD_SECONDS, self.transport.close)

    def _stop_clock(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def _without_chunks(cycle: RequestResponseCycle) -> Callable[[Any], Awaitable[None]]:
    """Return the cycle's `send` for a client that doesn't support chunks."""
    unmeasured = False

    async def send(message: Any) -> None:
        nonlocal unmeasured
        if message["type"] == "http.response.start":
            unmeasured = all(name.lower() != b"content-length" for name, _ in message.get("headers", ()))
            cycle.chunked_encoding = False if unmeasured else None
        elif unmeasured:
            cycle.expected_content_length = len(message.get("body", b""))  # each piece is as long as it should be
        await RequestResponseCycle.send(cycle, message)

    return send
