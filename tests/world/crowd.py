"""Many clients of one address, each with a connection that it keeps. I/O: sockets on 127.0.0.0/8."""

import asyncio
import contextlib
from typing import Self

from tests.world.calls import Posted
from tests.world.raw_server import PATIENCE


class Crowd:
    """`async with Crowd(port) as crowd`: whoever is in it is gone at the end. `address` is where all come from."""

    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        self._port = port
        self._address = address
        self.members: list[Member] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for member in self.members:
            await member.leave()

    async def join(self, count: int, request: bytes) -> list["Member"]:
        """So many send a request, each on a connection of its own."""
        joined = [await self._connect() for _ in range(count)]
        for member in joined:
            member.writer.write(request)
        self.members += joined
        return joined

    async def asks(self, posted: Posted) -> int:
        """One sends a request; the status of the answer, 0 where it is the gateway's error in status 200."""
        (member,) = await self.join(1, request("POST", posted))
        status = await member.status()
        return 0 if status == 200 and b'"error"' in await member.body() else status

    async def _connect(self) -> "Member":
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, local_addr=(self._address, 0))
        return Member(reader, writer)


class Member:
    """One of them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.head = b""

    async def status(self) -> int:
        """The status of its answer, which begins within `PATIENCE`; 0 where the connection is closed instead."""
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                self.head = await self._reader.readuntil(b"\r\n\r\n")
        return int(self.head.split(b" ")[1]) if self.head else 0

    async def body(self) -> bytes:
        """What has come of its answer's body, once something has."""
        async with asyncio.timeout(PATIENCE):
            return await self._reader.read(65_536)

    async def is_closed(self) -> None:
        """Returns when the gateway has closed the connection."""
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                while await self._reader.read(65_536):
                    pass

    async def leave(self) -> None:
        """Goes away."""
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


def request(method: str, posted: Posted, *, length: int | None = None, **headers: str) -> bytes:
    """A request to `/mcp` as bytes; `length` is what it claims to have. `Mcp_Session_Id=` replaces that header."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    fields = dict(posted.headers) | named | {"Host": "127.0.0.1"}
    if method == "POST":
        fields["Content-Length"] = str(len(posted.body) if length is None else length)
    lines = [f"{method} /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1") + (posted.body if method == "POST" else b"")
