"""A host, as small as can be: starts what an entry of its file names, and calls a tool. It knows nothing of proofs.

python examples/host.py ~/.cursor/mcp.json mail list_inbox
python examples/host.py ~/.cursor/mcp.json mail send_email '{"to": "ada@example.org", "subject": "Hello"}'
"""

import argparse
import asyncio
import json
import os
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import TextContent


async def main(entry: dict[str, Any], tool: str, arguments: str) -> int:
    """Returns the exit code: 1 for a call that failed or was refused."""
    env = {**os.environ, **entry.get("env", {})}
    command = StdioServerParameters(command=entry["command"], args=entry.get("args", []), env=env)
    async with Client(stdio_client(command)) as client:
        listed = await client.list_tools()
        print("tools:", ", ".join(each.name for each in listed.tools) or "none")
        result = await client.call_tool(tool, json.loads(arguments))
    for block in result.content:
        if isinstance(block, TextContent):
            print(block.text)
    return 1 if result.is_error else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="JSON with mcpServers")
    parser.add_argument("name", help="the server's name in it")
    parser.add_argument("tool")
    parser.add_argument("arguments", nargs="?", default="{}", help="JSON")
    given = parser.parse_args()
    servers = json.loads(given.file.read_text("utf-8"))["mcpServers"]
    raise SystemExit(asyncio.run(main(servers[given.name], given.tool, given.arguments)))
