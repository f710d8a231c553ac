"""Replicas of a server that die, refuse, hang or reset: calls go on at the others, and none is ever delivered twice."""

import asyncio
import json
import socket
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from tests.conformance.targets import direct
from tests.integration.conftest import SdkServer
from tests.world.calls import (
    ERAS,
    STREAM_HEAD,
    Posted,
    chunk,
    compact,
    event,
    http,
    initialize,
    initialized,
    post,
    response,
)
from tests.world.cut_streams import CutStreams
from tests.world.honest_server import answer_to
from tests.world.hostile import SOON
from tests.world.ports import reserved_port
from tests.world.raw_client import RawAnswer, RawClient
from tests.world.raw_server import PATIENCE, Connection, RawRequest, RawServer, until
from tests.world.recorded import calls_of, outcomes, records_at
from tests.world.running import RunningGateway
from tests.world.tokened import Tokened

from accredit.gateway import GatewaySettings, HttpUpstream, create_app
from accredit.gateway.settings import RecordSettings
from accredit.gateway.upstream.http.dialing import Origin, attach
from accredit.gateway.upstream.http.replicas import BREAKER_FAILURES
from accredit.jsonrpc.methods import Era

pytestmark = pytest.mark.holds("gateway/upstream/http/replicas")
MANY = 40
"""So many calls that a replica of two which never gets five of them is no chance (1 in 10 million)."""


