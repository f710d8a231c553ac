"""A small calendar on the official SDK: the second server that the docs put behind the gateway.

python examples/calendar_server.py --port 9001      streamable HTTP on http://127.0.0.1:9001/mcp
python examples/calendar_server.py                  stdio
"""

import argparse

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("calendar", version="1.0.0")

BOOKED = {"Monday": "Review"}


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def list_days() -> list[str]:
    """The days on which something is booked."""
    return [f"{day}: {what}" for day, what in BOOKED.items()]


@server.tool(annotations=ToolAnnotations(destructive_hint=False))
def book(day: str, what: str) -> str:
    """Books a day that is free."""
    if day in BOOKED:
        return f"{day} is taken"
    BOOKED[day] = what
    return f"booked {day}: {what}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    port = parser.parse_args().port
    if port is None:
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=port)
