"""What strangers take up, and what is left for those who have proved something: streams, calls, bodies."""

import asyncio
import contextlib
import json
import sqlite3
from pathlib import Path

import pytest
from tests.world.authorization import Signed, Trust, challenge_in
from tests.world.calls import SESSION, STREAM_HEAD, Posted, compact, http, post
from tests.world.command import Serving
from tests.world.crowd import Crowd, request
from tests.world.honest_server import answer_to
from tests.world.memory import MemoryWatch
from tests.world.raw_server import Connection, RawServer, until
from tests.world.routes import Route
from tests.world.running import RunningGateway
from tests.world.tokened import Tokened

from accredit.gateway import create_app
from accredit.gateway.settings import GatewaySettings, HttpUpstream
from accredit.jsonrpc.methods import Era
from accredit.stores import MemoryStore, RevocationLists, SqliteStore

pytestmark = pytest.mark.slow

ACCEPT = [("Accept", "text/event-stream")]
GET = request("GET", Posted(ACCEPT, b""))
LISTEN = post(Era.MODERN, "subscriptions/listen", {"notifications": {}})
SLOW = post(Era.LEGACY, "ping")
SEND = {"name": "send_email", "arguments": {"to": "bob"}}
INBOX = {"name": "list_inbox", "arguments": {}}
MIB = 1_048_576


async def upstream(connection: Connection) -> None:
    """Streams stand, and a `ping` is never answered."""
    while request := await connection.request():
        message = json.loads(request.body) if request.body else {"method": "GET"}
        if message["method"] in ("GET", "subscriptions/listen"):
            await connection.send(STREAM_HEAD)
        if message["method"] in ("GET", "subscriptions/listen", "ping"):
            await connection.peer_closed()
            return
        headers = (("Mcp-Session-Id", SESSION),) if message["method"] == "initialize" else ()
        await connection.send(http(compact(answer_to(message)), headers=headers))


@pytest.fixture(scope="module")
def tokened() -> Tokened:
    return Tokened()


