"""What an upstream sends that is no HTTP, or only half of it."""

import pytest
from tests.world.calls import ERAS, chunk, http, post, response
from tests.world.hostile import (
    LEAKS,
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
    "a_tls_alert": (b"\x15\x03\x01\x00\x02\x02\x46", _NOT_HTTP),
    "http_2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", _NOT_HTTP),
    "http_2_settings": (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + b"\x00" * 18, _NOT_HTTP),
    "http_0_9": (response(), _NOT_HTTP),
    "version_3": (b"HTTP/3.0 200 OK\r\n\r\n", _NOT_HTTP),
    "no_status": (b"HTTP/1.1 OK\r\n\r\n", _NOT_HTTP),
    "status_999": (http(response(), status="999 Denied"), "the upstream's answer has no valid status"),
    "status_600": (http(response(), status="600 Odd"), "the upstream's answer has no valid status"),
    "status_99": (http(response(), status="099 Odd"), "the upstream's answer has no valid status"),
    "status_1000": (http(response(), status="1000 Odd"), _NOT_HTTP),
    "status_20": (http(response(), status="20 Odd"), _NOT_HTTP),
    "101": (
        http(b"", None, status="101 Switching Protocols", headers=(("Upgrade", "x"), ("Connection", "upgrade"))),
        "the upstream switched protocols",
    ),
    "two_lengths": (_HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n" + _BODY_TEXT, _NOT_HTTP),
    "two_same_lengths": (_HEAD + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n" + _BODY_TEXT, _NOT_HTTP),
    "a_negative_length": (_HEAD + b"Content-Length: -1\r\n\r\n" + _BODY_TEXT, _NOT_HTTP),
    "a_length_in_hex": (_HEAD + b"Content-Length: 0x10\r\n\r\n" + _BODY_TEXT, _NOT_HTTP),
    "a_length_that_overflows": (_HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n", _NOT_HTTP),
    "length_and_chunks": (
        _HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(_BODY_TEXT) + b"0\r\n\r\n",
        _NOT_HTTP,
    ),
    "a_folded_header": (_HEAD + b"X-A: b\r\n c\r\nContent-Length: 2\r\n\r\n{}", _NOT_HTTP),
    "a_bare_lf": (b"HTTP/1.1 200 OK\nContent-Type: application/json\nContent-Length: 2\n\n{}", _NOT_HTTP),
    "a_nul_in_a_header": (_HEAD + b"X-A: b\0c\r\nContent-Length: 2\r\n\r\n{}", _NOT_HTTP),
    "a_control_character_in_a_header": (_HEAD + b"X-A: b\x01c\r\nContent-Length: 2\r\n\r\n{}", _NOT_HTTP),
    "a_blank_in_a_header_s_name": (_HEAD + b"X A: b\r\nContent-Length: 2\r\n\r\n{}", _NOT_HTTP),
    "a_header_without_a_name": (_HEAD + b": b\r\nContent-Length: 2\r\n\r\n{}", _NOT_HTTP),
    "a_header_without_a_colon": (_HEAD + b"nonsense\r\nContent-Length: 2\r\n\r\n{}", _NOT_HTTP),
    "a_chunk_size_that_is_none": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", _NOT_HTTP),
    "a_chunk_size_that_overflows": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{}", _NOT_HTTP),
    "a_chunk_longer_than_it_says": (_HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n", _NOT_HTTP),
    "an_unknown_transfer_coding": (
        _HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "the upstream's answer has an unknown transfer coding",
    ),
    "a_giant_header": (_HEAD + b"X-A: " + b"a" * 100_000 + b"\r\n\r\n", None),
    "a_giant_status_line": (b"HTTP/1.1 200 " + b"a" * 200_000, None),
    "a_giant_header_name": (_HEAD + b"a" * 200_000, None),
    "endless_headers": (_HEAD + b"X-A: b\r\n" * 100_000, _HEADERS),
    "endless_interim_answers": (
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * 10_000,
        "the upstream's answer does not come to its point",
    ),
    "endless_blank_lines": (b"\r\n" * 100_000, "the upstream's answer goes on without a body"),
    "an_endless_chunk_extension": (
        _HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"a" * 200_000,
        "the upstream's answer goes on without a body",
    ),
    "endless_trailers": (
        _HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(_BODY_TEXT) + b"0\r\n" + b"X-A: b\r\n" * 100_000,
        _HEADERS,
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


CUT_OFF = {
    "nothing_at_all": (b"", "the upstream closed the connection before it answered"),
    "half_a_status_line": (b"HTTP/1.1 20", "the upstream closed the connection before it answered"),
    "half_a_head": (_HEAD, "the upstream closed the connection before it answered"),
    "only_an_interim_answer": (
        b"HTTP/1.1 100 Continue\r\n\r\n",
        "the upstream closed the connection before it answered",
    ),
    "a_length_larger_than_the_body": (
        http(response(), length=1000, headers=LEAKS),
        "the upstream's answer was cut off",
    ),
    "a_length_of_16_mib_minus_one": (http(response(), length=16_777_215), "the upstream's answer was cut off"),
    "a_head_and_no_body": (http(b"", length=10), "the upstream's answer was cut off"),
    "chunks_without_an_end": (
        _HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(response()),
        "the upstream's answer was cut off",
    ),
    "a_chunk_without_its_end": (
        _HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\n" + response(),
        "the upstream's answer was cut off",
    ),
    "a_last_chunk_without_its_blank_line": (
        _HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(response()) + b"0\r\n",
        "the upstream's answer was cut off",
    ),
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", CUT_OFF)
@pytest.mark.parametrize("reset", [False, True], ids=["by_fin", "by_rst"])
async def test_an_answer_that_is_cut_off_is_no_answer(era: Era, name: str, reset: bool) -> None:
    sent, detail = CUT_OFF[name]

    async def script(connection: Connection, request: RawRequest) -> None:
        await connection.send(sent)
        if reset:
            connection.reset()
        raise ConnectionAbortedError

    async with World(script) as world:
        answer = await world.ask(post(era))
        check_refused(answer, 502, answer.body)
        # What a reset destroys is chance: part of the answer may be lost on its way.
        assert answer.body == refused(detail, message="Upstream unavailable") or (
            reset and b"Upstream unavailable" in answer.body
        )
        await world.recovered(era)


@pytest.mark.parametrize("era", ERAS)
async def test_interim_answers_before_the_answer_mean_nothing(era: Era) -> None:
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\nSet-Cookie: a=b\r\n\r\n"

    async with World(sends(early, http(response()))) as world:
        answer = await world.ask(post(era))
        assert (answer.status, answer.body) == (200, response())
        assert [name for name, _ in answer.headers] == ["content-type", "content-length"]
        await world.recovered(era)


@pytest.mark.parametrize("era", ERAS)
async def test_a_body_that_ends_with_the_connection_is_whole(era: Era) -> None:
    async with World(sends_and_closes(_HEAD + b"\r\n" + response())) as world:
        answer = await world.ask(post(era))
        assert (answer.status, answer.body) == (200, response())
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
