"""Long answers: a client that goes away, one that is slow, silence, and a gateway that stops. Real sockets."""

import asyncio

import pytest
from tests.world.calls import (
    ERAS,
    LAST_CHUNK,
    SESSION,
    STREAM_HEAD,
    chunk,
    event,
    http,
    log_message,
    post,
    response,
)
from tests.world.hostile import (
    HOSTILE,
    UNAVAILABLE,
    Hangs,
    World,
    error_event,
    refused,
    sends,
    sends_and_hangs,
)
from tests.world.memory import MemoryWatch
from tests.world.raw_client import CutOff
from tests.world.raw_server import PATIENCE, Connection, RawRequest, until

from accredit.app import connection, http_request
from accredit.gateway.front import asgi as gateway_http
from accredit.gateway.upstream.http import sse_relay
from accredit.jsonrpc.methods import Era

KIB, MIB = 1 << 10, 1 << 20
NEWS = event(log_message())
KEEP_ALIVE = b": keep-alive\n\n"


# --- a client that goes away ------------------------------------------------------------------------

UNFINISHED = {
    "before_the_head": b"",
    "in_a_head": b"HTTP/1.1 200 OK\r\n",
    "in_json": http(b"{", length=1000),
    "in_chunks": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
    "in_a_stream": STREAM_HEAD + chunk(NEWS),
    "in_an_event": STREAM_HEAD + chunk(NEWS + b"data: {"),
    "in_an_error": http(b"{", status="500 No", length=1000),
}


@pytest.mark.parametrize("how", ["close", "half_close", "reset"])
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", UNFINISHED)
async def test_a_client_that_goes_away_cancels_the_upstream(era: Era, name: str, how: str) -> None:
    cancelled = asyncio.Event()

    async def script(connection: Connection, request: RawRequest) -> None:
        await connection.send(UNFINISHED[name])
        await connection.peer_closed()
        cancelled.set()
        raise ConnectionAbortedError

    async with World(script) as world:
        async with world.client() as client:
            await world.send(client, post(era))
            await world.upstream.until(lambda server: len(server.requests) == 1)
            if "stream" in name or "event" in name:
                await client.head()
            if how == "half_close":
                client.half_close()
            elif how == "reset":
                client.writer.transport.abort()
            else:
                await client.close()
            await asyncio.wait_for(cancelled.wait(), PATIENCE)
        await world.recovered(era)


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_goes_away_from_a_standing_stream_closes_it_upstream(era: Era) -> None:
    async with World(sends_and_hangs(STREAM_HEAD, chunk(NEWS))) as world:
        async with world.client() as client:
            if era is Era.LEGACY:
                await client.ask("GET", "/mcp", [("Accept", "text/event-stream"), ("Mcp-Session-Id", SESSION), HOSTILE])
            else:
                await world.send(client, post(era, "subscriptions/listen", {"notifications": {}}))
            await client.head()
            assert await client.event() is not None
            assert world.upstream.open == 1
        await world.upstream.until(lambda server: server.open == 0)
        await world.recovered(era)


async def test_a_client_that_goes_away_before_its_request_is_whole_is_never_heard() -> None:
    async with World(sends(http(response()))) as world:
        asked = post(Era.LEGACY)
        async with world.client() as client:
            await client.ask("POST", "/mcp", [*asked.headers, ("Content-Length", "1000")], asked.body)
        await until(lambda: not world.gateway.state.connections)
        assert world.upstream.requests == []
        await world.recovered(Era.LEGACY)


async def test_one_client_that_goes_away_cancels_nobody_else() -> None:
    released = asyncio.Event()

    async def script(connection: Connection, request: RawRequest) -> None:
        if request.header("x-waits"):
            await released.wait()
            await connection.send(http(response()))
            return
        await connection.peer_closed()
        released.set()
        raise ConnectionAbortedError

    async with World(script) as world:
        waiting = asyncio.create_task(world.ask(post(Era.LEGACY).and_header("X-Waits", "1")))
        async with world.client() as client:
            await world.send(client, post(Era.LEGACY))
            await world.upstream.until(lambda server: len(server.requests) == 2)
        assert (await waiting).body == response()
        await world.recovered(Era.LEGACY)


# --- a client that is slow --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_does_not_read_stops_the_upstream__the_gateway_keeps_little(era: Era) -> None:
    """64 MiB of events for a client that reads nothing at first; all of it arrives in the end."""
    piece = chunk(event(log_message("a" * 60 * KIB)))
    pieces = 1024
    sent = 0

    async def script(connection: Connection, request: RawRequest) -> None:
        nonlocal sent
        await connection.send(STREAM_HEAD)
        for _ in range(pieces):
            await connection.send(piece)
            sent += 1
        await connection.send(chunk(event(response())), LAST_CHUNK)

    async def stalled() -> int:
        """How much was sent when nothing more went out for a while."""
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.2)
        return sent

    async with World(script) as world:
        await world.recovered(era)
        with MemoryWatch() as watch:
            async with world.client(buffer=64 * KIB) as client:
                await world.send(client, post(era))
                assert await stalled() < pieces // 2  # the rest is what three sockets hold
                await client.head()
                seen = 0
                last: bytes | None = None
                while (got := await client.event()) is not None:
                    seen += 1
                    last = got.data
                assert (seen, last) == (pieces + 1, response())
        assert watch.peak_mib < 32
        await world.recovered(era)


