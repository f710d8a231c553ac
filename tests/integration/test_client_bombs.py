"""Answers that a few bytes make, or that a few bytes become in memory: what they cost a client's process."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from tests.world.bombed import BOMBS, GOOD, Bomb, answer
from tests.world.calls import chunk, event, http
from tests.world.command import environment
from tests.world.connected import Connected
from tests.world.memory import MemoryWatch
from tests.world.raw_server import PATIENCE, Connection, RawServer

from accredit.client.http import GatewayHttp
from accredit.client.ways import over_sse

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("client/http", "size"),
    pytest.mark.holds("client/stdio"),
    pytest.mark.holds("client/messages", "measure", "one-step", "events"),
]

PROMISED_MIB = 128
PROMISED_SECONDS, FACTOR = 0.1, 5
"""Of a processor, for one step of the loop; and for a machine that is slow and does much else."""
LINES = ("rare-character", "arrays", "full-of-zeros", "deep")
"""What is special on stdio, where each call starts a server."""
ROOT = Path(__file__).parents[2]


async def called(target: str, *bombs: str) -> dict[str, tuple[float, float, str]]:
    """By how much the memory of a process of its own rises that calls there, its longest step, and what it raises."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.world.bombed", "call", target, *bombs,
        cwd=ROOT, env=environment(), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(8 * PATIENCE):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return json.loads(said)


@pytest.mark.parametrize("road", ["json", "sse", "stdio"])
async def test_whatever_a_server_answers_a_call_costs_its_client_no_more_memory_than_is_promised__and_no_long_step(
    road: str,
) -> None:
    if road == "stdio":
        found = await called(road, *LINES)
    else:
        async with RawServer(Bomb(road)) as server:
            found = await called(server.url, *BOMBS)
    assert {bomb: peak for bomb, (peak, _, _) in found.items() if peak >= PROMISED_MIB} == {}
    assert {bomb: step for bomb, (_, step, _) in found.items() if step >= FACTOR * PROMISED_SECONDS} == {}
    assert {bomb for bomb, (_, _, raised) in found.items() if not raised} == set(GOOD) & set(found)


async def test_an_answer_that_was_to_be_plain_is_not_unpacked__700_bytes_become_400_mebibytes() -> None:
    async with RawServer(Bomb("br")) as server:
        ((peak, _, raised),) = (await called(server.url, "arrays")).values()
        assert {each.header("accept-encoding") for each in server.requests} == {"identity"}
    assert (raised, peak < 16) == ("MCPError", True)


@pytest.mark.parametrize("bomb", ["full-of-zeros", "rare-character"])
async def test_nor_does_connect_pay_more_for_it__and_its_host_is_told_and_goes_on(bomb: str, tmp_path: Path) -> None:
    def host(url: str) -> None:
        with Connected(tmp_path, url) as connected:
            connected.initialize()
            with MemoryWatch(connected.process.pid) as watch:
                assert ("error" in connected.ask("tools/call", {"name": bomb})) == (bomb == "full-of-zeros")
            assert watch.peak_mib < PROMISED_MIB
            assert connected.ask("tools/list")["error"]["code"] == -32601

    async with RawServer(Bomb()) as server:
        await asyncio.to_thread(host, server.url)


@pytest.mark.parametrize("bomb", ["full-of-zeros", "deep"])
async def test_over_http_sse_such_an_answer_ends_the_stream__or_its_call_would_wait_for_it(bomb: str) -> None:
    async def serve(connection: Connection) -> None:
        assert await connection.request() is not None
        await connection.send(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        await connection.send(chunk(b"event: endpoint\ndata: /messages\n\n"))
        await connection.send(chunk(event(answer(7, BOMBS[bomb]()))))
        await connection.peer_closed()

    async with RawServer(serve) as server, over_sse(server.url, GatewayHttp()) as (read, _):
        async with asyncio.timeout(PATIENCE):
            assert [item async for item in read] == []


async def test_an_answer_in_a_charset_of_the_servers_choice_is_read_as_what_it_is() -> None:
    async def serve(connection: Connection) -> None:
        assert await connection.request() is not None
        await connection.send(http(b"{}", content_type="application/json; charset=punycode"))

    async with RawServer(serve) as server, GatewayHttp() as gateway:
        assert (await gateway.post(server.url, content=b"{}")).encoding == "utf-8"
