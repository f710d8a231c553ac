"""Asks a server that is a Python object, in memory. Importing the object means trusting its code. I/O: the import."""

import contextlib
import importlib
import sys
from collections.abc import AsyncGenerator
from typing import Any, cast

from mcp import Client
from mcp.server import Server
from mcp.server.mcpserver import MCPServer
from mcp.types import INVALID_REQUEST, ErrorData

from accredit.asking.hosts import Capabilities, declaring, no_roots
from accredit.asking.listing import Connected
from accredit.base.deferred import install_extra
from accredit.base.text import excerpt
from accredit.client import sdk
from accredit.errors import ConfigurationError


@contextlib.asynccontextmanager
async def in_memory(server: object, place: str, capabilities: Capabilities) -> AsyncGenerator[Connected]:
    """Open a session with a server object, as a host with these capabilities. Raises `ConfigurationError` if the object
    is not a server."""
    if isinstance(server, MCPServer | Server):
        transport = sdk.in_memory(cast("MCPServer | Server[Any]", server))
        connection: Any = Client(declaring(transport, capabilities), list_roots_callback=no_roots)
    elif any(kind.__module__.partition(".")[0] == "fastmcp" for kind in type(server).__mro__):
        # Its own client takes no capabilities, only handlers, and derives them from those.
        able: dict[str, Any] = {"roots": [], "sampling_handler": _never, "elicitation_handler": _never}
        connection = importlib.import_module("fastmcp").Client(server, **(able if capabilities else {}))
    else:
        raise ConfigurationError(
            f"{place} is a {type(server).__name__}, and no MCP server", "name an MCPServer or FastMCP object"
        )
    async with connection as client:
        yield Connected("", client.session)


async def _never(*_asked: object) -> ErrorData:
    """Refuse any request that the server makes: this client only reads lists."""
    return ErrorData(code=INVALID_REQUEST, message="nobody is here to answer")


def import_object(place: str) -> object:
    """Import `module:name` and return the object. Raises `ConfigurationError`."""
    name, _, path = place.partition(":")
    sys.path.insert(0, "")
    try:
        # What the module prints on import is not our output.
        with contextlib.redirect_stdout(sys.stderr):
            named: object = importlib.import_module(name)
        for step in path.split("."):
            named = getattr(named, step)
    except (Exception, SystemExit) as error:  # whatever the module's own code raises
        remedy = "name a module that can be imported from here, and the server in it, such as server:mcp"
        if isinstance(error, ModuleNotFoundError) and error.name == "fastmcp":
            remedy = install_extra("fastmcp")
        raise ConfigurationError(f"can't get {place}: {type(error).__name__}: {excerpt(str(error))}", remedy) from None
    finally:
        sys.path.remove("")
    return named
