"""The network between a client and a server, that can be cut. I/O: sockets on 127.0.0.1."""

import asyncio
import contextlib
from types import TracebackType
from typing import Self

from tests.world.raw_server import Connection, RawServer

_AT_ONCE = 65_536


class Wire:
    """`async with Wire(to) as wire`: what comes to `wire.port` goes on to port `to`, and back."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._server = RawServer(self._carry)
        self._ends: set[Connection] = set()
        self.cuts = 0

    @property
    def url(self) -> str:
        """The endpoint behind it."""
        return self._server.url

    def cut(self) -> None:
        """Resets every connection; new ones are carried."""
        for end in self._ends:
            end.reset()
        self.cuts += len(self._ends)

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.__aexit__(kind, error, trace)

    async def _carry(self, near: Connection) -> None:
        far = Connection(*await asyncio.open_connection("127.0.0.1", self._to), self._server)
        self._ends.add(near)
        ways = [asyncio.create_task(_pass_on(*ends)) for ends in ((near, far), (far, near))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._ends.discard(near)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            far.writer.close()
            with contextlib.suppress(ConnectionError):
                await far.writer.wait_closed()


async def _pass_on(source: Connection, to: Connection) -> None:
    while piece := await source.reader.read(_AT_ONCE):
        await to.send(piece)
