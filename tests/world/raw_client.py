"""A raw HTTP/1.1 client for tests: one connection, read as slowly as a test likes. I/O: a socket to 127.0.0.1."""

import asyncio
import contextlib
import ssl
from collections.abc import Iterable
from typing import Self

from msgspec import Struct
from tests.world.raw_server import PATIENCE

from accredit.jsonrpc.sse import Event, SseParser

Headers = list[tuple[str, str]]
_MAX_EVENT = 1 << 28


class CutOff(Exception):
    """The connection ended in the middle of an answer."""


class RawAnswer(Struct, frozen=True):
    """A whole answer. Header names are in lower case, in their order."""

    status: int
    headers: Headers
    body: bytes

    def header(self, name: str) -> str | None:
        """The values of a header, joined, or None."""
        values = [value for key, value in self.headers if key == name]
        return ", ".join(values) if values else None


class RawClient:
    """`async with RawClient(port) as client`: one connection. Every wait ends after `PATIENCE`."""

    def __init__(
        self, port: int, *, buffer: int = 1 << 20, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
    ) -> None:
        self._port = port
        self._host = host
        self._tls = tls
        self._buffer = buffer
        self._left = 0
        self._mode = "none"
        self._events: list[Event] = []

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection(
            self._host, self._port, limit=self._buffer, ssl=self._tls
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Goes away."""
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    def half_close(self) -> None:
        """Says that nothing more will be sent; still reads."""
        self.writer.write_eof()

    async def send(self, *parts: bytes) -> None:
        """Writes bytes as they are."""
        for part in parts:
            self.writer.write(part)
            await self.writer.drain()

    async def ask(self, method: str, target: str, headers: Iterable[tuple[str, str]] = (), body: bytes = b"") -> None:
        """Sends a request; `Host` and `Content-Length` are added unless given."""
        given = list(headers)
        names = {name.lower() for name, _ in given}
        if "host" not in names:
            given.insert(0, ("Host", f"127.0.0.1:{self._port}"))
        if "content-length" not in names and "transfer-encoding" not in names and (body or method == "POST"):
            given.append(("Content-Length", str(len(body))))
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given), "", ""]
        await self.send("\r\n".join(lines).encode("latin-1") + body)

    async def head(self) -> tuple[int, Headers]:
        """The status and headers of the next answer (1xx answers are skipped)."""
        async with asyncio.timeout(PATIENCE):
            try:
                text = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            except asyncio.IncompleteReadError:
                raise CutOff from None
        line, *rows = text.split("\r\n")
        status = int(line.split(" ")[1])
        if 100 <= status < 200:
            return await self.head()
        headers = [(name.lower(), value.strip()) for name, _, value in (row.partition(":") for row in rows if row)]
        folded = dict(headers)
        self._events = []
        self._parser = SseParser(_MAX_EVENT)
        if folded.get("transfer-encoding", "").lower() == "chunked":
            self._mode = "chunked"
        elif "content-length" in folded:
            self._mode, self._left = "length", int(folded["content-length"])
        else:
            self._mode = "none" if status in (204, 304) else "close"
        return status, headers

    async def piece(self) -> bytes:
        """The next bytes of the body, b"" at its end. Raises `CutOff`."""
        async with asyncio.timeout(PATIENCE):
            try:
                return await self._piece()
            except (asyncio.IncompleteReadError, ConnectionError):
                raise CutOff from None

    async def _piece(self) -> bytes:
        if self._mode == "chunked":
            line = await self.reader.readline()
            if not line:
                raise CutOff
            size = int(line, 16)
            data = await self.reader.readexactly(size)
            await self.reader.readexactly(2)
            self._mode = "chunked" if size else "none"
            return data
        if self._mode == "length" and self._left:
            data = await self.reader.read(min(self._left, 65_536))
            if not data:
                raise CutOff
            self._left -= len(data)
            return data
        return await self.reader.read(65_536) if self._mode == "close" else b""

    async def rest(self) -> bytes:
        """The rest of the body."""
        pieces: list[bytes] = []
        while piece := await self.piece():
            pieces.append(piece)
        return b"".join(pieces)

    async def answer(self) -> RawAnswer:
        """The next answer, whole."""
        status, headers = await self.head()
        return RawAnswer(status, headers, await self.rest())

    async def event(self) -> Event | None:
        """The next event of a stream whose head was read (comments too), or None at its end."""
        while not self._events:
            piece = await self.piece()
            if not piece:
                return None
            self._events = list(self._parser.feed(piece))
        return self._events.pop(0)

    async def peer_closed(self) -> bool:
        """Waits until the gateway closes the connection; true if it sent nothing more before."""
        async with asyncio.timeout(PATIENCE):
            try:
                return not await self.reader.read()
            except ConnectionError:
                return True
