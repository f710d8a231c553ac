"""The state of a legacy session (MCP up to 2025-11-25), to restore in the session that replaces it.

- [restore] A new session gets the host's own `initialize` and `notifications/initialized`, the log level, and the
  current subscriptions.
- [roots] If the host has announced a change of its roots, it is announced again: the new session has never asked for
  the roots.
- [lists-changed] If the server's lists may change (it offered `listChanged`), the host is told that they have changed.

I/O only through the `Peer` that is passed in.
"""

import logging
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import ErrorData, JSONRPCNotification, JSONRPCRequest
from msgspec import Struct

from accredit.base.caching import RecentlyUsed
from accredit.base.text import excerpt
from accredit.base.values import members_of
from accredit.client.peers import Peer
from accredit.jsonrpc.encode import UNAVAILABLE, UPSTREAM_ERROR
from accredit.limits import RENEW_SECONDS

MAX_RENEWED_SUBSCRIPTIONS = 1_000
"""How many subscriptions of a session are renewed in the next one. If there are more, the oldest are dropped."""


_log = logging.getLogger("accredit.client")
_ROOTS_CHANGED = "notifications/roots/list_changed"


class LegacySession(Struct):
    """The state of a session once its `initialize` is answered. `revision` and `capabilities` are the server's."""

    initialize: JSONRPCRequest
    revision: object
    capabilities: dict[str, Any]
    subscriptions: RecentlyUsed[object, JSONRPCRequest]
    initialized: JSONRPCNotification | None = None
    level: JSONRPCRequest | None = None
    roots_changed: JSONRPCNotification | None = None

    @classmethod
    def begun(cls, initialize: JSONRPCRequest, result: dict[str, Any]) -> "LegacySession":
        """Return the session that an `initialize` result begins."""
        capabilities = members_of(result.get("capabilities"))
        subscriptions = RecentlyUsed[object, JSONRPCRequest](MAX_RENEWED_SUBSCRIPTIONS)
        return cls(initialize, result.get("protocolVersion"), capabilities, subscriptions)

    @property
    def metadata(self) -> ClientMessageMetadata:
        """The headers of the session's messages."""
        version = self.revision if isinstance(self.revision, str) else ""
        return ClientMessageMetadata(headers={MCP_PROTOCOL_VERSION_HEADER: version} if version else {})

    def remember_request(self, request: JSONRPCRequest) -> None:
        """Remember a successful request that the next session needs."""
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
        """Remember a host's notification that the next session needs."""
        if notification.method == "notifications/initialized":
            self.initialized = notification
        if notification.method == _ROOTS_CHANGED:
            self.roots_changed = notification

    @property
    def notifications(self) -> list[JSONRPCNotification]:
        """The notifications that a new session gets first, after `initialize`."""
        initialized = self.initialized or JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
        return [initialized] if self.roots_changed is None else [initialized, self.roots_changed]

    @property
    def requests(self) -> list[JSONRPCRequest]:
        """The requests that a new session gets after `notifications`."""
        level = [] if self.level is None else [self.level]
        return [*level, *self.subscriptions.values()]

    async def begin_again(self, peer: Peer) -> ErrorData | None:
        """Start a session with the host's own `initialize`. Return None, or the error if there is no new session."""
        asking = peer.request("initialize", self.initialize.params or {})
        try:
            with anyio.fail_after(RENEW_SECONDS):
                result = await peer.ask(asking)
        except MCPError as error:
            return error.error
        except TimeoutError:
            return ErrorData(code=UPSTREAM_ERROR, message=UNAVAILABLE, data="the gateway begins no new session")
        if result.get("protocolVersion") != self.revision:
            now = excerpt(str(result.get("protocolVersion")))
            text = f"the server speaks {now} now, and not {excerpt(str(self.revision))}: start this connection anew"
            return ErrorData(code=UPSTREAM_ERROR, message=UNAVAILABLE, data=text)
        return None

    async def restore(self, peer: Peer) -> None:
        """Restore the last session's state in a new one."""
        for notification in self.notifications:
            await peer.send(SessionMessage(notification, self.metadata))
        for request in self.requests:
            again = peer.request(request.method, request.params or {})
            try:
                with anyio.fail_after(RENEW_SECONDS):
                    await peer.ask(again, self.metadata.headers)
            except (MCPError, TimeoutError):
                _log.warning("%s could not be done again in the new session", request.method)

    @property
    def list_changes(self) -> list[JSONRPCNotification]:
        """The notifications to the host once the next session is ready."""
        return [
            JSONRPCNotification(jsonrpc="2.0", method=f"notifications/{kind}/list_changed")
            for kind in ("tools", "resources", "prompts")
            if members_of(self.capabilities.get(kind)).get("listChanged") is True
        ]
