"""An exchange over ASGI. I/O through `receive` and `send` only."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from accredit.base.addresses import Network
from accredit.errors import ClientGone
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.headers import RawHeaders, RequestHead
from accredit.gateway.room import Rooms
from accredit.limits import ANSWER_PIECE_BYTES, CLIENT_STALL_SECONDS, DISCONNECT_WATCH_SECONDS

_Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[_Message]]
Send = Callable[[_Message], Awaitable[None]]
ASGIApplication = Callable[[Scope, Receive, Send], Awaitable[None]]


def head_of(scope: Scope) -> RequestHead:
    """Return the head of the request in an ASGI scope."""
    root: str = scope.get("root_path", "")
    path: str = scope["path"]
    return RequestHead(
        scope["method"],
        path.removeprefix(root),
        [(name.lower(), value) for name, value in scope["headers"]],
        query=scope["query_string"],
        root=root,
        raw_path=scope.get("raw_path") or path.encode("utf-8"),
    )


class AsgiExchange(Exchange):
    """The exchange of an ASGI server, in a task of its own.

    ASGI reports that a client has gone only to a pending `receive`. Such a `receive` is started only after a moment, as
    most calls are over by then.
    """

    __slots__ = ("_on_gone", "_receive", "_send", "_timer", "_watcher")

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        rooms: Rooms,
        origins: tuple[str, ...] = (),
        proxies: tuple[Network, ...] = (),
    ) -> None:
        super().__init__(head_of(scope), (scope.get("client") or ("",))[0], rooms, origins, proxies)
        self._receive = receive
        self._send = send
        self._on_gone: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None

    async def _piece(self) -> tuple[bytes, bool]:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        return message.get("body", b""), message.get("more_body", False)

    async def _send_whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        await self._send_head(status, headers)
        if len(body) > ANSWER_PIECE_BYTES:
            for start in range(0, len(body), ANSWER_PIECE_BYTES):
                await self.write(body[start : start + ANSWER_PIECE_BYTES])
            body = b""
        await self._send({"type": "http.response.body", "body": body})

    async def _send_head(self, status: int, headers: RawHeaders) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, chunk: bytes) -> None:
        """Send a piece. If the client is slow, wait up to a bound. Raises `ClientGone`."""
        try:
            async with asyncio.timeout(CLIENT_STALL_SECONDS):
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        except TimeoutError:
            raise ClientGone from None

    async def end(self) -> None:
        """End an answer started with `start`."""
        await self._send({"type": "http.response.body", "body": b""})

    def watch(self, on_gone: Callable[[], None] | None) -> None:
        """From now on, call `on_gone` when the client disconnects. None ends that."""
        self._on_gone = on_gone
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None  # its end holds what it has awaited, which is this object
        if on_gone is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(DISCONNECT_WATCH_SECONDS, self._watch, loop)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._watcher = loop.create_task(self._wait())

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self._on_gone is not None:
            self._on_gone()
