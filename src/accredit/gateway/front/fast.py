"""The exchange of the fast road: one of the ASGI road, with short cuts where nothing has to wait. I/O through its wire.

A server that knows it (`app.fast`) hands a plain POST over with its body, takes a whole answer in one call, and tells
of a client that has gone by itself. What has to wait (a body that comes in pieces, a client that is slow to read, a
large answer) takes the ways of `AsgiExchange`, over the same connection.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from accredit.gateway.front.asgi import AsgiExchange, Receive, Send
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.headers import RawHeaders, RequestHead
from accredit.gateway.room import Rooms


class Wire(Protocol):
    """One request's part of a client's connection."""

    @property
    def writable(self) -> bool:
        """Whether something can be sent without waiting."""
        ...

    def watch(self, on_gone: Callable[[], None] | None) -> None:
        """Sees to it that `on_gone` is called a moment after the client has closed its connection. None ends that."""
        ...

    def body(self) -> bytes | None:
        """The request's body where the whole of it has come; the second time there is none."""
        ...

    def answer(self, status: int, headers: RawHeaders, body: bytes) -> bool:
        """Sends a whole answer; False, and nothing is sent, for one that has to wait or to be cut in pieces."""
        ...


class FastExchange(AsgiExchange):
    """A request of which the server has the body already, as a rule."""

    __slots__ = ("_wire",)

    def __init__(
        self,
        wire: Wire,
        receive: Receive,
        send: Send,
        head: RequestHead,
        address: str,
        rooms: Rooms,
        origins: tuple[str, ...] = (),
    ) -> None:
        Exchange.__init__(self, head, address, rooms, origins)
        self._receive = receive
        self._send = send
        self._gone = False
        self._task: asyncio.Task[Any] | None = None
        self._wire = wire

    async def write(self, chunk: bytes) -> None:
        """Sends a piece, and waits while the client is slow to read, but not for ever. Raises `ClientGone`."""
        if self._wire.writable:
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        else:
            await super().write(chunk)

    def watch(self) -> None:
        """From here on a client that goes away cancels the current task. Its body was read."""
        self._gone = False
        self._task = asyncio.current_task()
        self._wire.watch(self._interrupt)

    def unwatch(self) -> bool:
        """... and from here on not any more. Whether it did, and nobody else has cancelled the task as well."""
        self._wire.watch(None)
        task, self._task = self._task, None
        return self._gone and task is not None and task.uncancel() == 0

    def _interrupt(self) -> None:
        self._gone = True
        if self._task is not None:
            self._task.cancel()

    async def _piece(self) -> tuple[bytes, bool]:
        body = self._wire.body()
        return await super()._piece() if body is None else (body, False)

    async def _send_whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        if not self._wire.answer(status, headers, body):
            await super()._send_whole(status, headers, body)
