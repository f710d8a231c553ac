"""Upstreams that are too slow, too early, or not there; and connections that they close at the wrong moment."""

import asyncio

import pytest
from tests.world.calls import ERAS, http, post, response
from tests.world.hostile import (
    LEAKS,
    SOON,
    UNAVAILABLE,
    Script,
    World,
    check_refused,
    refused,
    sends,
    sends_and_closes,
    sends_and_hangs,
    sound_answer,
)
from tests.world.ports import reserved_port
from tests.world.raw_client import RawClient
from tests.world.raw_server import PATIENCE, Connection, RawRequest, RawServer
from tests.world.running import RunningGateway

from accredit.gateway import GatewaySettings, HttpUpstream
from accredit.jsonrpc.methods import Era

pytestmark = pytest.mark.slow


def trickles(at_once: bytes, rest: bytes) -> Script:
    """Sends one part, and the rest a byte at a time, until the gateway has enough."""

    async def script(connection: Connection, request: RawRequest) -> None:
        await connection.send(at_once)
        closed = asyncio.ensure_future(connection.peer_closed())
        for byte in rest:
            await asyncio.wait([closed], timeout=0.02)
            if closed.done():
                raise ConnectionAbortedError
            await connection.send(bytes([byte]))
        await closed
        raise ConnectionAbortedError

    return script


_ANSWER = http(response(text="a" * 1_000), headers=LEAKS)
_HEAD, _, _BODY = _ANSWER.partition(b"\r\n\r\n")
_LATE = "the upstream did not answer in time"
_UNFINISHED = "the upstream did not finish its answer in time"
SLOW = {
    "nothing": (sends_and_hangs(b""), _LATE),
    "half_a_head": (sends_and_hangs(_HEAD), _LATE),
    "a_head_byte_by_byte": (trickles(b"", _ANSWER), _LATE),
    "a_head_without_its_body": (sends_and_hangs(_HEAD + b"\r\n\r\n"), _UNFINISHED),
    "a_body_byte_by_byte": (trickles(_HEAD + b"\r\n\r\n", _BODY), _UNFINISHED),
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", SLOW)
async def test_an_upstream_that_takes_too_long_is_given_up(era: Era, name: str) -> None:
    script, detail = SLOW[name]

    async with World(script, upstream_timeout_seconds=SOON) as world:
        answer = await world.ask(post(era))
        check_refused(answer, 504, answer.body)
        assert answer.body in {refused(text, message=UNAVAILABLE) for text in (_LATE, detail)}
        await world.recovered(era)


# --- not there --------------------------------------------------------------------------------------


async def test_an_upstream_that_refuses_the_connection_is_unavailable_until_it_is_back() -> None:
    async def serve(connection: Connection) -> None:
        while request := await connection.request():
            await connection.send(sound_answer(request))

    with reserved_port() as port:
        settings = GatewaySettings(HttpUpstream(f"http://127.0.0.1:{port}/mcp"))
        async with RunningGateway(settings) as gateway:
            asked = post(Era.LEGACY)
            for era in ERAS:
                async with RawClient(gateway.port) as client:
                    asked = post(era)
                    await client.ask("POST", "/mcp", asked.headers, asked.body)
                    down = refused("the upstream takes no connections", message=UNAVAILABLE)
                    check_refused(await client.answer(), 502, down)
                    await client.ask("GET", "/readyz")
                    assert (await client.answer()).status == 503
            async with RawServer(serve, port=port) as upstream, RawClient(gateway.port) as client:
                await client.ask("POST", "/mcp", asked.headers, asked.body)
                assert (await client.answer()).body == response()
                async with asyncio.timeout(PATIENCE):
                    while True:
                        await client.ask("GET", "/readyz")
                        if (await client.answer()).status == 200:
                            break
                        await asyncio.sleep(0.05)
                assert upstream.accepted >= 1


# --- connections that are closed at the wrong moment ------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "extra",
    [b"x", b"\r\n", http(response(text="smuggled")), b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"],
    ids=["a_byte", "a_blank_line", "an_answer", "a_farewell"],
)
@pytest.mark.parametrize("at_once", [True, False], ids=["at_once", "later"])
async def test_bytes_that_nobody_asked_for_are_no_answer_to_the_next_request(
    era: Era, extra: bytes, at_once: bool
) -> None:
    async def script(connection: Connection, request: RawRequest) -> None:
        if at_once:
            await connection.send(http(response()) + extra)
            return
        await connection.send(http(response()))
        await asyncio.sleep(0.02)
        await connection.send(extra)

    async with World(script) as world:
        for _ in range(3):
            assert (await world.ask(post(era))).body == response()
            await asyncio.sleep(0 if at_once else 0.05)
        await world.recovered(era)


@pytest.mark.parametrize("era", ERAS)
async def test_an_answer_that_comes_before_any_request_is_none(era: Era) -> None:
    async def serve(connection: Connection) -> None:
        await connection.send(http(response(text="too early")))
        await connection.peer_closed()

    async with RawServer(serve) as upstream:
        async with RunningGateway(GatewaySettings(HttpUpstream(upstream.url))) as gateway:
            for _ in range(5):
                async with RawClient(gateway.port) as client:
                    asked = post(era)
                    await client.ask("POST", "/mcp", asked.headers, asked.body)
                    answer = await client.answer()
                    # Bytes that arrive after the request was written can't be told from an early answer.
                    if answer.status != 200:
                        check_refused(answer, 502, answer.body)
        await upstream.until(lambda server: server.open == 0)


@pytest.mark.parametrize("era", ERAS)
async def test_many_hostile_calls_at_once_leave_nothing_behind(era: Era) -> None:
    scripts = [
        sends(http(b"{}")),
        sends_and_closes(b""),
        sends_and_hangs(http(b"", length=10)),
        sends_and_closes(b"nonsense\r\n\r\n"),
        sends(http(response(8))),
    ]

    async def script(connection: Connection, request: RawRequest) -> None:
        await scripts[int(request.header("x-number") or 0) % len(scripts)](connection, request)

    async with World(script, upstream_timeout_seconds=SOON) as world:
        calls = [world.ask(post(era).and_header("X-Number", str(number))) for number in range(100)]
        answers = await asyncio.gather(*calls)
        assert {answer.status for answer in answers} <= {502, 504}
        # Those whose answers were whole rest for a while; leaving the block closes them.
        assert (await world.ask(post(era), hostile=False)).body == response()
