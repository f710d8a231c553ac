"""The mail server on the low-level `Server`, where one handler runs every tool. It reads `owner.key.pub` in the working
directory and serves stdio.
"""

import asyncio
from typing import Any

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from accredit.server import ProofGuard, require

SUBJECT = {"type": "object", "properties": {"to": {"type": "string"}, "subject": {"type": "string"}}}
TOOLS = [
    types.Tool(name="list_inbox", input_schema={"type": "object"}),
    types.Tool(name="send_email", input_schema=SUBJECT),
]


async def list_tools(ctx: ServerRequestContext[Any], params: types.PaginatedRequestParams | None) -> Any:
    """Every tool; the guard adds what each asks for, and leaves out what the caller may not use."""
    return types.ListToolsResult(tools=TOOLS)


async def call_tool(ctx: ServerRequestContext[Any], params: types.CallToolRequestParams) -> Any:
    """Runs only what the guard has allowed."""
    arguments = params.arguments or {}
    text = "The engine" if params.name == "list_inbox" else f"sent to {arguments['to']}"
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


server: Server[Any] = Server("mail", on_list_tools=list_tools, on_call_tool=call_tool)
guard = ProofGuard(roots=["owner.key.pub"], gateway_id="mail")
guard.protect(server, tools={"list_inbox": require("email:read"), "send_email": require("email:send", sensitive=True)})


async def main() -> None:
    """Serves stdin and stdout."""
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
