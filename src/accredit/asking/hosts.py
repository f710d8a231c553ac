"""A server is asked twice, by a host that declares all capabilities, and by one that declares none. No I/O.

Servers may offer more to more capable clients (a tool that asks the user needs elicitation), so one request is not
enough. The declared capabilities replace the SDK's, which has no types for some of them.

Sources: 2025-11-25 and 2026-07-28, schema, `ClientCapabilities`; the extensions are SEP-2663 and SEP-1865.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mcp.client import ClientRequestContext, Transport
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCRequest, ListRootsResult

from accredit.base.values import members_of
from accredit.client.peers import Changed
from accredit.jsonrpc.methods import META_CAPABILITIES
from accredit.jsonrpc.responses import TASKS_EXTENSION

Capabilities = Mapping[str, Any]
"""A client's `ClientCapabilities`, as JSON has them on the wire."""

NOTHING: Capabilities = {}

EVERYTHING: Capabilities = {
    "roots": {"listChanged": True},
    "sampling": {"context": {}, "tools": {}},
    "elicitation": {"form": {}, "url": {}},
    "tasks": {
        "list": {},
        "cancel": {},
        "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
    },
    "extensions": {
        TASKS_EXTENSION: {},
        "io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]},
    },
}


@asynccontextmanager
async def declaring(transport: Transport, capabilities: Capabilities) -> AsyncGenerator[tuple[Any, Any]]:
    """Wrap a transport so that its client declares exactly these capabilities."""
    async with transport as (read, write):
        yield read, Changed(write, lambda item: _declare(item, capabilities))


async def no_roots(context: ClientRequestContext) -> ListRootsResult:
    """Answer a server's request for roots: there are none."""
    return ListRootsResult(roots=[])


def _declare(item: SessionMessage, capabilities: Capabilities) -> SessionMessage:
    """Return a message of a client in which the capabilities that the SDK declares are replaced."""
    message = item.message
    if not isinstance(message, JSONRPCRequest) or message.params is None:
        return item
    params, meta = message.params, members_of(message.params.get("_meta"))
    if message.method == "initialize":
        params = {**params, "capabilities": capabilities}
    elif META_CAPABILITIES in meta:
        params = {**params, "_meta": {**meta, META_CAPABILITIES: capabilities}}
    return SessionMessage(message.model_copy(update={"params": params}), item.metadata)
