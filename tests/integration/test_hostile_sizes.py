"""Answers too large to keep, as they are or once they are decoded: refused at the bound, at the price of the bound."""

import gzip
import zlib
from collections.abc import Callable, Iterator

import brotli
import pytest
from tests.world.calls import ERAS, LAST_CHUNK, STREAM_HEAD, chunk, error, event, http, log_message, post, response
from tests.world.hostile import (
    LEAKS,
    Hangs,
    Script,
    World,
    check_refused,
    error_event,
    refused,
    sends,
    sends_and_hangs,
)
from tests.world.memory import MemoryWatch
from tests.world.raw_server import Connection, RawRequest

from accredit.jsonrpc.methods import Era

MIB = 1 << 20
PIECE = b"a" * MIB
BEGIN, END = b'{"jsonrpc":"2.0","id":7,"result":{"text":"', b'"}}'
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nSet-Cookie: a=b\r\n"
_CHUNKED = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def json_pieces(mebibytes: int) -> Iterator[bytes]:
    yield BEGIN
    for _ in range(mebibytes):
        yield PIECE
    yield END


def sends_pieces(head: bytes, pieces: Callable[[], Iterator[bytes]], *, chunked: bool = True) -> Script:
    """Makes each piece when the one before it was taken: what the gateway does not read costs nothing."""

    async def script(connection: Connection, request: RawRequest) -> None:
        await connection.send(head)
        for piece in pieces():
            if piece:
                await connection.send(chunk(piece) if chunked else piece)
        if not chunked:
            raise Hangs
        await connection.send(LAST_CHUNK)

    return script


