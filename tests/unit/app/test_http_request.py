"""What a client can't do with two roads on one connection: have one request taken for another, or hold what it left."""

import asyncio
from typing import Any

import pytest
from tests.world.raw_client import RawClient
from tests.world.raw_server import Connection, RawServer, until
from tests.world.running import ASGI, FAST, RunningGateway, by_road, run

from accredit.app.http11 import HttpConnection
from accredit.app.http_request import HttpRequest
from accredit.gateway import GatewaySettings
from accredit.gateway.settings import HttpUpstream
from accredit.limits import ANSWER_PIECE_BYTES, MAX_REMEMBERED_HEAD_BYTES

pytestmark = pytest.mark.holds("app/http_request")

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def post(tool: str, *fields: bytes, target: bytes = b"/mcp") -> bytes:
    """A call of a tool, whose answer names it."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b"}}' % tool.encode()
    head = [b"POST %b HTTP/1.1" % target, b"Host: localhost", b"Content-Type: application/json", *fields]
    return b"\r\n".join([*head, b"Content-Length: %d" % len(body), b"", b""]) + body


class World:
    """A gateway in front of a server that answers with what it was sent; a tool `hang` is answered with nothing."""

    def __init__(self, *, reports_errors: bool = False) -> None:
        self._reports_errors = reports_errors
        self.asked: list[bytes] = []
        self.left = 0
        self.size = 0

    async def __aenter__(self) -> "World":
        self.upstream = await RawServer(self._serve).__aenter__()
        self.gateway = await RunningGateway(
            GatewaySettings(HttpUpstream(self.upstream.url)), reports_errors=self._reports_errors
        ).__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.gateway.__aexit__(*error)
        await self.upstream.__aexit__(*error)

    @property
    def client(self) -> RawClient:
        """Another client."""
        return RawClient(self.gateway.port)

    async def _serve(self, connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            self.asked.append(request.body)
            if b"hang" in request.body:
                await connection.peer_closed()
                self.left += 1
                return
            text = request.body.replace(b'"', b"'") + b"x" * self.size
            body = b'{"jsonrpc":"2.0","id":1,"result":{"said":"%b"}}' % text
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            await connection.send(head + body)


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bodies of requests whose heads were not parsed again."""
    found: list[bytes] = []
    real = HttpConnection._repeat

    def repeat(self: HttpConnection, known: Any, body: bytes) -> None:
        found.append(body)
        real(self, known, body)

    monkeypatch.setattr(HttpConnection, "_repeat", repeat)
    return found


@pytest.mark.holds("app/http11", "eager-start")
@pytest.mark.holds("app/connection", "one-write")
async def test_a_call_begins_while_its_bytes_are_read_and_without_a_task__and_its_answer_is_one_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[bytes] = []
    steps: list[tuple[int, set[asyncio.Task[Any]]]] = []
    writes: list[bytes] = []
    received, piece, flush = HttpConnection.data_received, HttpRequest.piece, HttpConnection._flush

    def receive(self: HttpConnection, data: bytes) -> None:
        tasks = asyncio.all_tasks()
        received(self, data)
        steps.append((len(begun), asyncio.all_tasks() - tasks))

    async def take(self: HttpRequest) -> tuple[bytes, bool]:
        found = await piece(self)
        begun.append(found[0])
        return found

    def send(self: HttpConnection) -> None:
        writes.append(b"".join(self._to_write))
        flush(self)

    monkeypatch.setattr(HttpConnection, "data_received", receive)
    monkeypatch.setattr(HttpRequest, "piece", take)
    monkeypatch.setattr(HttpConnection, "_flush", send)

    async with World() as world, world.client as client:
        await client.send(post("one"))  # opens the connection to the server
        await client.answer()
        for seen in (begun, steps, writes):
            seen.clear()
        for number, tool in enumerate((b"two", b"longer"), 1):
            await client.send(post(tool.decode()))
            assert tool in (await client.answer()).body
            assert steps == [(each, set()) for each in range(1, number + 1)]
            assert len(writes) == number
            assert writes[-1].startswith(b"HTTP/1.1 200")
            assert tool in writes[-1]


@pytest.mark.holds("app/http11", "same-head")
async def test_a_head_is_parsed_once__until_another_comes(repeated: list[bytes]) -> None:
    async with World() as world, world.client as client:
        for tool in ("one", "two", "six", "longer", "seven", "eight"):
            await client.send(post(tool))
            assert tool.encode() in (await client.answer()).body
    assert len(repeated) == 5  # all but the first, though they are not of one length


@pytest.mark.parametrize(
    "between",
    [
        HEALTH,
        post("one", b"X: y"),
        post("one", target=b"/mcp?a=b"),
        post("one", b"Expect: 100-continue"),
        post("one", b"Connection: upgrade", b"Upgrade: h2c"),
        post("one").replace(b"Content-Type", b"content-type"),
        post("one")[:-1] + b"}" + b"\r\n",
    ],
)
async def test_after_another_request_a_known_head_is_still_its_own(between: bytes, repeated: list[bytes]) -> None:
    async with World() as world, world.client as client:
        await client.send(post("two"))
        assert b"two" in (await client.answer()).body
        await client.send(between)
        assert (await client.answer()).status == 200
        await client.send(post("six"))
        assert b"six" in (await client.answer()).body


