"""Content codings: what is decoded, within which bounds, and what is asked for."""

import contextlib
import gzip
import itertools
import tracemalloc
import weakref
import zlib
from collections.abc import Callable

import brotli
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accredit.base.steps import at_one_go
from accredit.errors import AnswerError
from accredit.gateway.upstream.http import encoding
from accredit.gateway.upstream.http.encoding import (
    DECODED_PIECE_BYTES,
    DECODED_STEP_BYTES,
    ENCODED_STEP_BYTES,
    accepted_codings,
    decode_answer,
    open_decoder,
)

pytestmark = pytest.mark.holds("gateway/upstream/http/encoding")

LIMIT = 1 << 20


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def two_members(data: bytes) -> bytes:
    half = len(data) // 2
    return gzip.compress(data[:half]) + gzip.compress(data[half:])


CODERS: dict[str, tuple[bytes, Callable[[bytes], bytes]]] = {
    "gzip": (b"gzip", gzip.compress),
    "gzip_stored": (b"gzip", lambda data: gzip.compress(data, 0)),
    "gzip_of_two_members": (b"x-gzip", two_members),
    "deflate": (b"deflate", zlib.compress),
    "deflate_stored": (b"deflate", lambda data: zlib.compress(data, 0)),
    "deflate_without_its_frame": (b"deflate", raw_deflate),
    "br": (b"br", lambda data: brotli.compress(data, quality=1)),
}
coders = pytest.mark.parametrize("coder", CODERS)


def decode(parts: list[bytes], coding: bytes) -> bytes:
    decoder = open_decoder(coding)
    assert decoder is not None
    pieces = [piece for part in parts for piece in decoder.feed(part)]
    decoder.finish()
    assert all(0 < len(piece) <= DECODED_PIECE_BYTES for piece in pieces)
    return b"".join(pieces)


def bomb(coding: bytes, mebibytes: int) -> bytes:
    """Many zeros in few bytes."""
    if coding == b"br":
        return brotli.compress(bytes(mebibytes << 20), quality=1)
    packer = zlib.compressobj(9, wbits=31 if coding == b"gzip" else 15)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(mebibytes)) + packer.flush()


@coders
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"hello " * 50_000,
        bytes(range(256)) * 1000,
        bytes(3 * DECODED_PIECE_BYTES),
        bytes(DECODED_PIECE_BYTES + 1),
    ],
)
def test_what_was_encoded_is_decoded(coder: str, data: bytes) -> None:
    coding, encode = CODERS[coder]
    assert at_one_go(decode_answer(encode(data), coding, LIMIT)).text == data


@pytest.mark.parametrize("coding", [None, b"", b"identity", b" Identity "])
def test_a_body_without_a_coding_stays_as_it_is(coding: bytes | None) -> None:
    body = b"plain"
    assert open_decoder(coding) is None
    assert at_one_go(decode_answer(body, coding, LIMIT)).text is body


@pytest.mark.parametrize("coding", [b"GZIP", b" gzip ", b"X-Gzip", b"Deflate", b"BR"])
def test_the_name_of_a_coding_has_no_case(coding: bytes) -> None:
    assert open_decoder(coding) is not None


@pytest.mark.parametrize(
    "coding", [b"zstd", b"compress", b"gzip, br", b"gzip,gzip", b"gzip\0gzip", b"identity, gzip", b"gzip;q=1", b"gzipx"]
)
def test_another_coding_or_two_of_them_are_refused__nobody_could_judge_what_is_in_there(coding: bytes) -> None:
    with pytest.raises(AnswerError, match="Content-Encoding"):
        open_decoder(coding)


@coders
def test_no_bytes_at_all_are_no_bytes_in_any_coding(coder: str) -> None:
    assert at_one_go(decode_answer(b"", CODERS[coder][0], LIMIT)).text == b""


@coders
def test_a_body_that_stops_before_its_end_is_refused__half_of_it_may_mean_something_else(coder: str) -> None:
    coding, encode = CODERS[coder]
    whole = encode(b"hello world " * 20)
    for end in range(1, len(whole)):
        if coder == "gzip_of_two_members" and end == len(gzip.compress(b"hello world " * 10)):
            continue  # the first member alone is whole
        with pytest.raises(AnswerError):
            at_one_go(decode_answer(whole[:end], coding, LIMIT))


@coders
@pytest.mark.parametrize("garbage", [b"\0", b"}", b"garbage", b"\x1f", b"\x1f\x8b\x08", b"\0" * 100_000])
@pytest.mark.parametrize("apart", [True, False])
def test_bytes_after_the_end_are_refused__another_reader_might_take_them_for_more(
    coder: str, garbage: bytes, apart: bool
) -> None:
    coding, encode = CODERS[coder]
    whole = encode(b"hello world " * 20)
    with pytest.raises(AnswerError):
        decode([whole, garbage] if apart else [whole + garbage], coding)


