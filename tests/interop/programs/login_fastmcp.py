"""`login_fastmcp.py URL`: FastMCP's client logs in at a server and calls a tool of it. The browser is what `BROWSER`
says."""

import asyncio
import json
import sys

from fastmcp import Client


async def main(url: str) -> None:
    async with Client(url, auth="oauth") as client:
        tools = await client.list_tools()
        called = await client.call_tool("list_inbox", {}, raise_on_error=False)
        print(json.dumps({"tools": [each.name for each in tools], "isError": called.is_error}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