@pytest.mark.parametrize(
    "parts",
    [
        [post("one") + HEALTH + post("two")],
        [HEALTH + post("one") + post("two") + HEALTH],
        [post("one")[:-1], post("one")[-1:] + post("two") + HEALTH],
        [post("one"), post("one") + post("two"), HEALTH],
        [post("one"), post("one")[:40], post("one")[40:] + HEALTH[:20], HEALTH[20:] + post("two")],
        [bytes([byte]) for byte in post("one") + HEALTH + post("two")],
    ],
)
def test_each_request_of_a_pipeline_has_its_answer_in_its_turn__whatever_road_it_takes(parts: list[bytes]) -> None:
    sent = b"".join(parts)
    tools = sent.count(b"POST ")

    async def main() -> list[bytes]:
        async with World() as world, world.client as client:
            for part in parts:
                await client.send(part)
            told = [(await client.answer()).body for _ in range(sent.count(b"HTTP/1.1"))]
            assert len(world.asked) == tools
            return told

    with by_road(ASGI):
        other = run(main())
    with by_road(FAST):
        assert run(main()) == other


@pytest.mark.holds("app/http11", "same-head")
async def test_bytes_behind_a_known_head_that_are_not_its_body_are_another_request() -> None:
    async with World() as world, world.client as client:
        await client.send(post("one"))
        await client.answer()
        await client.send(post("one") + b"GET")
        assert (await client.answer()).status == 200
        await client.send(b" /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await client.answer()).body == b'{"status":"ok"}'
        await client.send(post("one")[:-1])
        await client.send(b"}")
        assert (await client.answer()).status == 200
        assert len(world.asked) == 3


@pytest.mark.parametrize(
    "request_",
    [
        post("one", b"Transfer-Encoding: chunked"),
        post("one", b"Content-Length: 3"),
        post("one").replace(b"Content-Length: ", b"Content-Length: +"),
        post("one", target=b"http://evil/mcp"),
        post("one").replace(b"\r\n", b"\n"),
        post("one", b"A: b\rC: d"),
    ],
)
async def test_a_head_that_two_readers_could_take_for_different_ones_reaches_nobody__behind_a_good_one_neither(
    request_: bytes,
) -> None:
    async with World() as world, world.client as client:
        await client.send(post("one"))
        await client.answer()
        await client.send(request_)
        assert (await client.answer()).status == 400
        assert await client.peer_closed()
        assert len(world.asked) == 1


async def test_a_head_that_is_large_or_ends_the_connection_is_not_remembered(repeated: list[bytes]) -> None:
    async with World() as world:
        async with world.client as client:
            for _ in range(2):
                await client.send(post("one", b"A: " + b"a" * MAX_REMEMBERED_HEAD_BYTES))
                assert (await client.answer()).status == 200
        async with world.client as client:
            await client.send(post("one", b"Connection: close") * 2)
            assert (await client.answer()).header("connection") == "close"
            assert await client.peer_closed()
        assert len(world.asked) == 3
    assert not repeated


@pytest.mark.holds("app/http_request", "disconnect")
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("half", [False, True])
async def test_a_client_that_goes_away_takes_its_call_with_it(known: bool, half: bool) -> None:
    async with World() as world, world.client as client:
        if known:
            await client.send(post("gong"))
            await client.answer()
        await client.send(post("hang"))
        await until(lambda: any(b"hang" in each for each in world.asked))
        if half:
            client.half_close()
        else:
            await client.close()
        await until(lambda: world.left == 1 and not world.gateway.state.tasks)


async def test_a_client_that_goes_away_takes_its_call_with_it__with_others_in_its_pipeline() -> None:
    async with World() as world, world.client as client:
        await client.send(post("hang") + post("one"))
        await until(lambda: len(world.asked) == 1)
        await client.close()
        await until(lambda: world.left == 1 and not world.gateway.state.tasks)
        assert len(world.asked) == 1


async def test_an_answer_that_its_client_does_not_read_is_waited_for__and_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accredit.app.http_request.CLIENT_STALL_SECONDS", 0.2)

    async with World(reports_errors=True) as world, RawClient(world.gateway.port, buffer=1024) as client:
        world.size = 40 * ANSWER_PIECE_BYTES
        await client.send(post("one"))
        await until(lambda: len(world.asked) == 1)
        await until(lambda: not world.gateway.state.tasks)


async def test_a_drain_lets_a_call_finish_and_says_that_its_connection_ends() -> None:
    async with World() as world, world.client as client:
        await client.send(post("one"))
        assert (await client.answer()).header("connection") is None
        await client.send(post("hang"))
        await until(lambda: len(world.asked) == 2)
        for connection in list(world.gateway.state.connections):
            connection.shutdown()
        await asyncio.sleep(0)
        for task in list(world.gateway.state.tasks):
            task.cancel(msg="the grace is over")
        answer = await client.answer()
        assert (answer.status, answer.header("connection")) == (502, "close")
        assert await client.peer_closed()
        assert b"has stopped before the answer came" in answer.body


async def test_a_field_that_no_head_can_carry_is_an_error_and_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async def evil(self: object, exchange: Any) -> None:
        await exchange.reply(200, b"", [(b"a", b"b\r\nc: d")])

    monkeypatch.setattr("accredit.gateway.app.Routes.serve", evil)

    settings = GatewaySettings(HttpUpstream("http://127.0.0.1:9/mcp"))
    async with RunningGateway(settings, reports_errors=True) as gateway, RawClient(gateway.port) as client:
        await client.send(post("one"))
        answer = await client.answer()
        assert (answer.status, answer.header("c")) == (500, None)