@coders
def test_damage_is_refused(coder: str) -> None:
    coding, encode = CODERS[coder]
    whole = bytearray(encode(b"hello world " * 20))
    whole[len(whole) // 2 :] = bytes(byte ^ 0xFF for byte in whole[len(whole) // 2 :])
    with pytest.raises(AnswerError):
        at_one_go(decode_answer(bytes(whole), coding, LIMIT))


def test_a_wrong_checksum_is_refused() -> None:
    whole = bytearray(gzip.compress(b"hello"))
    whole[-8] ^= 1
    with pytest.raises(AnswerError, match="damaged"):
        at_one_go(decode_answer(bytes(whole), b"gzip", LIMIT))


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br"])
def test_a_bomb_stops_at_the_bound_and_costs_no_more_memory_than_it(coding: bytes) -> None:
    packed = bomb(coding, 64)
    tracemalloc.start()
    try:
        with pytest.raises(AnswerError, match=f"larger than {LIMIT} bytes") as caught:
            at_one_go(decode_answer(packed, coding, LIMIT))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.bound
    assert peak < 1.25 * LIMIT + 4 * DECODED_PIECE_BYTES


@pytest.mark.parametrize("coding", [b"gzip", b"deflate", b"br"])
def test_what_comes_out_of_a_bomb_piece_by_piece_is_never_more_than_a_piece(coding: bytes) -> None:
    decoder = open_decoder(coding)
    assert decoder is not None
    packed = bomb(coding, 16)
    tracemalloc.start()
    try:
        decoded = sum(len(piece) for piece in decoder.feed(packed))
        decoder.finish()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert decoded == 16 << 20
    assert peak < 6 * DECODED_PIECE_BYTES


@coders
def test_a_body_of_exactly_the_bound_passes_and_one_byte_more_does_not(coder: str) -> None:
    coding, encode = CODERS[coder]
    assert len(at_one_go(decode_answer(encode(bytes(100_000)), coding, 100_000)).text) == 100_000
    with pytest.raises(AnswerError, match="larger"):
        at_one_go(decode_answer(encode(bytes(100_001)), coding, 100_000))


def test_empty_gzip_members_do_not_go_on_for_ever__each_costs_more_time_than_its_bytes_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(encoding, "MAX_GZIP_MEMBERS", 1000)
    member = gzip.compress(b"")
    assert at_one_go(decode_answer(member * 1000, b"gzip", LIMIT)).text == b""
    with pytest.raises(AnswerError, match="members") as caught:
        at_one_go(decode_answer(member * 1001, b"gzip", LIMIT))
    assert caught.value.bound


def zlib_flusher(wbits: int) -> Callable[[bytes], bytes]:
    packer = zlib.compressobj(wbits=wbits)
    return lambda data: packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)


def brotli_flusher() -> Callable[[bytes], bytes]:
    packer = brotli.Compressor(quality=1)
    return lambda data: packer.process(data) + packer.flush()


@pytest.mark.parametrize(
    ("coding", "flusher"),
    [
        (b"gzip", lambda: zlib_flusher(31)),
        (b"deflate", lambda: zlib_flusher(15)),
        (b"deflate", lambda: zlib_flusher(-15)),
        (b"br", brotli_flusher),
    ],
)
def test_a_stream_gives_what_it_has_at_each_flush__an_event_must_not_wait_for_the_next_one(
    coding: bytes, flusher: Callable[[], Callable[[bytes], bytes]]
) -> None:
    flushed = flusher()
    decoder = open_decoder(coding)
    assert decoder is not None
    for number in range(5):
        event = b"data: %d\n\n" % number
        assert b"".join(decoder.feed(flushed(event))) == event
    with pytest.raises(AnswerError, match="cut off"):
        decoder.finish()


@settings(max_examples=150)
@given(
    st.sampled_from(sorted(CODERS)),
    st.binary(max_size=300) | st.integers(0, 300_000).map(bytes),
    st.lists(st.integers(0, 400_000), max_size=8),
)
def test_any_split_of_an_encoded_body_decodes_to_the_same(coder: str, data: bytes, cuts: list[int]) -> None:
    coding, encode = CODERS[coder]
    packed = encode(data)
    places = [0, *sorted(cut % (len(packed) + 1) for cut in cuts), len(packed)]
    assert decode([packed[start:end] for start, end in itertools.pairwise(places)], coding) == data


@settings(max_examples=200)
@given(st.sampled_from([b"gzip", b"deflate", b"br"]), st.binary(max_size=200), st.booleans())
def test_no_bytes_escape_the_error_tree(coding: bytes, data: bytes, framed: bool) -> None:
    prefix = {b"gzip": b"\x1f\x8b\x08\0\0\0\0\0\0\xff", b"deflate": b"\x78\x9c", b"br": b""}[coding] if framed else b""
    with contextlib.suppress(AnswerError):
        at_one_go(decode_answer(prefix + data, coding, LIMIT))


