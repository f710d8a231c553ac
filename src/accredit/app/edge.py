"""The server's HTTP/1.1 protocol with the bounds that it lacks. Runs in the event loop.

uvicorn waits for a request's head as long and reads it as far as a peer likes, and takes the trailers of a chunked
body for headers. Here:

1. a connection has `REQUEST_HEAD_SECONDS` from its beginning, or from the first byte after an answer, to the end
   of the next request's head and the first byte of its body;
2. bytes that are no body's and end no head (the head, trailers, chunk extensions) are bounded by
   `MAX_REQUEST_HEAD_BYTES` at a time;
3. trailers are read and dropped.

4. where there are as many connections as there may be (`listener.client_connections`), the one that rests for longest
   (nothing is asked, or no byte of its body has come) makes room for the next; where none rests, that gets a 503.

And an answer's head and body leave in one write (`one_write`).
"""

import asyncio
from collections import OrderedDict
from typing import Any, cast
from weakref import WeakKeyDictionary

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from accredit.app.listener import client_connections
from accredit.app.one_write import OneWriteTransport
from accredit.limits import BUSY_RETRY_SECONDS, MAX_REQUEST_HEAD_BYTES, REQUEST_HEAD_SECONDS

_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: %d\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


_resting: WeakKeyDictionary[ServerState, "OrderedDict[EdgeProtocol, None]"] = WeakKeyDictionary()
"""A server's connections that rest, the longest first."""


class EdgeProtocol(HttpToolsProtocol):
    """One client's connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._without_progress = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._resting = _resting.setdefault(self.server_state, OrderedDict())

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Starts the clock of the first request."""
        super().connection_made(OneWriteTransport(transport, self.loop))
        self._start_clock()
        if len(self.connections) > client_connections():
            self._make_room()
        if not self.transport.is_closing():
            self._resting[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the clock."""
        self._stop_clock()
        self._resting.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feeds the parser; then looks at how far that got it."""
        self._without_progress += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._without_progress > MAX_REQUEST_HEAD_BYTES:
            self.send_400_response("The request's head is too large.")
        elif self._head_timer is None and not self._is_answering():
            self._start_clock()

    def on_headers_complete(self) -> None:
        """A request's head is whole: what else comes as headers is no longer the request's."""
        self._without_progress = 0
        super().on_headers_complete()
        self.headers = []

    def on_body(self, body: bytes) -> None:
        """Bytes of a body: from here on the application sees to their pace."""
        self._progressed()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request's last byte."""
        self._progressed()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer is given."""
        super().on_response_complete()
        if not self._is_answering():
            self._resting[self] = None

    def _progressed(self) -> None:
        self._without_progress = 0
        self._stop_clock()
        if self._is_answering():
            self._resting.pop(self, None)

    def _make_room(self) -> None:
        """Rule 4."""
        if self._resting:
            self._resting.popitem(last=False)[0].transport.abort()
        else:
            self.transport.write(_BUSY % BUSY_RETRY_SECONDS)
            self.transport.close()

    def _is_answering(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)  # uvicorn's annotation forgets the beginning
        return cycle is not None and not cycle.response_complete

    def _start_clock(self) -> None:
        self._head_timer = self.loop.call_later(REQUEST_HEAD_SECONDS, self.transport.close)

    def _stop_clock(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
