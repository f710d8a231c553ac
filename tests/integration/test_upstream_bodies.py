"""The bodies that the upstream client reads, under both event loops: bounded, and no faster than they are read."""

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable

import pytest
from tests.world.raw_server import Connection
from tests.world.upstream_client import answers, client_of, gone

from accredit.errors import AnswerError, UpstreamTimeout, UpstreamUnavailable
from accredit.gateway.upstream.http.connection import HIGH_WATER_BYTES

pytestmark = pytest.mark.usefixtures("loop_factory")

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
MIB = 1 << 20


def endless(counter: list[int], head: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> Callable[[Connection], Awaitable[None]]:
    """A handler that sends zeros for as long as somebody takes them, and counts them."""

    async def handler(connection: Connection) -> None:
        await connection.request()
        await connection.send(head)
        while True:
            await connection.send(bytes(65_536))
            counter[0] += 65_536

    return handler


async def test_a_declared_length_past_the_bound_is_refused_before_anything_is_read() -> None:
    async with client_of(answers(b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n")) as (client, server):
        answer = await client.send("GET", [])
        with pytest.raises(AnswerError, match="larger than 100 bytes") as caught:
            await answer.read(100, timeout=10)
        assert caught.value.bound
        await gone(server, client)


@pytest.mark.parametrize("size", [100, 101])
async def test_a_small_body_is_held_to_the_bound_as_well(size: int) -> None:
    small = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (size, bytes(size))
    async with client_of(answers(small)) as (client, _):
        answer = await client.send("GET", [])
        if size <= 100:
            assert await answer.read(100, timeout=10) == bytes(size)
        else:
            with pytest.raises(AnswerError):
                await answer.read(100, timeout=10)


@pytest.mark.parametrize("declared", [True, False])
async def test_a_large_body_costs_its_size_and_not_twice_that(declared: bool) -> None:
    size = 32 * MIB

    async def handler(connection: Connection) -> None:
        await connection.request()
        await connection.send(
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size if declared else b"HTTP/1.1 200 OK\r\n\r\n"
        )
        for _ in range(0, size, 65_536):
            await connection.send(bytes(65_536))

    async with client_of(handler) as (client, _):
        answer = await client.send("GET", [])
        tracemalloc.start()
        try:
            body = await answer.read(size, timeout=30)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(body) == size
        assert peak < 1.25 * size


async def test_a_slow_reader_slows_the_upstream__what_nobody_reads_must_not_fill_the_memory() -> None:
    async with client_of(endless(counter := [0])) as (client, server):
        answer = await client.send("GET", [])
        still = 0
        while still < 50:  # the upstream has come to a stop when it sends no more for a while
            before = counter[0]
            await asyncio.sleep(0.002)
            still = still + 1 if counter[0] == before else 0
        assert answer._response.unread <= 4 * HIGH_WATER_BYTES
        stopped = counter[0]
        taken = 0
        while counter[0] < stopped + 8 * MIB:
            piece = await answer.chunk(timeout=10)
            assert 0 < len(piece) <= 4 * HIGH_WATER_BYTES
            taken += len(piece)
        assert taken > 0
        answer.close()
        await gone(server, client)


async def test_pieces_come_as_they_are_sent_and_a_silence_does_not_end_them() -> None:
    go = asyncio.Event()

    async def handler(connection: Connection) -> None:
        await connection.request()
        await connection.send(CHUNKED + b"1\r\na\r\n")
        await go.wait()
        await connection.send(b"1\r\nb\r\n0\r\n\r\n")
        await connection.peer_closed()

    async with client_of(handler) as (client, _):
        answer = await client.send("GET", [])
        assert await answer.chunk(timeout=None) == b"a"
        for timeout in (0.02, 0.0):
            with pytest.raises(UpstreamTimeout):
                await answer.chunk(timeout=timeout)
        waiting = asyncio.create_task(answer.chunk(timeout=None))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        go.set()
        assert await answer.chunk(timeout=10) == b"b"
        assert await answer.chunk(timeout=10) == b""
        assert await answer.chunk(timeout=10) == b""
        assert client._pool._idle


async def test_an_unfinished_answer_that_is_closed_takes_its_connection_with_it() -> None:
    async with client_of(endless([0])) as (client, server):
        answer = await client.send("GET", [])
        answer.close()
        answer.close()
        await gone(server, client)
        with pytest.raises(UpstreamUnavailable):
            await answer.chunk(timeout=10)
