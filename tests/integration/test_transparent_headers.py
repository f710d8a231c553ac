"""What passes through the gateway untouched, and which headers belong to one hop only. Real sockets, both eras."""

import pytest
from tests.world.calls import ERAS, SESSION, Posted, http, initialize, initialized, notification, post, response
from tests.world.hostile import World, sends, sound_answer
from tests.world.raw_client import RawClient
from tests.world.raw_server import Connection, RawServer
from tests.world.running import RunningGateway

from accredit.gateway import GatewaySettings, HttpUpstream
from accredit.jsonrpc.methods import Era

END_TO_END = (
    ("Authorization", "Bearer abc.def"),
    ("Cookie", "a=b"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("tracestate", "x=y"),
    ("User-Agent", "test/1"),
    ("X-Custom", "one"),
    ("X-Custom", "two"),
    ("X-Empty", ""),
    ("X-Latin", "caf\u00e9"),
    ("Last-Event-ID", "17"),
    ("Accept-Language", "de, en;q=0.5"),
)
HOP_BY_HOP = (
    ("Connection", "keep-alive, X-Hop"),
    ("X-Hop", "1"),
    ("Keep-Alive", "timeout=5"),
    ("Proxy-Authorization", "Basic xyz"),
    ("Proxy-Connection", "keep-alive"),
    ("TE", "trailers"),
    ("Trailer", "X-T"),
)
ADDRESSES = (
    ("X-Forwarded-For", "6.6.6.6"),
    ("X-Forwarded-Host", "evil.example"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Prefix", "/evil"),
    ("X-Real-IP", "6.6.6.6"),
    ("Forwarded", "for=6.6.6.6"),
)


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_s_end_to_end_headers_reach_the_upstream_and_its_hop_by_hop_ones_do_not(era: Era) -> None:
    async with World(sends(http(response()))) as world:
        asked = post(era)
        more = [*END_TO_END, *HOP_BY_HOP, *ADDRESSES]
        await world.ask(Posted([*asked.headers, *more], asked.body))
        seen = world.upstream.requests[-1]
        sent = [pair for pair in (*asked.headers, *END_TO_END) if era is Era.LEGACY or pair[0] != "Last-Event-ID"]
        expected = [(name.lower(), value) for name, value in sent]
        own = [("host", f"127.0.0.1:{world.upstream.port}"), ("accept-encoding", "identity")]
        own += [("content-length", str(len(asked.body))), ("x-behaviour", "hostile")]
        assert sorted(seen.headers) == sorted([*expected, *own])
        assert [value for name, value in seen.headers if name == "x-custom"] == ["one", "two"]
        assert (seen.method, seen.target, seen.body) == ("POST", "/mcp", asked.body)
        await world.recovered(era)


@pytest.mark.parametrize("era", ERAS)
async def test_an_upstream_s_end_to_end_headers_reach_the_client_and_its_hop_by_hop_ones_do_not(era: Era) -> None:
    passed = (
        *((("Mcp-Session-Id", SESSION),) if era is Era.LEGACY else ()),
        ("WWW-Authenticate", "Bearer"),
        ("Set-Cookie", "a=b"),
        ("Set-Cookie", "c=d"),
        ("ETag", '"x"'),
        ("Cache-Control", "no-store"),
        ("Server", "raw/1"),
        ("Date", "Thu, 01 Jan 1970 00:00:00 GMT"),
        ("X-Custom", "caf\u00e9"),
    )
    dropped = (
        ("Access-Control-Allow-Origin", "*"),
        ("Connection", "keep-alive, x-hop"),
        ("X-Hop", "1"),
        ("Keep-Alive", "timeout=3"),
        ("Proxy-Authenticate", "Basic"),
        ("Trailer", "X-T"),
    )

    async with World(sends(http(response(), headers=(*passed, *dropped)))) as world:
        answer = await world.ask(post(era))
        own = [("content-type", "application/json"), ("content-length", str(len(response())))]
        assert sorted(answer.headers) == sorted([(name.lower(), value) for name, value in passed] + own)
        await world.recovered(era)


async def test_a_query_reaches_the_upstream() -> None:
    async with World(sends(http(response()))) as world, world.client() as client:
        asked = post(Era.LEGACY)
        for method in ("POST", "GET", "DELETE"):
            await client.ask(method, "/mcp?a=1&b=%2F&a=2", asked.headers, asked.body if method == "POST" else b"")
            await client.answer()
            assert (world.upstream.requests[-1].method, world.upstream.requests[-1].target) == (
                method,
                "/mcp?a=1&b=%2F&a=2",
            )


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_waits_for_100_continue_gets_it_from_the_gateway(era: Era) -> None:
    async with World(sends(http(response()))) as world, world.client() as client:
        asked = post(era)
        headers = [*asked.headers, ("Expect", "100-continue"), ("Content-Length", str(len(asked.body)))]
        await client.ask("POST", "/mcp", headers)
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(asked.body)
        assert (await client.answer()).body == response()
        assert world.upstream.requests[-1].header("expect") is None


@pytest.mark.parametrize(
    ("accepted", "sent"),
    [
        (None, "identity"),
        ("gzip, deflate, br, zstd", "gzip, deflate, br"),
    ],
)
async def test_only_codings_that_the_client_accepts_and_the_gateway_decodes_are_asked_for(
    accepted: str | None, sent: str
) -> None:
    async with World(sends(http(response()))) as world:
        asked = post(Era.LEGACY)
        await world.ask(asked if accepted is None else asked.and_header("Accept-Encoding", accepted))
        assert world.upstream.requests[-1].header("accept-encoding") == sent


async def test_the_configured_headers_go_with_each_request_and_win() -> None:
    async def serve(connection: Connection) -> None:
        while request := await connection.request():
            await connection.send(sound_answer(request))

    async with RawServer(serve) as upstream:
        upstream_settings = HttpUpstream(upstream.url + "?fixed=1", {"X-Api-Key": "s3cret", "Authorization": "Own"})
        async with RunningGateway(GatewaySettings(upstream_settings)) as gateway:
            asked = post(Era.LEGACY).and_header("x-api-key", "guess").and_header("Authorization", "Bearer x")
            async with RawClient(gateway.port) as client:
                # The configured query holds: a client can't put another value beside it.
                await client.ask("POST", "/mcp?fixed=2", asked.headers, asked.body)
                assert (await client.answer()).status == 200
        seen = upstream.requests[-1]
        assert (seen.header("x-api-key"), seen.header("authorization")) == ("s3cret", "Own")
        assert seen.target == "/mcp?fixed=1"


async def test_a_session_passes_both_ways_and_its_end_reaches_the_upstream() -> None:
    async with World(sends(http(initialized(), headers=(("Mcp-Session-Id", SESSION),)))) as world:
        begun = await world.ask(initialize())
        assert (begun.status, begun.header("mcp-session-id")) == (200, SESSION)
        assert (await world.ask(notification(Era.LEGACY), hostile=False)).status == 202
        async with world.client() as client:
            await client.ask("DELETE", "/mcp", [("Mcp-Session-Id", SESSION)])
            assert (await client.answer()).status == 200
        assert world.ended_sessions() == [SESSION]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (http(b"", None, status="405 Method Not Allowed"), 405),
        (http(b"gone", "text/plain", status="404 Not Found"), 404),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204),
        (http(b"", None, status="202 Accepted"), 202),
        (http(b"", None, status="302 Found"), 502),
        (http(b'{"ended":true}', status="200 OK"), 200),
    ],
)
async def test_the_answer_to_the_end_of_a_session_passes(sent: bytes, status: int) -> None:
    async def serve(connection: Connection) -> None:
        while await connection.request():
            await connection.send(sent)

    async with (
        RawServer(serve) as upstream,
        RunningGateway(GatewaySettings(HttpUpstream(upstream.url))) as gateway,
        RawClient(gateway.port) as client,
    ):
        await client.ask("DELETE", "/mcp", [("Mcp-Session-Id", SESSION)])
        assert (await client.answer()).status == status
