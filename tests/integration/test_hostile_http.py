"""What an upstream sends that is no HTTP, or only half of it."""

import pytest
from tests.world.calls import ERAS, http, post, response
from tests.world.hostile import (
    World,
    check_refused,
    refused,
    sends,
    sends_and_closes,
    sends_and_hangs,
)
from tests.world.raw_server import Connection, RawRequest

from accredit.jsonrpc.methods import Era

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_BODY_TEXT = response()
_NOT_HTTP = "the upstream's answer is not HTTP"
_HEADERS = "the upstream's answer has too many headers, or too large ones"
NOT_HTTP = {
    "an_ssh_banner": (b"SSH-2.0-OpenSSH_9.6\r\n", _NOT_HTTP),
    "status_999": (http(response(), status="999 Denied"), "the upstream's answer has no valid status"),
    "101": (
        http(b"", None, status="101 Switching Protocols", headers=(("Upgrade", "x"), ("Connection", "upgrade"))),
        "the upstream switched protocols",
    ),
    "two_lengths": (_HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + _BODY_TEXT, _NOT_HTTP),
    "a_chunk_size_that_is_none": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", _NOT_HTTP),
    "an_unknown_transfer_coding": (
        _HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "the upstream's answer has an unknown transfer coding",
    ),
    "a_giant_header": (_HEAD + b"X-A: " + b"a" * 100_000 + b"\r\n\r\n", None),
    "endless_headers": (_HEAD + b"X-A: b\r\n" * 100_000, _HEADERS),
    "endless_interim_answers": (
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 10_000,
        "the upstream's answer does not come to its point",
    ),
    "an_endless_chunk_extension": (
        _HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * 200_000,
        "the upstream's answer goes on without a body",
    ),
}


@pytest.mark.parametrize("closes", [True, False], ids=["and_closes", "and_stays"])
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", NOT_HTTP)
async def test_what_is_not_http_is_replaced(era: Era, name: str, closes: bool) -> None:
    sent, detail = NOT_HTTP[name]

    async with World(sends_and_closes(sent) if closes else sends_and_hangs(sent)) as world:
        answer = await world.ask(post(era))
        assert answer.status == 502
        begin = refused(detail or "")[:-3] if detail in (None, _NOT_HTTP) else refused(detail)
        assert answer.body.startswith(begin)
        check_refused(answer, 502, answer.body)
        await world.recovered(era)


PLACES = ["X-A: b%sc", "X%sA: b", "X-A: %s", "Content-Type: application/json%s", "Content-Encoding:%s", "ETag: %s"]


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
async def test_no_byte_in_a_header_of_the_upstream_breaks_the_gateway(place: str) -> None:
    async def script(connection: Connection, request: RawRequest) -> None:
        line = place.encode().replace(b"%s", bytes([int(request.header("x-byte") or "0")]))
        others = b"" if line.startswith(b"Content-Type") else b"Content-Type: application/json\r\n"
        body = response()
        head = b"HTTP/1.1 200 OK\r\n" + line + b"\r\n" + others + b"Content-Length: %d\r\n\r\n" % len(body)
        await connection.send(head + body)
        raise ConnectionAbortedError

    async with World(script) as world:
        for byte in range(256):
            answer = await world.ask(post(Era.LEGACY).and_header("X-Byte", str(byte)))
            assert answer.status in (200, 502), byte
            if answer.status == 502:
                check_refused(answer, 502, answer.body)
        await world.recovered(Era.LEGACY)


@pytest.mark.parametrize("place", ["X-A: b%sc", "X%sA: b", "Mcp-Session-Id: %s", "Origin: %s", "Connection: %s"])
async def test_no_byte_in_a_header_of_a_client_breaks_the_gateway(place: str) -> None:
    async with World(sends(http(response()))) as world:
        for byte in range(256):
            async with world.client() as client:
                asked = post(Era.LEGACY).without_header("Mcp-Session-Id")
                lines = [f"{name}: {value}".encode() for name, value in asked.headers]
                lines += [b"Host: 127.0.0.1", b"Content-Length: %d" % len(asked.body), b"Connection: close"]
                lines += [b"X-Behaviour: hostile", place.encode().replace(b"%s", bytes([byte]))]
                await client.send(b"POST /mcp HTTP/1.1\r\n" + b"\r\n".join(lines) + b"\r\n\r\n" + asked.body)
                assert (await client.answer()).status in (200, 400, 403), byte
        await world.recovered(Era.LEGACY)


@pytest.mark.slow
async def test_no_byte_in_a_path_breaks_the_gateway() -> None:
    async with World(sends(http(response())), passthrough=("/open/*",)) as world:
        for byte in range(256):
            for target in (b"/open/%s", b"/%s", b"/mcp?%s", b"/open/x?%s"):
                async with world.client() as client:
                    head = b"GET " + target.replace(b"%s", bytes([byte])) + b" HTTP/1.1\r\nHost: localhost\r\n"
                    await client.send(head + b"Connection: close\r\n\r\n")
                    assert (await client.answer()).status in (200, 400, 404, 502), (byte, target)
        await world.recovered(Era.LEGACY)