class Replica:
    """A server that does with what it has read as its `mode` says, and counts the ids of what it has read."""

    def __init__(self, name: str, mode: str = "sound") -> None:
        self.name = name
        self.mode = mode
        self.read: list[Any] = []
        self.sessions: list[str | None] = []
        self.server = RawServer(self._serve)

    async def _serve(self, connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            self.sessions.append(request.header("mcp-session-id"))
            if request.body:
                self.read.append(json.loads(request.body).get("id"))
            await getattr(self, f"_{self.mode}")(connection, request)

    async def _sound(self, connection: Connection, request: RawRequest) -> None:
        if not request.body:
            ok = request.method == "DELETE"
            await connection.send(http(b"", None, status="200 OK" if ok else "405 Method Not Allowed"))
            return
        message = json.loads(request.body)
        if message["method"] == "initialize":
            await connection.send(http(initialized(), headers=(("Mcp-Session-Id", f"of-{self.name}"),)))
        else:
            await connection.send(http(compact(answer_to(message))))

    async def _silent(self, connection: Connection, request: RawRequest) -> None:
        await connection.peer_closed()

    async def _resets(self, connection: Connection, request: RawRequest) -> None:
        connection.reset()
        raise ConnectionAbortedError

    async def _resets_after_its_head(self, connection: Connection, request: RawRequest) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{")
        connection.reset()
        raise ConnectionAbortedError

    async def _unauthorized(self, connection: Connection, request: RawRequest) -> None:
        challenge = ("WWW-Authenticate", 'Bearer realm="inner"')
        await connection.send(http(b"", None, status="401 Unauthorized", headers=(challenge,)))


def call(era: Era, id: int | str = 7, method: str = "tools/call") -> Posted:
    """A call without a session."""
    params = {"name": "list_inbox", "arguments": {}} if method == "tools/call" else {}
    return post(era, method, params, id=id).without_header("Mcp-Session-Id")


async def ask(gateway: RunningGateway, posted: Posted, method: str = "POST", session: str | None = None) -> RawAnswer:
    headers = [*posted.headers, *([("Mcp-Session-Id", session)] if session else [])]
    async with RawClient(gateway.port) as client:
        await client.ask(method, "/mcp", headers, posted.body)
        return await client.answer()


@asynccontextmanager
async def gateway_of(
    *urls: str, log: Path | None = None, most: int | None = None, **settings: Any
) -> AsyncGenerator[RunningGateway]:
    upstream = HttpUpstream(urls[0], {}, tuple(urls[1:]), most)
    told = GatewaySettings(upstream, records=RecordSettings("gate") if log else None, **settings)
    async with RunningGateway(create_app(told, records=records_at(log) if log else None)) as gateway:
        yield gateway


@asynccontextmanager
async def two(second: str, **settings: Any) -> AsyncGenerator[tuple[RunningGateway, Replica, Replica]]:
    """A gateway, a sound replica, and one of another mode."""
    a, b = Replica("a"), Replica("b", second)
    async with AsyncExitStack() as running:
        for replica in (a, b):
            await running.enter_async_context(replica.server)
        gateway = await running.enter_async_context(gateway_of(a.server.url, b.server.url, **settings))
        yield gateway, a, b


@pytest.mark.slow
@pytest.mark.holds("gateway/upstream/http/replicas", "unwritten")
@pytest.mark.parametrize("era", ERAS)
async def test_a_replica_that_refuses_connections_costs_no_call__and_the_records_say_how_often_it_was_tried(
    era: Era, tmp_path: Path
) -> None:
    a = Replica("a")
    async with a.server:
        with reserved_port() as port:
            async with gateway_of(a.server.url, f"http://127.0.0.1:{port}/mcp", log=tmp_path / "log.db") as gateway:
                for id in range(MANY):
                    assert (await ask(gateway, call(era, id))).status == 200
    assert a.read == list(range(MANY))
    found = [made.get("detail") for made in calls_of(tmp_path / "log.db")]
    assert Counter(found) == {None: MANY - BREAKER_FAILURES, "attempts: 2": BREAKER_FAILURES}


@pytest.mark.holds("gateway/upstream/http/replicas", "unwritten")
@pytest.mark.parametrize("era", ERAS)
async def test_a_replica_that_closes_each_connection_as_it_is_opened_costs_no_call__none_was_written_to_it(
    era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two("sound") as (gateway, a, b):

        async def attached(sock: socket.socket, connection: Any, origin: Origin, deadline: float) -> None:
            await attach(sock, connection, origin, deadline)
            if origin.port == b.server.port:
                connection.eof_received()  # as it would be if its end had come with the connection

        monkeypatch.setattr("accredit.gateway.upstream.http.connection.attach", attached)
        for id in range(MANY):
            assert (await ask(gateway, call(era, id))).status == 200
    assert (a.read, b.read) == (list(range(MANY)), [])


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("mode", ["resets", "resets_after_its_head"])
async def test_no_call_that_a_replica_may_have_read_is_ever_sent_to_another(era: Era, mode: str) -> None:
    async with two(mode) as (gateway, a, b):
        statuses = [(await ask(gateway, call(era, id))).status for id in range(MANY)]
        assert Counter(a.read) + Counter(b.read) == Counter(range(MANY))
        assert [id for id, status in enumerate(statuses) if status == 502] == b.read
        if mode == "resets":
            assert len(b.read) == BREAKER_FAILURES


@pytest.mark.holds("gateway/upstream/http/replicas", "repeatable")
@pytest.mark.parametrize("method", ["tools/list", "ping"])
async def test_a_list_that_is_cut_off_is_asked_for_once_more_and_no_more_often(method: str) -> None:
    async with two("resets") as (gateway, a, b):
        for id in range(MANY):
            assert (await ask(gateway, call(Era.LEGACY, id, method))).status == 200
        assert len(b.read) == BREAKER_FAILURES
        assert set(Counter(b.read).values()) == {1}
        assert a.read == list(range(MANY))
    only = Replica("only", "resets")
    async with only.server, gateway_of(only.server.url, most=9) as gateway:
        assert (await ask(gateway, call(Era.LEGACY, 1, method))).status == 502
        assert only.read == [1, 1]
        assert (await ask(gateway, call(Era.LEGACY, 2))).status == 502
        assert only.read == [1, 1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
async def test_a_replica_that_takes_calls_and_says_nothing_is_left_out(era: Era) -> None:
    async with two("silent", upstream_timeout_seconds=SOON) as (gateway, _, b):
        count = 2 * BREAKER_FAILURES
        first = await asyncio.gather(*(ask(gateway, call(era, id)) for id in range(count)))
        late = [id for id, answer in enumerate(first) if answer.status == 504]
        assert sorted(late) == sorted(b.read)
        while len(b.read) < BREAKER_FAILURES:
            await ask(gateway, call(era, "more"))
        known = len(b.read)
        for id in range(MANY):
            assert (await ask(gateway, call(era, id))).status == 200
        assert len(b.read) == known


async def test_with_every_replica_left_out_the_answer_is_503_at_once__and_the_record_says_that_nothing_was_sent(
    tmp_path: Path,
) -> None:
    with reserved_port() as one, reserved_port() as other:
        urls = [f"http://127.0.0.1:{port}/mcp" for port in (one, other)]
        async with gateway_of(*urls, log=tmp_path / "log.db") as gateway:
            for _ in range(BREAKER_FAILURES):
                assert (await ask(gateway, call(Era.MODERN))).status == 502
            refused = await ask(gateway, call(Era.MODERN))
            assert refused.status == 503
            assert json.loads(refused.body)["error"]["message"] == "Upstream unavailable"
            assert json.loads(refused.body)["error"]["code"] == -32000
            assert refused.header("retry-after") is not None
    last = calls_of(tmp_path / "log.db")[-1]
    assert (last["status"], last["detail"]) == ("error", "no replica of the upstream answers for now")


async def test_past_max_in_flight_a_call_is_503__and_its_place_comes_back() -> None:
    only = Replica("only", "silent")
    async with only.server, gateway_of(only.server.url, most=1) as gateway:
        async with RawClient(gateway.port) as client:
            posted = call(Era.MODERN, 1)
            await client.ask("POST", "/mcp", posted.headers, posted.body)
            await until(lambda: only.read == [1])
            refused = await ask(gateway, call(Era.MODERN, 2))
            assert (refused.status, json.loads(refused.body)["error"]["message"]) == (503, "Upstream unavailable")
        await only.server.until(lambda server: server.open == 0)
        only.mode = "sound"
        assert (await ask(gateway, call(Era.MODERN, 3))).status == 200
        assert only.read == [1, 3]


async def test_slow_calls_of_strangers_leave_places_of_a_server_for_a_good_token() -> None:
    tokened = Tokened()

    only = Replica("only", "silent")
    async with only.server, AsyncExitStack() as strangers:
        upstream = HttpUpstream(only.server.url, max_in_flight=4)
        told = GatewaySettings(upstream, tokens=tokened.settings(required=False))
        async with RunningGateway(create_app(told, key_sets=tokened.key_sets)) as gateway:
            for id in range(3):
                client = await strangers.enter_async_context(RawClient(gateway.port))
                posted = call(Era.MODERN, id)
                await client.ask("POST", "/mcp", posted.headers, posted.body)
            await until(lambda: len(only.read) == 3)
            only.mode = "sound"
            assert (await ask(gateway, call(Era.MODERN, 3))).status == 503
            known = call(Era.MODERN, 4).and_header("Authorization", f"Bearer {tokened.token()}")
            assert (await ask(gateway, known)).status == 200
            await strangers.aclose()


@pytest.mark.holds("gateway/front/session_ids", "server")
async def test_a_session_stays_at_its_replica__and_is_over_when_that_is_left_out() -> None:
    a, b = Replica("a"), Replica("b")
    async with a.server, AsyncExitStack() as mortal:
        await mortal.enter_async_context(b.server)
        async with gateway_of(a.server.url, b.server.url) as gateway:
            sessions: dict[str, str] = {}
            while len(sessions) < 2:
                count = len(a.read)
                begun = await ask(gateway, initialize())
                sessions["a" if len(a.read) > count else "b"] = begun.header("mcp-session-id") or ""
            assert all(id.startswith("a1.") for id in sessions.values())
            for replica in (a, b):
                replica.sessions.clear()
            for _ in range(10):
                for name in "ab":
                    assert (await ask(gateway, call(Era.LEGACY), session=sessions[name])).status == 200
            assert (await ask(gateway, Posted([], b""), "GET", sessions["b"])).status == 405
            assert set(a.sessions) == {"of-a"}
            assert set(b.sessions) == {"of-b"}
            assert len(b.sessions) == 11
            await mortal.aclose()
            lost = [(await ask(gateway, call(Era.LEGACY), session=sessions["b"])).status for _ in range(9)]
            assert lost == [502] * BREAKER_FAILURES + [404] * 4
            assert (await ask(gateway, call(Era.LEGACY), session=sessions["a"])).status == 200
            assert (await ask(gateway, initialize())).status == 200
            assert (await ask(gateway, Posted([], b""), "DELETE", sessions["a"])).status == 200
        assert a.sessions[-1] == "of-a"
        async with gateway_of(a.server.url, a.server.url.replace("127.0.0.1", "localhost")) as other:
            assert (await ask(other, call(Era.LEGACY), session=sessions["a"])).status == 404  # other keys


@pytest.mark.holds("gateway/upstream/http/answer_relay", "hidden-headers")
async def test_a_401_of_a_server_that_is_looked_after_is_not_the_client_s__but_that_of_a_plain_one_is() -> None:
    only = Replica("only", "unauthorized")
    async with only.server:
        async with gateway_of(only.server.url, most=9) as gateway:
            refused = await ask(gateway, call(Era.MODERN))
            assert (refused.status, refused.header("www-authenticate")) == (502, None)
            assert json.loads(refused.body)["error"]["message"] == "Upstream unavailable"
        async with gateway_of(only.server.url) as gateway:
            plain = await ask(gateway, call(Era.MODERN))
            assert (plain.status, plain.header("www-authenticate")) == (401, 'Bearer realm="inner"')


async def test_messages_of_http_sse_go_to_the_replica_that_has_the_stream() -> None:
    class Streaming:
        def __init__(self) -> None:
            self.read: list[int] = []
            self.server = RawServer(self._serve)
            self._streams: list[Connection] = []

        async def _serve(self, connection: Connection) -> None:
            while (request := await connection.request()) is not None:
                if request.method == "GET":
                    where = f"event: endpoint\ndata: http://127.0.0.1:{self.server.port}/in\n\n".encode()
                    await connection.send(STREAM_HEAD, chunk(where))
                    self._streams.append(connection)
                else:
                    message = json.loads(request.body)
                    self.read.append(message["id"])
                    await connection.send(http(b"", None, status="202 Accepted"))
                    await self._streams[0].send(chunk(event(compact(answer_to(message)))))

    one, other = Streaming(), Streaming()
    async with one.server, other.server, AsyncExitStack() as open_streams:
        async with gateway_of(one.server.url, other.server.url) as gateway:
            for _ in range(2):
                client = await open_streams.enter_async_context(RawClient(gateway.port))
                await client.ask("GET", "/sse", [("Accept", "text/event-stream")])
                assert (await client.head())[0] == 200
                first = await client.event()
                assert first is not None
                assert first.data is not None
                for id in range(5):
                    posted = call(Era.LEGACY, id)
                    async with RawClient(gateway.port) as sender:
                        await sender.ask("POST", first.data.decode(), posted.headers, posted.body)
                        assert (await sender.answer()).status == 202
                    answer = await client.event()
                    assert answer is not None
            await open_streams.aclose()
        assert one.read == other.read == list(range(5))  # the second stream went where fewer are under way


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_of_two_real_servers_one_dies__and_calls_go_on_at_the_other(mode: str, tmp_path: Path) -> None:
    logs = [tmp_path / name for name in "ab"]
    seen = [SdkServer("", log / "requests.txt") for log in logs]

    with ExitStack() as staying, ExitStack() as dying:
        for log in logs:
            log.mkdir()
        first = dying.enter_context(direct(logs[0], logs[0] / "requests.txt"))
        second = staying.enter_context(direct(logs[1], logs[1] / "requests.txt"))
        async with gateway_of(first, second) as gateway:
            while not all(server.methods() for server in seen):
                async with Client(gateway.url, mode=mode, read_timeout_seconds=PATIENCE) as client:
                    await client.call_tool("test_simple_text")
            dying.close()
            for _ in range(2 * BREAKER_FAILURES):
                async with Client(gateway.url, mode=mode, read_timeout_seconds=PATIENCE) as client:
                    assert not (await client.call_tool("test_simple_text")).is_error
            assert seen[1].methods().count("tools/call") >= 2 * BREAKER_FAILURES
            await until(lambda: not gateway.state.tasks)


@pytest.mark.slow
async def test_a_stream_is_resumed_at_its_replica__and_a_session_of_the_same_id_at_another_ends_nothing_of_it(
    tmp_path: Path,
) -> None:
    one, other, log = CutStreams(), CutStreams(), tmp_path / "log.db"

    async with (
        RawServer(one) as first,
        RawServer(other) as second,
        gateway_of(first.url, second.url, log=log) as gateway,
    ):
        sessions: dict[str, str] = {}
        while len(sessions) < 2:
            count = len(first.requests)
            begun = await ask(gateway, initialize())
            sessions["one" if len(first.requests) > count else "other"] = begun.header("mcp-session-id") or ""
        assert b'"error"' not in (await ask(gateway, call(Era.LEGACY), session=sessions["one"])).body
        assert (await ask(gateway, Posted([], b""), "DELETE", sessions["other"])).status == 204
        assert outcomes(log) == [("list_inbox", None)]
        async with RawClient(gateway.port) as client:
            named = [("Mcp-Session-Id", sessions["one"]), ("Last-Event-ID", "1")]
            await client.ask("GET", "/mcp", [("Accept", "text/event-stream"), *named])
            assert (await client.head())[0] == 200
            await one.resumed[-1].send(chunk(event(response(), id="2")))
            assert await client.event() is not None
            assert outcomes(log) == [("list_inbox", "ok")]
        assert not other.resumed
