"""The HTTP headers of a message (2025-11-25 and 2026-07-28, basic/transports). No I/O.

In the legacy era, messages name the revision once it is agreed on. In the modern era, headers repeat the parts of a
request by which it is routed: its revision, method and target. They also repeat the arguments that a tool's schema
marks with `x-mcp-header`, if a list with that tool was seen.
"""

from collections.abc import Mapping
from typing import Any

from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp_types import JSONRPCRequest

from accredit.base.caching import RecentlyUsed
from accredit.base.values import items_of, members_of, text_of
from accredit.jsonrpc.methods import META_VERSION, TARGET_MEMBER
from accredit.limits import MAX_KNOWN_TARGETS

_Declared = dict[tuple[str, ...], str]
"""The names of headers, by the path of the argument that each repeats."""


class RoutingHeaders:
    """Makes the headers of one connection's messages, from what the connection has learned."""

    def __init__(self) -> None:
        self._agreed = ""
        self._declared = RecentlyUsed[str, _Declared](MAX_KNOWN_TARGETS)

    def of(self, message: object) -> dict[str, str]:
        """Return the headers of a message."""
        params = message.params or {} if isinstance(message, JSONRPCRequest) else {}
        if not isinstance(message, JSONRPCRequest) or not (version := modern_version(params)):
            return {MCP_PROTOCOL_VERSION_HEADER: self._agreed} if self._agreed else {}
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: message.method}
        target = params.get(TARGET_MEMBER.get(message.method, ""))
        if isinstance(target, str):
            headers[MCP_NAME_HEADER] = encode_header_value(target)
            if message.method == "tools/call":
                given = members_of(params.get("arguments"))
                headers |= mcp_param_headers(self._declared.peek(target) or {}, given)
        return headers

    def learn(self, method: str, result: Mapping[str, Any]) -> None:
        """Learn from a response what the headers of later requests need."""
        version = result.get("protocolVersion")
        if method == "initialize" and isinstance(version, str):
            self._agreed = version
        for tool in items_of(result.get("tools")) if method == "tools/list" else ():
            self._learn_tool(members_of(tool))

    def _learn_tool(self, tool: Mapping[str, object]) -> None:
        name, schema = tool.get("name"), tool.get("inputSchema")
        if not isinstance(name, str):
            return
        self._declared.forget(name)
        if find_invalid_x_mcp_header(schema) is None and (declared := x_mcp_header_map(schema)):
            self._declared.put(name, declared)


def modern_version(params: Mapping[str, object]) -> str:
    """Return the revision that a modern request names, or ""."""
    return text_of(members_of(params.get("_meta")).get(META_VERSION))
