"""A legacy server that forgets its session when it is told to, as a restart does it. For `RawServer`.

It offers a standing stream; a modern client may listen. `messages` are all that it took, refused ones are not.
"""

import json
from typing import Any

from tests.world.calls import http
from tests.world.raw_server import Connection, RawRequest

_META = "io.modelcontextprotocol/subscriptionId"


class Forgetful:
    """`status` is what it answers to a session that it does not know."""

    def __init__(self, status: int) -> None:
        self._status = status
        self._sessions = 1
        self._revision = "2025-11-25"
        self.messages: list[dict[str, Any]] = []
        self.standing: Connection | None = None
        self.deaf_to = ""

    @property
    def methods(self) -> list[str]:
        """The methods of what it took."""
        return [message.get("method", "") for message in self.messages]

    def of_session(self) -> list[dict[str, Any]]:
        """What it took since the last `initialize`."""
        last = max(at for at, method in enumerate(self.methods) if method == "initialize")
        return self.messages[last:]

    def forget(self, revision: str = "2025-11-25") -> None:
        """The session is over; the next one is of this revision."""
        self._sessions += 1
        self._revision = revision

    async def cut_off(self) -> None:
        """Ends its stream without a word."""
        if self.standing is not None:
            self.standing.reset()
        self.standing = None

    async def says(self, message: dict[str, Any]) -> None:
        """Sends a message on its stream."""
        assert self.standing is not None
        event = f"event: message\ndata: {json.dumps(message)}\n\n".encode()
        await self.standing.send(b"%x\r\n%b\r\n" % (len(event), event))

    async def __call__(self, connection: Connection) -> None:
        """Serves a connection."""
        while (request := await connection.request()) is not None:
            message = json.loads(request.body or b"{}")
            if message.get("method") == "subscriptions/listen":
                await self._stand(connection)
                params = {"_meta": {_META: message["id"]}, "notifications": {"toolsListChanged": True}}
                await self.says(
                    {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}
                )
                await connection.peer_closed()
                return
            if request.method == "POST" and "application/json" not in (request.header("accept") or ""):
                await connection.send(http(b"", None, status="406 Not Acceptable"))
            elif not self._knows(request, message):
                await connection.send(_refusal(self._status))
            elif request.method == "GET":
                await self._stand(connection)
                await connection.peer_closed()
                return
            elif request.method == "POST":
                self.messages.append(message)
                await connection.send(self._answer(message))
            else:
                await connection.send(http(b"", None, status="200 OK"))

    def _knows(self, request: RawRequest, message: dict[str, Any]) -> bool:
        if message.get("method") == "initialize":
            return request.header("mcp-session-id") is None
        return request.header("mcp-session-id") == self._session and message.get("method") != self.deaf_to

    @property
    def _session(self) -> str:
        return f"session-{self._sessions}"

    async def _stand(self, connection: Connection) -> None:
        head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        await connection.send(head.encode())
        self.standing = connection

    def _answer(self, message: dict[str, Any]) -> bytes:
        if "id" not in message or "method" not in message:
            return http(b"", None, status="202 Accepted")
        result: dict[str, Any] = {}
        if message["method"] == "tools/list":
            result = {"tools": []}
        if message["method"] == "initialize":
            info = {"name": "forgetful", "version": "1"}
            result = {"protocolVersion": self._revision, "capabilities": {"resources": {}}, "serverInfo": info}
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        return http(body, headers=(("Mcp-Session-Id", self._session),))


def _refusal(status: int) -> bytes:
    text = "Session not found" if status == 404 else "Bad Request: No valid session ID provided"
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": text}}
    return http(json.dumps(error).encode(), status=f"{status} Refused")