# --- what is asked for --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accepted", "asked"),
    [
        (None, b"identity"),
        (b"", b"identity"),
        (b"identity", b"identity"),
        (b"gzip, deflate, br", b"gzip, deflate, br"),
        (b"gzip, deflate, br, zstd", b"gzip, deflate, br"),
        (b"zstd", b"identity"),
        (b"br;q=1.0, gzip;q=0.8, *;q=0.1", b"br, gzip, deflate"),
        (b"gzip;q=0.2, br;q=0.9", b"br, gzip"),
        (b"*", b"gzip, deflate, br"),
        (b"*;q=0.5, gzip;q=0", b"deflate, br"),
        (b"*;q=0", b"identity"),
        (b"gzip;q=0, identity;q=0", b"identity"),
        (b"gzip;q=0.000", b"identity"),
        (b"X-GZIP", b"gzip"),
        (b" GZip ;q=1 , bR ; q = 0.5", b"gzip, br"),
        (b"gzip;q=x, br", b"br"),
        (b"gzip;q=nan", b"identity"),
        (b"gzip;level=9", b"identity"),
        (b"gzip;q=-1", b"identity"),
        (b"gzip\0br", b"identity"),
        (b",,gzip,,gzip;q=0", b"gzip"),
    ],
)
def test_the_upstream_is_asked_for_what_the_client_accepts_and_we_decode(accepted: bytes | None, asked: bytes) -> None:
    assert accepted_codings(accepted) == asked


@given(st.binary(max_size=60) | st.text("gzipbr*;q=0.1, ", max_size=60).map(str.encode))
def test_whatever_a_client_accepts_something_that_we_decode_is_asked_for(accepted: bytes) -> None:
    asked = accepted_codings(accepted).split(b", ")
    assert asked == [b"identity"] or (set(asked) <= {b"gzip", b"deflate", b"br"} and len(set(asked)) == len(asked))


@pytest.mark.parametrize(
    ("packed", "steps"),
    [
        (gzip.compress(bytes(8 * DECODED_STEP_BYTES)), 8),
        (gzip.compress(b"") * 30_000, 30_000 * len(gzip.compress(b"")) // ENCODED_STEP_BYTES),
    ],
    ids=["much comes of little", "little comes of many members"],
)
def test_a_body_is_decoded_in_steps__everybody_else_would_wait_for_its_end(packed: bytes, steps: int) -> None:
    assert sum(1 for _ in decode_answer(packed, b"gzip", 16 * DECODED_STEP_BYTES)) >= steps


@pytest.mark.parametrize("bits", [10, 16, 17, 18, 22, 24])
def test_what_a_decoder_may_keep_is_known_before_anything_is_fed__a_few_bytes_can_fill_all_of_it(bits: int) -> None:
    encoder = brotli.Compressor(quality=5, lgwin=bits)
    decoder = open_decoder(b"br")
    assert decoder is not None
    assert decoder.window() == 0
    for size in (100, 20_000_000):
        packed = encoder.process(bytes(size)) + encoder.flush()
        assert decoder.window(packed) == 1 << bits
        pieces = decoder.feed(packed)
        came = len(next(pieces))
        assert decoder.window() == (size if size == 100 else 1 << bits)
        came += sum(map(len, pieces))
        assert came == size
        assert decoder.window() == min(size, 1 << bits)
    gzip = open_decoder(b"gzip")
    assert gzip is not None
    assert gzip.window(b"x") == 0


@pytest.mark.parametrize("bits", [22, 24])
def test_a_body_that_waits_for_room_has_no_window_yet__and_what_it_asks_for_holds_one(
    bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched: weakref.WeakSet[encoding.Decoder] = weakref.WeakSet()

    class Watched(encoding._BrotliDecoder):
        def __init__(self) -> None:
            super().__init__()
            watched.add(self)

    monkeypatch.setattr(encoding, "_BrotliDecoder", Watched)
    data = bytes(20_000_000)
    encoder = brotli.Compressor(quality=5, lgwin=bits)
    packed = encoder.process(data) + encoder.finish()
    steps = decode_answer(packed, b"br", len(data))
    assert next(steps) == 1 << bits
    assert [each.window() for each in watched] == [0]
    assert max(steps) > 19_000_000
    assert at_one_go(decode_answer(packed, b"br", len(data))).text == data


def test_a_short_body_in_brotli_is_decoded_at_once__it_needs_no_room() -> None:
    short = brotli.compress(bytes(DECODED_STEP_BYTES - 1))
    assert list(decode_answer(short, b"br", LIMIT)) == []
