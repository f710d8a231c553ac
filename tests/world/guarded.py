"""Servers that a `ProofGuard` stands before: one of the official SDK and one of FastMCP, with the same tools.

`python -m tests.world.guarded sdk|fastmcp ROOT_KEY RAN_FILE` serves over stdio. I/O: it appends the name of every tool,
resource and prompt that runs to RAN_FILE.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import mcp_types as types
from fastmcp import Context as FastMCPContext
from fastmcp import FastMCP
from mcp.server.mcpserver import Context, MCPServer
from tests.world.authorization import GATEWAY

import accredit.server
import accredit.server.fastmcp
from accredit.policy.passing import AUTHORIZATION
from accredit.server import current_authority, require

KINDS = ("sdk", "fastmcp")
Server = MCPServer[Any] | FastMCP[Any]


class Guarded:
    """A server of either kind; `ran` has what was run, in order. Further arguments are the guard's."""

    def __init__(
        self,
        kind: str,
        roots: list[Any] | None,
        *,
        gateway_id: str = GATEWAY,
        ran: list[str] | None = None,
        **guard: Any,
    ) -> None:
        self.ran = [] if ran is None else ran
        self.kind = kind
        self.server: Server
        self.guard: accredit.server.ProofGuard | accredit.server.fastmcp.ProofGuard
        if kind == "sdk":
            self.guard = accredit.server.ProofGuard(roots, gateway_id, **guard)
            self.server = MCPServer("mail", extensions=[self.guard])
        else:
            self.guard = accredit.server.fastmcp.ProofGuard(roots, gateway_id, **guard)
            self.server = FastMCP("mail")
            self.guard.protect(self.server)
        self._tools()
        self._ways_of_the_kind()

    @property
    def app(self) -> Any:
        """The ASGI application."""
        server = self.server
        return server.http_app() if isinstance(server, FastMCP) else server.streamable_http_app()

    def _tools(self) -> None:
        ran, tool = self.ran, self.server.tool

        @tool()
        @require("email:read")
        async def list_inbox() -> str:
            """Under: the requirement is nearer to the function."""
            ran.append("list_inbox")
            return "empty"

        @require("email:send", sensitive=True, accepts=["comms:email:send"])
        @tool()
        async def send_email(to: str, subject: str = "") -> str:
            """Over: the tool is registered first."""
            ran.append("send_email")
            return f"sent to {to}"

        @tool(name="pay")
        @require("payments:send", facts={"amount": "/amount", "currency": "/currency"})
        def transfer(amount: float, currency: str) -> str:
            """Registered under another name; runs in a thread."""
            ran.append("pay")
            return f"{amount} {currency} for {_principal()}"

        @tool(meta={"ratify_scope": "mcp:tool", "ratify_sensitive": True})
        def open_door() -> str:
            """Asks for nothing, whatever it says of itself."""
            ran.append("open_door")
            return "open"

        @self.server.resource("mail://inbox")
        def inbox() -> str:
            ran.append("mail://inbox")
            return "empty"

        @self.server.resource("mail://box/{name}")
        def box(name: str) -> str:
            ran.append(f"mail://box/{name}")
            return "empty"

        @self.server.prompt()
        def greet(name: str) -> str:
            ran.append("greet")
            return f"Hello {name}"

    def _ways_of_the_kind(self) -> None:
        """Tools that take the context, whose type is another one."""
        ran, server = self.ran, self.server
        asks = types.InputRequiredResult(input_requests={"sure": _elicit()}, request_state="round one")
        if isinstance(server, FastMCP):

            @server.tool()
            @require("email:read")
            async def whoami(ctx: FastMCPContext) -> dict[str, Any]:
                ran.append("whoami")
                request = ctx.request_context
                assert request is not None
                return _told(request.meta)

            @server.tool()
            @require("email:read")
            async def relay(name: str, ctx: FastMCPContext) -> str:
                ran.append("relay")
                return str(await ctx.fastmcp.call_tool(name, {"to": "eve"} if name == "send_email" else {}))

            @server.tool()
            @require("email:read")
            async def confirm(ctx: FastMCPContext) -> Any:
                if not ctx.input_responses:
                    return asks
                ran.append("confirm")
                return f"confirmed after {ctx.request_state}"

        else:

            @server.tool(name="whoami")
            @require("email:read")
            async def whoami_sdk(ctx: Context[Any]) -> dict[str, Any]:
                ran.append("whoami")
                return _told(ctx.request_context.meta)

            @server.tool(name="confirm")
            @require("email:read")
            async def confirm_sdk(ctx: Context[Any]) -> str | types.InputRequiredResult:
                if not ctx.input_responses:
                    return asks
                ran.append("confirm")
                return f"confirmed after {ctx.request_state}"


def _elicit() -> types.ElicitRequest:
    schema = {"type": "object", "properties": {"yes": {"type": "boolean"}}}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message="sure?", requested_schema=schema))


def _principal() -> str:
    authority = current_authority()
    return authority.principal_name if authority is not None else "nobody"


def _told(meta: Any) -> dict[str, Any]:
    names = sorted(name for name in (meta or {}) if not name.startswith("io.modelcontextprotocol/"))
    return {"principal": _principal(), "meta": names, "told": (meta or {}).get(AUTHORIZATION)}


class _Appending(list[str]):
    """A list that a file holds as well."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def append(self, name: str) -> None:
        with self._file.open("a") as lines:
            lines.write(f"{name}\n")


def main(kind: str, root: str, ran: str) -> None:
    """Serves over stdio until stdin ends."""
    server = Guarded(kind, [root], ran=_Appending(Path(ran))).server
    if isinstance(server, FastMCP):
        asyncio.run(server.run_stdio_async(show_banner=False))
    else:
        asyncio.run(server.run_stdio_async())


if __name__ == "__main__":
    main(*sys.argv[1:])
