"""What is beside the endpoint: health, paths that pass untouched, and the gateway mounted in another application."""

import asyncio
import json
from typing import Any

import pytest
from tests.world.authorization import Trust
from tests.world.calls import http, post, response
from tests.world.hostile import HOSTILE, World, check_refused, refused, sends, sends_and_hangs, sound_answer
from tests.world.raw_client import CutOff, RawAnswer, RawClient
from tests.world.raw_server import PATIENCE, Connection, RawRequest, RawServer
from tests.world.running import ASGIApplication, RunningGateway

from accredit.gateway import GatewaySettings, HttpUpstream, create_app
from accredit.jsonrpc.methods import Era
from accredit.stores import MemoryStore, RevocationLists, Tasks

pytestmark = pytest.mark.holds("gateway/app")

PASSTHROUGH = ("/.well-known/*", "/robots.txt")


async def fetch(world: World, method: str, target: str, *headers: tuple[str, str], body: bytes = b"") -> RawAnswer:
    async with world.client() as client:
        await client.ask(method, target, [HOSTILE, *headers], body)
        return await client.answer()


# --- health -----------------------------------------------------------------------------------------


@pytest.mark.holds("gateway/front/health", "names")
async def test_health_is_told_to_anybody_and_readiness_depends_on_the_upstream() -> None:
    async with World(sends(http(response()))) as world:
        alive = await fetch(world, "GET", "/healthz")
        assert (alive.status, alive.body) == (200, b'{"status":"ok"}')
        await fetch(world, "POST", "/mcp", ("Content-Type", "text/plain"), body=b"x")
        ready = await fetch(world, "GET", "/readyz")
        assert ready.status == 200
        assert json.loads(ready.body) == {"status": "ok", "upstream": True}
        assert world.upstream.requests == []
        assert world.refused == {"request_refused": 1}
        await world.upstream.__aexit__(None, None, None)
        async with asyncio.timeout(PATIENCE):
            while (down := await fetch(world, "GET", "/readyz")).status == 200:
                await asyncio.sleep(0.05)
        assert (down.status, json.loads(down.body)) == (503, {"status": "not ready", "upstream": False})


@pytest.mark.holds("gateway/front/health", "source", "method")
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_health_is_told_to_no_page_of_another_name_and_by_no_other_method(path: str) -> None:
    async with World(sends(http(response())), allowed_hosts=("gw.example",)) as world:
        for header in (("Host", "evil.example"), ("Host", "10.0.0.1:8484"), ("Host", "")):
            assert (await fetch(world, "GET", path, header)).status == 403
        host = ("Host", "gw.example")
        assert (await fetch(world, "GET", path, host, ("Origin", "https://evil.example"))).status == 403
        assert (await fetch(world, "GET", path, host)).status == 200
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            assert (await fetch(world, method, path, host)).status == 405
        async with world.client() as client:
            await client.send(f"HEAD {path} HTTP/1.1\r\nHost: gw.example\r\nConnection: close\r\n\r\n".encode())
            assert (await client.head())[0] == 200
            assert await client.peer_closed()  # no body


