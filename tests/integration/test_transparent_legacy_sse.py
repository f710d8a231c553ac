"""HTTP+SSE of revision 2024-11-05: `GET /sse` and `POST /messages`, with a raw server that does what a test likes."""

import contextlib
import json
import re
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from tests.world.calls import LAST_CHUNK, STREAM_HEAD, chunk, compact, error, event, http, log_message, response
from tests.world.hostile import UNAVAILABLE, check_refused, error_event, refused
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import Connection, RawRequest, RawServer
from tests.world.running import RunningGateway

from accredit.gateway import GatewaySettings, HttpUpstream
from accredit.gateway.settings import RoundsSettings
from accredit.rounds import KeyRing

JSON = ("Content-Type", "application/json")
ENDPOINT = b"event: endpoint\ndata: /messages?sid=abc\n\n"


class Upstream:
    """A server of 2024-11-05. `begins` opens its stream; `answers` is what a POST adds to it, if not a response."""

    def __init__(self, begins: bytes = STREAM_HEAD + chunk(ENDPOINT), receipt: bytes | None = None) -> None:
        self._begins = begins
        self._receipt = receipt or http(b"Accepted", "text/plain", status="202 Accepted")
        self.answers: Callable[[RawRequest], list[bytes]] = self._response
        self.stream: Connection | None = None
        self.server = RawServer(self._serve)

    @staticmethod
    def _response(request: RawRequest) -> list[bytes]:
        message = json.loads(request.body)
        return [chunk(event(response(message["id"])))] if "id" in message and "method" in message else []

    async def _serve(self, connection: Connection) -> None:
        while request := await connection.request():
            if request.method == "GET":
                await connection.send(self._begins)
                self.stream = connection
                await connection.peer_closed()
                return
            await connection.send(self._receipt)
            if self.stream is not None:
                await self.stream.send(*self.answers(request))


class Session:
    """A client's session through the gateway: its stream, and where it posts."""

    def __init__(self, port: int, stream: RawClient) -> None:
        self._port = port
        self.stream = stream

    async def open(self) -> None:
        await self.stream.ask("GET", "/sse", [("Accept", "text/event-stream"), ("Authorization", "Bearer t")])
        assert (await self.stream.head())[0] == 200
        named = await self.stream.event()
        assert named is not None
        assert named.name == b"endpoint"
        assert named.data is not None
        self.target = named.data.decode()

    async def post(self, body: bytes, *headers: tuple[str, str], target: str | None = None) -> RawAnswer:
        async with RawClient(self._port) as client:
            await client.ask("POST", target or self.target, [*(headers or [JSON])], body)
            return await client.answer()


@contextlib.asynccontextmanager
async def open_session(upstream: Upstream | None = None, **settings: Any) -> AsyncGenerator[tuple[Session, Upstream]]:
    """An open session; afterwards nothing may be left of it."""
    beyond = upstream or Upstream()
    async with beyond.server as server:
        told = GatewaySettings(HttpUpstream(server.url.replace("/mcp", "/sse")), **settings)
        async with RunningGateway(told) as gateway:
            async with RawClient(gateway.port) as client:
                session = Session(gateway.port, client)
                await session.open()
                yield session, beyond
            await server.until(lambda found: found.open <= 1)
        await server.until(lambda found: found.open == 0)


def call(id: int | str = 7, method: str = "tools/list") -> bytes:
    return compact({"jsonrpc": "2.0", "id": id, "method": method, "params": {}})


async def test_the_endpoint_is_the_gateway_s_own_and_calls_go_through_it() -> None:
    async with open_session() as (session, upstream):
        assert session.target.startswith("/messages?session_id=")
        assert len(session.target) == len("/messages?session_id=") + 32
        for id in (1, "two", 3):
            answer = await session.post(call(id), JSON, ("X-Custom", "v"))
            assert answer.status == 202
            got = await session.stream.event()
            assert got is not None
            assert got.raw == event(response(id))
        opened, *posted = upstream.server.requests
        assert (opened.method, opened.target, opened.header("authorization")) == ("GET", "/sse", "Bearer t")
        assert {(seen.target, seen.header("x-custom")) for seen in posted} == {("/messages?sid=abc", "v")}
        assert [seen.body for seen in posted] == [call(1), call("two"), call(3)]


async def test_notifications_and_requests_of_the_upstream_pass_and_so_do_the_client_s_answers() -> None:
    asked = compact({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}})

    async with open_session() as (session, upstream):
        assert upstream.stream is not None
        await upstream.stream.send(chunk(b": ping\n\n" + event(log_message()) + event(asked)))
        for expected in (b": ping\n\n", event(log_message()), event(asked)):
            got = await session.stream.event()
            assert got is not None
            assert got.raw == expected
        assert (await session.post(response(1))).status == 202
        assert upstream.server.requests[-1].body == response(1)
        assert (await session.post(compact({"jsonrpc": "2.0", "method": "notifications/initialized"}))).status == 202


