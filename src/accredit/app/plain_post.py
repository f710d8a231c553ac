"""The exchange of the fast path (`fast`): an `AsgiExchange` with short cuts where nothing has to wait. Runs in the
event loop.

It takes its body from the server, writes a whole response at once, and is told when the client disconnects. What has
to wait (a body in pieces, a slow client, a large response) goes the way of `AsgiExchange`, over the same connection;
so does an exchange without a response, which uvicorn ends.
"""

import re
from asyncio import current_task
from typing import Any, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from accredit.gateway.app import Routes
from accredit.gateway.front.asgi import ASGIApplication, AsgiExchange
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.headers import RawHeaders, RequestHead
from accredit.limits import ANSWER_PIECE_BYTES, DISCONNECT_WATCH_SECONDS

_FIELDS = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]*: [^\0-\x08\x0a-\x1f\x7f]*\r\n)*")
_field = b"%b: %b\r\n".__mod__


class _Connection(Protocol):
    """The client's connection, as far as an exchange needs it."""

    address: str
    loop: Any


class PlainPost(AsgiExchange):
    """One plain POST, over uvicorn's cycle. `body` is set if all of it has come already."""

    __slots__ = ("_connection", "_cycle", "_looks", "_lost", "_routes", "_watches", "_whole")

    def __init__(
        self,
        connection: _Connection,
        cycle: RequestResponseCycle,
        routes: Routes,
        head: RequestHead,
        body: bytes | None = None,
    ) -> None:
        Exchange.__init__(self, head, connection.address, *routes.surroundings)
        self._receive: Any = cycle.receive
        self._send: Any = cycle.send
        self._connection = connection
        self._cycle = cycle
        self._routes = routes
        self._whole = body
        self._task = None
        self._gone = self._lost = self._looks = self._watches = False

    async def answer(self) -> None:
        """Serve the request."""
        problem: BaseException | None = None
        try:
            await self._routes.serve(self)
        except BaseException as error:
            problem = error
        if problem is not None or not self._cycle.response_complete:
            await self._cycle.run_asgi(_ended_application(problem))  # type: ignore[arg-type]
        self._cycle.on_response = _nothing

    def lost(self) -> None:
        """Note that the connection has ended. uvicorn only tells the last request, which may still be queued."""
        self._lost = self._cycle.disconnected = True
        if self._watches:
            self._connection.loop.call_later(DISCONNECT_WATCH_SECONDS, self._interrupt)

    def look_later(self) -> None:
        """Resume reading once, after a moment, though requests are queued: else a disconnect would go unnoticed."""
        if self._watches and not self._looks:
            self._looks = True
            self._connection.loop.call_later(DISCONNECT_WATCH_SECONDS, self._look)

    async def write(self, chunk: bytes) -> None:
        """Send a piece; wait for a slow client, up to a limit. Raises `ClientGone`."""
        if self._cycle.flow.write_paused:
            await super().write(chunk)
        else:
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    def watch(self) -> None:
        """From now on, cancel the current task if the client disconnects. The body has been read."""
        self._gone, self._watches = False, True
        self._task = current_task(self._connection.loop)
        if self._lost:
            self.lost()
        if self._cycle.flow.read_paused:
            self.look_later()

    def unwatch(self) -> bool:
        """Stop watching. Return whether the disconnect, and nothing else, cancelled the task."""
        self._watches = False
        task, self._task = self._task, None
        return self._gone and task is not None and task.uncancel() == 0

    async def _piece(self) -> tuple[bytes, bool]:
        body = self._whole_body()
        return await super()._piece() if body is None else (body, False)

    def _whole_body(self) -> bytes | None:
        """Return the body, once, if the whole of it has come."""
        whole, self._whole = self._whole, None
        cycle = self._cycle
        if whole is not None or cycle.more_body or cycle.disconnected or not cycle.message_event.is_set():
            return whole
        cycle.message_event.clear()
        cycle.flow.resume_reading()
        whole = bytes(cycle.body)
        cycle.body = bytearray()
        return whole

    async def _send_whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        cycle = self._cycle
        if cycle.disconnected:
            return
        if cycle.flow.write_paused or len(body) > ANSWER_PIECE_BYTES:
            await super()._send_whole(status, headers, body)
            return
        sent = [*cycle.default_headers, *headers]
        fields = b"".join(map(_field, sent))
        if fields.count(b"\n") != len(sent) or not _FIELDS.fullmatch(fields):
            raise RuntimeError("a header field that can't be sent")
        end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
        cycle.response_started = cycle.response_complete = True
        cycle.transport.write(b"".join((STATUS_LINE[status], fields, end, body)))
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()

    def _look(self) -> None:
        if self._watches:
            self._cycle.flow.resume_reading()

    def _interrupt(self) -> None:
        if self._watches:
            self._gone = True
            if self._task is not None:
                self._task.cancel()


def _ended_application(problem: BaseException | None) -> ASGIApplication:
    """Return an application that ends the same way, so that uvicorn handles it."""

    async def ended(*_: object) -> None:
        if problem is not None:
            raise problem

    return ended


def _nothing() -> None: ...
