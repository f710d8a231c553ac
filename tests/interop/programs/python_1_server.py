"""`python_1_server.py stdio|http`: a server of the official Python SDK 1.x. HTTP: on 127.0.0.1, at the port `$PORT`."""

import asyncio
import os
import sys
from typing import Any

import mcp.types as types
from mcp.server.fastmcp import Context, FastMCP, Image
from pydantic import BaseModel

server = FastMCP("python-sdk-1", instructions="A server with a little of everything.", log_level="ERROR")
Here = Context[Any, Any, Any]


class Name(BaseModel):
    name: str


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Always fails."""
    raise ValueError("on purpose")


@server.tool()
def big_image() -> Image:
    """Two million bytes."""
    return Image(data=bytes(range(256)) * 8192, format="png")


@server.tool()
async def count(to: int, context: Here) -> str:
    """Counts, and says how far it is."""
    for number in range(1, to + 1):
        await context.report_progress(number, to, f"at {number}")
        await asyncio.sleep(0.05)
    return "counted"


@server.tool()
async def wait(seconds: float) -> str:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return "waited"


@server.tool()
async def say(context: Here) -> str:
    """Logs."""
    await context.info("said")
    return "said"


@server.tool()
async def ask_user(context: Here) -> str:
    """Asks the user for a name."""
    answer: Any = await context.elicit("What is your name?", Name)
    return f"{answer.action} {getattr(answer, 'data', None)}"


@server.tool()
async def ask_model(context: Here) -> str:
    """Asks the client's model."""
    content = types.TextContent(type="text", text="capital of France?")
    message = types.SamplingMessage(role="user", content=content)
    answer: Any = await context.session.create_message([message], max_tokens=5, related_request_id=context.request_id)
    return str(answer.content.text)


@server.resource("note://fixed")
def fixed() -> str:
    """A note."""
    return "a fixed note"


@server.resource("note://by-id/{id}")
def by_id(id: str) -> str:
    """A note by its id."""
    return f"note {id}"


@server.prompt()
def greet(name: str) -> str:
    """Greets."""
    return f"Greet {name}."


@server.completion()
async def completed(*_: Any) -> types.Completion:
    return types.Completion(values=["Ada", "Alan"], total=2, hasMore=False)


if __name__ == "__main__":
    if sys.argv[1] == "http":
        server.settings.port = int(os.environ["PORT"])
    server.run("stdio" if sys.argv[1] == "stdio" else "streamable-http")
