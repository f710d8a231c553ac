"""`python -m tests.differential.peers.python_peers sdk|fastmcp NOTES`: a server of the official SDK, or of FastMCP.

It notes down each POST and each run of its tools. I/O: a socket on 127.0.0.1, NOTES.
"""

import json
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from fastmcp import FastMCP
from mcp.server.mcpserver import MCPServer

KINDS = ("sdk", "fastmcp")


def application(kind: str, notes: Path) -> Any:
    """The server as an ASGI application, with its notes before it."""

    def note(seen: dict[str, Any]) -> None:
        with notes.open("a", encoding="utf-8") as file:
            file.write(json.dumps(seen) + "\n")

    server: MCPServer[Any] | FastMCP[Any] = MCPServer("peer") if kind == "sdk" else FastMCP("peer")
    for name in ("act", "steal"):

        def tool(to: str, amount: float = 0, name: str = name) -> str:
            note({"name": name, "arguments": {"to": to, "amount": amount}})
            return "done"

        server.tool(name=name)(_with_own_arguments(tool))
    make = server.http_app if isinstance(server, FastMCP) else server.streamable_http_app
    inner = make(stateless_http=True, json_response=True)

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] != "GET":
            note({"arrived": scope["method"]})
        await inner(scope, receive, send)

    return noting


def _with_own_arguments(tool: Any) -> Any:
    def act(to: str, amount: float = 0) -> str:
        return tool(to, amount)

    return act


def main(kind: str, notes: str) -> None:
    """Serves until it is killed."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"listening {listening.getsockname()[1]}", flush=True)
        config = uvicorn.Config(application(kind, Path(notes)), log_level="error", access_log=False)
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main(*sys.argv[1:])
