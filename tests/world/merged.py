"""Several servers as one: raw stdio servers behind the real gateway's merged endpoint, some as its children and some
over HTTP, each behind a gateway of its own. I/O: sockets on 127.0.0.1, processes.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from tests.world.calls import Posted, initialize
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.running import RunningGateway
from tests.world.stdio_bridge import SessionClient
from tests.world.stdio_processes import raw_command

from accredit.gateway import GatewaySettings, HttpUpstream, StdioUpstream, create_app
from accredit.gateway.settings import MergedUpstream, RoundsSettings

HTTP, STDIO = "http", "stdio"


class Merged:
    """`async with Merged({"mail": HTTP, "files": STDIO}) as merged`; a value that is a URL is a server that is there.

    `commands` are those of servers that are not the raw one.
    """

    def __init__(
        self, servers: Mapping[str, str], *, commands: Mapping[str, tuple[str, ...]] | None = None, **settings: Any
    ) -> None:
        self._servers = servers
        self._commands = commands or {}
        self.rounds = RoundsSettings()
        self.members: dict[str, GatewaySettings] = {}
        self._settings: dict[str, Any] = {"rounds": self.rounds, **settings}

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        self.behind: dict[str, RunningGateway] = {}
        for name, kind in self._servers.items():
            command = StdioUpstream(self._commands.get(name, raw_command()))
            upstream: HttpUpstream | StdioUpstream = command
            if kind == HTTP:
                behind = self.behind[name] = RunningGateway(GatewaySettings(command))
                await self._stack.enter_async_context(behind)
                upstream = HttpUpstream(behind.url)
            elif kind != STDIO:
                upstream = HttpUpstream(kind)
            self.members[name] = GatewaySettings(upstream, name, f"/mcp/{name}", **self._settings)
        self.gateway = RunningGateway(create_app(self._all()))
        await self._stack.enter_async_context(self.gateway)
        self.port = self.gateway.port
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    def reload(self) -> None:
        """Lets the gateway read its settings again; they are as they were."""
        app = self.gateway.app
        app.swap(app.prepare(self._all(), app.routes.shared), 0.1)

    def _all(self) -> list[GatewaySettings]:
        whole = GatewaySettings(MergedUpstream(self.members), **self._settings)
        return [*self.members.values(), whole]

    async def send(self, posted: Posted, method: str = "POST", path: str = "/mcp") -> RawAnswer:
        """One request on a connection of its own, and its whole answer."""
        async with RawClient(self.port) as client:
            await client.ask(method, path, posted.headers, posted.body)
            return await client.answer()

    async def session(self, revision: str = "2025-11-25") -> SessionClient:
        """A new session with all of them."""
        answer = await self.send(initialize(revision))
        assert answer.status == 200, answer
        session = answer.header("mcp-session-id")
        assert session is not None
        return SessionClient(self, session, revision)
