"""The connections to one upstream, in use and idle. Network I/O.

A connection serves one exchange at a time. Once its answer has arrived completely, it goes back to its pool, even
before the body is read: the `Response` keeps the body. Any other end closes the connection. Nothing is ever sent
twice.
"""

import asyncio
import socket
from typing import cast

from accredit.errors import (
    AccreditError,
    AnswerError,
    UpstreamError,
    UpstreamLeftOut,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from accredit.gateway.eager import Wakeup
from accredit.gateway.room import ALONE, EqualShares
from accredit.gateway.upstream.http.dialing import Origin, attach, open_socket
from accredit.gateway.upstream.http.parsing import IDLE_SECONDS, AnswerHeads, Response, ResponseParser, cut_off
from accredit.limits import CONNECT_SECONDS

HIGH_WATER_BYTES = 262_144
"""While a body has more unread bytes than this, nothing is read from its connection. One read of the event loop may add
as much again."""


MAX_IDLE_CONNECTIONS = 64
"""How many connections are kept for the next request. If more calls than this run at once, some pay for new
connections."""
MAX_CONNECTIONS = 3_200
"""How many connections to the upstream there may be in all. Each takes a file descriptor. They serve `MAX_CALLS` calls,
`MAX_STREAMS` streams, and the gateway's own requests, which are few at a time."""


_PEEK = int(socket.MSG_PEEK | socket.MSG_DONTWAIT)


class Connection(asyncio.Protocol):
    """The protocol of one connection; `sock` is its raw socket, which the transport owns."""

    __slots__ = (
        "_armed", "_closing", "_deadline", "_error", "_loop", "_owner", "_parser", "_paused",
        "_response", "_rest_until", "_sock", "_timer", "_transport", "_unsent", "_waiter",
    )  # fmt: skip

    def __init__(self, sock: socket.socket, owner: "Pool") -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._owner = owner
        self._parser = ResponseParser(owner.heads)
        self._response: Response | None = None
        self._waiter: Wakeup | None = None
        self._deadline: float | None = None
        self._rest_until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._armed = 0.0
        self._error: AccreditError | None = None
        self._unsent: tuple[bytes, ...] = ()
        self._paused = False
        self._closing = False

    @property
    def closing(self) -> bool:
        """Whether the connection is closed, or about to be."""
        return self._closing

    def rest(self, seconds: float) -> None:
        """Wait for the next exchange, and close if none comes within `seconds`."""
        self._rest_until = until = self._loop.time() + seconds
        if self._timer is None or until < self._armed:
            self._arm(until)

    def usable(self) -> bool:
        """Return whether an idle connection can be reused: nothing has arrived on it, not even its end.

        The kernel is asked, as the event loop may not yet have seen what has arrived.
        """
        if self._closing:
            return False
        try:
            self._sock.recv(1, _PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def start(self, head: bytes, body: bytes, *, bodiless: bool) -> Response:
        """Send a request. From here on it may have reached the upstream."""
        self._response = response = self._parser.expect(bodiless=bodiless)
        self._unsent = (head, body) if body else (head,)
        self._loop.call_soon(self._write)  # at the end of this step: what comes before answers nothing
        return response

    def _write(self) -> None:
        parts, self._unsent = self._unsent, ()
        if not self._closing:
            self._transport.writelines(parts)

    def more(self, deadline: float | None) -> Wakeup:
        """Return a future that is done when new bytes have come, or the answer has ended early. In the second case the
        next call raises the reason.

        `deadline` is in the loop's time. After it, waiting raises `UpstreamTimeout`. A timeout or a cancellation leaves
        the exchange as it is. There may be only one waiter at a time.
        """
        if self._error is not None:
            raise self._error
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        waiter = self._waiter = Wakeup(loop=self._loop)
        self._deadline = deadline
        if deadline is not None and (self._timer is None or deadline < self._armed):
            self._arm(deadline)
        return waiter

    def abort(self) -> None:
        """Close at once. The pool then learns by `lost` that the connection is gone."""
        self._fail(UpstreamUnavailable("the connection to the upstream was closed"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected, TLS included."""
        self._transport = cast(asyncio.Transport, transport)
        self._owner.opened(self)

    def data_received(self, data: bytes) -> None:
        """Parse bytes of an answer. Bytes that answer no request make the connection useless."""
        response = self._response
        if response is None or self._unsent:
            self.abort()
            return
        try:
            self._parser.feed(data)
        except AnswerError as error:
            self._fail(error)
            return
        if response.complete:
            self._finish(response.idle_seconds)
        elif response.unread > HIGH_WATER_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        if response.status:
            self._wake()

    def eof_received(self) -> None:
        """The upstream sends no more, so there is no point in sending the rest of the request."""
        if self._response is not None:
            try:
                self._parser.end()
            except UpstreamUnavailable as error:
                self._fail(error)
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone. If `eof_received` was not called before, the answer is cut off.

        With TLS that happens if TCP ends without TLS's own end, which anybody on the path can cause. uvloop reports
        this; asyncio does not.
        """
        if self._response is not None:
            self._fail(cut_off(self._response))
        self.abort()
        self._owner.lost(self)

    def _finish(self, seconds: float) -> None:
        self._response = None
        # An answer that came before the whole request was sent leaves the rest of it in the buffer.
        if seconds > 0 and not self._transport.get_write_buffer_size():
            self._owner.free(self, seconds)
        else:
            self.abort()

    def _fail(self, error: AccreditError) -> None:
        if self._closing:
            return
        self._closing = True
        self._error = error
        self._response = None
        if self._timer is not None:
            self._timer.cancel()
        self._transport.abort()
        self._wake()

    def _arm(self, when: float) -> None:
        """Run `_tick` at `when`. If it runs earlier, it sets its own timer again.

        So one timer serves a connection for many exchanges. To set it for each exchange would cost more than the rest
        of the client.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._tick)
        self._armed = when

    def _tick(self) -> None:
        self._timer = None
        waiter = self._waiter
        if waiter is not None and waiter.done():
            waiter = None
        if waiter is None and self._response is not None:
            return  # nothing waits now; the next waiter rearms
        due = self._rest_until if waiter is None else self._deadline
        if due is None:
            return
        if due > self._loop.time():
            self._arm(due)
        elif waiter is None:
            self.abort()
        else:
            waiter.fail(UpstreamTimeout("the upstream did not answer in time"))

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.wake()


class Share:
    """How many connections one server may have open, to all its replicas together: an equal part of the process's
    bound."""

    def __init__(self, parts: EqualShares = ALONE) -> None:
        self._parts = parts
        self._pools: list[Pool] = []

    def join(self, pool: "Pool") -> None:
        """Count the connections of one more pool."""
        self._pools.append(pool)

    def used_up(self) -> bool:
        """Return whether the server may open no more connections."""
        return sum(pool.held for pool in self._pools) >= self._parts.of(MAX_CONNECTIONS)


class Pool:
    """Gives out connections: the idle one that was used last, or else a new one. All of them count towards a
    `share`."""

    def __init__(self, origin: Origin, share: Share) -> None:
        self._origin = origin
        self._share = share
        share.join(self)
        self.heads = AnswerHeads()
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._dialing = 0
        self._closed = False
        self._emptied = asyncio.Event()

    @property
    def held(self) -> int:
        """How many connections are open, or about to be."""
        return len(self._open) + self._dialing

    def rested(self) -> Connection | None:
        """Return an idle connection that is still usable, or None."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable():
                return connection
            connection.abort()
        return None

    async def dial(self, deadline: float) -> Connection:
        """Open a connection. `deadline` is in the loop's time. Raises `UpstreamLeftOut` if the server has used up its
        share of connections, and `UpstreamUnavailable` or `UpstreamTimeout`, marked as `unsent`."""
        if self._closed:
            raise UpstreamUnavailable("the gateway is stopping")
        if self._share.used_up():
            raise UpstreamLeftOut("too many connections to the upstream are open")
        self._dialing += 1
        try:
            return await self._connect(deadline)
        except UpstreamError as error:
            error.unsent = True
            raise
        finally:
            self._dialing -= 1

    async def probe(self, deadline: float) -> None:
        """Make sure that there is an idle connection. Raises what `dial` raises."""
        connection = self.rested()
        if connection is not None:
            self._idle.append(connection)
        else:
            self.free(await self.dial(deadline), IDLE_SECONDS)

    def opened(self, connection: Connection) -> None:
        """Count a connection."""
        self._open.add(connection)

    def free(self, connection: Connection, seconds: float) -> None:
        """Keep a connection for reuse within `seconds`."""
        if self._closed or len(self._idle) >= MAX_IDLE_CONNECTIONS:
            connection.abort()
            return
        self._idle.append(connection)
        connection.rest(seconds)

    async def close(self) -> None:
        """Close every connection, in use or not, and return when they are gone."""
        self._closed = True
        for connection in list(self._open):
            connection.abort()
        while self._open:
            self._emptied.clear()
            await self._emptied.wait()

    def lost(self, connection: Connection) -> None:
        """Remove a connection."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if not self._open:
            self._emptied.set()

    async def _connect(self, deadline: float) -> Connection:
        origin = self._origin
        until = min(deadline, asyncio.get_running_loop().time() + CONNECT_SECONDS)
        try:
            sock = await open_socket(origin.host, origin.port, until)
        except UpstreamError as error:
            error.at = origin.authority.decode("ascii")
            raise
        connection = Connection(sock, self)
        try:
            await attach(sock, connection, origin, until)
            if self._closed:
                raise UpstreamUnavailable("the gateway is stopping")
            if connection.closing:
                raise UpstreamUnavailable("the upstream closed the connection at once")
        except BaseException:
            if connection in self._open:
                connection.abort()
                self.lost(connection)  # uvloop omits `connection_lost` if it is cancelled just after `connection_made`
            raise
        return connection
