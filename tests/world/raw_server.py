"""A raw TCP server that speaks HTTP/1.1 by hand, so that it can send anything. I/O: sockets on 127.0.0.1.

A handler is a coroutine that gets one `Connection`; it reads requests when it wants to and writes what it wants.
When it returns, the connection is closed. What a handler raises is kept in `errors` (but for a peer that went
away), and leaving the `async with` raises it.
"""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

PATIENCE = 30.0
"""Seconds that a test waits for something that should happen at once, before it fails: machines stall for several."""


async def until(condition: Callable[[], bool]) -> None:
    """Waits until `condition` holds; fails after `PATIENCE`."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.002)


@dataclass(frozen=True, slots=True)
class RawRequest:
    """One HTTP request as it came. Header names are in lower case, in their order."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    head: bytes = field(repr=False)

    def header(self, name: str) -> str | None:
        """The values of a header, joined as HTTP allows, or None."""
        values = [value for key, value in self.headers if key == name.lower()]
        return ", ".join(values) if values else None


class Connection:
    """One accepted connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: "RawServer") -> None:
        self.reader = reader
        self.writer = writer
        self._server = server

    async def head(self) -> bytes:
        """The head of the next request, up to and with its blank line; b"" when the peer closes instead."""
        try:
            return await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""

    async def request(self) -> RawRequest | None:
        """The next request with its body (by Content-Length or chunked), or None when the peer closes instead."""
        head = await self.head()
        if not head:
            return None
        line, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = line.split(" ", 2)
        headers = [(name.lower(), value.strip()) for name, _, value in (row.partition(":") for row in lines if row)]
        body = await self._body(dict(headers))
        request = RawRequest(method, target, headers, body, head)
        self._server.requests.append(request)
        return request

    async def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return await self.reader.readexactly(int(headers.get("content-length", "0")))
        body = b""
        while size := int(await self.reader.readline(), 16):
            body += await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        await self.reader.readline()
        return body

    async def send(self, *parts: bytes) -> None:
        """Writes bytes and waits while the peer is slow to read them."""
        for part in parts:
            if self.writer.is_closing():
                raise ConnectionResetError  # uvloop takes a write to a closed transport for a mistake of ours
            self.writer.write(part)
            await self.writer.drain()

    async def peer_closed(self) -> bool:
        """Waits until the peer closes its side; anything it sends before is thrown away."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65_536):
                pass
        return True

    def reset(self) -> None:
        """Closes with RST: what the peer has not yet read may be lost."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Handler = Callable[[Connection], Awaitable[None]]


class RawServer:
    """`async with RawServer(handler) as server`: listens on a free port of 127.0.0.1 until the block is left."""

    def __init__(self, handler: Handler, *, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._handler = handler
        self._port = port
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self.accepted = 0
        self.requests: list[RawRequest] = []
        self.errors: list[BaseException] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()
        if error is None and self.errors:
            raise self.errors[0]

    @property
    def url(self) -> str:
        """The endpoint, as a gateway is told it."""
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self.port}/mcp"

    @property
    def tasks(self) -> frozenset[asyncio.Task[None]]:
        """The tasks of the connections that are open."""
        return frozenset(self._tasks)

    @property
    def open(self) -> int:
        """Connections that are open on this side: the peer has not closed them, nor has the handler."""
        return len(self._tasks)

    async def until(self, condition: Callable[["RawServer"], bool]) -> None:
        """Waits until something is true of this server; fails after `PATIENCE`."""
        await until(lambda: condition(self))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.accepted += 1
        try:
            await self._handler(Connection(reader, writer, self))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the peer went away: often what a test is about
        except asyncio.CancelledError:
            pass  # the server is being closed
        except Exception as error:
            self.errors.append(error)
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
