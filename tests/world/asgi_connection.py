"""An ASGI server for tests: any application, or one that mounts a gateway, over the gateway's own HTTP. Source: ASGI
3.0, HTTP & WebSocket spec 2.3 ("HTTP Connection Scope")."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from accredit.app.connection import address_in
from accredit.app.http11 import HttpConnection
from accredit.app.http_request import HttpRequest
from accredit.errors import ClientGone
from accredit.gateway.front.asgi import ASGIApplication, Scope


class AsgiConnection(HttpConnection):
    """Runs the application in a task for each request, as ASGI servers do."""

    def work_of(self, request: HttpRequest) -> Coroutine[Any, Any, None]:
        """The task's end."""
        return self._in_task(request)

    async def _in_task(self, request: HttpRequest) -> None:
        await asyncio.create_task(_run(self._app, request, self.app_state))


async def _run(app: ASGIApplication, request: HttpRequest, state: dict[str, Any]) -> None:
    ending = _Messages(request)
    await app(_scope(request, state), ending.receive, ending.send)


class _Messages:
    """Receives and sends the ASGI messages about one request."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    async def receive(self) -> dict[str, Any]:
        """Return the next piece of the body, or the message that the client has disconnected."""
        try:
            body, more = await self._request.piece()
        except ClientGone:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": body, "more_body": more}

    async def send(self, message: Any) -> None:
        """Send the head, or a piece of the body. Raises `RuntimeError` for a message that must not come now."""
        request, kind = self._request, message["type"]
        if kind != ("http.response.body" if request.started else "http.response.start") or request.answered:
            if request.lost:
                return
            raise RuntimeError(f"an application sent {kind}, which can't come here")
        if kind == "http.response.start":
            headers = [(name.lower(), value) for name, value in message.get("headers", ())]
            request.send_head(message["status"], headers)
            return
        await request.write(message.get("body", b""))
        if not message.get("more_body", False):
            request.end()


def _scope(request: HttpRequest, state: dict[str, Any]) -> Scope:
    connection, head = request.connection, request.head
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": request.version,
        "server": address_in(connection.socket_info("sockname")),
        "client": address_in(connection.socket_info("peername")),
        "scheme": "https" if connection.socket_info("sslcontext") is not None else "http",
        "root_path": "",
        "method": head.method,
        "path": head.path,
        "raw_path": head.raw_path,
        "query_string": head.query,
        "headers": head.raw_headers,
        "state": state.copy(),
    }