BAD = {
    "no_json": (b"data: hello\n\n", "not valid JSON"),
    "another_id": (event(response(8)), "a response to an id that was not asked for"),
    "an_answer_twice": (event(response(7)) * 2, "a response to an id that was not asked for"),
    "another_name": (b"event: x\ndata: " + response(7) + b"\n\n", "an event that is no message"),
    "an_endpoint_elsewhere": (b"event: endpoint\ndata: http://evil.example/\n\n", "an endpoint on another origin"),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_event_is_an_error_for_each_open_request_and_ends_the_session(name: str) -> None:
    bad, detail = BAD[name]

    async with open_session() as (session, upstream):
        upstream.answers = lambda request: [] if b'"last"' not in request.body else [chunk(bad)]
        assert (await session.post(call(7))).status == 202
        assert (await session.post(call("last"))).status == 202
        rest = await session.stream.rest()
        good = event(response(7)) if name == "an_answer_twice" else b""
        errors = [error_event(id, detail) for id in ((7, "last") if not good else ("last",))]
        assert rest == good + b"".join(errors)
        gone = await session.post(call(9))
        assert (gone.status, json.loads(gone.body)["error"]["message"]) == (404, "Session not found")


@pytest.mark.parametrize("cut", [False, True])
async def test_a_stream_that_ends_is_an_error_for_each_open_request(cut: bool) -> None:
    async with open_session() as (session, upstream):
        upstream.answers = lambda request: []
        assert (await session.post(call(7))).status == 202
        assert upstream.stream is not None
        if not cut:
            await upstream.stream.send(LAST_CHUNK)
        upstream.stream.writer.close()
        told = "the upstream's answer was cut off" if cut else "the stream ended without a response"
        expected = error_event(7, told, message=UNAVAILABLE) if cut else error_event(7, told)
        assert await session.stream.rest() == expected


@pytest.mark.parametrize(
    "endpoint",
    [
        b"http://evil.example/messages",
        b"http://user@127.0.0.1/messages",
        b"\xff",
    ],
)
async def test_an_endpoint_of_another_origin_ends_the_stream__the_client_s_token_would_go_there(
    endpoint: bytes,
) -> None:
    upstream = Upstream(STREAM_HEAD + chunk(b"event: endpoint\ndata: " + endpoint + b"\n\n"))
    async with upstream.server as server:
        async with (
            RunningGateway(GatewaySettings(HttpUpstream(server.url.replace("/mcp", "/sse")))) as gateway,
            RawClient(gateway.port) as client,
        ):
            await client.ask("GET", "/sse")
            answer = await client.answer()
            assert answer.status == 502
            assert b"Invalid upstream JSON-RPC response" in answer.body
            assert b"an endpoint " in answer.body
        await server.until(lambda found: found.open == 0)


MOVED = "status 302 to /* (upstream.url has to name it): a redirect to another path of the server"
NO_STREAM = "no event stream in answer to GET"


@pytest.mark.parametrize(
    ("begins", "status", "body"),
    [
        (http(b"<html>", "text/html", headers=(("Set-Cookie", "a=b"),)), 502, refused(NO_STREAM)),
        (http(b"", None, status="302 Found", headers=(("Location", "/x"),)), 502, refused(MOVED)),
        (http(b"no", "text/plain", status="404 Not Found"), 404, b"no"),
    ],
)
async def test_what_is_no_stream_opens_no_session(begins: bytes, status: int, body: bytes) -> None:
    upstream = Upstream(begins)
    async with upstream.server as server:
        async with (
            RunningGateway(GatewaySettings(HttpUpstream(server.url))) as gateway,
            RawClient(gateway.port) as client,
        ):
            await client.ask("GET", "/sse")
            answer = await client.answer()
            assert (answer.status, answer.body) == (status, body)
            if status == 502:
                check_refused(answer, status, body)
        await server.until(lambda found: found.open == 0)
        assert server.requests[0].target == "/sse"  # beside the configured endpoint


async def test_a_challenge_passes__a_client_could_not_log_in_otherwise() -> None:
    challenge = ("WWW-Authenticate", "Bearer")

    upstream = Upstream(http(b"token?", "text/plain", status="401 Unauthorized", headers=(challenge,)))
    async with upstream.server as server:
        async with (
            RunningGateway(GatewaySettings(HttpUpstream(server.url))) as gateway,
            RawClient(gateway.port) as client,
        ):
            await client.ask("GET", "/sse")
            answer = await client.answer()
            assert (answer.status, answer.header("www-authenticate")) == (401, "Bearer")
        await server.until(lambda found: found.open == 0)


@pytest.mark.parametrize(
    ("receipt", "status"),
    [
        (http(b"", None), 202),
        (http(b"Accepted", "text/plain", status="202 Accepted"), 202),
        (http(b"no session", "text/plain", status="404 Not Found"), 404),
        (http(b"", None, status="307 Temporary Redirect", headers=(("Location", "/x"),)), 502),
    ],
)
async def test_a_post_is_accepted_if_the_upstream_has_taken_it__whatever_it_says(receipt: bytes, status: int) -> None:
    async with open_session(Upstream(receipt=receipt)) as (session, _):
        assert (await session.post(compact({"jsonrpc": "2.0", "method": "notifications/initialized"}))).status == status


async def test_a_request_that_the_upstream_refused_is_not_open_any_more() -> None:
    async with open_session(Upstream(receipt=http(error(7), status="400 Bad Request"))) as (session, upstream):
        upstream.answers = lambda request: []
        assert (await session.post(call(7))).status == 400
        assert (await session.post(call(7))).status == 400  # not "still open"
        assert len(upstream.server.requests) == 3


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{}", [JSON], 400),
        (b"[" + call() + b"]", [JSON], 400),
        (call(), [("Content-Type", "text/plain")], 415),
        (call(), [JSON, ("Origin", "http://evil.example")], 403),
        (call() + b" " * 1000, [JSON], 413),
    ],
)
async def test_a_bad_post_does_not_reach_the_upstream(body: bytes, headers: list[tuple[str, str]], status: int) -> None:
    async with open_session(max_request_bytes=1000) as (session, upstream):
        assert (await session.post(body, *headers)).status == status
        assert len(upstream.server.requests) == 1


