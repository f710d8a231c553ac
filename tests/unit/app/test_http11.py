"""What a client can't do to the HTTP server: make it wait, make it remember, or smuggle a header in behind a body."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from tests.world.raw_client import CutOff, RawClient
from tests.world.raw_server import until
from tests.world.running import RunningGateway

from accredit.app import connection
from accredit.app.http11 import MAX_PIPELINED_REQUESTS, MAX_REQUEST_HEAD_BYTES
from accredit.limits import MAX_HEADERS

HEAD = b"POST / HTTP/1.1\r\nHost: a\r\n"


def shorten_next_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives little time to the heads that have not begun; the one timer of them all is set again with the next."""
    monkeypatch.setattr(connection, "REQUEST_HEAD_SECONDS", 0.05)
    for each in connection._connections.values():
        if each.heads._timer is not None:
            each.heads._timer.cancel()
            each.heads._timer = None


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body, then answers with its length and the names of the headers, as they are then."""
    if scope["type"] == "lifespan":
        while (await receive())["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    names = b",".join(name for name, _ in scope["headers"])
    body = b"%d %s" % (size, names)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


def flood(piece: bytes) -> Iterator[bytes]:
    """More bytes than a head may have."""
    for _ in range(2 * MAX_REQUEST_HEAD_BYTES // len(piece)):
        yield piece


@pytest.mark.holds("app/http11", "head-bounds")
@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"GET /", b"a" * 1024),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"a" * 1024),
        (b"GET / HTTP/1.1\r\nHost: a\r\n", b"A: b\r\n" * 100),
        (b"", b"\r\n" * 512),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"a" * 1024),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: ", b"a" * 1024),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n", b"A: b\r\n" * 100),
    ],
    ids=["target", "header", "headers", "empty lines", "chunk extension", "trailer", "trailers"],
)
async def test_what_is_no_body_and_has_no_end_is_cut_off(start: bytes, piece: bytes) -> None:
    async with RunningGateway(app, reports_errors=True) as server:
        async with RawClient(server.port) as client:
            try:
                await client.send(start, *flood(piece))
                assert (await client.answer()).status == 400
            except (ConnectionError, CutOff):
                pass  # cut off while it was still sending
            await client.peer_closed()
        async with RawClient(server.port) as client:
            await client.ask("GET", "/")
            assert (await client.answer()).status == 200


async def test_a_large_body_in_many_pieces_passes() -> None:
    async with RunningGateway(app) as server, RawClient(server.port) as client:
        for _ in range(2):
            await client.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
            for _ in range(200):
                await client.send(b"400\r\n" + b"a" * 1024 + b"\r\n")
            await client.send(b"0\r\n\r\n")
            assert (await client.answer()).body == b"204800 host,transfer-encoding"


@pytest.mark.holds("app/http11", "trailers")
async def test_a_trailer_is_no_header() -> None:
    async with RunningGateway(app) as server, RawClient(server.port) as client:
        await client.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nAuthorization: b\r\n\r\n")
        assert (await client.answer()).body == b"1 host,transfer-encoding"


@pytest.mark.holds("app/connection", "head-timeout")
@pytest.mark.parametrize(
    ("first", "sent"),
    [
        (True, b""),
        (True, b"\r\n"),
        (True, b"GET / HT"),
        (True, b"GET / HTTP/1.1\r\nHost: a\r\n"),
        (True, HEAD + b"Content-Length: 3\r\n\r\n"),
        (False, b"\r\n"),
        (False, b"GET / HT"),
        (False, b"GET / HTTP/1.1\r\nHost: a\r\n"),
        (False, HEAD + b"Content-Length: 3\r\n\r\n"),
    ],
)
async def test_a_head_that_does_not_end_is_not_waited_for(
    first: bool, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with RunningGateway(app) as server, contextlib.AsyncExitStack() as stack:
        if first:
            monkeypatch.setattr(connection, "REQUEST_HEAD_SECONDS", 0.05)
        client = await stack.enter_async_context(RawClient(server.port))
        if not first:
            await client.ask("GET", "/")
            assert (await client.answer()).status == 200
            shorten_next_head(monkeypatch)
        with contextlib.suppress(ConnectionError):  # where the machine stalls the time is over already
            await client.send(sent)
        assert await client.peer_closed()


@pytest.mark.holds("app/connection", "head-timeout")
async def test_a_body_that_never_begins_is_not_waited_for__behind_another_request_neither(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = Slow()
    async with RunningGateway(slow) as server, RawClient(server.port) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + HEAD + b"Content-Length: 3\r\n\r\n")
        await until(lambda: slow.begun == 1)
        shorten_next_head(monkeypatch)
        slow.let.set()
        assert (await client.answer()).body == b"0 host"
        assert await client.peer_closed()


async def test_a_head_that_comes_byte_by_byte_is_read() -> None:
    async with RunningGateway(app) as server, RawClient(server.port) as client:
        for _ in range(3):
            for byte in b"GET / HTTP/1.1\r\nHost: a\r\n\r\n":
                await client.send(bytes([byte]))
            assert (await client.answer()).body == b"0 host"


@pytest.mark.holds("app/http11", "head-bounds")
@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * MAX_HEADERS,
        b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"a" * MAX_REQUEST_HEAD_BYTES + b"\r\n",
        b"GET /" + b"a" * MAX_REQUEST_HEAD_BYTES + b" HTTP/1.1\r\nHost: a\r\n",
    ],
    ids=["fields", "field", "target"],
)
async def test_a_large_head_is_refused_also_where_it_comes_in_one_read(head: bytes) -> None:
    async with RunningGateway(app) as server, RawClient(server.port) as client:
        await client.send(head + b"\r\n")
        answer = await client.answer()
        assert (answer.status, answer.body) == (400, b"The request's head is too large.")
        assert await client.peer_closed()


@pytest.mark.holds("app/http11", "ambiguous-head")
@pytest.mark.parametrize(
    "request_",
    [
        b"GET /\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET http://a@b/ HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET http://a/ HTTP/1.1\r\n\r\n",
        b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: identity\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n1\r\na\r\n0\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\naa",
        HEAD + b"Content-Length: +1\r\n\r\na",
        b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nA: b\rC: d\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nA: b\0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nA : b\r\n\r\n",
    ],
)
async def test_a_head_that_two_readers_could_take_for_different_ones_reaches_nobody(request_: bytes) -> None:
    async with RunningGateway(app) as server, RawClient(server.port) as client:
        await client.send(request_)
        assert (await client.answer()).status == 400
        assert await client.peer_closed()


async def test_a_target_that_names_this_host_is_read() -> None:
    async with RunningGateway(app) as server, RawClient(server.port) as client:
        await client.send(b"GET http://A/ HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await client.answer()).body == b"0 host"


@pytest.mark.holds("app/http11", "upgrade")
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("offer", [b"h2c", b"websocket", b"h2c, websocket"])
async def test_an_offer_of_another_protocol_takes_no_body_away__java_s_client_makes_one_with_each_call(
    offer: bytes, split: bool
) -> None:
    offered = HEAD + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: " + offer + b"\r\nHTTP2-Settings: AAMA\r\n"
    parts = [offered + b"Content-Length: 3\r\n\r\n", b"abc"]
    parts += [offered + b"Transfer-Encoding: chunked\r\n\r\n", b"2\r\nab\r\n0\r\n\r\n", offered + b"\r\n"]

    async with RunningGateway(app) as server, RawClient(server.port) as client:
        await client.send(*(parts if split else [b"".join(parts)]))
        sizes = [(await client.answer()).body.split(b" ")[0] for _ in range(3)]
        assert sizes == [b"3", b"2", b"0"]
        await client.ask("GET", "/")
        assert (await client.answer()).status == 200


async def streaming(scope: Any, receive: Any, send: Any) -> None:
    """Answers without a length."""
    if scope["type"] == "lifespan":
        return await app(scope, receive, send)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for body in (b"one ", b"", b"two"):
        await send({"type": "http.response.body", "body": body, "more_body": True})
    await send({"type": "http.response.body"})
    return None


@pytest.mark.holds("app/http_request", "http-1-0")
async def test_a_client_of_http_1_0_gets_no_chunks__it_would_take_their_sizes_for_content() -> None:
    async with RunningGateway(streaming) as server, RawClient(server.port) as client:
        await client.send(b"GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n")
        answer = await client.answer()
        assert answer.header("transfer-encoding") is None
        assert answer.header("connection") == "close"
        assert answer.body == b"one two"
    async with RunningGateway(app) as server, RawClient(server.port) as client:
        await client.send(b"GET / HTTP/1.0\r\nHost: a\r\n\r\n")
        answer = await client.answer()
        assert (answer.header("content-length"), answer.body) == ("6", b"0 host")
        assert await client.peer_closed()


class Slow:
    """Answers each request when it is let; `begun` have come so far."""

    def __init__(self) -> None:
        self.begun = 0
        self.let = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.begun += 1
            await self.let.wait()
        await app(scope, receive, send)


@pytest.mark.holds("app/http11", "head-bounds")
@pytest.mark.parametrize("count", [MAX_PIPELINED_REQUESTS + 1, 10_000])
async def test_requests_that_come_before_an_answer_is_read_are_few__each_costs_memory_and_time(count: int) -> None:
    slow = Slow()
    async with RunningGateway(slow, reports_errors=True) as server, RawClient(server.port) as client:
        with contextlib.suppress(ConnectionError):  # cut off while it was still sending
            await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" * count)
        if count > MAX_PIPELINED_REQUESTS + 1:
            assert await client.peer_closed()
            assert slow.begun <= 1
        slow.let.set()
        if count == MAX_PIPELINED_REQUESTS + 1:
            for _ in range(count):
                assert (await client.answer()).status == 200


@pytest.mark.holds("app/http11", "error-response")
async def test_what_is_no_request_is_not_answered_in_place_of_the_call_before_it() -> None:
    slow = Slow()
    async with RunningGateway(slow, reports_errors=True) as server, RawClient(server.port) as client:
        await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await until(lambda: slow.begun == 1)
        await client.send(b"nonsense\r\n\r\n")
        assert await client.peer_closed()
        slow.let.set()


@pytest.mark.holds("app/connection", "head-timeout")
async def test_what_is_left_of_a_body_that_was_answered_is_not_waited_for_longer_than_a_head(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def at_once(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await app(scope, receive, send)
        shorten_next_head(monkeypatch)  # not this one, whose body has begun
        await send({"type": "http.response.start", "status": 413, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})
        return None

    async with RunningGateway(at_once) as server, RawClient(server.port) as client:
        await client.send(HEAD + b"Content-Length: 100000\r\n\r\na")
        assert (await client.answer()).status == 413

        async def drip() -> None:
            with contextlib.suppress(ConnectionError):
                while True:
                    await client.send(b"a")
                    await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        assert await client.peer_closed()
        dripping.cancel()


@pytest.mark.holds("app/connection")
async def test_whoever_writes_to_a_client_that_is_gone_does_not_wait_for_it__for_ever() -> None:
    ended: list[bool] = []

    async def writes(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await app(scope, receive, send)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(64):
            await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
        ended.append(True)
        return await send({"type": "http.response.body"})

    async with RunningGateway(writes) as server:
        async with RawClient(server.port, buffer=1024) as client:
            await client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            connections: set[Any] = server.state.connections
            await until(lambda: any(each.write_paused for each in connections))
            assert not ended
        await until(lambda: bool(ended))
