"""The upstream client against servers that are slow, broken, hostile or not there, under both event loops."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from tests.world.ports import reserved_port
from tests.world.raw_server import Connection, RawServer, until
from tests.world.upstream_client import Handler, client_of, timers

from accredit.errors import UpstreamError, UpstreamTimeout, UpstreamUnavailable
from accredit.gateway.upstream.http import connection as connections
from accredit.gateway.upstream.http import dialing, parsing
from accredit.gateway.upstream.http.client import UpstreamClient
from accredit.gateway.upstream.http.connection import Connection as ClientConnection

pytestmark = [pytest.mark.usefixtures("loop_factory"), pytest.mark.holds("gateway/upstream/http/connection")]

HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SOON = 0.1


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What closes a connection here is never that it rested for too long."""
    monkeypatch.setattr(parsing, "IDLE_SECONDS", 1000.0)
    monkeypatch.setattr(connections, "IDLE_SECONDS", 1000.0)


def sends(*parts: bytes) -> Handler:
    """Sends this after the first request, and waits for the client to close."""

    async def handler(connection: Connection) -> None:
        await connection.request()
        await connection.send(*parts)
        await connection.peer_closed()

    return handler


# --- nothing is sent twice ----------------------------------------------------------------------------


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("part", [b"", b"HTTP/1.1 20"])
async def test_a_request_without_an_answer_is_not_sent_again__the_upstream_may_have_acted_on_it(
    reset: bool, before: int, part: bytes
) -> None:
    async def handler(connection: Connection) -> None:
        for _ in range(before):
            await connection.request()
            await connection.send(HELLO)
        await connection.request()
        await connection.send(part)
        if reset:
            connection.reset()

    async with client_of(handler) as (client, server):
        for _ in range(before):
            await (await client.send("POST", [], b"first")).read(10, timeout=10)
        with pytest.raises(UpstreamUnavailable, match="closed the connection before it answered"):
            await client.send("POST", [], b"once")
        assert [request.body for request in server.requests] == [b"first"] * before + [b"once"]
        assert server.accepted == 1


# --- cut off, not HTTP, out of bounds -----------------------------------------------------------------


async def test_a_body_that_the_connection_ends_is_cut_off_when_that_is_reset() -> None:
    read = asyncio.Event()

    async def handler(connection: Connection) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\n\r\nhello")
        await read.wait()
        connection.reset()

    async with client_of(handler) as (client, _):
        answer = await client.send("GET", [])
        assert await answer.chunk(timeout=10) == b"hello"
        read.set()
        with pytest.raises(UpstreamUnavailable, match="cut off"):
            await answer.chunk(timeout=10)


@pytest.mark.parametrize("reset", [False, True])
async def test_a_kept_connection_that_the_upstream_ends_is_forgotten(reset: bool) -> None:
    read = asyncio.Event()

    async def handler(connection: Connection) -> None:
        await connection.request()
        await connection.send(HELLO)
        await read.wait()
        if reset:
            connection.reset()

    async with client_of(handler) as (client, _):
        await ask(client)
        assert client._pool._idle
        read.set()
        await until(lambda: not client._pool._idle)
        assert not client._pool._open
        assert not timers()


# --- too early ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("closes", [False, True])
async def test_an_answer_that_comes_before_the_request_was_read_is_taken_and_the_connection_given_up(
    closes: bool,
) -> None:
    async def handler(connection: Connection) -> None:
        await connection.head()
        await connection.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nhello")
        if not closes:
            await connection.peer_closed()

    async with client_of(handler) as (client, server):
        for accepted in (1, 2):
            answer = await client.send("POST", [], bytes(32_000_000))
            assert answer.status == 413
            assert await answer.read(10, timeout=10) == b"hello"
            await server.until(lambda server: not server.open)
            assert server.accepted == accepted


async def test_an_upstream_that_stops_in_the_middle_of_both_does_not_wait_for_the_rest_of_the_request() -> None:
    async def handler(connection: Connection) -> None:
        await connection.head()
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe")
        connection.writer.write_eof()
        await asyncio.Event().wait()

    async with client_of(handler) as (client, server):
        answer = await client.send("POST", [], bytes(32_000_000))
        with pytest.raises(UpstreamUnavailable, match="cut off"):
            await answer.read(10, timeout=10)
        for task in server.tasks:
            task.cancel()


# --- too slow -----------------------------------------------------------------------------------------


def drips(at_once: bytes, rest: bytes) -> Handler:
    """Sends a part, then the rest a byte at a time, each well within any timeout, together well past it."""

    async def handler(connection: Connection) -> None:
        await connection.request()
        await connection.send(at_once)
        for byte in rest:
            await asyncio.sleep(SOON / 10)
            await connection.send(bytes((byte,)))

    return handler


@pytest.mark.parametrize("handler", [sends(), sends(b"HTTP/1.1 200 OK\r\n"), drips(b"", HELLO * 100)])
async def test_a_head_that_does_not_come_in_time_is_given_up(handler: Handler) -> None:
    async with client_of(handler, timeout=SOON) as (client, server):
        with pytest.raises(UpstreamTimeout):
            await client.send("GET", [])
        await server.until(lambda server: not server.open)
        assert not timers()


