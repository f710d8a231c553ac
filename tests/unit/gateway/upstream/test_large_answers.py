"""Large answers of one server take no more memory than their room, and none of anybody else's."""

import asyncio
import gzip
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import brotli
import pytest
from tests.world.asgi import Told
from tests.world.authorization import Trust
from tests.world.calls import LAST_CHUNK, STREAM_HEAD, chunk, event, http, initialize, log_message, post, response
from tests.world.raw_client import RawClient
from tests.world.raw_server import Connection, RawServer, until
from tests.world.running import RunningGateway

from accredit.errors import AnswerError
from accredit.gateway import GatewaySettings, HttpUpstream, create_app
from accredit.gateway.room import EqualShares, Room
from accredit.gateway.upstream.http.encoding import Decoder, open_decoder
from accredit.gateway.upstream.large_answers import MAX_ANSWERS_BYTES, LargeAnswers
from accredit.jsonrpc.methods import Era
from accredit.limits import LARGE_ANSWER_BYTES
from accredit.stores import MemoryStore, RevocationLists

pytestmark = [pytest.mark.slow, pytest.mark.holds("gateway/upstream/large_answers")]
LIMIT = 4 * LARGE_ANSWER_BYTES
UPSTREAM = HttpUpstream("http://127.0.0.1:9/mcp")


def large_text() -> bytes:
    return response(text="x" * 3 * LARGE_ANSWER_BYTES)


def half_of_it() -> bytes:
    return large_text()[: 2 * LARGE_ANSWER_BYTES]


_LENGTH_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
LARGE_KINDS: dict[str, Callable[[], tuple[bytes, bytes]]] = {
    "a length": lambda: (_LENGTH_HEAD % len(large_text()), half_of_it()),
    "chunks": lambda: (STREAM_HEAD.replace(b"text/event-stream", b"application/json"), chunk(half_of_it())),
    "an event": lambda: (STREAM_HEAD, chunk(b"data: " + half_of_it())),
}

