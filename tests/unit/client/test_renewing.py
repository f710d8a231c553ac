"""Sessions that are begun anew, with transports in memory: what servers and hosts may ask of them without end."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from tests.world.running import run

from accredit.client import renewing
from accredit.client.http import GatewayHttp
from accredit.client.renewing import Opened, RenewingTransport, Ways

FEW = 3


class Server:
    """The far end of a way: `reads` is what was sent to it, `says` sends."""

    def __init__(self) -> None:
        self._to_client, self.client_reads = anyio.create_memory_object_stream[Any](64)
        self.client_writes, self._from_client = anyio.create_memory_object_stream[Any](64)

    async def says(self, message: Any) -> None:
        await self._to_client.send(SessionMessage(message))

    async def reads(self) -> Any:
        return (await self._from_client.receive()).message

    def ways(self) -> Ways:
        @asynccontextmanager
        async def transport() -> AsyncGenerator[Any]:
            async with self.client_reads, self.client_writes, self._to_client, self._from_client:
                yield self.client_reads, self.client_writes

        def opened(_: Callable[[], None]) -> Opened:
            return Opened(GatewayHttp(), transport())

        return Ways(opened, opened)


def between(case: Callable[[Server, Any, Any], Awaitable[None]]) -> None:
    async def main() -> None:
        server = Server()
        async with RenewingTransport(server.ways()) as (read, write):
            await case(server, read, write)

    run(main())


def question(id: int) -> JSONRPCRequest:
    return JSONRPCRequest(jsonrpc="2.0", id=id, method="roots/list")


def taken_back(id: int) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": id})


def test_a_server_that_asks_without_end_is_refused__its_questions_would_fill_the_memory_of_the_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(renewing, "MAX_OPEN_REQUESTS", FEW)

    async def case(server: Server, read: Any, write: Any) -> None:
        for id in range(FEW):
            await server.says(question(id))
            assert (await read.receive()).message.id == id
        await server.says(question(FEW))
        refused = await server.reads()
        assert isinstance(refused, JSONRPCError)
        assert (refused.id, refused.error.message) == (FEW, "The client owes too many answers")
        await write.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=0, result={})))
        assert (await server.reads()).id == 0
        await server.says(question(FEW + 1))
        assert (await read.receive()).message.id == FEW + 1

    between(case)


def test_what_a_server_takes_back_is_owed_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewing, "MAX_OPEN_REQUESTS", FEW)

    async def case(server: Server, read: Any, _: Any) -> None:
        for id in range(5 * FEW):
            await server.says(question(id))
            assert (await read.receive()).message == question(id)
            await server.says(taken_back(id))
            assert (await read.receive()).message == taken_back(id)

    between(case)
