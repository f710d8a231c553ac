"""A server whose tool asks twice, and keeps the first answer in `requestState`: sealed, as the client carries it.

python examples/stateful_server.py      stdio; STATE_KEYS may name a file of keys, for more than one process
"""

import asyncio
import hashlib
import json
import os
import secrets
import time
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from accredit.errors import SealError
from accredit.rounds import FlowState, KeyRing, accepted_content, elicit, input_required, parse_keys, state_binding
from accredit.server import current_authority

STATE_SECONDS = 600
KEYS = os.environ.get("STATE_KEYS")
RING = parse_keys(Path(KEYS).read_text("utf-8"), KEYS) if KEYS else KeyRing([secrets.token_bytes(32)])


class Day(BaseModel):
    """When to travel."""

    day: str


class Seats(BaseModel):
    """How many of them."""

    seats: int


def binding(params: types.CallToolRequestParams) -> bytes:
    """Returns what ties a state to this caller, this tool and these arguments."""
    who = current_authority()  # None without a guard
    principal = ("proof", who.principal_id, who.agent_id) if who is not None else ()
    digest = hashlib.sha256(json.dumps(params.arguments, sort_keys=True).encode()).digest()
    return state_binding(principal, "tools/call", params.name, digest)


def now() -> int:
    """Returns unix seconds."""
    return int(time.time())  # noqa: TID251 - a program of its own


def seal(state: str, params: types.CallToolRequestParams) -> str:
    """Returns the text for the client in place of the state."""
    kept = FlowState(state, flow=secrets.token_hex(16), round=1, expires_at=now() + STATE_SECONDS)
    return RING.seal(kept, binding(params), secrets.token_bytes(12))


def unseal(params: types.CallToolRequestParams) -> str | None:
    """Returns the state that came back, or None if none did."""
    if params.request_state is None:
        return None
    try:
        return RING.open(params.request_state, binding(params), now()).state
    except SealError:  # why is for your log alone
        raise MCPError(types.INVALID_PARAMS, "Invalid or expired requestState") from None


async def call_tool(ctx: ServerRequestContext[Any], params: types.CallToolRequestParams) -> Any:
    """Books seats: asks for the day, then for how many."""
    city, chosen = (params.arguments or {})["city"], unseal(params)
    if chosen is None:
        day = accepted_content(params.input_responses, "day", Day)
        if day is None:
            return input_required(input_requests={"day": elicit(f"When to {city}?", Day)})
        asked = {"seats": elicit("How many seats?", Seats)}
        return input_required(input_requests=asked, request_state=seal(day.day, params))
    seats = accepted_content(params.input_responses, "seats", Seats)
    text = f"booked {seats.seats} to {city} on {chosen}" if seats is not None else "nothing is booked"
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


async def list_tools(ctx: ServerRequestContext[Any], params: types.PaginatedRequestParams | None) -> Any:
    """Lists the one tool."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return types.ListToolsResult(tools=[types.Tool(name="book", input_schema=schema)])


server: Server[Any] = Server("office", on_list_tools=list_tools, on_call_tool=call_tool)


async def main() -> None:
    """Serves stdin and stdout."""
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
