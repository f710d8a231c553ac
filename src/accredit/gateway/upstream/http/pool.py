"""The connections to one upstream: those in use, and idle ones. Network I/O."""

import asyncio

from accredit.errors import UpstreamError, UpstreamLeftOut, UpstreamUnavailable
from accredit.gateway.room import ALONE, Parts
from accredit.gateway.upstream.http.connection import Connection
from accredit.gateway.upstream.http.dial import Origin, attach, open_socket
from accredit.gateway.upstream.http.parsing import IDLE_SECONDS, AnswerHeads
from accredit.limits import CONNECT_SECONDS

MAX_IDLE_CONNECTIONS = 64
"""How many connections are kept for the next request. If more calls than this run at once, some pay for new
connections."""
MAX_CONNECTIONS = 3_200
"""How many connections to the upstream there may be in all; each takes a file descriptor. They are for `MAX_CALLS`,
`MAX_STREAMS`, and the gateway's own requests, which are few at a time."""


class Share:
    """The connections that one server may have open, at all its replicas together: an equal part of those of the
    process."""

    def __init__(self, parts: Parts = ALONE) -> None:
        self._parts = parts
        self._pools: list[Pool] = []

    def join(self, pool: "Pool") -> None:
        """Count the connections of one more pool."""
        self._pools.append(pool)

    def used_up(self) -> bool:
        """Return whether the server may open no more connections."""
        return sum(pool.held for pool in self._pools) >= self._parts.of(MAX_CONNECTIONS)


class Pool:
    """Hands out connections: the one that was used last, or else a new one. All of them count towards a `share`."""

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
        sock = await open_socket(origin.host, origin.port, until)
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
