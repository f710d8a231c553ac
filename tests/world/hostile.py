"""A hostile upstream, the real gateway in front of it, and a client's calls through both. I/O on 127.0.0.1.

The upstream is sound until a request asks for the other side of it with the header `X-Behaviour: hostile`. So
one gateway sees both, and `recovered` proves that the hostile answer did it no harm.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from tests.world.calls import Posted, event, http, post, response
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import Connection, RawRequest, RawServer, until
from tests.world.running import RunningGateway

from accredit.gateway import GatewaySettings, HttpUpstream
from accredit.jsonrpc.methods import Era

Script = Callable[[Connection, RawRequest], Awaitable[None]]
"""What the upstream does with a hostile request; when it returns, the connection serves on."""

HOSTILE = ("X-Behaviour", "hostile")
LEAKS = (
    ("Set-Cookie", "stolen=1"),
    ("Mcp-Session-Id", "leaked-session"),
    ("ETag", '"leak"'),
    ("Cache-Control", "public, max-age=31536000"),
    ("Last-Modified", "Thu, 01 Jan 1970 00:00:00 GMT"),
    ("Access-Control-Allow-Origin", "*"),
    ("X-Custom", "leak"),
)
"""Headers that a refused answer must take with it."""

SOON = 1.0
"""Seconds after which a gateway gives an upstream up, where that is what is tried: it has to serve sound calls within
them as well, on a machine that stalls for a moment."""

INVALID = "Invalid upstream JSON-RPC response"
UNAVAILABLE = "Upstream unavailable"


class Hangs(Exception):
    """Raised by a script that is through with its connection: the server waits until the gateway closes it."""


def sends(*parts: bytes) -> Script:
    """Writes bytes, then serves on."""

    async def script(connection: Connection, request: RawRequest) -> None:
        await connection.send(*parts)

    return script


def sends_and_closes(*parts: bytes) -> Script:
    """Writes bytes, then closes the connection."""

    async def script(connection: Connection, request: RawRequest) -> None:
        await connection.send(*parts)
        raise ConnectionAbortedError

    return script


def sends_and_hangs(*parts: bytes) -> Script:
    """Writes bytes, then waits: the gateway has to close the connection."""

    async def script(connection: Connection, request: RawRequest) -> None:
        await connection.send(*parts)
        raise Hangs

    return script


def refused(detail: str, *, message: str = INVALID) -> bytes:
    """The body that a client gets in place of an answer (docs/reference/validation.md)."""
    error = {"code": -32000, "message": message, "data": detail}
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": error}, separators=(",", ":")).encode()


def error_event(id: int | str, detail: str, *, message: str = INVALID) -> bytes:
    """The event that ends a stream in place of the response."""
    return event(refused(detail, message=message).replace(b"null", json.dumps(id).encode(), 1))


def check_refused(answer: RawAnswer, status: int, body: bytes, *kept: tuple[str, str]) -> None:
    """The clean error, to the byte, and no header but its own and those that are `kept`."""
    assert answer.body == body
    assert answer.status == status
    own = [("content-type", "application/json"), ("content-length", str(len(body)))]
    assert sorted(answer.headers) == sorted([*own, *kept])


class World:
    """`async with World(script) as world`: all three, until the block is left; then nothing may be left over."""

    def __init__(self, script: Script, *, reports_errors: bool = False, **settings: Any) -> None:
        self._script = script
        self._settings = settings
        self._reports_errors = reports_errors
        self.upstream = RawServer(self._serve)

    async def __aenter__(self) -> Self:
        await self.upstream.__aenter__()
        settings = GatewaySettings(HttpUpstream(self.upstream.url), **self._settings)
        self.gateway = RunningGateway(settings, reports_errors=self._reports_errors)
        await self.gateway.__aenter__()
        self._tasks = asyncio.all_tasks()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.gateway.__aexit__(kind, error, trace)
            if error is None:
                await self.upstream.until(lambda server: server.open == 0)
        finally:
            await self.upstream.__aexit__(kind, error, trace)

    async def ask(self, posted: Posted, *, hostile: bool = True) -> RawAnswer:
        """One call on a connection of its own."""
        async with self.client() as client:
            await self.send(client, posted, hostile=hostile)
            return await client.answer()

    def client(self, **options: Any) -> RawClient:
        """A connection to the gateway."""
        return RawClient(self.gateway.port, **options)

    async def send(self, client: RawClient, posted: Posted, *, hostile: bool = True) -> None:
        """Sends a call; the answer is not yet read."""
        headers = [*posted.headers, HOSTILE] if hostile else posted.headers
        await client.ask("POST", "/mcp", headers, posted.body)

    async def recovered(self, era: Era) -> None:
        """The same gateway serves a sound call, and nothing of the hostile one is left: no connection, no task."""
        answer = await self.ask(post(era, id="sound"), hostile=False)
        assert (answer.status, answer.body) == (200, response("sound"))
        await until(lambda: self.upstream.open <= 1 and not self.gateway.state.connections)
        await until(lambda: asyncio.all_tasks() - self.upstream.tasks <= self._tasks)

    @property
    def refused(self) -> dict[str, int]:
        """What the gateway has refused, by kind."""
        counts: dict[str, int] = self.gateway.app.refused
        return counts

    def ended_sessions(self) -> list[str | None]:
        """The sessions that the gateway has ended at the upstream."""
        return [seen.header("mcp-session-id") for seen in self.upstream.requests if seen.method == "DELETE"]

    async def _serve(self, connection: Connection) -> None:
        while request := await connection.request():
            if request.method != "DELETE" and request.header("x-behaviour") == "hostile":
                try:
                    await self._script(connection, request)
                except Hangs:
                    await connection.peer_closed()
                    return
            else:
                await connection.send(sound_answer(request))


def sound_answer(request: RawRequest) -> bytes:
    """What a well-made server answers."""
    if request.method != "POST":
        return http(b"", None)
    message = json.loads(request.body)
    if "id" not in message or "method" not in message:
        return http(b"", None, status="202 Accepted")
    return http(response(message["id"]))
