"""What a client can't do to the HTTP server: make it wait, make it remember, or smuggle a header in behind a body."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from tests.world.raw_client import CutOff, RawClient
from tests.world.running import RunningGateway, run

from accredit.app import edge
from accredit.limits import MAX_REQUEST_HEAD_BYTES

HEAD = b"POST / HTTP/1.1\r\nHost: a\r\n"


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
def test_what_is_no_body_and_has_no_end_is_cut_off(start: bytes, piece: bytes) -> None:
    async def main() -> None:
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

    run(main())


def test_a_large_body_in_many_pieces_passes() -> None:
    async def main() -> None:
        async with RunningGateway(app) as server, RawClient(server.port) as client:
            for _ in range(2):
                await client.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
                for _ in range(200):
                    await client.send(b"400\r\n" + b"a" * 1024 + b"\r\n")
                await client.send(b"0\r\n\r\n")
                assert (await client.answer()).body == b"204800 host,transfer-encoding"

    run(main())


def test_a_trailer_is_no_header() -> None:
    async def main() -> None:
        async with RunningGateway(app) as server, RawClient(server.port) as client:
            await client.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nAuthorization: b\r\n\r\n")
            assert (await client.answer()).body == b"1 host,transfer-encoding"

    run(main())


@pytest.mark.parametrize(
    ("first", "sent"),
    [
        (True, b""),
        (True, b"\r\n"),
        (True, b"GET / HT"),
        (True, b"GET / HTTP/1.1\r\nHost: a\r\n"),
        (False, b"\r\n"),
        (False, b"GET / HT"),
        (False, b"GET / HTTP/1.1\r\nHost: a\r\n"),
    ],
)
def test_a_head_that_does_not_end_is_not_waited_for(first: bool, sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with RunningGateway(app) as server, contextlib.AsyncExitStack() as stack:
            if first:
                monkeypatch.setattr(edge, "REQUEST_HEAD_SECONDS", 0.05)
            client = await stack.enter_async_context(RawClient(server.port))
            if not first:
                await client.ask("GET", "/")
                assert (await client.answer()).status == 200
                monkeypatch.setattr(edge, "REQUEST_HEAD_SECONDS", 0.05)  # the next head's: it has not begun
            with contextlib.suppress(ConnectionError):  # where the machine stalls the time is over already
                await client.send(sent)
            assert await client.peer_closed()

    run(main())


def test_a_head_that_comes_byte_by_byte_is_read() -> None:
    async def main() -> None:
        async with RunningGateway(app) as server, RawClient(server.port) as client:
            for _ in range(3):
                for byte in b"GET / HTTP/1.1\r\nHost: a\r\n\r\n":
                    await client.send(bytes([byte]))
                assert (await client.answer()).body == b"0 host"

    run(main())
