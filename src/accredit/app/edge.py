"""The server's HTTP/1.1 protocol with the bounds that it lacks. Runs in the event loop.

uvicorn waits for a request's head as long and reads it as far as a peer likes, and takes the trailers of a chunked
body for headers. Here:

1. a connection has `REQUEST_HEAD_SECONDS` from its beginning, or from the first byte after an answer, to the end
   of the next request's head and the first byte of its body;
2. bytes that are no body's and end no head (the head, trailers, chunk extensions) are bounded by
   `MAX_REQUEST_HEAD_BYTES` at a time;
3. trailers are read and dropped.

And an answer's head and body leave in one write (`one_write`).
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from accredit.app.one_write import OneWriteTransport
from accredit.limits import MAX_REQUEST_HEAD_BYTES, REQUEST_HEAD_SECONDS


class EdgeProtocol(HttpToolsProtocol):
    """One client's connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._without_progress = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Starts the clock of the first request."""
        super().connection_made(OneWriteTransport(transport, self.loop))
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops the clock."""
        self._stop_clock()
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
        self._without_progress = 0
        self._stop_clock()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request's last byte."""
        self._without_progress = 0
        self._stop_clock()
        super().on_message_complete()

    def _is_answering(self) -> bool:
        cycle = cast("RequestResponseCycle | None", self.cycle)  # uvicorn's annotation forgets the beginning
        return cycle is not None and not cycle.response_complete

    def _start_clock(self) -> None:
        self._head_timer = self.loop.call_later(REQUEST_HEAD_SECONDS, self.transport.close)

    def _stop_clock(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