def packed(coding: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces, compressed one after the other."""
    if coding == "br":
        encoder = brotli.Compressor(quality=5)
        for piece in pieces:
            yield encoder.process(piece)
        yield encoder.finish()
        return
    bits = {"gzip": 31, "deflate": 15, "raw": -15}[coding]
    deflater = zlib.compressobj(6, zlib.DEFLATED, bits)
    for piece in pieces:
        yield deflater.compress(piece)
    yield deflater.flush()


def coded(coding: str) -> bytes:
    return _HEAD + f"Content-Encoding: {coding}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()


# --- bodies -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "chunked"])
@pytest.mark.parametrize("status", ["200 OK", "202 Accepted", "500 No", "404 Not Found"])
async def test_a_body_over_the_bound_is_refused_whatever_its_status(era: Era, declared: bool, status: str) -> None:
    body = response(text="a" * 5_000)
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nSet-Cookie: a=b\r\n".encode()
    sent = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    if not declared:
        sent = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(body) + LAST_CHUNK
    detail = (
        "status 202 in answer to a request" if "202" in status else f"the answer is larger than {len(body) - 1} bytes"
    )

    async with World(sends(sent), max_response_bytes=len(body) - 1) as world:
        answer = await world.ask(post(era))
        check_refused(answer, 502 if status[0] == "2" else int(status[:3]), refused(detail))
        await world.recovered(era)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("length", [8 * MIB + 1, 120 * MIB, 1 << 62])
async def test_a_declared_length_over_the_bound_is_refused_before_the_body_comes(era: Era, length: int) -> None:
    async with World(sends_and_hangs(http(b"", length=length, headers=LEAKS)), max_response_bytes=8 * MIB) as world:
        check_refused(await world.ask(post(era)), 502, refused(f"the answer is larger than {8 * MIB} bytes"))
        await world.recovered(era)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("chunked", [True, False], ids=["chunked", "until_the_end"])
async def test_a_body_without_an_end_costs_no_more_than_the_bound(era: Era, chunked: bool) -> None:
    head = _CHUNKED if chunked else _HEAD + b"\r\n"
    script = sends_pieces(head, lambda: json_pieces(1 << 20), chunked=chunked)

    async with World(script, max_response_bytes=8 * MIB) as world:
        await world.recovered(era)
        with MemoryWatch() as watch:
            check_refused(await world.ask(post(era)), 502, refused(f"the answer is larger than {8 * MIB} bytes"))
        assert watch.peak_mib < 24
        await world.recovered(era)


# --- content codings --------------------------------------------------------------------------------

ENCODE = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "identity": bytes,
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("coding", ENCODE)
async def test_a_sound_compressed_body_passes_as_it_came(era: Era, coding: str) -> None:
    body = ENCODE[coding](response(text="a" * 10_000))

    async with World(sends(http(body, headers=(("Content-Encoding", coding), ("X-Custom", "v"))))) as world:
        answer = await world.ask(post(era))
        assert (answer.status, answer.body) == (200, body)
        ours = {"x-gzip": "gzip", "GZIP": "gzip", "identity": None}.get(coding, coding)
        assert (answer.header("content-encoding"), answer.header("x-custom")) == (ours, "v")
        await world.recovered(era)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("deflate", b"".join(packed("raw", iter([response()])))),
        ("gzip", gzip.compress(response()[:20]) + gzip.compress(response()[20:])),
        ("gzip", gzip.compress(response()) + gzip.compress(b"")),
    ],
    ids=["deflate_without_its_frame", "gzip_of_two_members", "gzip_with_an_empty_member"],
)
async def test_the_odd_but_legal_forms_of_a_coding_are_decoded_here__decoders_do_not_agree_on_them(
    era: Era, coding: str, body: bytes
) -> None:
    async with World(sends(http(body, headers=(("Content-Encoding", coding),)))) as world:
        answer = await world.ask(post(era))
        assert (answer.status, answer.body, answer.header("content-encoding")) == (200, response(), None)
        await world.recovered(era)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
async def test_a_compressed_body_in_which_something_changes_is_sent_plain(era: Era, coding: str) -> None:
    sent = http(ENCODE[coding](error(None)), headers=(("Content-Encoding", coding), ("X-Custom", "v")))

    async with World(sends(sent)) as world:
        answer = await world.ask(post(era))
        assert (answer.status, answer.body) == (200, error(7))
        assert (answer.header("content-encoding"), answer.header("x-custom")) == (None, "v")
        await world.recovered(era)


BAD_CODINGS = {
    "gzip_cut_off": ("gzip", gzip.compress(response())[:-1], "a compressed body that is cut off"),
    "zstd": ("zstd", response(), "a Content-Encoding that is not gzip, deflate or br"),
}


@pytest.mark.parametrize("status", ["200 OK", "500 No"])
@pytest.mark.parametrize("name", BAD_CODINGS)
async def test_a_body_whose_coding_is_damaged_or_unknown_is_replaced__an_error_s_too(name: str, status: str) -> None:
    coding, body, detail = BAD_CODINGS[name]
    sent = http(body, status=status, headers=(*LEAKS, ("Content-Encoding", coding)))

    async with World(sends(sent)) as world:
        check_refused(await world.ask(post(Era.MODERN)), 502 if status == "200 OK" else 500, refused(detail))
        await world.recovered(Era.MODERN)


@pytest.mark.slow
async def test_a_bomb_in_an_error_stops_at_the_bound_and_costs_no_more() -> None:
    bomb = b"".join(packed("gzip", json_pieces(64)))
    sent = http(bomb, status="500 No", headers=(*LEAKS, ("Content-Encoding", "gzip")))

    async with World(sends(sent), max_response_bytes=4 * MIB) as world:
        await world.recovered(Era.MODERN)
        with MemoryWatch() as watch:
            answer = await world.ask(post(Era.MODERN))
        check_refused(answer, 500, refused(f"decoded, the answer is larger than {4 * MIB} bytes"))
        assert watch.peak_mib < 12


# --- the real sizes ---------------------------------------------------------------------------------

LIMIT = 100 * MIB  # the most that it may be set to


@pytest.mark.parametrize("mib", [17, 120])
async def test_without_a_word_in_the_configuration_an_answer_has_16_mib(mib: int) -> None:
    async with World(sends_pieces(_CHUNKED, lambda: json_pieces(mib))) as world:
        await world.recovered(Era.LEGACY)
        with MemoryWatch() as watch:
            answer = await world.ask(post(Era.LEGACY))
            check_refused(answer, 502, refused(f"the answer is larger than {16 * MIB} bytes"))
            await world.recovered(Era.LEGACY)
        assert watch.peak_mib < 40


LARGE = pytest.mark.parametrize("mib", [200, pytest.param(512, marks=pytest.mark.long)])
"""More than there may be in memory."""


@pytest.mark.slow
@LARGE
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
async def test_a_bomb_of_hundreds_of_mib_stops_at_100_and_costs_no_more(coding: str, mib: int) -> None:
    script = sends_pieces(coded(coding), lambda: packed(coding, json_pieces(mib)))

    async with World(script, max_response_bytes=LIMIT) as world:
        await world.recovered(Era.MODERN)
        with MemoryWatch() as watch:
            answer = await world.ask(post(Era.MODERN))
            check_refused(answer, 502, refused(f"decoded, the answer is larger than {LIMIT} bytes"))
            await world.recovered(Era.MODERN)
        assert watch.peak_mib < 140
        assert watch.kept_mib < 32


@pytest.mark.slow
@LARGE
@pytest.mark.parametrize("coding", [None, "gzip", "br"])
async def test_an_event_of_hundreds_of_mib_stops_at_16_and_costs_no_more(coding: str | None, mib: int) -> None:
    news = event(log_message())

    def pieces() -> Iterator[bytes]:
        yield news + b"data: "
        yield from json_pieces(mib)

    head = STREAM_HEAD if coding is None else STREAM_HEAD[:-2] + f"Content-Encoding: {coding}\r\n\r\n".encode()
    script = sends_pieces(head, pieces if coding is None else lambda: packed(coding, pieces()))

    async with World(script) as world:
        await world.recovered(Era.MODERN)
        with MemoryWatch() as watch:
            answer = await world.ask(post(Era.MODERN))
            assert answer.body == news + error_event(7, f"an event longer than {16 * MIB} bytes")
            await world.recovered(Era.MODERN)
        assert watch.peak_mib < 64
        assert watch.kept_mib < 32


@pytest.mark.slow
async def test_a_sound_answer_of_90_mib_passes() -> None:
    async with World(sends_pieces(_CHUNKED, lambda: json_pieces(90)), max_response_bytes=LIMIT) as world:
        async with world.client() as client:
            await world.send(client, post(Era.LEGACY))
            status, _ = await client.head()
            size = 0
            while piece := await client.piece():
                size += len(piece)
        assert (status, size) == (200, 90 * MIB + len(BEGIN + END))
        await world.recovered(Era.LEGACY)
