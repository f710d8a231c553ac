"""The gateway's client before a raw server; at the end nothing may be left of any connection. I/O: sockets on
127.0.0.1."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from tests.world.raw_server import Connection, RawServer

from accredit.gateway.upstream.http.client import UpstreamClient

Handler = Callable[[Connection], Awaitable[None]]


def answers(*parts: bytes) -> Handler:
    """A handler that answers each request with the same bytes."""

    async def handler(connection: Connection) -> None:
        while await connection.request():
            await connection.send(*parts)

    return handler


@asynccontextmanager
async def client_of(
    handler: Handler, timeout: float = 10, **server_options: Any
) -> AsyncGenerator[tuple[UpstreamClient, RawServer]]:
    """A client and its server."""
    async with RawServer(handler, **server_options) as server:
        client = UpstreamClient(server.url, timeout=timeout)
        yield client, server
        await client.close()
        await gone(server, client)
        assert not client._pool._dialing
        assert not timers()


async def gone(server: RawServer, client: UpstreamClient) -> None:
    """Waits until no connection is open, on either side."""
    await server.until(lambda server: not server.open)
    assert not client._pool._open


def timers() -> list[asyncio.TimerHandle]:
    """The client's timers that are still to come; only asyncio's own loop can tell."""
    scheduled: list[Any] = getattr(asyncio.get_running_loop(), "_scheduled", [])
    return [handle for handle in scheduled if not handle.cancelled() and "accredit" in handle._callback.__module__]
