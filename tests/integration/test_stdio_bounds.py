"""What a child, or a client of it, may take: memory, time, processes. And that it is given back."""

import asyncio
import os

import pytest
from tests.world.calls import initialize
from tests.world.memory import MemoryWatch
from tests.world.raw_client import RawClient
from tests.world.raw_server import PATIENCE, until
from tests.world.stdio_bridge import (
    Bridge,
    error_of,
    next_event,
    open_stream,
    parsed,
)

pytestmark = pytest.mark.slow

INVALID = "Invalid upstream JSON-RPC response"


async def test_the_gateway_ends_all_children_at_once_when_it_stops() -> None:
    async with Bridge() as bridge:
        for session in [await bridge.session() for _ in range(3)]:
            async with RawClient(bridge.port) as client:
                await client.ask("POST", "/mcp", session.headers, session.posted("stubborn").body)
                await client.head()


async def test_a_line_of_120_mib_is_refused_and_costs_no_more_than_its_bound() -> None:
    async with Bridge() as bridge:
        session = await bridge.session()
        with MemoryWatch() as watch:
            answer = await session.call("endless", mib=120)
        assert error_of(answer) == (502, None, INVALID, "a line longer than 16777216 bytes")
        assert watch.peak_mib < 16 + 32
        assert watch.kept_mib < 24  # what the allocator keeps for later
        assert (await session.call("echo", id=8))[0] == 200


async def test_a_flood_of_news_waits_for_its_client__memory_stays_bounded() -> None:
    async with Bridge() as bridge, RawClient(bridge.port, buffer=65_536) as client:
        session = await bridge.session()
        with MemoryWatch() as watch:
            await open_stream(client, session.posted("notes", count=20_000, bytes=5_000))
            await asyncio.sleep(0.5)  # the child could write all of its 100 MB meanwhile
        assert watch.peak_mib < 16
        events = 0
        while (event := await next_event(client)) is not None:
            events += 1
        assert events == 20_002
        assert event is None


async def test_idle_sessions_end_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.stdio.backend.SESSION_IDLE_SECONDS", 2.0)

    async with Bridge() as bridge, RawClient(bridge.port) as client:
        used = await bridge.session()
        assert await used.get(client) == 200
        unused = await bridge.session()
        await until(lambda: len(bridge.children) == 1)
        assert (await unused.call("echo"))[0] == 404
        assert (await used.call("echo"))[0] == 200


async def test_a_client_that_has_left_without_a_word_keeps_no_child__and_one_that_listens_keeps_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.stdio.backend.SESSION_LEFT_SECONDS", 0.5)

    async with Bridge() as bridge, RawClient(bridge.port) as stays:
        listens, quiet, left = [await bridge.session() for _ in range(3)]
        assert await listens.get(stays) == 200
        async with RawClient(bridge.port) as leaves:
            assert await left.get(leaves) == 200
        await until(lambda: len(bridge.children) == 2)
        assert (await left.call("echo"))[0] == 404  # so it initializes anew, should it come back
        assert (await listens.call("echo"))[0] == 200
        assert (await quiet.call("echo"))[0] == 200


async def test_there_is_an_end_to_the_number_of_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.stdio.backend.MAX_SESSIONS", 1)

    async with Bridge() as bridge, RawClient(bridge.port) as client:
        session = await bridge.session()
        assert await session.get(client) == 200  # it is in use
        status, message = parsed(await bridge.send(initialize()))
        assert (status, message["id"]) == (503, 7)
        await session.delete()
        async with asyncio.timeout(PATIENCE):
            while (await bridge.send(initialize())).status == 503:
                pass


async def test_nothing_is_left_after_many_sessions() -> None:
    async with Bridge() as bridge:
        for _ in range(20):
            session = await bridge.session()
            assert (await session.call("echo"))[0] == 200
            await session.delete()
        await until(lambda: not bridge.children)


async def test_children_get_no_file_of_the_gateways() -> None:
    ours, theirs = os.pipe()
    os.set_inheritable(theirs, True)
    try:
        async with Bridge() as bridge:
            await bridge.session()
            (child,) = bridge.children
            assert sorted(int(name) for name in os.listdir(f"/proc/{child}/fd")) == [0, 1, 2]
    finally:
        os.close(ours)
        os.close(theirs)
