"""The method table: which revision knows which names, and which members a request's `params` may hold. No I/O.

Source: the MCP schemas of 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28. The gateway does not
refuse a method that it does not know (extensions are the upstream's business); it uses the table to know an
era, to find a request's target, and to see a misspelt member for what it is.
"""

from enum import Enum

from accredit.jsonrpc.objects import Names

LEGACY_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Revisions with `initialize` and sessions, oldest first."""

MODERN_REVISIONS = ("2026-07-28",)
"""Stateless revisions: every request carries its metadata in `params._meta`."""

BATCH_REVISION = "2025-03-26"
"""The one revision whose transport allows JSON-RPC batches."""

HEADERLESS_REVISION = "2025-03-26"
"""What a server assumes of a request without `MCP-Protocol-Version` (2025-11-25, basic/transports)."""


class Era(Enum):
    """Legacy: revisions up to 2025-11-25, with sessions. Modern: 2026-07-28 and later, stateless."""

    LEGACY = "legacy"
    MODERN = "modern"


META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
META_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
META_PROGRESS = "progressToken"

META_MEMBERS = Names(
    META_PROGRESS,
    META_VERSION,
    META_CLIENT_INFO,
    META_CAPABILITIES,
    META_LOG_LEVEL,
    META_SUBSCRIPTION,
    "io.modelcontextprotocol/related-task",
    "traceparent",
    "tracestate",
    "baggage",
)
"""The names that MCP defines in a request's `_meta`."""

INPUT_REQUIRED_METHODS = frozenset({"tools/call", "prompts/get", "resources/read"})
"""The methods whose result may be `input_required` (2026-07-28, basic/patterns/mrtr)."""

TARGET_MEMBER = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The member of `params` that names a request's target; `Mcp-Name` mirrors it (2026-07-28, basic/transports)."""

_ROUND = ("inputResponses", "requestState")

_PARAMS: dict[str, tuple[str, ...]] = {
    "initialize": ("protocolVersion", "capabilities", "clientInfo"),
    "ping": (),
    "server/discover": (),
    "subscriptions/listen": ("notifications",),
    "completion/complete": ("ref", "argument", "context"),
    "logging/setLevel": ("level",),
    "prompts/get": ("name", "arguments", *_ROUND),
    "prompts/list": ("cursor",),
    "resources/list": ("cursor",),
    "resources/read": ("uri", *_ROUND),
    "resources/subscribe": ("uri",),
    "resources/templates/list": ("cursor",),
    "resources/unsubscribe": ("uri",),
    "tools/call": ("name", "arguments", "task", *_ROUND),
    "tools/list": ("cursor",),
    "tasks/get": ("taskId",),
    "tasks/update": ("taskId", *_ROUND),
    "tasks/result": ("taskId",),
    "tasks/cancel": ("taskId",),
    "tasks/list": ("cursor",),
    "notifications/cancelled": ("requestId", "reason"),
    "notifications/initialized": (),
    "notifications/progress": ("progressToken", "progress", "total", "message"),
    "notifications/roots/list_changed": (),
}

PARAMS_MEMBERS = {method: Names("_meta", *names) for method, names in _PARAMS.items()}
"""Client methods and the members that MCP defines in their `params`, over all revisions."""

UNKNOWN_PARAMS = Names("_meta")
"""... and of a method that MCP does not define."""
