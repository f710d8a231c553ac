"""Sessions that are begun anew, with transports in memory: what servers and hosts may ask of them without end."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from tests.world.virtual_time import VirtualTimeLoop

from accredit.client.http import SESSION_LOST, SILENCE_SECONDS, GatewayHttp
from accredit.client.renewing import OpenConnection, OpenWay, RenewingTransport
from accredit.limits import MAX_DIALOGS

pytestmark = pytest.mark.holds("client/peers")


UNREAD = 64
"""Messages that a server does not read, and which wait for nobody."""


class Server:
    """The far end of a way: `reads` is what was sent to it, `says` sends."""

    def __init__(self) -> None:
        self._to_client, self.client_reads = anyio.create_memory_object_stream[Any](UNREAD)
        self.client_writes, self._from_client = anyio.create_memory_object_stream[Any](UNREAD)

    async def says(self, message: Any) -> None:
        await self._to_client.send(SessionMessage(message))

    async def reads(self) -> Any:
        return (await self._from_client.receive()).message

    def ways(self) -> OpenWay:
        @asynccontextmanager
        async def transport() -> AsyncGenerator[Any]:
            async with self.client_reads, self.client_writes, self._to_client, self._from_client:
                yield self.client_reads, self.client_writes

        def opened(_: bool, __: Callable[[], None]) -> OpenConnection:
            return OpenConnection(GatewayHttp(), transport())

        return opened


@pytest.fixture(autouse=True)
def loop_factory() -> type[VirtualTimeLoop]:
    return VirtualTimeLoop


@asynccontextmanager
async def between(patience: float = SILENCE_SECONDS) -> AsyncGenerator[tuple[Server, Any, Any]]:
    server = Server()
    async with RenewingTransport(server.ways(), patience).open() as (read, write):
        yield server, read, write


def call(id: int) -> JSONRPCRequest:
    return JSONRPCRequest(jsonrpc="2.0", id=id, method="tools/call", params={"name": "slow"})


def question(id: int) -> JSONRPCRequest:
    return JSONRPCRequest(jsonrpc="2.0", id=id, method="roots/list")


def taken_back(id: int) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params={"requestId": id})


@pytest.mark.holds("client/renewing", "open-requests")
@pytest.mark.holds("client/legacy_session", "limit")
async def test_a_server_that_asks_without_end_is_refused__its_questions_would_fill_the_memory_of_the_client() -> None:
    async with between() as (server, read, write):
        for id in range(MAX_DIALOGS):
            await server.says(question(id))
            assert (await read.receive()).message.id == id
        await server.says(question(MAX_DIALOGS))
        refused = await server.reads()
        assert isinstance(refused, JSONRPCError)
        assert (refused.id, refused.error.message) == (MAX_DIALOGS, "The client owes too many answers")
        await write.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=0, result={})))
        assert (await server.reads()).id == 0
        await server.says(question(MAX_DIALOGS + 1))
        assert (await read.receive()).message.id == MAX_DIALOGS + 1


async def test_what_a_server_takes_back_is_taken_back_at_the_host() -> None:
    async with between() as (server, read, _):
        await server.says(question(1))
        assert (await read.receive()).message == question(1)
        await server.says(taken_back(1))
        assert (await read.receive()).message == taken_back(1)


@pytest.mark.holds("client/renewing", "patience")
async def test_a_server_that_says_nothing_for_too_long_is_given_up__and_told_so() -> None:
    async with between(patience=5) as (server, read, write):
        await write.send(SessionMessage(call(1)))
        assert await server.reads() == call(1)
        given_up = (await read.receive()).message
        assert (given_up.id, "did not answer in time" in given_up.error.data) == (1, True)
        assert 5 <= anyio.current_time() <= 6
        cancelled = await server.reads()
        assert (cancelled.method, cancelled.params["requestId"]) == ("notifications/cancelled", 1)
        await server.says(JSONRPCResponse(jsonrpc="2.0", id=1, result={}))
        await write.send(SessionMessage(call(2)))
        await server.reads()
        await server.says(JSONRPCResponse(jsonrpc="2.0", id=2, result={}))
        assert (await read.receive()).message.id == 2


@pytest.mark.holds("client/renewing", "patience")
async def test_every_word_of_a_server_counts__and_the_time_for_which_it_waits_for_the_host_does_not() -> None:
    async with between(patience=5) as (server, read, write):
        progress = JSONRPCNotification(
            jsonrpc="2.0", method="notifications/progress", params={"progressToken": 1, "progress": 1}
        )
        await write.send(SessionMessage(call(1)))
        for _ in range(10):
            await anyio.sleep(4)
            await server.says(progress)
            assert (await read.receive()).message == progress
        await server.says(question(1))
        assert (await read.receive()).message == question(1)
        await anyio.sleep(100)
        await write.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=1, result={})))
        await anyio.sleep(4)
        await server.says(JSONRPCResponse(jsonrpc="2.0", id=1, result={}))
        assert (await read.receive()).message == JSONRPCResponse(jsonrpc="2.0", id=1, result={})


async def test_a_call_outlives_a_long_silence_where_nothing_is_said__and_not_every_one() -> None:
    async with between() as (server, read, write):
        await write.send(SessionMessage(call(1)))
        await anyio.sleep(59 * 60)
        await server.says(JSONRPCResponse(jsonrpc="2.0", id=1, result={}))
        assert (await read.receive()).message.id == 1
        await write.send(SessionMessage(call(2)))
        assert "did not answer in time" in (await read.receive()).message.error.message


async def test_a_call_that_comes_while_a_session_is_tried_for_in_vain_gets_another_try__the_server_may_be_back() -> (
    None
):
    servers: list[Server] = []

    def opened(sse: bool, on_lost: Callable[[], None]) -> OpenConnection:
        servers.append(Server())
        return servers[-1].ways()(sse, on_lost)

    begun = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}

    async def refuses(server: Server, code: int) -> None:
        error = ErrorData(code=code, message="no")
        await server.says(JSONRPCError(jsonrpc="2.0", id=(await server.reads()).id, error=error))

    async def answers(server: Server, result: dict[str, Any]) -> None:
        while isinstance(message := await server.reads(), JSONRPCNotification):
            pass
        await server.says(JSONRPCResponse(jsonrpc="2.0", id=message.id, result=result))

    async def server_after(count: int) -> Server:
        while len(servers) <= count:
            await anyio.sleep(0.01)
        return servers[count]

    async with RenewingTransport(opened).open() as (reading, write):
        read: Any = reading
        first = JSONRPCRequest(jsonrpc="2.0", id=0, method="initialize", params={})
        await write.send(SessionMessage(first))
        await answers(servers[0], begun)
        await read.receive()
        await write.send(SessionMessage(call(1)))
        await refuses(servers[0], SESSION_LOST)
        tried = await server_after(1)
        trying = await tried.reads()
        await write.send(SessionMessage(call(2)))
        await anyio.sleep(0.01)
        error = ErrorData(code=-32000, message="Upstream unavailable")
        await tried.says(JSONRPCError(jsonrpc="2.0", id=trying.id, error=error))
        assert (await read.receive()).message == JSONRPCError(jsonrpc="2.0", id=1, error=error)
        with anyio.fail_after(5):
            again = await server_after(2)
        await answers(again, begun)
        await answers(again, {"content": []})
        assert (await read.receive()).message == JSONRPCResponse(jsonrpc="2.0", id=2, result={"content": []})


@pytest.mark.holds("client/renewing", "cancellation")
async def test_who_gives_a_call_up_is_not_kept_waiting_by_a_server_that_takes_no_answers() -> None:
    async with between() as (server, _, write):
        for id in range(UNREAD):
            await write.send(SessionMessage(call(id)))
        async with anyio.create_task_group() as tasks:
            for id in range(UNREAD, UNREAD + 2):  # the first waits for the server, the second for the first
                tasks.start_soon(write.send, SessionMessage(call(id)))
            await anyio.wait_all_tasks_blocked()
            with anyio.fail_after(1):
                await write.send(SessionMessage(taken_back(0)))
            for id in range(UNREAD + 2):
                assert await server.reads() == call(id)
            assert await server.reads() == taken_back(0)


@pytest.mark.holds("client/renewing", "patience", "cancellation")
async def test_a_server_that_takes_no_cancellation_keeps_no_other_call_from_being_given_up() -> None:
    async with between(patience=5) as (_, read, write):
        for id in range(UNREAD):
            await write.send(SessionMessage(call(id)))
        given_up = [(await read.receive()).message.id for _ in range(UNREAD)]
        assert given_up == [*range(UNREAD)]


@pytest.mark.holds("client/renewing", "cancellation")
async def test_who_gives_a_call_up_when_all_is_closed_is_told_so() -> None:
    async with RenewingTransport(Server().ways()).open() as (_, write):
        await write.send(SessionMessage(call(1)))
    with pytest.raises(anyio.ClosedResourceError):
        await write.send(SessionMessage(taken_back(1)))