async def test_the_same_id_twice_at_once_is_refused() -> None:
    async with open_session() as (session, upstream):
        upstream.answers = lambda request: []
        assert (await session.post(call(7))).status == 202
        again = await session.post(call(7))
        assert (again.status, json.loads(again.body)["id"]) == (400, 7)
        assert (await session.post(call("7"))).status == 202


@pytest.mark.parametrize("query", ["", "?session_id=", "?session_id=0123", "?sid=abc", "?session_id=%00"])
async def test_a_session_that_nobody_knows_is_not_found(query: str) -> None:
    async with open_session() as (session, _):
        answer = await session.post(call(), target="/messages" + query)
        assert (answer.status, json.loads(answer.body)["error"]["message"]) == (404, "Session not found")


async def test_sessions_do_not_see_each_other_s_answers() -> None:
    async with open_session() as (session, upstream):
        upstream.answers = lambda request: []
        assert (await session.post(call(7))).status == 202
        first = upstream.stream
        async with RawClient(session._port) as other_stream:
            other = Session(session._port, other_stream)
            await other.open()
            assert (await other.post(call(7))).status == 202
            assert other.target != session.target
            assert upstream.stream is not None
            assert first is not None
            await upstream.stream.send(chunk(event(response(7, "theirs"))))
            await first.send(chunk(event(response(7, "mine"))))
            for stream, text in ((session.stream, "mine"), (other.stream, "theirs")):
                got = await stream.event()
                assert got is not None
                assert got.raw == event(response(7, text))


async def test_with_several_workers_it_is_refused__a_post_could_reach_another_one() -> None:
    async with (
        RunningGateway(GatewaySettings(HttpUpstream("http://127.0.0.1:1/sse"), workers=2)) as gateway,
        RawClient(gateway.port) as client,
    ):
        await client.ask("GET", "/sse")
        assert (await client.answer()).status == 501


async def test_a_gateway_that_stops_ends_the_sessions() -> None:
    upstream = Upstream()
    async with upstream.server as server:
        async with (
            RunningGateway(GatewaySettings(HttpUpstream(server.url.replace("/mcp", "/sse")))) as gateway,
            RawClient(gateway.port) as client,
        ):
            session = Session(gateway.port, client)
            await session.open()
            upstream.answers = lambda request: []
            await session.post(call(7))
            gateway.app.end_streams()
            stopping = error_event(7, "the gateway is stopping", message=UNAVAILABLE)
            assert await client.rest() == stopping
        await server.until(lambda found: found.open == 0)


@pytest.mark.holds("gateway/front/session_ids", "prefix")
async def test_with_a_clusters_keys_a_session_is_named_by_its_process_and_found_in_no_other() -> None:
    rounds = RoundsSettings(KeyRing([b"k" * 32]), shared=True)

    async with open_session(rounds=rounds) as (session, upstream):
        assert re.fullmatch(r"/messages\?session_id=a1\.[0-9a-f]{16}\.[\w-]{100,200}", session.target)
        assert (await session.post(call())).status == 202
        got = await session.stream.event()
        assert got is not None
        assert got.raw == event(response())
        url = upstream.server.url.replace("/mcp", "/sse")
        async with RunningGateway(GatewaySettings(HttpUpstream(url), rounds=rounds)) as other:
            refused = [await Session(other.port, session.stream).post(call(), target=session.target)]
            spelled = session.target + "=", session.target[:-1], session.target.replace("a1.", "A1.")
            refused += [await session.post(call(), target=each) for each in spelled]
            named = [JSON, ("Mcp-Session-Id", "the server's own")]  # what no client has, no server is told
            refused.append(await session.post(call(), *named))
        assert {(answer.status, json.loads(answer.body)["error"]["message"]) for answer in refused} == {
            (404, "Session not found")
        }
        assert len(upstream.server.requests) == 2
