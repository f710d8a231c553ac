"""The state of a legacy session (MCP up to 2025-11-25), to restore in the session that replaces it.

- [restore] A new session gets the host's own `initialize` and `notifications/initialized`, the log level, and the
  current subscriptions.
- [roots] If the host has announced a change of its roots, it is announced again: the new session has never asked for
  the roots.
- [lists-changed] If the server's lists may change (it offered `listChanged`), the host is told that they have changed.

I/O only through the `Peer` that is passed in.

Also here: the requests of a server to the host (sampling, elicitation, roots), across the server's sessions.

- [own-ids] Two sessions never use the same id at the host. Servers start counting anew in each session, and an answer
  to the previous session's first request must not answer the new session's first. The first session keeps its ids.
- [lost-session] A request of a lost session is cancelled at the host, and the host's answer to it is dropped.
- [limit] At most `MAX_DIALOGS` requests may be open; more are refused here.
"""

import logging
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, RequestId
from msgspec import Struct

from accredit.base.caching import RecentlyUsed
from accredit.base.text import excerpt
from accredit.base.values import members_of
from accredit.client.messages import unavailable
from accredit.client.peers import Answer, Peer
from accredit.limits import MAX_DIALOGS, RENEW_SECONDS

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
            return unavailable("the gateway begins no new session")
        if result.get("protocolVersion") != self.revision:
            now = excerpt(str(result.get("protocolVersion")))
            text = f"the server speaks {now} now, and not {excerpt(str(self.revision))}: start this connection anew"
            return unavailable(text)
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


class ServerRequests:
    """The open requests to the host, of all sessions. Sessions are numbered from 0."""

    def __init__(self, limit: int = MAX_DIALOGS) -> None:
        self._limit = limit
        self._open: dict[RequestId, tuple[int, RequestId]] = {}

    def __len__(self) -> int:
        """Return how many requests are open."""
        return len(self._open)

    def add(self, session: int, request: JSONRPCRequest) -> JSONRPCRequest | JSONRPCError:
        """Return the request in the host's form. If too many are open, return the error for the server instead."""
        if len(self._open) >= self._limit:
            error = ErrorData(code=INTERNAL_ERROR, message="The client owes too many answers")
            return JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
        id = _id_at_host(session, request.id)
        self._open[id] = (session, request.id)
        return request.model_copy(update={"id": id})

    def settle(self, answer: Answer) -> tuple[int, Answer] | None:
        """Remove the request that the host answers. Return its session, and the answer under the server's own id.

        Return None if no request with this id is open.
        """
        settled = self._open.pop(answer.id, None) if answer.id is not None else None
        if settled is None:
            return None
        session, id = settled
        return session, answer.model_copy(update={"id": id})

    def withdraw(self, session: int, cancelled: JSONRPCNotification) -> JSONRPCNotification:
        """Remove the request that the server cancels, and return the cancellation for the host. The host does not
        answer it then."""
        params = cancelled.params or {}
        id = params.get("requestId")
        if not isinstance(id, str | int):
            return cancelled
        at_host = _id_at_host(session, id)
        self._open.pop(at_host, None)
        return cancelled.model_copy(update={"params": {**params, "requestId": at_host}})

    def drop(self, session: int) -> list[JSONRPCNotification]:
        """Remove every request of a lost session. Return their cancellations, for the host."""
        dropped = [id for id, (made_by, _) in self._open.items() if made_by == session]
        for id in dropped:
            del self._open[id]
        return [
            JSONRPCNotification(
                jsonrpc="2.0",
                method="notifications/cancelled",
                params={"requestId": id, "reason": "the session is gone"},
            )
            for id in dropped
        ]


def _id_at_host(session: int, id: RequestId) -> RequestId:
    return id if session == 0 else f"accredit-{session}-{id}"
