"""What a session of the legacy era was told, so that the session that follows it can be told the same. No I/O.

1. A new session gets the host's own `initialize`, `notifications/initialized`, the level of logging, and the
   subscriptions that are made and not ended.
2. That the roots have changed is said again if it was said before, as the new session has never asked for them.
3. Of lists that may change (the server offered `listChanged`), the host is told that they have.
"""

from typing import Any, cast

from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import ClientMessageMetadata
from mcp_types import JSONRPCNotification, JSONRPCRequest
from msgspec import Struct

from accredit.base.caching import RecentlyUsed
from accredit.limits import MAX_RENEWED_SUBSCRIPTIONS

_ROOTS_CHANGED = "notifications/roots/list_changed"


class LegacySession(Struct):
    """A session from the answer to its `initialize` on. `revision` and `capabilities` are the server's."""

    initialize: JSONRPCRequest
    revision: object
    capabilities: dict[str, Any]
    subscriptions: RecentlyUsed[object, JSONRPCRequest]
    initialized: JSONRPCNotification | None = None
    level: JSONRPCRequest | None = None
    roots_changed: JSONRPCNotification | None = None

    @classmethod
    def begun(cls, initialize: JSONRPCRequest, result: dict[str, Any]) -> "LegacySession":
        """Return the session that the result of an `initialize` begins."""
        offered = result.get("capabilities")
        capabilities = cast("dict[str, Any]", offered) if isinstance(offered, dict) else {}
        subscriptions = RecentlyUsed[object, JSONRPCRequest](MAX_RENEWED_SUBSCRIPTIONS)
        return cls(initialize, result.get("protocolVersion"), capabilities, subscriptions)

    @property
    def metadata(self) -> ClientMessageMetadata:
        """The headers of the session's messages."""
        version = self.revision if isinstance(self.revision, str) else ""
        return ClientMessageMetadata(headers={MCP_PROTOCOL_VERSION_HEADER: version} if version else {})

    def remember_request(self, request: JSONRPCRequest) -> None:
        """Remember a request that succeeded, if the next session needs it."""
        uri = (request.params or {}).get("uri")
        match request.method:
            case "logging/setLevel":
                self.level = request
            case "resources/subscribe":
                self.subscriptions.put(uri, request)
            case "resources/unsubscribe":
                self.subscriptions.forget(uri)
            case _:
                pass

    def remember_notification(self, notification: JSONRPCNotification) -> None:
        """Remember a notification of the host, if the next session needs it."""
        if notification.method == "notifications/initialized":
            self.initialized = notification
        if notification.method == _ROOTS_CHANGED:
            self.roots_changed = notification

    @property
    def notifications(self) -> list[JSONRPCNotification]:
        """What the next session is told first."""
        initialized = self.initialized or JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
        return [initialized] if self.roots_changed is None else [initialized, self.roots_changed]

    @property
    def requests(self) -> list[JSONRPCRequest]:
        """What the next session is asked after that."""
        level = [] if self.level is None else [self.level]
        return [*level, *self.subscriptions.values()]

    @property
    def list_changes(self) -> list[JSONRPCNotification]:
        """What the host is told once the next session is ready."""
        return [
            JSONRPCNotification(jsonrpc="2.0", method=f"notifications/{kind}/list_changed")
            for kind in ("tools", "resources", "prompts")
            if _may_change(self.capabilities.get(kind))
        ]


def _may_change(capability: object) -> bool:
    return isinstance(capability, dict) and cast("dict[str, Any]", capability).get("listChanged") is True