@pytest.fixture(autouse=True)
def small_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight streams and eight calls at once, of which two are kept where something can be proved."""
    monkeypatch.setattr("accredit.gateway.room.MAX_STREAMS", 8)
    monkeypatch.setattr("accredit.gateway.room.MAX_CALLS", 8)


def open_to_all(server: RawServer) -> RunningGateway:
    return RunningGateway(GatewaySettings(HttpUpstream(server.url)), reports_errors=True)


def with_proofs(server: RawServer, trust: Trust) -> RunningGateway:
    app = create_app(trust.settings(HttpUpstream(server.url)), store=MemoryStore(), revocations=RevocationLists((), {}))
    return RunningGateway(app, reports_errors=True)


def with_tokens(server: RawServer, tokened: Tokened) -> RunningGateway:
    settings_ = GatewaySettings(HttpUpstream(server.url), tokens=tokened.settings(required=False))
    return RunningGateway(create_app(settings_, key_sets=tokened.key_sets), reports_errors=True)


def bearer(tokened: Tokened) -> str:
    return f"Bearer {tokened.token()}"


def proved(trust: Trust) -> Posted:
    proof = trust.proof(trust.chain(), "tools/call", INBOX, Signed(session=SESSION))
    return post(Era.LEGACY, "tools/call", {**INBOX, "_meta": {"ratify_proof": proof}})


# --- streams ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [GET, request("POST", LISTEN)], ids=["get", "listen"])
async def test_idle_streams_of_a_stranger_keep_nobody_s_call_from_the_server__and_one_too_many_is_told_so(
    stream: bytes,
) -> None:
    async with RawServer(upstream) as server, open_to_all(server) as gateway, Crowd(gateway.port) as crowd:
        assert [await member.status() for member in await crowd.join(8, stream)] == [200] * 8
        (late,) = await crowd.join(1, stream)
        assert await late.status() == 503
        assert b"\r\nretry-after: 1\r\n" in late.head
        for era in Era:
            assert await crowd.asks(post(era, "tools/call", INBOX)) == 200
        await crowd.members[0].leave()
        await until(lambda: server.open < 9)
        (again,) = await crowd.join(1, stream)
        assert await again.status() == 200


async def test_streams_of_strangers_leave_room_for_a_session_that_has_proved_something(trust: Trust) -> None:
    async with RawServer(upstream) as server, with_proofs(server, trust) as gateway, Crowd(gateway.port) as crowd:
        statuses = [await member.status() for member in await crowd.join(8, GET)]
        assert statuses == [200] * 6 + [503] * 2
        mine = request("GET", Posted([*ACCEPT, ("Mcp-Session-Id", SESSION)], b""))
        (early,) = await crowd.join(1, mine)
        assert await early.status() == 503  # it says whose it is, and has proved nothing
        assert await crowd.asks(proved(trust)) == 200
        (member,) = await crowd.join(1, mine)
        assert await member.status() == 200


async def test_streams_of_strangers_leave_room_for_a_good_token(tokened: Tokened) -> None:
    async with RawServer(upstream) as server, with_tokens(server, tokened) as gateway, Crowd(gateway.port) as crowd:
        statuses = [await member.status() for member in await crowd.join(8, GET)]
        assert statuses == [200] * 6 + [503] * 2
        mine = request("GET", Posted(ACCEPT, b""), Authorization=bearer(tokened))
        assert [await member.status() for member in await crowd.join(3, mine)] == [200] * 3
        await crowd.members[0].is_closed()  # the third took the place of the stranger who came first


async def test_one_address_with_all_streams_gives_some_to_another__and_behind_a_proxy_nothing_changes() -> None:
    async with (
        RawServer(upstream) as server,
        open_to_all(server) as gateway,
        Crowd(gateway.port) as crowd,
        Crowd(gateway.port, "127.0.0.2") as other,
    ):
        assert [await member.status() for member in await crowd.join(9, GET)] == [200] * 8 + [503]
        assert [await member.status() for member in await other.join(5, GET)] == [200] * 4 + [503]
        for member in crowd.members[:4]:
            await member.is_closed()


# --- calls --------------------------------------------------------------------------------------------


async def test_slow_requests_of_strangers_keep_no_allowed_call_from_the_server(trust: Trust) -> None:
    async with RawServer(upstream) as server, with_proofs(server, trust) as gateway, Crowd(gateway.port) as crowd:
        await crowd.join(6, request("POST", SLOW))
        await until(lambda: len(server.requests) == 6)
        (late,) = await crowd.join(1, request("POST", SLOW))
        assert await late.status() == 503
        assert await crowd.asks(proved(trust)) == 200
        assert await crowd.asks(post(Era.MODERN, "tools/list", {})) == 503


async def test_what_is_refused_for_want_of_room_is_a_json_rpc_error_with_its_id() -> None:
    async with RawServer(upstream) as server, open_to_all(server) as gateway, Crowd(gateway.port) as crowd:
        await crowd.join(8, request("POST", SLOW))
        await until(lambda: len(server.requests) == 8)
        (late,) = await crowd.join(1, request("POST", SLOW))
        assert await late.status() == 503
        body = json.loads(await late.body())
        assert body == {"jsonrpc": "2.0", "id": 7, "error": {"code": -32000, "message": "Too many calls"}}


# --- bodies -------------------------------------------------------------------------------------------


def large(mib: int) -> Posted:
    return post(Era.LEGACY, "tools/call", {"name": "echo", "arguments": {"text": "x" * (mib * MIB - 500)}})


async def test_large_bodies_that_strangers_hold_open_take_one_budget_of_memory__which_is_given_back(
    tmp_path: Path,
) -> None:
    held_open = request("POST", large(4))[:-1]

    with Serving("http://127.0.0.1:9/mcp", folder=tmp_path) as gateway:
        with MemoryWatch(gateway.process.pid) as watch:
            async with Crowd(gateway.port) as crowd:
                members = await crowd.join(60, held_open)
                answered = [asyncio.create_task(member.status()) for member in members]
                await until(lambda: sum(task.done() for task in answered) >= 44)
                # A call takes none of it; nobody listens where it is sent on.
                assert await crowd.asks(post(Era.LEGACY, "tools/call", INBOX)) == 502
                refused = [task.result() for task in answered if task.done()]
                for task in answered:
                    task.cancel()
            assert set(refused) == {503}
            await until(lambda: watch.now_mib < 40)
        (refused, peak, kept) = len(refused), watch.peak_mib, watch.kept_mib
    assert refused == 44  # 16 are held
    assert peak < 160
    assert kept < 40


@pytest.fixture
def eight_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for eight slow bodies, of which two are kept; nobody waits for long."""
    monkeypatch.setattr("accredit.gateway.room.MAX_BODIES_BYTES", 8 * 65_536)
    monkeypatch.setattr("accredit.gateway.room.MAX_LARGEST_BODIES", 0)
    monkeypatch.setattr("accredit.gateway.front.exchange.BODY_ROOM_SECONDS", 0.1)


SLOW_BODY = request("POST", post(Era.LEGACY, "tools/call", INBOX), length=1_000)


@pytest.mark.usefixtures("eight_bodies")
async def test_bodies_that_strangers_send_slowly_leave_room_for_a_good_token(tokened: Tokened) -> None:
    async with RawServer(upstream) as server, with_tokens(server, tokened) as gateway, Crowd(gateway.port) as crowd:
        bodies = gateway.app.routes.rooms.bodies
        await crowd.join(6, SLOW_BODY)
        await until(lambda: bodies.taken == 6 * 65_536)
        assert [await member.status() for member in await crowd.join(2, SLOW_BODY)] == [503] * 2
        mine = request("POST", post(Era.MODERN, "tools/call", INBOX), length=1_000, Authorization=bearer(tokened))
        (member,) = await crowd.join(1, mine)
        await until(lambda: bodies.taken == 7 * 65_536)
        body = len(post(Era.MODERN, "tools/call", INBOX).body)
        member.writer.write(b" " * (1_000 - body))
        assert await member.status() == 200
        await until(lambda: bodies.taken == 6 * 65_536)


