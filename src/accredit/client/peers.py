"""One side of a connection: sends requests to it, and separates their answers from its other messages. Can change
messages before they are sent. No I/O."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import anyio
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import (
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from accredit.client.messages import unavailable
from accredit.client.proving import Params
from accredit.client.sdk import WriteStream
from accredit.limits import STOP_GRACE_SECONDS

Answer = JSONRPCResponse | JSONRPCError


class Peer:
    """Sends requests to one side, and awaits their answers."""

    def __init__(self, name: str, stream: WriteStream[Any]) -> None:
        self._name = name
        self._stream = stream
        self._waiting: dict[RequestId, asyncio.Future[Answer]] = {}
        self._last_number = 0

    def request(self, method: str, params: Params) -> JSONRPCRequest:
        """Return a request with a new id."""
        self._last_number += 1
        return JSONRPCRequest(
            jsonrpc="2.0", id=f"accredit-{self._name}-{self._last_number}", method=method, params=params
        )

    async def send(self, item: SessionMessage) -> None:
        """Send a message, unless the other side is gone."""
        # If the stream has closed, `lost` answers the waiting requests.
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await self._stream.send(item)

    async def ask(self, request: JSONRPCRequest, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Send a request and return its result. Raises `MCPError`. If this is cancelled, the request is cancelled at
        the other side."""
        answered = self._waiting[request.id] = asyncio.get_running_loop().create_future()
        try:
            await self.send(SessionMessage(request, ClientMessageMetadata(headers=dict(headers or {}))))
            answer = await answered
        except asyncio.CancelledError:
            with anyio.move_on_after(STOP_GRACE_SECONDS, shield=True):
                params: Params = {"requestId": request.id}
                cancelled = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params)
                await self.send(SessionMessage(cancelled))
            raise
        finally:
            del self._waiting[request.id]
        if isinstance(answer, JSONRPCError):
            raise MCPError.from_error_data(answer.error)
        return answer.result

    def settles(self, message: JSONRPCMessage | None) -> bool:
        """If a message is an awaited answer, deliver it to the waiting code. Return whether it was one."""
        if not isinstance(message, JSONRPCResponse | JSONRPCError) or message.id is None:
            return False
        waiting = self._waiting.get(message.id)
        if waiting is not None and not waiting.done():
            waiting.set_result(message)
        return waiting is not None

    def lost(self) -> None:
        """End all open requests with an error, because the other side is gone."""
        error = unavailable("the connection was lost")
        for id in list(self._waiting):
            self.settles(JSONRPCError(jsonrpc="2.0", id=id, error=error))


class Changed:
    """A stream that passes each message through `change` before it is written. If that returns None, nothing is
    written."""

    def __init__(
        self, inner: WriteStream[SessionMessage], change: Callable[[SessionMessage], SessionMessage | None]
    ) -> None:
        self._inner = inner
        self._change = change

    async def send(self, item: SessionMessage, /) -> None:
        """Change and write a message."""
        changed = self._change(item)
        if changed is not None:
            await self._write(changed)

    async def _write(self, item: SessionMessage) -> None:
        await self._inner.send(item)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()
