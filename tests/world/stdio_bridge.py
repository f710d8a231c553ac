"""The gateway in front of the raw stdio server, and clients of both eras. I/O: sockets on 127.0.0.1, processes."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any, Protocol, Self

from msgspec import Struct
from tests.world.calls import Posted, initialize, post
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import PATIENCE, until
from tests.world.running import RunningGateway
from tests.world.stdio_processes import descendants, open_files, raw_command

from accredit.gateway import GatewaySettings, StdioUpstream
from accredit.jsonrpc.methods import Era


class Bridge:
    """`async with Bridge() as bridge`: the real gateway. When it ends, no process and no file descriptor is left."""

    def __init__(self, *options: str, command: tuple[str, ...] | None = None, **settings: Any) -> None:
        upstream = StdioUpstream(command or raw_command(*options))
        self.gateway = RunningGateway(GatewaySettings(upstream, **settings))

    async def __aenter__(self) -> Self:
        self._files = open_files()
        await self.gateway.__aenter__()
        self.port = self.gateway.port
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.gateway.__aexit__(kind, error, trace)
        if error is None:
            assert not descendants(os.getpid())
            await until(lambda: open_files() <= self._files + 1)  # uvloop keeps /dev/null open from its first pipe on

    @property
    def children(self) -> set[int]:
        """The upstream's processes."""
        return descendants(os.getpid()) - self.reapers

    @property
    def reapers(self) -> set[int]:
        """The process that watches over them."""
        return {pid for pid in descendants(os.getpid()) if "reaper.py" in _command_line(pid)}

    async def send(self, posted: Posted, method: str = "POST") -> RawAnswer:
        """One request on a connection of its own, and its whole answer."""
        async with RawClient(self.port) as client:
            await client.ask(method, "/mcp", posted.headers, posted.body)
            return await client.answer()

    async def call(self, name: str, *, id: int | str = 7, meta: dict[str, Any] | None = None, **arguments: Any) -> Any:
        """A modern `tools/call`; gives status and message."""
        return parsed(await self.send(modern(name, id=id, meta=meta, **arguments)))

    async def lines(self) -> list[Any]:
        """Every line that the shared child has read."""
        status, message = await self.call("read", id="lines")
        assert status == 200
        return [json.loads(line) for line in text_of(message)]

    async def session(self, revision: str = "2025-11-25") -> "SessionClient":
        """A new legacy session."""
        answer = await self.send(initialize(revision))
        assert answer.status == 200, answer
        session = answer.header("mcp-session-id")
        assert session is not None
        return SessionClient(self, session, revision)


class Sends(Protocol):
    """What a client sends through."""

    async def send(self, posted: Posted, method: str = "POST") -> RawAnswer:
        """One request, and its whole answer."""
        ...


class SessionClient:
    """A client with a legacy session."""

    def __init__(self, bridge: Sends, id: str, revision: str) -> None:
        self.id = id
        self.revision = revision
        self._bridge = bridge

    @property
    def headers(self) -> list[tuple[str, str]]:
        """What every request of the session carries."""
        return [
            ("Accept", "application/json, text/event-stream"),
            ("Content-Type", "application/json"),
            ("MCP-Protocol-Version", self.revision),
            ("Mcp-Session-Id", self.id),
        ]

    def posted(self, name: str, *, id: int | str = 7, meta: dict[str, Any] | None = None, **arguments: Any) -> Posted:
        """A `tools/call`."""
        params = {"name": name, "arguments": arguments} | ({"_meta": meta} if meta is not None else {})
        return self.message({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})

    def message(self, message: Any) -> Posted:
        """Any message, or a batch."""
        return Posted(self.headers, json.dumps(message).encode())

    async def send(self, message: Any) -> RawAnswer:
        """Posts any message, or a batch."""
        return await self._bridge.send(self.message(message))

    async def call(self, name: str, *, id: int | str = 7, meta: dict[str, Any] | None = None, **arguments: Any) -> Any:
        """A `tools/call`; gives status and message."""
        return parsed(await self._bridge.send(self.posted(name, id=id, meta=meta, **arguments)))

    async def lines(self) -> list[Any]:
        """Every line that the child has read."""
        status, message = await self.call("read", id="lines")
        assert status == 200
        return [json.loads(line) for line in text_of(message)]

    async def get(self, client: RawClient, last_event_id: str | None = None) -> int:
        """Opens the standing stream, or resumes one, on a connection of its own; gives the status."""
        headers = [("Accept", "text/event-stream"), *self.headers[2:]]
        if last_event_id is not None:
            headers.append(("Last-Event-ID", last_event_id))
        await client.ask("GET", "/mcp", headers)
        return (await client.head())[0]

    async def delete(self) -> int:
        """Ends the session; gives the status."""
        return (await self._bridge.send(Posted(self.headers, b""), "DELETE")).status


def modern(name: str, *, id: int | str = 7, meta: dict[str, Any] | None = None, **arguments: Any) -> Posted:
    """A modern `tools/call`."""
    params: dict[str, Any] = {"name": name, "arguments": arguments, "_meta": meta or {}}
    return post(Era.MODERN, "tools/call", params, id=id)


def parsed(answer: RawAnswer) -> tuple[int, Any]:
    """Status and message of an answer in JSON."""
    assert answer.header("content-type") == "application/json", answer
    return answer.status, json.loads(answer.body)


def text_of(message: Any) -> Any:
    """What a tool of the raw server answered."""
    return json.loads(message["result"]["content"][0]["text"])


class Event(Struct, frozen=True):
    """An event of a stream: its id, and its message; None for the priming event."""

    id: str | None
    message: Any


async def next_event(client: RawClient) -> Event | None:
    """The next event of a stream whose head was read (comments left out), or None at its end."""
    while (event := await client.event()) is not None:
        if event.data is not None:
            id = event.id.decode() if event.id is not None else None
            return Event(id, json.loads(event.data) if event.data else None)
    return None


async def events_of(client: RawClient) -> AsyncGenerator[Event]:
    """The events of a stream to its end."""
    while (event := await next_event(client)) is not None:
        yield event


async def open_stream(client: RawClient, posted: Posted) -> None:
    """Posts a message whose answer begins with success."""
    await client.ask("POST", "/mcp", posted.headers, posted.body)
    assert (await client.head())[0] == 200


async def has_read(reader: SessionClient | Bridge, **members: Any) -> dict[str, Any]:
    """Waits until a session's child, or the shared one, has read a line with these members; gives it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            for line in await reader.lines():
                if all(line.get(name) == value for name, value in members.items()):
                    return line


def error_of(answer: tuple[int, Any]) -> tuple[int, Any, str, Any]:
    """Status, id, message and detail of an answer that the gateway refused, or did not get."""
    status, message = answer
    assert message["error"]["code"] == -32000, message
    return status, message["id"], message["error"]["message"], message["error"]["data"]


def _command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as line:
            return line.read()
    except OSError:
        return ""
