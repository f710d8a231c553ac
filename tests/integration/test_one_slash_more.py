"""`/mcp/` is `/mcp`, on every road to each server: clients and people write both. Two slashes are nobody's path."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from mcp import Client
from mcp.client.sse import sse_client
from tests.world.authorization import GATEWAY, Signed, Trust
from tests.world.calls import compact, event, post
from tests.world.honest_server import HonestServer, answer_to
from tests.world.many_servers import Several
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import PATIENCE, Connection, RawServer
from tests.world.roads import ORIGIN, ROADS, plain, several
from tests.world.running import ASGI, FAST, RunningGateway, by_road

from accredit.jsonrpc.methods import Era


def of_a_path_with_a_slash(url: str) -> Any:
    return plain(url, "/mcp/")


def at_the_root(url: str) -> Any:
    return plain(url, "/")


EACH_ROAD = {**ROADS, "of_a_path_with_a_slash": (of_a_path_with_a_slash, "/mcp")}


@pytest.mark.parametrize("way", [FAST, ASGI])
@pytest.mark.parametrize("road", EACH_ROAD)
async def test_a_slash_at_the_end_is_none__and_no_redirect_sends_anybody_elsewhere(road: str, way: str) -> None:
    make, path = EACH_ROAD[road]

    server = HonestServer()
    with by_road(way):
        async with RawServer(server) as raw, RunningGateway(make(raw.url)) as gateway:
            url = f"http://127.0.0.1:{gateway.port}{path}/"
            async with Client(url, mode="legacy", read_timeout_seconds=PATIENCE) as client:
                names = [tool.name for tool in (await client.list_tools()).tools]
                assert "called" in str((await client.call_tool(names[0])).content)
            async with RawClient(gateway.port) as client:
                asked = post(Era.MODERN, "tools/list", {})
                found: list[RawAnswer] = []
                for asked_path in (path, f"{path}/", path, f"{path}/"):
                    await client.ask("POST", asked_path, asked.headers, asked.body)
                    found.append(await client.answer())
                assert {each.status for each in found} == {200}
                assert len({each.body for each in found}) == 1
                for other in (f"{path}//", f"{path}/x/", f"{path}%2F", f"/{path}/"):
                    await client.ask("POST", other, asked.headers, asked.body)
                    assert (await client.answer()).status == 404


@pytest.mark.parametrize("make", [plain, of_a_path_with_a_slash])
async def test_every_method_is_answered_there_as_without_it(make: Callable[[str], Any]) -> None:
    asked = [
        ("HEAD", []), ("PUT", []), ("OPTIONS", []), ("GET", [("Accept", "text/event-stream")]), ("DELETE", []),
        ("OPTIONS", [("Origin", ORIGIN), ("Access-Control-Request-Method", "POST")]),
        ("POST", [("Host", "evil.example"), ("Content-Type", "application/json")]),
        ("POST", [("Content-Type", "text/plain")]),
    ]  # fmt: skip

    async with RawServer(HonestServer()) as raw, RunningGateway(make(raw.url)) as gateway:
        for method, headers in asked:
            told: list[Any] = []
            for path in ("/mcp", "/mcp/"):
                async with RawClient(gateway.port) as client:
                    await client.ask(method, path, headers, b"{}" if method == "POST" else b"")
                    told.append(await client.head())
            assert told[0] == told[1], (method, headers)


async def test_an_endpoint_at_the_root_has_no_other_name() -> None:
    async with RawServer(HonestServer()) as raw, RunningGateway(at_the_root(raw.url)) as gateway:
        asked = post(Era.MODERN, "tools/list", {})
        for path, status in (("/", 200), ("//", 404), ("/mcp", 404)):
            async with RawClient(gateway.port) as client:
                await client.ask("POST", path, asked.headers, asked.body)
                assert (await client.answer()).status == status


@pytest.mark.parametrize("path", ["/sse/", "/mcp/mail/sse/"])
async def test_so_it_is_of_http_sse(path: str) -> None:
    streams: list[Connection] = []

    async def serve(connection: Connection) -> None:
        while request := await connection.request():
            if request.method == "GET":
                streams.append(connection)
                head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
                await connection.send(head, b"event: endpoint\ndata: /messages?session_id=1\n\n")
                await connection.peer_closed()
                return
            answer = answer_to(json.loads(request.body))
            if answer is not None:
                await streams[-1].send(event(compact(answer)))
            await connection.send(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")

    make = several if "mail" in path else plain
    async with RawServer(serve) as raw, RunningGateway(make(raw.url)) as gateway:
        server = sse_client(f"http://127.0.0.1:{gateway.port}{path}")
        async with Client(server, mode="legacy", read_timeout_seconds=PATIENCE) as client:
            assert (await client.list_tools()).tools


async def test_a_proof_and_its_record_name_the_server_and_not_the_spelling() -> None:
    """What is bound is the gateway's id for the server: a proof that was made for one spelling is good at the other,
    and good once."""
    trust = Trust()
    call = {"name": "list_inbox", "arguments": {}}

    async with Several(trust) as gateway:
        signed = Signed(gateway=f"{GATEWAY}/mail")
        proof = trust.proof(trust.chain(), "tools/call", call, signed)
        asked = post(Era.MODERN, "tools/call", {**call, "_meta": {"ratify_proof": proof}})
        statuses: list[Any] = []
        for path in ("/mcp/mail/", "/mcp/mail"):
            async with RawClient(gateway.port) as client:
                await client.ask("POST", path, asked.headers, asked.body)
                statuses.append(json.loads((await client.answer()).body))
        assert "result" in statuses[0], statuses
        assert "error" in statuses[1], statuses
        assert len(gateway.calls("mail")) == 1
        assert gateway.calls("files") == []
