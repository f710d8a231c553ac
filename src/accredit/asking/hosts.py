"""A server is asked twice, by a host that declares all capabilities, and by one that declares none. No I/O.

Servers may offer more to more capable clients (a tool that asks the user needs elicitation), so one request is not
enough. The declared capabilities replace the SDK's, which has no types for some of them.

Sources: 2025-11-25 and 2026-07-28, schema, `ClientCapabilities`; the extensions are SEP-2663 and SEP-1865.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, cast

from mcp.client import ClientRequestContext, Transport
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCRequest, ListRootsResult

from accredit.jsonrpc.methods import META_CAPABILITIES
from accredit.jsonrpc.result_types import TASKS_EXTENSION

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
        yield read, _Declaring(write, capabilities)


async def no_roots(context: ClientRequestContext) -> ListRootsResult:
    """Answer a server's request for roots: there are none."""
    return ListRootsResult(roots=[])


class _Declaring:
    """A client's outgoing stream, in which the capabilities that the SDK declares are replaced."""

    def __init__(self, stream: Any, capabilities: Capabilities) -> None:
        self._stream = stream
        self._capabilities = capabilities

    async def send(self, item: SessionMessage) -> None:
        message = item.message
        if isinstance(message, JSONRPCRequest) and message.params is not None:
            params = self._declared(message.method, message.params)
            item = SessionMessage(message.model_copy(update={"params": params}), item.metadata)
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> "_Declaring":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _declared(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            return {**params, "capabilities": self._capabilities}
        meta = params.get("_meta")
        if isinstance(meta, dict) and META_CAPABILITIES in meta:
            members = cast("dict[str, Any]", meta)
            return {**params, "_meta": {**members, META_CAPABILITIES: self._capabilities}}
        return dict(params)
