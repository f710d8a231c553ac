"""Guards in process and `wrap` block their loops no longer than a gateway does: as in `test_loop_steps`.

What a guard's server does before the guard is asked is the SDK's, and is measured with it.
"""

import asyncio
import json
import math
from typing import Any, cast

import mcp_types as types
import pytest
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage
from tests.integration.test_loop_steps import FACTOR, PROMISED, small_heap
from tests.world.authorization import Trust
from tests.world.guarded import KINDS, Guarded
from tests.world.heavy_bodies import bodies
from tests.world.measured_loop import MeasuredLoop

from accredit.errors import FrameError, UpstreamUnavailable
from accredit.gateway.admission.gate import Gate
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.counters import Counters
from accredit.gateway.front.wrap import Wrap
from accredit.gateway.settings import StdioUpstream
from accredit.stores import MemoryStore, RevocationLists, Tasks

pytestmark = pytest.mark.slow

__all__ = ["small_heap"]

WITH_THE_SDK = 2
"""What a guard's server does itself in the same step of its loop, to our own work."""

NAMES = (
    *("as many floats as pass", "integers of 199 digits", "nested arrays that pass", "objects that sort otherwise"),
    *("members that pass", "marks in a name", "marks in a tool", "marks in a URI", "names in _meta that pass"),
    *("a giant proof", "a proof that is read"),
)
MODERN = (
    '"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},'
    '"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}'
)


def modern(text: str) -> str:
    """The same request, of 2026-07-28."""
    if '"_meta":{' not in text:
        return text.replace('"params":{', f'"params":{{"_meta":{{{MODERN}}},', 1)
    return text.replace('"_meta":{}', f'"_meta":{{{MODERN}}}').replace('"_meta":{"', f'"_meta":{{{MODERN},"', 1)


async def asked(guarded: Guarded, message: types.JSONRPCMessage) -> list[Any]:
    """The answers of a server with a guard, in memory."""
    server = cast(Any, guarded.server)
    inner = server._mcp_server if guarded.kind == "fastmcp" else server._lowlevel_server
    to_server, incoming = create_context_streams[SessionMessage | Exception](math.inf)
    outgoing, from_server = create_context_streams[SessionMessage](math.inf)
    async with to_server, incoming, outgoing, from_server:
        serving = asyncio.create_task(inner.run(incoming, outgoing, inner.create_initialization_options()))
        await to_server.send(SessionMessage(message))
        answer = await from_server.receive()
        await to_server.aclose()
        await serving
        return [answer.message]


@pytest.mark.parametrize("kind", KINDS)
def test_no_call_blocks_the_loop_of_a_server_with_a_guard(kind: str) -> None:
    guarded = Guarded(kind, [Trust().owner.public_key], store=MemoryStore())
    steps: dict[str, float] = {}

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MeasuredLoop)
        for name in NAMES:
            message = types.jsonrpc_message_adapter.validate_json(modern(bodies()[name]), by_name=False)
            await asyncio.sleep(0)
            loop.longest = 0.0
            (answer,) = await asked(guarded, message)
            steps[name] = loop.longest
            assert isinstance(answer, types.JSONRPCError), name

    with asyncio.Runner(loop_factory=MeasuredLoop) as runner:
        runner.run(main())
    assert guarded.ran == []
    assert {name: step for name, step in steps.items() if step > WITH_THE_SDK * FACTOR * PROMISED} == {}


class Host:
    """A host that sends one line."""

    def __init__(self, line: bytes) -> None:
        self._chunks = [line, b"\n"]
        self.told: list[bytes] = []

    async def read(self) -> bytes:
        return self._chunks.pop(0) if self._chunks else b""

    def send(self, line: bytes) -> None:
        self.told.append(line)

    async def drained(self, limit: int = 0) -> None:
        pass


class Child:
    """A server that answers nothing, and ends when its input does."""

    def __init__(self) -> None:
        self._closed = asyncio.Event()

    async def send(self, text: bytes, timeout: float | None) -> None:
        pass

    def close_input(self) -> None:
        self._closed.set()

    async def lines(self) -> list[bytes | FrameError] | None:
        await self._closed.wait()
        return None

    async def died(self) -> UpstreamUnavailable:
        return UpstreamUnavailable("it ended")

    async def aclose(self) -> None:
        pass


def test_no_line_of_a_host_blocks_the_loop_of_wrap() -> None:
    steps: dict[str, float] = {}
    settings = Trust().settings(StdioUpstream(("server",)))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MeasuredLoop)
        for name in NAMES:
            counters, host = Counters(), Host(bodies()[name].encode())
            gate = Gate(
                settings,
                counters,
                ToolDirectory(),
                store=MemoryStore(),
                revocations=RevocationLists((), {}),
                tasks=Tasks(),
            )
            wrap: Any = Wrap(settings, gate, cast(Any, Child()), cast(Any, host), counters)
            await asyncio.sleep(0)
            loop.longest = 0.0
            await asyncio.gather(wrap._from_host(), wrap._backend.over)
            steps[name] = loop.longest
            assert "error" in json.loads(host.told[0]), name

    with asyncio.Runner(loop_factory=MeasuredLoop) as runner:
        runner.run(main())
    assert {name: step for name, step in steps.items() if step > FACTOR * PROMISED} == {}