@pytest.mark.parametrize(
    "handler",
    [
        sends(CHUNKED),
        sends(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"),
        drips(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", bytes(1000)),
        drips(CHUNKED, b"1\r\na\r\n" * 200),
    ],
)
async def test_a_body_that_does_not_end_in_time_is_given_up__a_byte_a_second_would_hold_it_for_ever(
    handler: Handler,
) -> None:
    async with client_of(handler) as (client, server):
        answer = await client.send("GET", [])
        with pytest.raises(UpstreamTimeout):
            await answer.read(10_000, timeout=SOON)
        await server.until(lambda server: not server.open)
        assert not timers()


async def test_a_body_that_flows_without_a_pause_has_to_end_in_time_as_well() -> None:
    async def endless(connection: Connection) -> None:
        await connection.request()
        await connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await connection.send(b"x")
            await asyncio.sleep(0)

    async with client_of(endless) as (client, server):
        answer = await client.send("GET", [])
        with pytest.raises(UpstreamTimeout):
            await answer.read(100_000_000, timeout=SOON)
        await server.until(lambda server: not server.open)


# --- not there ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 64 + ".invalid", "x..invalid", "%00"])
async def test_a_name_that_nobody_knows_is_unavailable(host: str) -> None:
    client = UpstreamClient(f"http://{host}/", timeout=10)
    with pytest.raises(UpstreamError, match="name"):
        await client.send("GET", [])
    await client.close()


@asynccontextmanager
async def deaf_listener() -> AsyncGenerator[int]:
    """A port whose backlog is full: the kernel lets further connections wait without an answer."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for sock in waiting:
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
        try:
            yield port
        finally:
            for sock in waiting:
                sock.close()


async def test_an_upstream_that_does_not_take_the_connection_is_given_up_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with deaf_listener() as port:
        client = UpstreamClient(f"http://127.0.0.1:{port}/", timeout=SOON)
        with pytest.raises(UpstreamTimeout, match="did not take a connection"):
            await client.send("GET", [])
        monkeypatch.setattr(connections, "CONNECT_SECONDS", SOON)
        client = UpstreamClient(f"http://127.0.0.1:{port}/", timeout=1000)
        with pytest.raises(UpstreamTimeout, match="did not take a connection"):
            await client.send("GET", [])
        await client.close()
        assert not timers()


@pytest.mark.slow
async def test_every_address_of_a_name_is_tried_and_each_has_its_share_of_the_time() -> None:
    async with deaf_listener() as deaf, RawServer(sends(HELLO)) as server:
        with reserved_port() as nobody:
            ports = (nobody, deaf, server.port)
            addresses = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)) for port in ports]
            sock = await dialing._first(addresses, asyncio.get_running_loop().time() + 40 * SOON)
        assert sock.getpeername()[1] == server.port
        sock.close()


# --- callers that go away -----------------------------------------------------------------------------


async def test_a_caller_that_goes_away_takes_the_request_with_it() -> None:
    async with client_of(sends(b"HTTP/1.1 200 OK\r\n")) as (client, server):
        asked = asyncio.create_task(client.send("GET", []))
        await server.until(lambda server: len(server.requests) == 1)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await server.until(lambda server: not server.open)
        assert not timers()


async def test_a_caller_that_goes_away_while_it_connects_leaves_no_socket() -> None:
    async with deaf_listener() as port:
        client = UpstreamClient(f"http://127.0.0.1:{port}/", timeout=10)
        asked = asyncio.create_task(client.send("GET", []))
        await asyncio.sleep(0.02)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert not client._pool._dialing
        await client.close()
        assert not timers()


@pytest.mark.parametrize("rounds", range(6))
async def test_a_caller_may_go_away_at_any_moment_and_nothing_is_left(rounds: int) -> None:
    async def handler(connection: Connection) -> None:
        while await connection.request():
            await connection.send(CHUNKED + b"1\r\na\r\n0\r\n\r\n")

    async with client_of(handler) as (client, server):
        asked = asyncio.create_task(ask(client))
        for _ in range(rounds):
            await asyncio.sleep(0)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        assert await ask(client) == b"a"
        await server.until(lambda server: server.open == len(client._pool._idle))


async def ask(client: UpstreamClient) -> bytes:
    answer = await client.send("GET", [])
    return await answer.read(100, timeout=10)


async def test_a_caller_that_goes_away_when_its_answer_is_whole_leaves_the_connection_to_the_next() -> None:
    async with client_of(sends(HELLO)) as (client, server):
        asked = asyncio.create_task(client.send("GET", []))
        freed = client._pool.free

        def free(connection: ClientConnection, seconds: float) -> None:
            freed(connection, seconds)
            asked.cancel()

        client._pool.free = free  # between the end of the answer and the caller's next step
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert len(client._pool._idle) == 1
        assert client._pool._idle[0].usable()
        assert server.open == 1