_COMMENTS = b":" + b"x" * (LARGE_ANSWER_BYTES // 2) + b"\n\n"
_PACKED_HEAD = STREAM_HEAD[:-2] + b"Content-Encoding: br\r\n\r\n"


def _packed(text: bytes) -> bytes:
    encoder = brotli.Compressor(quality=5, lgwin=24)
    return encoder.process(text) + encoder.flush()


BESIDE_KINDS: dict[str, tuple[str, Callable[[], Sequence[bytes]]]] = {
    "what waits for the response to initialize": ("initialize", lambda: [STREAM_HEAD, *[chunk(_COMMENTS)] * 7]),
    "a window of Brotli": ("", lambda: [_PACKED_HEAD, chunk(_packed(event(log_message()) + _COMMENTS * 9))]),
    "an event of HTTP+SSE": ("GET", lambda: [STREAM_HEAD, chunk(b"data: " + half_of_it())]),
}
"""Who asks, and what the server says before it stands still."""


def _packed_whole(text: bytes, *, stream: bool) -> bytes:
    return brotli.compress(event(text) if stream else text)


PACKED_KINDS: dict[str, Callable[[bytes], tuple[bytes, ...]]] = {
    "a body": lambda packed: (http(packed, headers=(("Content-Encoding", "br"),)),),
    "a stream": lambda packed: (_PACKED_HEAD, chunk(packed), LAST_CHUNK),
}


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.large_answers.BODY_ROOM_SECONDS", 0.05)
    monkeypatch.setattr("accredit.gateway.upstream.large_answers.MAX_ANSWERS_BYTES", 1)


def settings(upstream: HttpUpstream = UPSTREAM) -> GatewaySettings:
    return GatewaySettings(upstream, max_response_bytes=LIMIT, max_event_bytes=LIMIT)


@pytest.mark.holds("gateway/upstream/large_answers", "small")
async def test_what_is_not_large_takes_no_room__and_what_is_gives_all_back() -> None:
    large = LargeAnswers(settings(), EqualShares())
    held = large.of(Told().exchange)
    await held.grow(LARGE_ANSWER_BYTES)
    assert large.room.taken == 0
    await held.grow(LIMIT)
    assert large.room.taken == 3 * LARGE_ANSWER_BYTES
    await held.fit(LARGE_ANSWER_BYTES)
    assert large.room.taken == 0


@pytest.mark.holds("gateway/upstream/large_answers", "shares")
async def test_each_of_many_servers_has_room_for_two_of_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.large_answers.MAX_ANSWERS_BYTES", MAX_ANSWERS_BYTES)

    for servers in (1, 2, 1_000):
        large = LargeAnswers(settings(), EqualShares(servers))
        two = [large.of(Told().exchange) for _ in range(2)]
        for held in two:
            await held.grow(LIMIT)
        assert large.room.taken == 2 * (LIMIT - LARGE_ANSWER_BYTES)
        assert large.room._most == max(MAX_ANSWERS_BYTES // servers, 2 * LIMIT)


@pytest.mark.holds("gateway/upstream/large_answers", "copies")
async def test_what_is_held_more_than_once_counts_as_often__and_takes_all_there_is_rather_than_wait_for_more() -> None:
    large = LargeAnswers(settings(), EqualShares())
    event, asked = large.of(Told().exchange, times=2), large.of(Told().exchange, times=3)
    await event.fit(2 * LARGE_ANSWER_BYTES)
    assert large.room.taken == 3 * LARGE_ANSWER_BYTES
    event.leave()
    await event.fit(LARGE_ANSWER_BYTES, LARGE_ANSWER_BYTES)
    assert large.room.taken == 2 * LARGE_ANSWER_BYTES
    await event.fit(0, LARGE_ANSWER_BYTES)
    assert large.room.taken == 0
    await asked.grow(LIMIT)
    assert large.room.taken == 2 * LIMIT
    with pytest.raises(AnswerError):
        await event.fit(2 * LARGE_ANSWER_BYTES)
    asked.leave()
    assert large.room.taken == 0


@pytest.mark.holds("gateway/upstream/large_answers", "wait")
@pytest.mark.parametrize("kind", LARGE_KINDS)
async def test_answers_that_never_end_take_the_room_of_their_server_and_no_more__the_next_one_is_refused(
    kind: str,
) -> None:
    head, half = LARGE_KINDS[kind]()

    async def never_ends(connection: Connection) -> None:
        await connection.request()
        await connection.send(head, half)
        await connection.peer_closed()

    async with RawServer(never_ends) as server:
        app = create_app(settings(HttpUpstream(server.url)))
        async with RunningGateway(app) as gateway:
            clients = [RawClient(gateway.port) for _ in range(24)]
            for client in clients:
                await client.__aenter__()
                posted = post(Era.LEGACY)
                await client.ask("POST", "/mcp", posted.headers, posted.body)
            room = room_of(app)
            heads = [asyncio.ensure_future(client.reader.readuntil(b"\r\n")) for client in clients]
            await until(lambda: any(each.done() for each in heads) and room.taken > 0)
            refused = [each.result() for each in heads if each.done()]
            assert set(refused) <= {b"HTTP/1.1 502 Bad Gateway\r\n", b"HTTP/1.1 200 OK\r\n"}
            assert room.taken <= room._most
            for each in heads:
                each.cancel()
            for client in clients:
                await client.close()
            await until(lambda: room.taken == 0)


@pytest.mark.holds("gateway/upstream/large_answers", "copies")
@pytest.mark.parametrize("kind", BESIDE_KINDS)
async def test_what_streams_hold_beside_an_event_takes_room__twenty_strangers_took_320_mib_by_it(kind: str) -> None:
    method, made = BESIDE_KINDS[kind]
    sent = made()

    async def stands_still(connection: Connection) -> None:
        await connection.request()
        await connection.send(*sent)
        await connection.peer_closed()

    async with RawServer(stands_still) as server:
        app = create_app(settings(HttpUpstream(server.url)))
        async with RunningGateway(app) as gateway:
            clients = [RawClient(gateway.port) for _ in range(6)]
            for client in clients:
                await client.__aenter__()
                if method == "GET":
                    await client.ask("GET", "/sse", [("Accept", "text/event-stream")])
                else:
                    posted = initialize() if method == "initialize" else post(Era.LEGACY)
                    await client.ask("POST", "/mcp", posted.headers, posted.body)
            await until(lambda: any(app.refused.values()))
            assert 0 < room_of(app).taken <= 2 * LIMIT
            for client in clients:
                await client.close()
            await until(lambda: room_of(app).taken == 0)


@pytest.mark.holds("gateway/upstream/large_answers", "copies")
@pytest.mark.parametrize("kind", PACKED_KINDS)
async def test_a_hundred_short_answers_in_brotli_at_once_are_answered__none_waits_for_the_room_of_anothers_window(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.large_answers.BODY_ROOM_SECONDS", 0)  # whoever waits is refused
    whole = _packed_whole(response(text="x" * 20_000), stream=kind == "a stream")  # enough for a turn of the loop

    come: list[Connection] = []

    async def all_at_once(connection: Connection) -> None:
        await connection.request()
        come.append(connection)
        await until(lambda: len(come) == 100)
        await connection.send(*PACKED_KINDS[kind](whole))
        await connection.peer_closed()

    async with RawServer(all_at_once) as server:
        app = create_app(settings(HttpUpstream(server.url)))
        async with RunningGateway(app) as gateway:

            async def ask() -> tuple[int, bytes]:
                async with RawClient(gateway.port) as client:
                    posted = post(Era.LEGACY)
                    await client.ask("POST", "/mcp", posted.headers, posted.body)
                    answer = await client.answer()
                    return answer.status, answer.body

            answers = await asyncio.gather(*(ask() for _ in range(100)))
            assert {status for status, _ in answers} == {200}
            assert not any(app.refused.values())
            assert room_of(app).taken == 0


@pytest.mark.holds("gateway/upstream/large_answers", "copies")
@pytest.mark.parametrize(("kind", "long", "status"), [("a body", 1, 200), ("a body", 3, 502), ("a stream", 1, 502)])
async def test_a_short_body_alone_is_decoded_without_room_for_the_window__a_stream_is_not(
    kind: str, long: int, status: int
) -> None:
    text = response(text="x" * (long * LARGE_ANSWER_BYTES // 2))
    whole = PACKED_KINDS[kind](_packed_whole(text, stream=kind == "a stream"))

    async def answers(connection: Connection) -> None:
        while await connection.request() is not None:
            await connection.send(*whole)

    async with RawServer(answers) as server:
        app = create_app(settings(HttpUpstream(server.url)))
        async with RunningGateway(app) as gateway:
            others = room_of(app).take(Told().exchange, 2 * LIMIT)
            for expected in (status, 200):
                async with RawClient(gateway.port) as client:
                    posted = post(Era.LEGACY)
                    await client.ask("POST", "/mcp", posted.headers, posted.body)
                    assert (await client.answer()).status == expected
                others.leave()
            await until(lambda: room_of(app).taken == 0)


@pytest.mark.holds("gateway/upstream/large_answers", "copies")
async def test_nothing_of_a_stream_in_brotli_is_decoded_while_its_window_has_no_room__a_few_bytes_would_fill_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fed: list[bytes] = []
    packed = _packed_whole(response(text="short"), stream=True)

    def noted(coding: bytes | None) -> Decoder | None:
        decoder = open_decoder(coding)
        assert decoder is not None
        feed = decoder.feed

        def noted_feed(data: bytes) -> Iterator[bytes]:
            fed.append(data)
            return feed(data)

        monkeypatch.setattr(decoder, "feed", noted_feed)
        return decoder

    monkeypatch.setattr("accredit.gateway.upstream.http.sse_relay.open_decoder", noted)

    async def answers(connection: Connection) -> None:
        while await connection.request() is not None:
            await connection.send(*PACKED_KINDS["a stream"](packed))

    async with RawServer(answers) as server:
        app = create_app(settings(HttpUpstream(server.url)))
        async with RunningGateway(app) as gateway:
            others = room_of(app).take(Told().exchange, 2 * LIMIT)
            for status, decoded in ((502, b""), (200, packed)):
                async with RawClient(gateway.port) as client:
                    posted = post(Era.LEGACY)
                    await client.ask("POST", "/mcp", posted.headers, posted.body)
                    assert (await client.answer()).status == status
                assert b"".join(fed) == decoded
                others.leave()


class Slow(Told):
    """A client that reads nothing until it `may`."""

    def __init__(self) -> None:
        posted = post(Era.LEGACY, "prompts/list", {})
        headers = [("Host", "127.0.0.1"), *posted.headers]
        super().__init__("POST", [(name.lower().encode(), value.encode()) for name, value in headers], posted.body)
        self.told = 0
        self.may = asyncio.Event()

    async def send(self, message: Any) -> None:
        self.told += len(message.get("body", b""))
        if self.told:
            await self.may.wait()
        await super().send(message)


LISTED = b'{"jsonrpc":"2.0","id":7,"result":{"prompts":[%b]}}' % b",".join([b'{"name":"p"}'] * 20_000)
EDITED_KINDS = {
    "a body": http(LISTED),
    "a body that has not come at once": http(LISTED + b" " * LARGE_ANSWER_BYTES),
    "an event": STREAM_HEAD + chunk(b"data: " + LISTED + b"\n\n") + LAST_CHUNK,
}


@pytest.mark.holds("gateway/upstream/large_answers", "copies")
@pytest.mark.parametrize("kind", EDITED_KINDS)
async def test_a_list_that_is_edited_takes_the_room_of_what_it_becomes__until_a_slow_client_has_read_it(
    kind: str,
) -> None:
    async def answers(connection: Connection) -> None:
        while await connection.request() is not None:
            await connection.send(EDITED_KINDS[kind])

    async with RawServer(answers) as server:
        upstream = HttpUpstream(server.url)
        app = create_app(
            Trust().settings(upstream, max_response_bytes=LIMIT, max_event_bytes=LIMIT),
            store=MemoryStore(),
            revocations=RevocationLists((), {}),
        )
        slow = Slow()
        asking = asyncio.create_task(app(slow.scope, slow.receive, slow.send))
        await until(lambda: slow.told > 0)
        taken = room_of(app).taken
        refused = Slow()
        others = room_of(app).take(refused.exchange, room_of(app).most_of(refused.exchange) - taken)
        refused.may.set()
        await app(refused.scope, refused.receive, refused.send)
        assert b'"error":' in refused.body
        others.leave()
        slow.may.set()
        await asking
        assert len(slow.body) > 4 * len(LISTED)
        assert taken >= len(slow.body) - LARGE_ANSWER_BYTES
        assert room_of(app).taken == 0
        await app.aclose()


async def test_a_bomb_takes_room_as_it_grows__and_gives_it_back_when_it_is_refused() -> None:
    bomb = http(gzip.compress(response(text="x" * 8 * LIMIT)), headers=(("Content-Encoding", "gzip"),))
    sound = http(gzip.compress(large_text()), headers=(("Content-Encoding", "gzip"),))
    told = iter([sound, bomb, sound, bomb, sound])

    async def answers(connection: Connection) -> None:
        while await connection.request() is not None:
            await connection.send(next(told))

    async with RawServer(answers) as server:
        app = create_app(settings(HttpUpstream(server.url)))
        async with RunningGateway(app) as gateway, RawClient(gateway.port) as client:
            statuses: list[int] = []
            for _ in range(5):
                posted = post(Era.LEGACY)
                await client.ask("POST", "/mcp", posted.headers, posted.body)
                statuses.append((await client.answer()).status)
                assert room_of(app).taken == 0
            assert statuses == [200, 502, 200, 502, 200]


async def test_room_that_is_there_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.large_answers.BODY_ROOM_SECONDS", 30)

    large = LargeAnswers(settings(), EqualShares())
    most = 0

    async def answer() -> None:
        nonlocal most
        held = large.of(Told().exchange)
        await held.grow(LIMIT)
        most = max(most, large.room.taken)
        await asyncio.sleep(0)
        held.leave()

    await asyncio.gather(*(answer() for _ in range(20)))
    assert (large.room.taken, most) == (0, 2 * (LIMIT - LARGE_ANSWER_BYTES))


async def test_past_its_room_an_answer_is_refused_as_one_that_is_too_large() -> None:
    large = LargeAnswers(settings(), EqualShares())
    held = [large.of(Told().exchange) for _ in range(6)]
    with pytest.raises(AnswerError, match="too many large answers") as refused:
        await asyncio.gather(*(each.grow(LIMIT) for each in held))
    assert refused.value.bound


def room_of(app: object) -> Room:
    return app.routes.servers[0].backend.answers.large.room  # type: ignore[attr-defined]


async def test_an_event_that_has_gone_on_keeps_no_room() -> None:
    text = large_text()
    large = event(text.replace(b'"id":7,"result"', b'"method":"notifications/message","params"'))

    async def streams(connection: Connection) -> None:
        await connection.request()
        await connection.send(STREAM_HEAD, chunk(large))
        await connection.peer_closed()

    async with RawServer(streams) as server:
        app = create_app(settings(HttpUpstream(server.url)))
        async with RunningGateway(app) as gateway, RawClient(gateway.port) as client:
            posted = post(Era.LEGACY)
            await client.ask("POST", "/mcp", posted.headers, posted.body)
            size = 0
            while size < len(text):
                size += len(await client.reader.read(1 << 16))
            await until(lambda: room_of(app).taken == 0)
