"""Accepts connections and does their TLS handshakes, bounded in time and number. Runs in the event loop.

A client that connects and then stalls holds a file descriptor while it is still unknown. asyncio's own server waits a
minute for each of any number of such clients. Here a handshake has `TLS_HANDSHAKE_SECONDS`. If there are more than
`listener.client_handshakes`, one is dropped: the oldest of the address that has most.
"""

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from collections.abc import Callable

from accredit.app.listener import client_handshakes

TLS_HANDSHAKE_SECONDS = 10.0
"""How many seconds a client has to finish the TLS handshake. It is two round trips, a second each on the slowest
lines."""
TLS_CLOSE_SECONDS = 2.0
"""How many seconds a client has to confirm the end of TLS before its connection is closed. Most don't confirm it."""
ACCEPTS_A_TURN = 64
"""How many connections are accepted, at some 50 microseconds each, before the rest of the event loop gets its turn."""
ACCEPT_RETRY_SECONDS = 0.1
"""How many seconds pass before the next accept if no file descriptor was left."""


class TlsListener:
    """Creates a `protocol` for each connection once its handshake is done. Has the methods of an asyncio server to
    close it."""

    def __init__(self, listener: socket.socket, tls: ssl.SSLContext, protocol: Callable[[], asyncio.Protocol]) -> None:
        self._listener = listener
        self.tls = tls
        """The TLS context for the next handshakes."""
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._under_way: dict[asyncio.Task[None], str] = {}  # each with its client's address; the oldest first
        self._given_up: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._listen()

    def close(self) -> None:
        """Stop accepting, and drop unfinished handshakes."""
        self._loop.remove_reader(self._listener)
        if self._pause is not None:
            self._pause.cancel()
        for task in list(self._under_way):
            self._give_up(task)

    async def wait_closed(self) -> None:
        """Wait until all handshakes have ended."""
        if self._given_up:
            await asyncio.wait(self._given_up)

    def _listen(self) -> None:
        self._pause = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_A_TURN):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no descriptor is left: try again later
                self._loop.remove_reader(self._listener)
                self._pause = self._loop.call_later(ACCEPT_RETRY_SECONDS, self._listen)
                return
            connection.setblocking(False)
            task = self._loop.create_task(self._shake_hands(connection))
            self._under_way[task] = address[0]
            task.add_done_callback(self._done)
            if len(self._under_way) > client_handshakes():
                self._make_room()
                return  # the descriptor is free in the next turn, or the one after it

    async def _shake_hands(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):  # TLS errors, too: the client's fault, or its leaving
            await self._loop.connect_accepted_socket(
                self._protocol,
                connection,
                ssl=self.tls,
                ssl_handshake_timeout=TLS_HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=TLS_CLOSE_SECONDS,
            )

    def _make_room(self) -> None:
        ((most, _),) = Counter(self._under_way.values()).most_common(1)
        self._give_up(next(task for task, address in self._under_way.items() if address == most))

    def _give_up(self, task: asyncio.Task[None]) -> None:
        del self._under_way[task]
        self._given_up.add(task)
        task.cancel()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)
        self._given_up.discard(task)
