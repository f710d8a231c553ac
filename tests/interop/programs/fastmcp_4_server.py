"""`fastmcp_4_server.py stdio|http`: a server of FastMCP 4. HTTP: on 127.0.0.1, at the port `$PORT`."""

import asyncio
import base64
import os
import sys
from typing import Any

import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.types import Image

BIG = base64.b64encode(bytes(range(256)) * 8192)
server: FastMCP[Any] = FastMCP("fastmcp", instructions="A server with a little of everything.")


@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool
def fail() -> str:
    """Always fails."""
    raise ToolError("on purpose")


@server.tool
def big_image() -> Image:
    """Two million bytes."""
    return Image(data=base64.b64decode(BIG), format="png")


@server.tool
async def count(to: int, context: Context) -> str:
    """Counts, and says how far it is."""
    for number in range(1, to + 1):
        await context.report_progress(number, to, f"at {number}")
        await asyncio.sleep(0.05)
    return "counted"


@server.tool
async def wait(seconds: float) -> str:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return "waited"


@server.tool
async def say(context: Context) -> str:
    """Logs."""
    await context.info("said")
    return "said"


@server.tool
async def ask_user(context: Context) -> str:
    """Asks the user for a name."""
    answer: Any = await context.elicit("What is your name?", response_type=str)
    return f"{answer.action} {getattr(answer, 'data', None)}"


@server.tool
async def ask_model(context: Context) -> str:
    """Asks the client's model."""
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text="capital of France?"))
    answer: Any = await context.session.create_message([message], max_tokens=5)
    return str(answer.content.text)


@server.resource("note://fixed")
def fixed() -> str:
    """A note."""
    return "a fixed note"


@server.resource("note://by-id/{id}")
def by_id(id: str) -> str:
    """A note by its id."""
    return f"note {id}"


@server.prompt
def greet(name: str) -> str:
    """Greets."""
    return f"Greet {name}."


@server.completion
async def completed(*_: Any) -> types.Completion:
    return types.Completion(values=["Ada", "Alan"], total=2, has_more=False)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run(show_banner=False)
    else:
        server.run("http", host="127.0.0.1", port=int(os.environ["PORT"]), show_banner=False)
