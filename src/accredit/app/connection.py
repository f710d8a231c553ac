"""One client's connection, below HTTP: writes bytes, tracks how many wait to be written, and limits the idle time. Runs
in the event loop.

- [head-timeout] A connection has `REQUEST_HEAD_SECONDS` until the next request's head and the first byte of its body
  have come. The time counts from the connection's beginning, or from the first byte after a response. If that request's
  head came before the response, the time counts from the response.
- [idle-limit] If there are as many connections as allowed (`listener.client_connections`), the one that has been idle
  longest makes room for the next. Idle means: there is no request, or no byte of its body has come. If none is idle,
  the next connection gets a 503.
- [unfinished-heads] All connections together may hold `MAX_UNFINISHED_BYTES` of incomplete heads, trailers and chunk
  extensions. Above that, the connections whose incomplete part began first are closed: an honest client completes it
  within a moment.
- [one-write] Everything written in one step of the loop is sent in one write, at the step's end. Each write is a system
  call that wakes the client, so a head and its body are sent together.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import OrderedDict
from contextvars import Context
from typing import Any, cast
from weakref import WeakKeyDictionary

from uvicorn.config import Config
from uvicorn.server import ServerState

from accredit.app.listener import client_connections
from accredit.limits import BUSY_RETRY_SECONDS, CLIENT_STALL_SECONDS

REQUEST_HEAD_SECONDS = 20.0
"""How many seconds a connection has to complete a request's head, counted from the connection's beginning or from the
first byte of its next request. A head is one or two packets; a connection that sends none holds a file descriptor."""
MAX_UNFINISHED_BYTES = 33_554_432
"""The most bytes of unfinished heads that all connections hold together. In Python's objects these take up to four
times as much memory. A head is one or two packets, and most come in one."""
ONE_WRITE_BYTES = 65_536
"""How many bytes of an answer are held back so that they leave in one write with its head. If there are more, all leave
at once, so that the transport's own bound on buffered data applies."""