async def test_a_body_that_comes_too_slowly_gives_its_room_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.gateway.front.exchange.BODY_GRACE_SECONDS", 0.2)
    monkeypatch.setattr("accredit.gateway.front.exchange.MIN_BODY_BYTES_PER_SECOND", 1 << 30)

    async with RawServer(upstream) as server, open_to_all(server) as gateway, Crowd(gateway.port) as crowd:
        (slow,) = await crowd.join(1, request("POST", SLOW, length=100_000))
        assert await slow.status() == 408
        assert gateway.app.routes.rooms.bodies.taken == 0


# --- challenges ---------------------------------------------------------------------------------------


async def test_who_asks_for_challenges_without_end_keeps_nobody_from_theirs__nothing_is_remembered_of_them(
    trust: Trust, tmp_path: Path
) -> None:
    file = tmp_path / "store.db"

    async with Route("http-modern", trust, tmp_path, store=SqliteStore(file)) as route:
        first = (await route.ask("tools/call", SEND))["error"]
        for _ in range(300):
            error = (await route.ask("tools/call", SEND))["error"]
            assert error["data"]["error"] == "ratify_challenge_required"
        found = challenge_in(first)
        proof = trust.proof(trust.chain(), "tools/call", SEND, Signed(challenge=found))
        params = {**SEND, "_meta": {"ratify_proof": proof}}
        assert "result" in await route.ask("tools/call", params)
        assert (await route.ask("tools/call", params))["error"]["data"]["error"] == "ratify_replayed"
        with contextlib.closing(sqlite3.connect(file)) as database:
            tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            counts = {name: database.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}
        kept = {name for name, count in counts.items() if count}
        assert kept == {"challenge_key", "spent", "forgotten"}  # since when the spent ones are known
        assert counts["spent"] == counts["forgotten"] == 1


# --- connections --------------------------------------------------------------------------------------


@pytest.fixture
def few_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.app.listener.MAX_CLIENT_CONNECTIONS", 4)


@pytest.mark.holds("app/connection", "idle-limit")
@pytest.mark.usefixtures("few_connections")
@pytest.mark.parametrize("sent", [b"", b"POST /mcp HTTP/1.1\r\nHo", SLOW_BODY.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"])
async def test_connections_on_which_nothing_is_asked_make_room__the_longest_resting_first(sent: bytes) -> None:
    async with RawServer(upstream) as server, open_to_all(server) as gateway, Crowd(gateway.port) as crowd:
        idle = await crowd.join(4, sent)
        await until(lambda: len(gateway.state.connections) == 4)
        assert await crowd.asks(post(Era.LEGACY, "tools/call", INBOX)) == 200
        await idle[0].is_closed()
        (again,) = await crowd.join(1, request("POST", post(Era.LEGACY, "tools/call", INBOX)))
        assert await again.status() == 200
        await idle[1].is_closed()
        assert len(gateway.state.connections) == 4


@pytest.mark.holds("app/connection", "idle-limit")
@pytest.mark.usefixtures("few_connections")
async def test_a_connection_at_work_is_never_closed_for_another() -> None:
    async with RawServer(upstream) as server, open_to_all(server) as gateway, Crowd(gateway.port) as crowd:
        await crowd.join(4, request("POST", SLOW))
        await until(lambda: len(server.requests) == 4)
        (late,) = await crowd.join(1, b"")
        assert await late.status() == 503
        await late.is_closed()
        await crowd.members[0].leave()
        await until(lambda: len(gateway.state.connections) == 3)
        assert await crowd.asks(post(Era.LEGACY, "tools/call", INBOX)) == 200


@pytest.mark.holds("app/connection", "unfinished-heads")
async def test_unfinished_heads_are_bounded_together__and_the_first_begun_make_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accredit.app.connection.MAX_UNFINISHED_BYTES", 4 * 10_000)
    begun = b"POST /mcp HTTP/1.1\r\nX: ".ljust(10_000, b"x")
    async with RawServer(upstream) as server, open_to_all(server) as gateway, Crowd(gateway.port) as crowd:
        (honest,) = await crowd.join(1, b"POST /mcp HTTP/1.1\r\nHo")  # begun first, so it goes first
        assert await crowd.asks(post(Era.LEGACY, "tools/call", INBOX)) == 200
        held = await crowd.join(3, begun)
        await until(lambda: len(gateway.state.connections) == 5)
        assert await crowd.asks(post(Era.LEGACY, "tools/call", INBOX)) == 200
        held += await crowd.join(1, begun)
        await honest.is_closed()
        held += await crowd.join(2, begun)
        for each in held[:2]:
            await each.is_closed()
        for each in crowd.members:
            await each.leave()
        await until(lambda: not gateway.state.connections)
        await crowd.join(4, begun)  # what those held that have gone is free again
        await until(lambda: len(gateway.state.connections) == 4)
        assert await crowd.asks(post(Era.LEGACY, "tools/call", INBOX)) == 200
