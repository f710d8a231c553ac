"""Asks an MCP server for its tools, as the official SDK's client. I/O: HTTP, a child process, or neither.

A server behind a URL or a command is asked through a gateway of our own in this process, so that what it sends is
bounded and validated as it will be later, and a child is started and ended as `serve` would. A server that is a Python
object is asked in memory: whoever imports it trusts it.

Every failure is a `ConfigurationError`; a server that is slow to answer is waited for, and stderr says so. What tools
say of themselves is not looked at here.
"""

import asyncio
import contextlib
import importlib
import logging
import sys
from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple, cast

import httpx2
from mcp import Client, MCPError
from mcp.client import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.types import PaginatedRequestParams, Tool

from accredit.cli.delegations.paper import tell
from accredit.errors import ConfigurationError
from accredit.gateway import GatewaySettings, HttpUpstream, StdioUpstream, create_app
from accredit.gateway.logs import configure_logs
from accredit.jsonrpc.text import excerpt
from accredit.limits import ASK_NOTICE_SECONDS, ASK_SECONDS, MAX_KNOWN_TOOLS, MAX_LIST_PAGES, MAX_TOOL_LIST_BYTES

_ENDPOINT = "http://127.0.0.1/mcp"
"""What the gateway in this process is called. No socket is opened for it."""

_TRY_URL = "see whether it runs, what it logs, and whether the URL has its path, such as /mcp"
_TRY_COMMAND = "run the command by hand and see what it says: it has to speak MCP on stdin and stdout, and nothing else"
_TRY_OBJECT = "see what it logs, and whether a client of the same library can list its tools"


class Offer(NamedTuple):
    """What a server offers, and what it calls itself ("" where it does not)."""

    server: str
    tools: tuple[Tool, ...]


_Connection = contextlib.AbstractAsyncContextManager[tuple[str, ClientSession]]


def ask_upstream(upstream: HttpUpstream | StdioUpstream) -> Offer:
    """The tools of a server as a gateway in front of it gets to see them. Raises `ConfigurationError`."""
    configure_logs("error", "text")
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # what it has to say comes back as an error
    return _ask_upstream(upstream)


def ask_object(place: str) -> Offer:
    """The tools of the server object at `module:name`. Imports the module. Raises `ConfigurationError`."""
    server = _imported(place)
    return _ask(lambda: _in_memory(server, place), _TRY_OBJECT)


def _ask_upstream(upstream: HttpUpstream | StdioUpstream) -> Offer:
    remedy = _TRY_COMMAND if isinstance(upstream, StdioUpstream) else _TRY_URL
    return _ask(lambda: _through_gateway(upstream), remedy)


def _ask(connect: Callable[[], _Connection], remedy: str) -> Offer:
    try:
        return asyncio.run(_offer(connect))
    except Exception as error:  # the SDK raises what its parser, its transport or a task group raises
        raise _fault(error, remedy) from None


async def _offer(connect: Callable[[], _Connection]) -> Offer:
    deadline = asyncio.timeout(ASK_SECONDS)
    notice = f"waiting for the server to list its tools, for {ASK_SECONDS:.0f} s in all, as it may be installing itself"
    noticing = asyncio.get_running_loop().call_later(ASK_NOTICE_SECONDS, tell, notice)
    try:
        async with deadline, connect() as (server, session):
            return Offer(server, await _tools(session))
    except Exception:
        # What the SDK raises while it is torn down must not hide why.
        if deadline.expired():
            raise TimeoutError from None
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError from None
        raise
    finally:
        noticing.cancel()


async def _tools(session: ClientSession) -> tuple[Tool, ...]:
    tools: dict[str, Tool] = {}
    cursor: str | None = None
    for _ in range(MAX_LIST_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        for tool in page.tools:
            if tool.name in tools:
                raise _unfit(f"lists the tool {excerpt(tool.name)} twice")
            tools[tool.name] = tool
        if len(tools) > MAX_KNOWN_TOOLS:
            raise _unfit(f"lists more than {MAX_KNOWN_TOOLS} tools")
        cursor = page.next_cursor
        if cursor is None:
            return tuple(tools.values())
    raise _unfit(f"lists its tools on more than {MAX_LIST_PAGES} pages")


def _fault(error: BaseException, remedy: str) -> ConfigurationError:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if isinstance(error, ConfigurationError):
        return error
    if isinstance(error, TimeoutError):
        what = f"the server did not list its tools in {ASK_SECONDS:.0f} s"
    elif isinstance(error, MCPError):
        detail = f": {error.error.data}" if isinstance(error.error.data, str) else ""
        what = f"the server did not list its tools: {excerpt(error.error.message + detail)}"
    else:
        what = f"what the server says of its tools can't be understood ({type(error).__name__})"
    return ConfigurationError(what, remedy)


def _unfit(what: str) -> ConfigurationError:
    return ConfigurationError(f"the server {what}", "correct the server: a gateway could not judge calls to it")


@contextlib.asynccontextmanager
async def _through_gateway(upstream: HttpUpstream | StdioUpstream) -> AsyncGenerator[tuple[str, ClientSession]]:
    settings = GatewaySettings(
        upstream,
        max_response_bytes=MAX_TOOL_LIST_BYTES,
        max_event_bytes=MAX_TOOL_LIST_BYTES,
        upstream_timeout_seconds=ASK_SECONDS,
    )
    app = create_app(settings)
    transport = httpx2.ASGITransport(cast("Any", app))
    try:
        async with (
            httpx2.AsyncClient(transport=transport, timeout=ASK_SECONDS) as http,
            Client(streamable_http_client(_ENDPOINT, http_client=http)) as client,
        ):
            yield client.server_info.name if client.server_info is not None else "", client.session
    finally:
        app.drain()
        await app.aclose()


@contextlib.asynccontextmanager
async def _in_memory(server: object, place: str) -> AsyncGenerator[tuple[str, ClientSession]]:
    if isinstance(server, MCPServer | Server):
        connection: Any = Client(cast("MCPServer | Server[Any]", server))
    elif any(kind.__module__.partition(".")[0] == "fastmcp" for kind in type(server).__mro__):
        connection = importlib.import_module("fastmcp").Client(server)
    else:
        raise ConfigurationError(
            f"{place} is a {type(server).__name__}, and no MCP server", "name an MCPServer or FastMCP object"
        )
    async with connection as client:
        yield "", client.session


def _imported(place: str) -> object:
    name, _, path = place.partition(":")
    sys.path.insert(0, "")
    try:
        # What it prints while it is imported is not our output.
        with contextlib.redirect_stdout(sys.stderr):
            found: object = importlib.import_module(name)
        for step in path.split("."):
            found = getattr(found, step)
    except (Exception, SystemExit) as error:  # whatever the module's own code raises
        raise ConfigurationError(
            f"can't get {place}: {type(error).__name__}: {excerpt(str(error))}",
            "name a module that can be imported from here, and the server in it, such as server:mcp",
        ) from None
    finally:
        sys.path.remove("")
    return found