# --- passthrough ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", "/.well-known/oauth-protected-resource", b""),
        ("GET", "/.well-known/oauth-authorization-server/mcp?x=1&y=%2F", b""),
        ("GET", "/.well-known/", b""),
        ("GET", "/robots.txt", b""),
        ("POST", "/.well-known/register", b'{"not":"json-rpc"'),
        ("PUT", "/.well-known/%C3%A4?%C3", b"\xff\x00"),
        ("OPTIONS", "/.well-known/x", b""),
    ],
)
async def test_a_configured_path_is_forwarded_untouched(method: str, target: str, body: bytes) -> None:
    html = http(b"<html>\xff", "text/html", headers=(("Set-Cookie", "a=b"), ("Content-Encoding", "x-odd")))

    async with World(sends(html), passthrough=PASSTHROUGH) as world:
        answer = await fetch(world, method, target, ("Accept-Encoding", "zstd"), ("X-Forwarded-For", "1"), body=body)
        assert (answer.status, answer.body) == (200, b"<html>\xff")
        assert (answer.header("set-cookie"), answer.header("content-encoding")) == ("a=b", "x-odd")
        seen = world.upstream.requests[-1]
        assert (seen.method, seen.target, seen.body) == (method, target, body)
        assert (seen.header("accept-encoding"), seen.header("x-forwarded-for")) == ("zstd", None)
        await world.recovered(Era.LEGACY)


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PROPFIND", "SEARCH"])
@pytest.mark.parametrize("required", [False, True])
async def test_no_method_that_shows_a_stranger_the_gateways_own_key_passes_anywhere(
    method: str, required: bool, trust: Trust
) -> None:
    """A server answers TRACE with the request that it was sent, as RFC 9110 has it."""

    async def echoes(connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            await connection.send(http(request.head, "message/http"))

    async with RawServer(echoes) as server:
        upstream = HttpUpstream(server.url, {"X-Api-Key": "SECRET"})
        settings = trust.settings(upstream, required=required, passthrough=PASSTHROUGH)
        app = create_app(settings, store=MemoryStore(), revocations=RevocationLists((), {}), tasks=Tasks())
        async with RunningGateway(app) as gateway:
            for target in ("/.well-known/x", "/robots.txt", "/mcp", "/other"):
                async with RawClient(gateway.port) as client:
                    await client.ask(method, target)
                    answer = await client.answer()
                    assert answer.status in (400, 404, 405)
                    assert b"SECRET" not in answer.body
        assert server.requests == []


@pytest.mark.parametrize(
    "sent",
    [
        http(b"", None, status="302 Found", headers=(("Location", "/elsewhere"),)),
        b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\nContent-Length: 100\r\n\r\n',
        http(b'{"error":"x"}', status="400 Bad Request"),
    ],
)
async def test_whatever_its_status_it_passes(sent: bytes) -> None:
    head, _, body = sent.partition(b"\r\n\r\n")

    async with World(sends(sent), passthrough=PASSTHROUGH) as world:
        answer = await fetch(world, "GET", "/robots.txt")
        assert (answer.status, answer.body) == (int(head.split(b" ")[1]), body)
        await world.recovered(Era.LEGACY)


async def test_head_passes_without_a_body() -> None:
    async with World(sends_and_hangs(http(b"", "text/plain", length=500)), passthrough=PASSTHROUGH) as world:
        async with world.client() as client:
            await client.ask("HEAD", "/robots.txt", [HOSTILE])
            status, headers = await client.head()
            assert status == 200
            assert ("content-type", "text/plain") in headers
        await world.recovered(Era.LEGACY)


@pytest.mark.parametrize(
    "target",
    [
        "/.well-known/../admin",
        "/.well-known/..%2fadmin",
        "/.well-known/..%5cadmin",
        "/.well-known/..;/admin",
        "/.well-knownx/y",
    ],
)
async def test_no_other_path_passes__not_by_dots_either(target: str) -> None:
    async with World(sends(http(response())), passthrough=PASSTHROUGH) as world:
        assert (await fetch(world, "GET", target)).status == 404
        assert world.upstream.requests == []


async def test_a_configured_path_asks_where_a_request_comes_from() -> None:
    async with World(sends(http(response())), passthrough=PASSTHROUGH) as world:
        assert (await fetch(world, "GET", "/robots.txt", ("Host", "evil.example"))).status == 403
        assert (await fetch(world, "GET", "/robots.txt", ("Origin", "http://evil.example"))).status == 403
        assert world.upstream.requests == []


async def test_the_bounds_hold_for_a_configured_path_too() -> None:
    sent = http(b"a" * 5_000, "text/plain")
    async with World(
        sends(sent), passthrough=PASSTHROUGH, max_response_bytes=4_999, max_request_bytes=10, reports_errors=True
    ) as world:
        assert (await fetch(world, "POST", "/.well-known/x", body=b"a" * 11)).status == 413
        told = await fetch(world, "GET", "/robots.txt")  # before its head has gone out
        check_refused(told, 502, refused("the answer is larger than 4999 bytes"))
        await world.upstream.until(lambda server: server.open <= 1)


async def test_an_answer_without_a_length_is_cut_off_at_its_bound() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    sent = head + b"1388\r\n" + b"a" * 5_000 + b"\r\n0\r\n\r\n"
    async with World(sends(sent), passthrough=PASSTHROUGH, max_response_bytes=4_999, reports_errors=True) as world:
        with pytest.raises(CutOff):
            await fetch(world, "GET", "/robots.txt")


async def test_the_length_of_what_get_would_bring_is_told_to_who_asks_with_head() -> None:
    sent = b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"
    async with World(sends(sent), passthrough=PASSTHROUGH, max_response_bytes=4_999) as world, world.client() as client:
        await client.send(b"HEAD /robots.txt HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Behaviour: hostile\r\n\r\n")
        status, headers = await client.head()
        assert (status, dict(headers)["content-length"]) == (200, "5000")


@pytest.mark.parametrize("length", [None, 100])
async def test_an_answer_that_is_cut_off_is_cut_off_for_the_client_as_well(length: int | None) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
    framing = (
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n" if length is None else b"Content-Length: 100\r\n\r\nhello"
    )

    async def script(connection: Connection, request: RawRequest) -> None:
        await connection.send(head + framing)
        raise ConnectionAbortedError

    async with World(script, passthrough=PASSTHROUGH, reports_errors=True) as world:
        with pytest.raises(CutOff):
            await fetch(world, "GET", "/robots.txt")
        await world.upstream.until(lambda server: server.open == 0)


# --- mounted ----------------------------------------------------------------------------------------


def mounted(app: ASGIApplication, prefix: str) -> ASGIApplication:
    """What routers of ASGI frameworks do: the whole path stays in `path`, the prefix goes to `root_path`."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
        elif scope["path"].startswith(prefix + "/"):
            await app({**scope, "root_path": prefix}, receive, send)
        else:
            await send({"type": "http.response.start", "status": 418, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})

    return serve


async def test_it_may_be_mounted_under_a_prefix() -> None:
    async def serve(connection: Connection) -> None:
        while request := await connection.request():
            await connection.send(sound_answer(request) if request.target == "/mcp" else http(b"hi", "text/plain"))

    async with RawServer(serve) as upstream:
        settings = GatewaySettings(HttpUpstream(upstream.url), passthrough=("/robots.txt",))
        async with (
            RunningGateway(mounted(create_app(settings), "/gate")) as gateway,
            RawClient(gateway.port) as client,
        ):
            asked = post(Era.MODERN)
            for path, status in (
                ("/gate/mcp", 200),
                ("/gate/healthz", 200),
                ("/gate/other", 404),
                ("/mcp", 418),
            ):
                method = "GET" if "health" in path else "POST"
                await client.ask(method, path, asked.headers, asked.body if method == "POST" else b"")
                assert (await client.answer()).status == status
            await client.ask("GET", "/gate/robots.txt?q=1")
            assert (await client.answer()).body == b"hi"
        assert [seen.target for seen in upstream.requests] == ["/mcp", "/robots.txt?q=1"]


async def test_it_answers_without_a_lifespan__many_hosts_give_none_to_what_they_mount() -> None:
    async def serve(connection: Connection) -> None:
        while request := await connection.request():
            await connection.send(sound_answer(request))

    async with RawServer(serve) as upstream:
        app = create_app(upstream.url)

        async def only_http(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                await app(scope, receive, send)
                return
            while (message := await receive())["type"] != "lifespan.shutdown":
                await send({"type": message["type"] + ".complete"})
            await send({"type": "lifespan.shutdown.complete"})

        async with RunningGateway(only_http) as gateway, RawClient(gateway.port) as client:
            asked = post(Era.LEGACY)
            await client.ask("POST", "/mcp", asked.headers, asked.body)
            assert (await client.answer()).body == response()
        await app.aclose()
        await upstream.until(lambda server: server.open == 0)


async def test_a_websocket_is_closed() -> None:
    sent: list[dict[str, Any]] = []

    app = create_app("http://127.0.0.1:1/mcp")

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app({"type": "websocket", "path": "/mcp", "headers": []}, receive, send)
    await app.aclose()
    assert [message["type"] for message in sent] == ["websocket.close"]
