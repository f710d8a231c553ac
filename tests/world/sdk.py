"""The official SDK's side of a test: its everything server's command, what a client answers, and what a result says.

I/O: none, but for the process that `host` starts.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters
from tests.world.command import environment
from tests.world.raw_server import PATIENCE
from tests.world.warm import python

LEGACY, MODERN = "legacy", "2026-07-28"
EVERYTHING = (python(), str(Path(__file__).parents[1] / "conformance" / "everything_server.py"), "--stdio")


async def on_elicit(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    """Accepts, with a person's data."""
    return types.ElicitResult(action="accept", content={"username": "ada", "email": "a@b.example", "name": "Ada"})


async def on_sample(_: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    """What a model says."""
    text = types.TextContent(type="text", text="forty-two")
    return types.CreateMessageResult(role="assistant", content=text, model="m")


async def on_roots(_: Any) -> types.ListRootsResult:
    """One folder."""
    return types.ListRootsResult(roots=[types.Root(uri="file:///srv")])  # pyright: ignore[reportArgumentType]


def text_of(result: types.CallToolResult) -> str:
    """All that a tool's result says."""
    return " ".join(block.text for block in result.content if isinstance(block, types.TextContent))


@asynccontextmanager
async def host(url: str, *options: str, mode: str = LEGACY, **callbacks: Any) -> AsyncGenerator[Client]:
    """A host that starts `accredit connect`, without a key if no options name one."""
    arguments = ["-m", "accredit", "connect", url, "--log-level", "error", *options]
    command = StdioServerParameters(command=python(), args=arguments, env=environment())
    async with Client(command, mode=mode, read_timeout_seconds=PATIENCE, **callbacks) as client:
        yield client