_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: %d\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class _Deadlines:
    """Connections that may all wait for the same time, the longest waiting first. One timer closes the late ones. A
    timer for each of thousands of idle connections would take half a kilobyte each."""

    __slots__ = ("_loop", "_timer", "_until")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._until: OrderedDict[ClientConnection, float] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def __contains__(self, connection: "ClientConnection") -> bool:
        return connection in self._until

    def begin(self, connection: "ClientConnection", seconds: float) -> None:
        """Close a connection in so many seconds, unless its wait ends before."""
        self._until[connection] = self._loop.time() + seconds
        self._until.move_to_end(connection)
        if self._timer is None:
            # In a context of its own: the timer never ends, and would keep its caller's context.
            self._timer = self._loop.call_later(seconds, self._close_late, context=Context())

    def end(self, connection: "ClientConnection") -> None:
        """End a connection's wait, if it waits."""
        self._until.pop(connection, None)

    def _close_late(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._until:
            connection, until = next(iter(self._until.items()))
            if until > now:
                self._timer = self._loop.call_at(until, self._close_late)
                return
            del self._until[connection]
            connection.close()


class _Connections:
    """The state of a server's connections: the idle ones, the longest idle first; those that wait for a request's head
    ([head-timeout]); those that rest after a response; and how many bytes of an unfinished head each holds, the
    earliest head first."""

    __slots__ = ("heads", "idle", "most", "rests", "unfinished", "unfinished_bytes")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.idle: OrderedDict[ClientConnection, None] = OrderedDict()
        self.heads, self.rests = _Deadlines(loop), _Deadlines(loop)
        self.unfinished: dict[ClientConnection, int] = {}
        self.unfinished_bytes = 0
        self.most: int | None = None
        """How many connections there may be, once that was asked."""

    def hold(self, connection: "ClientConnection", size: int) -> None:
        """Note how many bytes of an unfinished head a connection holds, and keep [unfinished-heads]."""
        if size or connection in self.unfinished:
            before = self.unfinished.get(connection, 0)
            self.unfinished_bytes += size - before
            if size:
                self.unfinished[connection] = size
            else:
                del self.unfinished[connection]
        while self.unfinished_bytes > MAX_UNFINISHED_BYTES:
            first = next(iter(self.unfinished))
            self.unfinished_bytes -= self.unfinished.pop(first)
            first.abort()


_connections: WeakKeyDictionary[ServerState, _Connections] = WeakKeyDictionary()


class ClientConnection(asyncio.Protocol, ABC):
    """A connection at uvicorn's server, which creates it with these parameters."""

    # Thousands may be idle.
    __slots__ = (
        "_connections",
        "_keep_alive_seconds",
        "_to_write",
        "_to_write_size",
        "_transport",
        "_writable",
        "address",
        "app_state",
        "loop",
        "read_paused",
        "server_state",
        "write_paused",
    )

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.loop = _loop or asyncio.get_event_loop()
        self.app_state = app_state
        self.server_state = server_state
        self.address = ""
        """The client's address."""
        self.write_paused = self.read_paused = False
        self._transport: Any = None
        self._writable: asyncio.Future[None] | None = None
        self._to_write: list[bytes] = []
        self._to_write_size = 0
        self._keep_alive_seconds = config.timeout_keep_alive
        self._connections = _connections.get(server_state) or _connections.setdefault(
            server_state, _Connections(self.loop)
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer for the first request's head."""
        self._transport = transport
        self.server_state.connections.add(cast(Any, self))
        self.address = address_in(transport.get_extra_info("peername"))[0]
        if len(self.server_state.connections) > self.most_connections():
            self._make_room()
        if not transport.is_closing():
            self.await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """End all waits."""
        self.server_state.connections.discard(cast(Any, self))
        self.note_read(0, works=True)
        self.resume_writing()
        if exc is None:
            self._transport.close()

    @abstractmethod
    def has_answered(self) -> None:
        """React to the end of a response."""

    def socket_info(self, name: str) -> Any:
        """Return a fact about the socket, as `Transport.get_extra_info` does."""
        return self._transport.get_extra_info(name)

    def most_connections(self) -> int:
        """Return how many connections there may be at this server ([idle-limit])."""
        if self._connections.most is None:
            self._connections.most = client_connections(tls=self.socket_info("sslcontext") is not None)
        return self._connections.most

    def abort(self) -> None:
        """Close now, whatever is left to send."""
        self._transport.abort()

    def write(self, data: bytes) -> None:
        """Send bytes, at the end of this step of the loop ([one-write])."""
        if not self._to_write:
            self.loop.call_soon(self._flush)
        self._to_write.append(data)
        self._to_write_size += len(data)
        if self._to_write_size > ONE_WRITE_BYTES:
            self._flush()

    def close(self) -> None:
        """Flush and close; abort after `CLIENT_STALL_SECONDS` if the client doesn't read."""
        self._flush()
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self.loop.call_later(CLIENT_STALL_SECONDS, self._transport.abort)

    def pause_writing(self) -> None:
        """Note that the transport holds enough unsent bytes."""
        self.write_paused = True

    def resume_writing(self) -> None:
        """Note that the client has read, so that more can be sent."""
        self.write_paused = False
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    async def drain(self) -> None:
        """Wait until the client has read, or is gone."""
        if self.write_paused:
            if self._writable is None:
                self._writable = self.loop.create_future()
            await asyncio.shield(self._writable)

    def pause_reading(self) -> None:
        """Stop taking bytes for now."""
        if not self.read_paused:
            self.read_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take more bytes."""
        if self.read_paused:
            self.read_paused = False
            self._transport.resume_reading()

    def _flush(self) -> None:
        held, self._to_write, self._to_write_size = self._to_write, [], 0
        if held and not self._transport.is_closing():
            self._transport.write(b"".join(held) if len(held) > 1 else held[0])

    def note_read(self, unfinished: int, *, works: bool) -> None:
        """Note that bytes have come. `unfinished` is how many bytes are held of a head that is not complete
        ([unfinished-heads]). `works` says that there is a request, and that its body has begun to come."""
        self._connections.rests.end(self)
        self._connections.hold(self, unfinished)
        if works:
            self._connections.heads.end(self)
            self._connections.idle.pop(self, None)
        else:
            self.await_head()

    def await_head(self) -> None:
        """Note that the connection is idle, and start the timer for a request's head, unless it already runs
        ([head-timeout])."""
        self._connections.idle[self] = None
        if self not in self._connections.heads:
            self._connections.heads.begin(self, REQUEST_HEAD_SECONDS)

    def stop_clock(self) -> None:
        """Stop the timer for a head: what it waited for has come."""
        self._connections.heads.end(self)

    def rest(self) -> None:
        """Note that the connection is idle from now on, and may be for as long as it is kept alive."""
        self._connections.idle[self] = None
        self._connections.rests.begin(self, self._keep_alive_seconds)

    def _make_room(self) -> None:
        """Abort the connection that has been idle longest. If there is none, refuse the new one with a 503
        ([idle-limit])."""
        if self._connections.idle:
            self._connections.idle.popitem(last=False)[0].abort()
        else:
            self.write(_BUSY % BUSY_RETRY_SECONDS)
            self.close()


def address_in(found: Any) -> tuple[str, int | None]:
    """Return the address and port in what a transport reports; for a UNIX socket its path, and None."""
    if isinstance(found, tuple):
        host, port = cast("tuple[str, int]", found)[:2]
        return host, port
    return str(found or ""), None