@pytest.mark.slow
@pytest.mark.holds("gateway/upstream/reply", "slow-client")
@pytest.mark.parametrize("answer", ["stream", "json"])
async def test_a_client_that_never_reads_is_given_up__it_would_hold_its_answer_in_memory(
    answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_http, "CLIENT_STALL_SECONDS", 0.3)
    monkeypatch.setattr(http_request, "CLIENT_STALL_SECONDS", 0.3)
    monkeypatch.setattr(connection, "CLIENT_STALL_SECONDS", 0.1)

    async def script(connection: Connection, request: RawRequest) -> None:
        if answer == "json":
            await connection.send(http(response(text="a" * 15 * MIB)))
            return
        await connection.send(STREAM_HEAD)
        while True:
            await connection.send(chunk(event(log_message("a" * 60 * KIB))))

    async with World(script, reports_errors=True) as world:
        async with world.client(buffer=64 * KIB) as client:
            await world.send(client, post(Era.LEGACY))
            await world.upstream.until(lambda server: len(server.requests) == 1)
            await until(lambda: not world.gateway.state.tasks)
            await until(lambda: not world.gateway.state.connections)
        await world.recovered(Era.LEGACY)


# --- silence ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_comments_keep_an_idle_call_open(era: Era, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_relay, "KEEP_ALIVE_SECONDS", 0.05)
    go_on = asyncio.Event()

    async def script(connection: Connection, request: RawRequest) -> None:
        await connection.send(STREAM_HEAD, chunk(b"data: "))
        await go_on.wait()
        await connection.send(chunk(response() + b"\n\n"), LAST_CHUNK)

    async with World(script) as world:
        async with world.client() as client:
            await world.send(client, post(era))
            await client.head()
            for _ in range(3):
                silent = await client.event()
                assert silent is not None
                assert silent.raw == KEEP_ALIVE  # never in the middle of an event
            go_on.set()
            rest = await client.rest()
        assert rest.replace(KEEP_ALIVE, b"") == b"data: " + response() + b"\n\n"
        await world.recovered(era)


@pytest.mark.slow
async def test_comments_keep_a_standing_stream_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_relay, "KEEP_ALIVE_SECONDS", 0.5)

    # Longer than the upstream's timeout, which does not hold for a stream that stands.
    async with World(sends_and_hangs(STREAM_HEAD), upstream_timeout_seconds=2) as world:
        async with world.client() as client:
            await client.ask("GET", "/mcp", [("Accept", "text/event-stream"), HOSTILE])
            await client.head()
            for _ in range(5):
                silent = await client.event()
                assert silent is not None
                assert silent.raw == KEEP_ALIVE
        await world.recovered(Era.LEGACY)


@pytest.mark.slow
async def test_events_arrive_one_by_one_as_they_come() -> None:
    asked = asyncio.Queue[None]()

    async def script(connection: Connection, request: RawRequest) -> None:
        await connection.send(STREAM_HEAD)
        for number in range(5):
            await asked.get()
            await connection.send(chunk(event(log_message(str(number)))))
        await connection.send(chunk(event(response())), LAST_CHUNK)

    async with World(script) as world, world.client() as client:
        await world.send(client, post(Era.MODERN))
        assert (await client.head())[0] == 200  # the head does not wait for an event
        for number in range(5):
            asked.put_nowait(None)
            got = await client.event()
            assert got is not None
            assert got.data == log_message(str(number))
        last = await client.event()
        assert last is not None
        assert last.raw == event(response())
        assert await client.event() is None


# --- a gateway that stops ---------------------------------------------------------------------------


async def test_a_gateway_that_stops_ends_standing_streams_and_finishes_calls() -> None:
    finish = asyncio.Event()

    async def script(connection: Connection, request: RawRequest) -> None:
        if request.method == "GET" or b"subscriptions/listen" in request.body:
            await connection.send(STREAM_HEAD, chunk(NEWS))
            raise Hangs
        await finish.wait()
        await connection.send(http(response()))

    async with World(script) as world, world.client() as get, world.client() as listen, world.client() as call:
        await get.ask("GET", "/mcp", [("Accept", "text/event-stream"), HOSTILE])
        await world.send(listen, post(Era.MODERN, "subscriptions/listen", {"notifications": {}}))
        await world.send(call, post(Era.MODERN))
        await get.head()
        await listen.head()
        await get.event()
        await listen.event()
        await world.upstream.until(lambda server: len(server.requests) == 3)
        world.gateway.app.end_streams()
        assert await get.rest() == b""
        assert await listen.rest() == error_event(7, "the gateway is stopping", message=UNAVAILABLE)
        async with world.client() as late:
            await late.ask("GET", "/mcp", [("Accept", "text/event-stream"), HOSTILE])
            answer = await late.answer()
            assert (answer.status, answer.body) == (
                502,
                refused("the gateway is stopping", message=UNAVAILABLE),
            )
        finish.set()
        assert (await call.answer()).body == response()


async def test_an_application_that_is_cancelled_cuts_the_answer_off() -> None:
    """What a server does with what is still open when its patience is over."""

    async with World(sends_and_hangs(STREAM_HEAD, chunk(NEWS)), reports_errors=True) as world:
        async with world.client() as client:
            await world.send(client, post(Era.MODERN))
            await client.head()
            await client.event()
            for task in world.gateway.state.tasks:
                task.cancel()
            with pytest.raises(CutOff):
                await client.rest()
        await world.upstream.until(lambda server: server.open == 0)
