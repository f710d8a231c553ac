"""Sends the corpus: to a server as it is, or to the gateway before it. I/O: sockets on 127.0.0.1.

Each case has a connection of its own. HTTP+SSE of 2024-11-05 has one stream for all of them, and takes messages where
its first event says.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.differential.peers.corpus import META, Case, Headers
from tests.world.raw_client import CutOff, RawClient

SSE = "/sse"
ANSWER_SECONDS = 5.0
_USUAL = [("Accept", "application/json, text/event-stream"), ("MCP-Protocol-Version", "2025-11-25")]


class Line:
    """A way to send cases to whoever listens on a port."""

    def __init__(self, port: int, target: str, headers: Headers = ()) -> None:
        self._port = port
        self._target = target
        self._usual = [*_USUAL, *headers]

    async def send(self, case: Case, meta: str) -> None:
        """Sends a case, and waits for its answer, if there is one."""
        body = case.encode(case.body.replace(META.encode(), meta.encode()))
        with contextlib.suppress(CutOff, ConnectionError, TimeoutError):  # of a server, with what it can't read
            async with asyncio.timeout(ANSWER_SECONDS), RawClient(self._port) as client:
                own = {name for name, _ in case.headers}
                usual = [(name, value) for name, value in self._usual if name not in own]
                await client.ask(case.method, self._target, [*usual, *case.headers], body)
                _, headers = await client.head()
                if case.method != "GET" or ("content-type", "text/event-stream") not in headers:  # else it would stand
                    await client.rest()


@asynccontextmanager
async def line_to(port: int, path: str, headers: Headers = ()) -> AsyncGenerator[Line]:
    """A line to a server that serves `path`, or to the gateway before it; each request of it has these headers."""
    if path != SSE:
        yield Line(port, path, headers)
        return
    async with RawClient(port) as stream:
        await stream.ask("GET", SSE, [("Accept", "text/event-stream"), *headers])
        await stream.head()
        endpoint = await stream.event()
        assert endpoint is not None
        assert endpoint.data is not None
        draining = asyncio.create_task(_drained(stream))
        yield Line(port, endpoint.data.decode("ascii"), headers)
        draining.cancel()


async def _drained(stream: RawClient) -> None:
    """Reads what comes on a stream, so that its server does not wait."""
    while await stream.reader.read(65_536):
        pass
