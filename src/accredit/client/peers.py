"""The sides of a connection. A `Peer` gets requests, and its answers are separated from its other messages. `HostSide`
has the streams between a transport and its host. `Changed` changes messages before they are sent. No I/O."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse, RequestId

from accredit.client.messages import unavailable
from accredit.client.proving import Params
from accredit.client.sdk import Incoming, WriteStream, send_unless_gone
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
        await send_unless_gone(self._stream, item)  # if it is, `lost` answers the waiting requests

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


class HostSide:
    """The streams between a transport and its host, who has the ends `reads` and `writes`."""

    def __init__(self) -> None:
        self.to_host, self.reads = anyio.create_memory_object_stream[Incoming]()
        self.writes, self._from_host = anyio.create_memory_object_stream[SessionMessage]()

    @asynccontextmanager
    async def serve(self, take: Callable[[SessionMessage], Awaitable[None]]) -> AsyncGenerator[TaskGroup]:
        """Hand each message of the host to `take`, one after the other. Yield a group for further tasks. At the end no
        more messages are accepted, `take` may finish with those that were, and then all tasks are cancelled."""
        taken = anyio.Event()

        async def take_all() -> None:
            async for item in self._from_host:
                await take(item)
            taken.set()

        async with self.to_host, self.reads, self.writes, self._from_host, anyio.create_task_group() as tasks:
            tasks.start_soon(take_all)
            try:
                yield tasks
            finally:
                self.reads.close()
                self.writes.close()
                with anyio.move_on_after(STOP_GRACE_SECONDS):
                    await taken.wait()
                tasks.cancel_scope.cancel()


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
