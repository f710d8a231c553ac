"""Serves an application on a socket until a signal. Runs an event loop; tunes this process's memory.

The first SIGTERM or SIGINT begins the shutdown, which has two phases (`Ending`):

- [draining] `/readyz` says 503, and each response closes its connection. Connections are still accepted, so that no
  request fails until the load balancer has noticed;
- [grace] no connection is accepted, long-lived streams end, and open calls may finish.

A second signal kills a process that serves alone. A worker ignores it: it gets the signals of its whole process group,
and only the parent decides when to kill it.
"""

import asyncio
import contextlib
import ctypes
import gc
import os
import signal
import socket
import ssl
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple, Protocol, cast

import uvicorn

from accredit.app.handshakes import TlsListener
from accredit.app.http11 import HttpConnection
from accredit.gateway.app import Gateway
from accredit.limits import GRACE_SECONDS, LISTEN_BACKLOG

LARGE_BLOCK_BYTES = 131_072
"""The size from which a block of memory is returned to the system as soon as it is free. Mapping such a block takes
some microseconds; the blocks for usual messages are smaller."""
CLIENT_IDLE_SECONDS = 75
"""How many seconds an idle connection of a client is kept. Common proxies keep theirs for less (60 s), so they close
first: they know when they will send again."""


_M_MMAP_THRESHOLD = -3
"""The option of glibc's mallopt(3), from malloc.h."""


class BackgroundService(Protocol):
    """Runs beside the application, in the same event loop, for as long as the application serves."""

    async def start(self, connections: Callable[[], int]) -> None:
        """Begin. `connections` says how many connections of clients there are."""
        ...

    def take(self, tls: ssl.SSLContext | None) -> None:
        """Use other TLS settings from now on."""
        ...

    async def stop(self) -> None:
        """End."""
        ...


class Ending(NamedTuple):
    """How many seconds each of the two phases of shutdown may take."""

    drain: int
    grace: int


TakeSettings = Callable[[ssl.SSLContext | None, Ending], None]
"""Gives the server its own settings after a reload."""


def serve(
    app: Gateway,
    listener: socket.socket,
    *,
    tls: ssl.SSLContext | None = None,
    ending: Ending,
    lifeline: int | None = None,
    announce: Callable[[], None] | None = None,
    reloads: Callable[[TakeSettings], None] | None = None,
    beside: BackgroundService | None = None,
) -> int:
    """Serve `app` until told to stop; return the process's exit code.

    Once connections are accepted, `announce` is called, `reloads` begins to listen for reloads, and `beside` begins.
    With a `lifeline`, this process is a worker. The lifeline is a file descriptor; its end of file means that the
    parent has gone, or orders a stop.
    """
    give_large_blocks_back()
    server = _Server(server_config(app, ending.grace), app, tls, ending.drain, lifeline, announce, reloads, beside)
    gc.collect()
    gc.freeze()  # what was loaded stays: the garbage collector need not look through it again
    try:
        server.run([listener])
    except SystemExit:
        return 1  # the application could not start, and has logged why
    return 0


def server_config(
    app: Any, grace: int = GRACE_SECONDS, protocol: type[HttpConnection] = HttpConnection
) -> uvicorn.Config:
    """Return uvicorn's settings for an application."""
    return uvicorn.Config(
        app,
        loop="uvloop",
        http=protocol,
        ws="none",
        interface="asgi3",
        lifespan="on",
        workers=1,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=LISTEN_BACKLOG,
        timeout_keep_alive=CLIENT_IDLE_SECONDS,
        timeout_graceful_shutdown=grace,
    )


def give_large_blocks_back() -> None:
    """Make glibc return the memory of large requests and responses to the system. Other C libraries do so by
    themselves.

    By default glibc maps large blocks separately only until one is freed (its threshold then rises, up to 32 MiB).
    After that they come from its heap, where any small block above them keeps them from being returned.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


class _Server(uvicorn.Server):
    def __init__(
        self,
        config: uvicorn.Config,
        app: Gateway,
        tls: ssl.SSLContext | None,
        drain_seconds: int,
        lifeline: int | None,
        announce: Callable[[], None] | None,
        reloads: Callable[[TakeSettings], None] | None,
        beside: BackgroundService | None,
    ) -> None:
        super().__init__(config)
        self._reloads = reloads
        self._beside = beside
        self._app = app
        self._tls = tls
        self._drain_seconds = drain_seconds
        self._told = self._draining = False
        self._lifeline = lifeline
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets if self._tls is None else [])
        for listener in (sockets or []) if self._tls is not None else []:
            self.servers.append(TlsListener(listener, self._tls, self._protocol))  # pyright: ignore[reportArgumentType]
        if self._lifeline is not None:
            asyncio.get_running_loop().add_reader(self._lifeline, self._let_go, self._lifeline)
        if self._beside is not None:
            await self._beside.start(lambda: len(self.server_state.connections))
        if self._reloads is not None:
            self._reloads(self.take)
        if self._announce is not None:
            self._announce()

    def take(self, tls: ssl.SSLContext | None, ending: Ending) -> None:
        """Use other settings from now on: for handshakes, and for the shutdown."""
        for each in cast("list[object]", self.servers):
            if isinstance(each, TlsListener) and tls is not None:
                each.tls = tls
        self._drain_seconds, self.config.timeout_graceful_shutdown = ending
        if self._beside is not None:
            self._beside.take(tls)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.end_streams()
        await super().shutdown(sockets)
        if self._beside is not None:
            await self._beside.stop()

    async def on_tick(self, counter: int) -> bool:
        """Check for shutdown, ten times a second."""
        if self._told and not self._draining:
            self._drain()
        return await super().on_tick(counter)

    def _protocol(self) -> HttpConnection:
        return HttpConnection(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the shutdown. (uvicorn's own handler would let the process die of the signal even after a clean
        stop.)"""
        if self._told and self._lifeline is None:
            signal.signal(sig, signal.SIG_DFL)
            os.kill(os.getpid(), sig)
        self._told = True

    def _let_go(self, lifeline: int) -> None:
        asyncio.get_running_loop().remove_reader(lifeline)
        self._told = True

    def _drain(self) -> None:
        self._draining = True
        self._app.drain()
        for connection in self.server_state.connections:
            cast(HttpConnection, connection).answer_last()
        if self._drain_seconds:
            asyncio.get_running_loop().call_later(self._drain_seconds, self._stop)
        else:
            self._stop()

    def _stop(self) -> None:
        self.should_exit = True
