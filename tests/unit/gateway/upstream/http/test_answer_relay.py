"""Which bodies go on as they came: those that every decoder reads alike, and that nobody reads without decoding."""

import gzip
import zlib

import brotli
import pytest

from accredit.base.steps import at_one_go
from accredit.errors import RequestError
from accredit.gateway.headers import check_request
from accredit.gateway.upstream.http.answer_relay import as_it_came
from accredit.gateway.upstream.http.encoding import Decoded, decode_answer

LIMIT = 1 << 20
TEXT = b'{"jsonrpc":"2.0","id":7,"result":{}}'


def raw_deflate(data: bytes) -> bytes:
    coder = zlib.compressobj(wbits=-15)
    return coder.compress(data) + coder.flush()


@pytest.mark.holds("gateway/upstream/http/answer_relay", "encoding")
@pytest.mark.parametrize(
    ("raw", "coding", "named"),
    [
        (gzip.compress(TEXT), b"gzip", b"gzip"),
        (gzip.compress(TEXT), b" X-GZIP ", b"gzip"),
        (gzip.compress(TEXT[:9]) + gzip.compress(TEXT[9:]), b"gzip", b""),
        (zlib.compress(TEXT), b"deflate", b"deflate"),
        (raw_deflate(TEXT), b"deflate", b""),
        (zlib.compress(TEXT, wbits=10), b"deflate", b""),
        (brotli.compress(TEXT), b"br", b"br"),
        (TEXT, b"identity", b""),
        (TEXT, b"", b""),
        (TEXT, None, b""),
    ],
    # Not of the bytes: gzip's hold the time.
    ids=["gzip", "x-gzip", "two members", "zlib", "raw", "small window", "br", "identity", "empty", "none"],
)
def test_only_the_one_form_that_all_decoders_read_alike_goes_on(raw: bytes, coding: bytes | None, named: bytes) -> None:
    assert at_one_go(decode_answer(raw, coding, LIMIT)) == Decoded(TEXT, named)


def test_a_deflate_body_that_is_a_raw_stream_as_well_goes_on_decoded() -> None:
    # In zlib's frame one stored block of 0xFEFE bytes; without it, one of 0x0101 bytes that begins two bytes later.
    text = TEXT.ljust(0xFEFE)
    framed = b"\x78\x01\x01\xfe\xfe\x01\x01" + text + zlib.adler32(text).to_bytes(4, "big")
    assert zlib.decompress(framed) == text
    assert zlib.decompressobj(wbits=-15).decompress(framed[: 5 + 0x0101]) == framed[5:][:0x0101]
    assert at_one_go(decode_answer(framed, b"deflate", LIMIT)) == Decoded(text)


def test_a_body_that_is_json_as_it_came_goes_on_decoded() -> None:
    for raw in (b'{"a":1}', b" \r\n[1]", b"\xef\xbb\xbf{", b"[" + brotli.compress(TEXT)):
        assert as_it_came(raw, Decoded(TEXT, b"br"), b"br") == (TEXT, [])
    raw = brotli.compress(TEXT)
    assert as_it_came(raw, Decoded(TEXT, b"br"), b"br") == (raw, [(b"content-encoding", b"br")])
    assert as_it_came(raw, Decoded(TEXT, b"br"), None) == (raw, [(b"content-encoding", b"br")])
    assert as_it_came(raw, Decoded(TEXT, b"br"), b"gzip") == (TEXT, [])
    assert as_it_came(TEXT, Decoded(TEXT), b"gzip") == (TEXT, [])


@pytest.mark.holds("gateway/headers", "content-encoding")
@pytest.mark.parametrize("coding", [b"br", b"gzip", b"", b"identity, identity", b"identity\x00identity", b"x"])
def test_a_request_has_no_coding(coding: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        check_request({b"content-type": b"application/json", b"content-encoding": coding})
    assert (caught.value.status, caught.value.code) == (415, -32600)
    check_request({b"content-type": b"application/json", b"content-encoding": b" Identity"})
