"""Whatever a server says to a notification, the handshake goes on: on every road to it, with the official SDK's client
and with ours, as without the gateway."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.sse import sse_client
from tests.world.calls import LAST_CHUNK, STREAM_HEAD, chunk, compact, error, event, http, notification, stream
from tests.world.connected import Connected
from tests.world.hostile import World, sends_and_hangs
from tests.world.raw_client import RawClient
from tests.world.raw_server import PATIENCE, Connection, RawServer, until
from tests.world.roads import ROADS, plain, several
from tests.world.running import RunningGateway

from accredit.client import AccreditedClient
from accredit.gateway import GatewaySettings, HttpUpstream, create_app
from accredit.gateway.upstream.http.unasked import MAX_ANSWER_TO_NOTHING
from accredit.jsonrpc.methods import Era

CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
UNENDING = http(b"Acc", "text/plain", status="202 Accepted", length=10)
RECEIPTS: dict[str, tuple[bytes, ...]] = {
    "202": (http(b"", None, status="202 Accepted"),),
    "202_and_text": (http(b"Accepted", "text/plain", status="202 Accepted"),),
    "an_empty_object": (http(b"{}"),),
    "json_rpc_without_an_id": (http(b'{"jsonrpc":"2.0","result":{}}'),),
    "an_error_without_an_id": (http(error(None)),),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n",),
    "no_chunk": (CHUNKED, b"0\r\n\r\n"),
    "chunks_that_come_late": (CHUNKED, chunk(b"{"), chunk(b"}"), b"0\r\n\r\n"),
    "a_stream": (stream(b": nothing\n\n"),),
    "a_stream_with_an_answer": (STREAM_HEAD, chunk(event(error(None))), LAST_CHUNK),
}
"""What servers were seen to answer (a tuple has what comes in several pieces)."""


class Chatty:
    """A server whose sessions and one tool are sound. To a notification it says what it is given."""

    def __init__(self, *receipt: bytes, hangs: bool = False) -> None:
        """With `hangs` it says no more on a connection after that."""
        self._receipt = receipt
        self._hangs = hangs
        self._streams: list[Connection] = []
        self.heard: list[str] = []

    async def __call__(self, connection: Connection) -> None:
        while request := await connection.request():
            if request.method == "GET" and request.target == "/sse":
                self._streams.append(connection)
                await connection.send(STREAM_HEAD, chunk(b"event: endpoint\ndata: /messages?session_id=1\n\n"))
                await connection.peer_closed()
                return
            if request.method != "POST" or request.target == "/sse":
                await connection.send(http(b"", None, status="405 No"))
                continue
            message = json.loads(request.body)
            self.heard.append(message.get("method", ""))
            if "id" not in message:
                await connection.send(*self._receipt)
                if self._hangs:
                    await connection.peer_closed()
                    return
            elif request.target.startswith("/messages"):
                await self._streams[-1].send(chunk(event(self._answer(message))))
                await connection.send(http(b"", None, status="202 Accepted"))
            else:
                session = (("Mcp-Session-Id", "s1"),) if message["method"] == "initialize" else ()
                await connection.send(http(self._answer(message), headers=session))

    def _answer(self, message: dict[str, Any]) -> bytes:
        info = {"name": "chatty", "version": "1"}
        revision = message.get("params", {}).get("protocolVersion")
        results: dict[str, Any] = {
            "initialize": {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": info},
            "tools/list": {"tools": [{"name": "hello", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "hello"}]},
        }
        return compact({"jsonrpc": "2.0", "id": message["id"], "result": results.get(message["method"], {})})


EACH_ROAD = {**ROADS, "http_sse": (plain, "/sse"), "http_sse_of_several": (several, "/mcp/mail/sse")}


@asynccontextmanager
async def client_of(url: str) -> AsyncGenerator[Client]:
    server = sse_client(url) if url.endswith("/sse") else url
    async with Client(server, mode="legacy", read_timeout_seconds=PATIENCE) as client:
        yield client


@pytest.mark.parametrize("road", EACH_ROAD)
@pytest.mark.parametrize("receipt", RECEIPTS)
async def test_a_session_begins_whatever_a_server_says_to_initialized(receipt: str, road: str) -> None:
    make, path = EACH_ROAD[road]

    server = Chatty(*RECEIPTS[receipt])
    async with RawServer(server) as raw, RunningGateway(make(raw.url)) as gateway:
        root = f"http://127.0.0.1:{gateway.port}"
        async with client_of(root + path) as client:
            name = (await client.list_tools()).tools[0].name
            assert name.endswith("hello")
            assert "hello" in str((await client.call_tool(name)).content)
        assert "notifications/initialized" in server.heard
        await until(lambda: not gateway.state.tasks)


@pytest.mark.parametrize("receipt", RECEIPTS)
async def test_our_own_client_goes_on_too(receipt: str) -> None:
    async with RawServer(Chatty(*RECEIPTS[receipt])) as raw, AccreditedClient(raw.url, mode="legacy") as client:
        assert "hello" in str((await client.call_tool("hello")).content)


@pytest.mark.parametrize("way", ["/mcp", "/sse"])
async def test_a_body_that_never_ends_keeps_nothing_from_a_host_that_connects_to_the_server_itself(
    way: str, tmp_path: Path
) -> None:
    async with RawServer(Chatty(UNENDING, hangs=True)) as raw:

        def talk() -> None:
            with Connected(tmp_path, raw.url.removesuffix("/mcp") + way) as host:
                host.initialize()
                host.say(method="notifications/roots/list_changed")
                assert host.ask("tools/call", {"name": "hello"})["result"]["content"]

        await asyncio.to_thread(talk)


TOO_LONG = {
    "said_so": http(b"Acc", "text/plain", status="202 Accepted", length=MAX_ANSWER_TO_NOTHING + 1),
    "in_chunks": CHUNKED + chunk(bytes(MAX_ANSWER_TO_NOTHING + 1)),
    "without_a_length": b"HTTP/1.1 200 OK\r\n\r\n" + bytes(MAX_ANSWER_TO_NOTHING + 1),
    "events": STREAM_HEAD + chunk(event(bytes(MAX_ANSWER_TO_NOTHING))),
}


@pytest.mark.parametrize("name", TOO_LONG)
async def test_of_a_body_that_is_too_long_the_connection_is_closed__and_the_client_has_its_answer(name: str) -> None:
    async with World(sends_and_hangs(TOO_LONG[name])) as world:
        answer = await world.ask(notification(Era.LEGACY))
        assert (answer.status, answer.body) == (202, b"")
        await world.recovered(Era.LEGACY)
        assert world.refused == {"answer_dropped": 1}


async def test_who_notifies_does_not_wait_for_the_body__and_the_next_message_of_its_connection_neither() -> None:
    async with World(sends_and_hangs(UNENDING)) as world, world.client() as client:
        for _ in range(3):
            await world.send(client, notification(Era.LEGACY))
        for _ in range(3):
            answer = await client.answer()
            assert (answer.status, answer.body) == (202, b"")
        assert world.upstream.open == 3


@pytest.mark.parametrize("receipt", ["an_empty_object", "chunks_that_come_late", "a_stream"])
async def test_after_a_body_that_was_dropped_the_connection_serves_on(receipt: str) -> None:
    server = Chatty(*RECEIPTS[receipt])
    async with RawServer(server) as raw, RunningGateway(create_app(raw.url)) as gateway:
        for known in range(1, 4):
            async with RawClient(gateway.port) as client:
                told = notification(Era.LEGACY)
                await client.ask("POST", "/mcp", told.headers, told.body)
                assert (await client.answer()).status == 202
            await until(lambda known=known: gateway.app.refused == {"answer_dropped": known})
        assert raw.accepted == 1


async def test_replicas_are_as_free_as_before() -> None:
    """What hangs after the head is no request under way: it takes no place of `max_in_flight`."""

    async with RawServer(Chatty(UNENDING, hangs=True)) as raw:
        upstream = HttpUpstream(raw.url, max_in_flight=1)
        async with RunningGateway(GatewaySettings(upstream)) as gateway, RawClient(gateway.port) as client:
            for _ in range(3):
                told = notification(Era.LEGACY)
                await client.ask("POST", "/mcp", told.headers, told.body)
                assert (await client.answer()).status == 202
