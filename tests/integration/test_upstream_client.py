"""The upstream client over real sockets, under both event loops: what it sends, what it keeps, what it bounds."""

import asyncio
import os
import select
import socket

import pytest
from tests.world.raw_server import PATIENCE, Connection, RawServer, until
from tests.world.upstream_client import answers, client_of, gone

from accredit.errors import RequestError, UpstreamLeftOut, UpstreamUnavailable
from accredit.gateway.upstream.http import connection as connections
from accredit.gateway.upstream.http import parsing
from accredit.gateway.upstream.http.client import UpstreamClient
from accredit.gateway.upstream.http.dialing import attach, open_socket, parse_origin
from accredit.gateway.upstream.http.replicas import BREAKER_FAILURES, ReplicatedClient

pytestmark = [
    pytest.mark.usefixtures("loop_factory"),
    pytest.mark.holds("gateway/upstream/http/client"),
    pytest.mark.holds("gateway/upstream/http/connection"),
    pytest.mark.holds("gateway/upstream/http/connection"),
]

HELLO = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
MIB = 1 << 20


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What closes a connection here is not that it rested for too long, where the test does not say so."""
    monkeypatch.setattr(parsing, "IDLE_SECONDS", 1000.0)
    monkeypatch.setattr(connections, "IDLE_SECONDS", 1000.0)


async def ask(client: UpstreamClient, body: bytes = b"{}") -> bytes:
    answer = await client.send("POST", [(b"accept", b"*/*")], body)
    return await answer.read(MIB, timeout=10)


class Made(asyncio.Protocol):
    """Keeps the transport that it is given."""

    def __init__(self) -> None:
        self.transports: list[asyncio.BaseTransport] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transports.append(transport)


# --- one exchange -------------------------------------------------------------------------------------


async def test_a_request_goes_out_as_it_was_meant_and_its_answer_comes_back() -> None:
    async with RawServer(answers(HELLO)) as server:
        client = UpstreamClient(f"http://127.0.0.1:{server.port}/mcp?x=1", headers={"X-Api-Key": "ours"}, timeout=10)
        headers = [
            (b"accept", b"text/plain"), (b"X-api-key", b"theirs"), (b"host", b"elsewhere"), (b"x", b""),
            (b"content-length", b"99"), (b"transfer-encoding", b"chunked"), (b"connection", b"close"),
        ]  # fmt: skip
        answer = await client.send("POST", headers, b'{"a":1}')
        assert answer.status == 200
        assert answer.header(b"content-type") == b"text/plain"
        assert answer.header(b"x-none") is None
        assert await answer.read(MIB, timeout=10) == b"hello"
        await client.close()
        assert server.requests[0].body == b'{"a":1}'
        assert server.requests[0].head == (
            b"POST /mcp?x=1 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nX-Api-Key: ours\r\naccept: text/plain\r\nx: \r\n"
            b"Content-Length: 7\r\n\r\n" % server.port
        )


@pytest.mark.parametrize(("method", "framing"), [("GET", b""), ("DELETE", b""), ("POST", b"Content-Length: 0\r\n")])
async def test_a_request_without_a_body_says_so_where_a_body_is_usual(method: str, framing: bytes) -> None:
    async with RawServer(answers(HELLO)) as server:
        client = UpstreamClient(server.url, timeout=10)
        answer = await client.send(method, [], target=b"/other?y")
        answer.close()
        await client.close()
        line = b"%s /other?y HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n" % (method.encode(), server.port)
        assert server.requests[0].head == line + framing + b"\r\n"


@pytest.mark.parametrize(
    ("method", "headers", "target"),
    [
        ("GET", [(b"a", b"b\r\nX: y")], b"/"), ("GET", [(b"a", b"b\nX: y")], b"/"), ("GET", [(b"a", b"b\0c")], b"/"),
        ("GET", [(b"a", b"b\x0bX: y")], b"/"), ("GET", [(b"a", b"b\x7f")], b"/"), ("GET", [(b"a", b"b\x1cX: y")], b"/"),
        ("GET", [(b"a: b\r\nX", b"y")], b"/"), ("GET", [(b"transfer-encoding:", b"chunked")], b"/"),
        ("GET", [(b"transfer-encoding ", b"chunked")], b"/"), ("GET", [(b"", b"y")], b"/"),
        ("GET", [], b"/a b"), ("GET", [], b"/ HTTP/1.1\r\nX: y"), ("GET", [], b"http://elsewhere/"), ("GET", [], b""),
        ("GET /other HTTP/1.1\r\nX:", [], b"/"), ("", [], b"/"), ("G\u20ac", [], b"/"),
    ],
)  # fmt: skip
async def test_a_request_that_would_become_another_one_is_not_sent(
    method: str, headers: list[tuple[bytes, bytes]], target: bytes
) -> None:
    async with client_of(answers(HELLO)) as (client, server):
        with pytest.raises(RequestError):
            await client.send(method, headers, target=target)
        assert not server.accepted


# --- connections that are kept ------------------------------------------------------------------------


async def test_connections_are_used_again_the_last_one_first() -> None:
    async with client_of(answers(HELLO)) as (client, server):
        for _ in range(3):
            assert await ask(client) == b"hello"
        assert server.accepted == 1
        await asyncio.gather(*(ask(client) for _ in range(4)))
        assert server.accepted == 4
        last = client._pool._idle[-1]
        await ask(client)
        assert client._pool._idle[-1] is last
        assert (server.accepted, len(server.requests)) == (4, 8)


async def test_a_connection_serves_the_next_request_before_the_last_answer_is_read() -> None:
    async with client_of(answers(HELLO)) as (client, server):
        first = await client.send("GET", [])
        second = await client.send("GET", [])
        assert server.accepted == 1
        first.close()
        assert await second.read(10, timeout=10) == b"hello"
        assert await ask(client) == b"hello"
        assert server.accepted == 1


async def test_many_callers_share_connections_and_none_waits_for_ever() -> None:
    async def handler(connection: Connection) -> None:
        while request := await connection.request():
            body = request.body
            await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body), body)

    async with client_of(handler) as (client, server):

        async def caller(name: int) -> None:
            for number in range(40):
                body = b"%d/%d" % (name, number)
                assert await ask(client, body) == body

        await asyncio.gather(*(caller(name) for name in range(12)))
        assert server.accepted <= 12


async def accept(listener: socket.socket) -> socket.socket:
    accepted, _ = await asyncio.get_running_loop().sock_accept(listener)
    return accepted


def has_arrived(client: UpstreamClient) -> None:
    """Waits, and the loop with it, until something has come on the connection that is kept, or its end."""
    assert select.select([client._pool._idle[-1]._sock], [], [], PATIENCE)[0]


@pytest.mark.parametrize("farewell", [b"", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 5\r\n\r\nstale", b"\r\n"])
async def test_a_connection_that_the_upstream_left_is_not_used_even_if_the_loop_has_not_seen_it(
    farewell: bytes,
) -> None:
    async def serve_one(listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with await accept(listener) as second:
            assert b"POST" in await loop.sock_recv(second, 1000)
            await loop.sock_sendall(second, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nagain")

    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        client = UpstreamClient(f"http://127.0.0.1:{listener.getsockname()[1]}/", timeout=10)
        asked = asyncio.create_task(ask(client))
        with await accept(listener) as first:
            await loop.sock_recv(first, 1000)
            await loop.sock_sendall(first, HELLO)
            assert await asked == b"hello"
            first.send(farewell)
        # From here to its look at the kept connection, the client never gives way to the loop.
        has_arrived(client)
        async with asyncio.TaskGroup() as group:
            group.create_task(serve_one(listener))
            assert await ask(client) == b"again"
        await client.close()


@pytest.mark.parametrize("surplus", [HELLO, b"H", b"\r\n"])
async def test_bytes_that_nobody_asked_for_end_a_kept_connection__they_would_answer_the_next_request(
    surplus: bytes,
) -> None:
    answered = asyncio.Event()

    async def handler(connection: Connection) -> None:
        await connection.request()
        await connection.send(HELLO)
        await answered.wait()
        await connection.send(surplus)
        await connection.peer_closed()

    async with client_of(handler) as (client, server):
        await ask(client)
        answered.set()
        await gone(server, client)
        assert not client._pool._idle


async def test_an_answer_that_comes_before_its_request_is_sent_is_not_its_answer() -> None:
    async with client_of(answers(HELLO)) as (client, server):
        await ask(client)
        connection = client._pool.rested()
        assert connection is not None
        response = connection.start(b"GET / HTTP/1.1\r\n\r\n", b"", bodiless=False)
        connection.data_received(HELLO)
        assert not response.status
        with pytest.raises(UpstreamUnavailable):
            await connection.more(None)
        await gone(server, client)
        assert len(server.requests) == 1


async def test_a_kept_connection_is_closed_before_the_upstream_would_do_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "IDLE_SECONDS", 0.02)

    async with client_of(answers(HELLO)) as (client, server):
        await ask(client)
        await gone(server, client)
        assert await ask(client) == b"hello"
        assert server.accepted == 2


@pytest.mark.slow
async def test_a_connection_that_serves_again_no_longer_rests__its_time_must_not_end_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parsing, "IDLE_SECONDS", 0.5)

    async def handler(connection: Connection) -> None:
        while request := await connection.request():
            if request.body == b"slow":
                await asyncio.sleep(1.0)
            await connection.send(HELLO)

    async with client_of(handler) as (client, server):
        await ask(client)
        assert await ask(client, b"slow") == b"hello"
        assert server.accepted == 1


async def test_the_number_of_kept_connections_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_IDLE_CONNECTIONS", 2)

    async with client_of(answers(HELLO)) as (client, server):
        await asyncio.gather(*(ask(client) for _ in range(5)))
        await server.until(lambda server: server.open == 2)


async def test_the_number_of_connections_is_bounded__they_would_take_all_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)

    async with client_of(answers(CHUNKED)) as (client, server):
        one, two = await asyncio.gather(client.send("GET", []), client.send("GET", []))
        with pytest.raises(UpstreamUnavailable, match="too many connections"):
            await client.send("GET", [])
        one.close()
        await server.until(lambda server: server.open == 1)
        three = await client.send("GET", [])
        two.close()
        three.close()
        await gone(server, client)


@pytest.mark.parametrize("steps", range(1, 6))
async def test_a_client_that_goes_away_while_its_connection_is_made_has_no_descriptor_closed_twice(steps: int) -> None:
    async with RawServer(answers(HELLO)) as server:
        origin, loop = parse_origin(server.url), asyncio.get_running_loop()
        sock = await open_socket(origin.host, origin.port, loop.time() + PATIENCE)
        one = os.fstat(sock.fileno()).st_ino
        made = Made()
        attaching = asyncio.create_task(attach(sock, made, origin, loop.time() + PATIENCE))
        for _ in range(steps):
            await asyncio.sleep(0)
        attaching.cancel()
        await asyncio.wait([attaching])
        # Closed by the loop, it is nobody's; else it is still the one that it was.
        assert sock.fileno() == -1 or os.fstat(sock.fileno()).st_ino == one
        for transport in made.transports:
            transport.close()
        await server.until(lambda server: server.accepted == 1 and not server.open)


async def test_a_gateway_that_is_out_of_connections_leaves_out_no_replica_for_it__the_replica_has_done_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 1)

    async with RawServer(answers(CHUNKED)) as server:
        client = ReplicatedClient({"a": server.url}, headers={}, timeout=10)
        first = await client.send("GET", [])
        for _ in range(BREAKER_FAILURES + 1):
            with pytest.raises(UpstreamLeftOut, match="too many connections"):
                await client.send("GET", [])
        first.close()
        await server.until(lambda server: server.open == 0)
        (await client.send("GET", [])).close()
        await client.close()


# --- health and the end -------------------------------------------------------------------------------


async def test_an_upstream_is_reachable_when_it_takes_connections() -> None:
    async with RawServer(answers(HELLO)) as server:
        client = UpstreamClient(server.url, timeout=10)
        assert await client.reachable()
        assert await client.reachable()
        await ask(client)
        assert await client.reachable()
        assert (server.accepted, len(server.requests)) == (1, 1)
    await until(lambda: not client._pool._open)
    assert not await client.reachable()
    await client.close()
    assert not await client.reachable()


async def test_closing_the_client_ends_what_is_under_way_and_lets_nothing_begin() -> None:
    async def handler(connection: Connection) -> None:
        await connection.request()
        await connection.peer_closed()

    async with RawServer(handler) as server:
        client = UpstreamClient(server.url, timeout=10)
        asked = asyncio.create_task(ask(client))
        await server.until(lambda server: len(server.requests) == 1)
        await client.close()
        with pytest.raises(UpstreamUnavailable):
            await asked
        with pytest.raises(UpstreamUnavailable):
            await ask(client)
        await gone(server, client)


async def test_a_connection_that_is_made_while_the_client_closes_is_closed_too() -> None:
    async with RawServer(answers(HELLO)) as server:
        client = UpstreamClient(server.url, timeout=10)
        asked = asyncio.create_task(ask(client))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(UpstreamUnavailable, match="stopping"):
            await asked
        await gone(server, client)
