"""Content codings: which to request, and bounded decoding. No I/O.

Sources: RFC 9110 sections 8.4.1 and 12.5.3, RFC 1950 to 1952, RFC 7932. However much its input expands, a decoder holds
at most one piece of output, besides its codec's window.
"""

import zlib
from collections.abc import Generator, Iterator
from io import BytesIO
from typing import Protocol

import brotli
from msgspec import Struct

from accredit.base.caching import cache_short_values
from accredit.errors import AnswerError

DECODED_PIECE_BYTES = 65_536
"""How many bytes of decoded content are in memory at once, besides what the reader keeps."""
DECODED_STEP_BYTES = 1_048_576
"""How many bytes of an answer are decoded in one step. This takes some milliseconds."""
ENCODED_STEP_BYTES = 262_144
"""How many bytes of a compressed answer are read in one step. With some 13,000 empty gzip members in them, this takes
some 30 ms."""
MAX_GZIP_MEMBERS = 100_000
"""How many members one gzip stream may have. Each costs about a microsecond to set up, and may have only 20 bytes.
Writers that split their output (bgzip) make a member per 64 KiB."""


_CODINGS = (b"gzip", b"deflate", b"br")
_ALIASES = {b"x-gzip": b"gzip"}
_IDENTITY = b"identity"
# zlib copies its unread input with each piece of output: small slices keep that cheap.
_SLICE_BYTES = 16_384
# The library's output grows in blocks of 32 KiB or more until it exceeds the given limit.
_BROTLI_BYTES = 16_384
_GZIP, _ZLIB, _RAW = 31, 15, -15
_ZLIB_HEADER = b"\x78"
"""The first byte of deflate with a window of 32 KiB, as all encoders write it."""


class Decoder(Protocol):
    """Decodes one body, piece by piece. Empty input is allowed in any coding."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what `data` decodes to, in pieces of at most `DECODED_PIECE_BYTES`. Read it to its end."""
        ...

    def finish(self) -> None:
        """Raise `AnswerError` if the body is incomplete."""
        ...

    def window(self, data: bytes = b"") -> int:
        """Return how many bytes of output the decoder keeps, or may keep while it decodes `data`: a few bytes can fill
        the window before any output comes. Return 0 where the window is 32 KiB at most."""
        ...

    def coding_of(self, raw: bytes) -> bytes:
        """Return the coding's name if the whole body, `raw`, has the form that all decoders read alike. Otherwise
        return b""."""
        ...


def open_decoder(coding: bytes | None) -> Decoder | None:
    """Return a decoder for a `Content-Encoding`, or None if there is nothing to decode.

    Raises `AnswerError` for an unknown coding, and for more than one.
    """
    match (coding or _IDENTITY).strip().lower():
        case b"identity":
            return None
        case b"gzip" | b"x-gzip":
            return _Inflater(gzip=True)
        case b"deflate":
            return _Inflater(gzip=False)
        case b"br":
            return _BrotliDecoder()
        case _:
            raise AnswerError("a Content-Encoding that is not gzip, deflate or br")


class Decoded(Struct, frozen=True):
    """A decoded body, and the coding in which its raw form may be forwarded. The coding is b"" if other decoders could
    read the raw form differently."""

    text: bytes
    coding: bytes = b""


def decode_answer(raw: bytes, coding: bytes | None, limit: int) -> Generator[int, None, Decoded]:
    """Decode a whole body in steps of some milliseconds. Each step yields how much memory is in use so far: the decoded
    bytes, or the decoder's window if that is larger. Raises `AnswerError` as soon as the decoded bytes exceed `limit`.

    If a body needs more than one step and its window is large, decoding starts again after the first step, so that no
    window is held while the body waits for room. A body of a single step needs no room, as its window is gone before
    anything else runs.
    """
    decoder = open_decoder(coding)
    if decoder is None:
        return Decoded(raw)
    window = decoder.window(raw[:1])
    steps = _decode(decoder, raw, limit)
    while True:
        try:
            size = next(steps)
        except StopIteration as last:
            return last.value
        if decoder is not None and window > DECODED_STEP_BYTES:  # only Brotli's is
            decoder = None
            steps.close()
            steps = _decode(_BrotliDecoder(), raw, limit)
        yield max(window, size)


def _decode(decoder: Decoder, raw: bytes, limit: int) -> Generator[int, None, Decoded]:
    body, step_ends = BytesIO(), DECODED_STEP_BYTES
    for start in range(0, len(raw), ENCODED_STEP_BYTES):
        if start:
            yield body.tell()
        for piece in decoder.feed(raw[start : start + ENCODED_STEP_BYTES]):
            if body.tell() + len(piece) > limit:
                raise AnswerError(f"decoded, the answer is larger than {limit} bytes", bound=True)
            body.write(piece)
            if body.tell() >= step_ends:
                step_ends += DECODED_STEP_BYTES
                yield body.tell()
    decoder.finish()
    return Decoded(body.getvalue(), decoder.coding_of(raw))


@cache_short_values(64)
def accepted_codings(accepted: bytes | None) -> bytes:
    """Return the `Accept-Encoding` for the upstream: the codings that the client accepts and that can be decoded here.

    They are in the client's order of preference. If none is left, it is `identity`. A weight that is not a number
    counts as 0.
    """
    weights: dict[bytes, float] = {}
    for element in (accepted or b"").lower().split(b","):
        name, _, parameters = element.partition(b";")
        name = name.strip()
        weights.setdefault(_ALIASES.get(name, name), _weight(parameters))
    otherwise = weights.get(b"*", 0.0)
    known = {name: weights.get(name, otherwise) for name in (*weights, *_CODINGS) if name in _CODINGS}
    chosen = sorted((name for name, weight in known.items() if weight > 0), key=lambda name: -known[name])
    return b", ".join(chosen) or _IDENTITY


def _weight(parameters: bytes) -> float:
    name, _, value = parameters.partition(b"=")
    if not parameters.strip():
        return 1.0
    try:
        return float(value) if name.strip() == b"q" else 0.0
    except ValueError:
        return 0.0


class _Inflater:
    """Decodes gzip, with any number of members, or deflate, with zlib's frame (as it should be) or without."""

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        self._members = 0
        self._stream = zlib.decompressobj()

    def window(self, data: bytes = b"") -> int:
        return 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        try:
            for start in range(0, len(data), _SLICE_BYTES):
                yield from self._inflate(data[start : start + _SLICE_BYTES])
        except zlib.error:
            raise AnswerError("a compressed body that is damaged") from None

    def finish(self) -> None:
        if self._members and not self._stream.eof:
            raise AnswerError("a compressed body that is cut off")

    def coding_of(self, raw: bytes) -> bytes:
        if self._gzip:
            return b"gzip" if self._members == 1 else b""  # some decoders stop after the first
        # Some decoders expect a raw stream. To them this first byte starts a stored block, whose length follows, plain
        # and then inverted.
        stored = len(raw) > 4 and raw[1] ^ raw[3] == raw[2] ^ raw[4] == 0xFF
        return b"deflate" if raw[:1] == _ZLIB_HEADER and not stored else b""

    def _inflate(self, data: bytes) -> Iterator[bytes]:
        full = False
        while data or full:
            if not self._members or self._stream.eof:
                self._begin(data[0])
            stream = self._stream
            piece = stream.decompress(data, DECODED_PIECE_BYTES)
            full = len(piece) == DECODED_PIECE_BYTES and not stream.eof
            data = stream.unused_data if stream.eof else stream.unconsumed_tail
            if piece:
                yield piece

    def _begin(self, first: int) -> None:
        self._members += 1
        if self._gzip:
            if self._members > MAX_GZIP_MEMBERS:
                raise AnswerError("a compressed body of too many members", bound=True)
            self._stream = zlib.decompressobj(_GZIP)
            return
        if self._members > 1:
            raise AnswerError("bytes after the end of a compressed body")
        # zlib's frame starts with the method, 8; no encoder starts a raw stream with these four bits.
        self._stream = zlib.decompressobj(_ZLIB if first & 0x0F == 8 else _RAW)


class _BrotliDecoder:
    def __init__(self) -> None:
        self._begun = False
        self._stream = brotli.Decompressor()
        self._largest = self._decoded = 0
        self._full = False

    def window(self, data: bytes = b"") -> int:
        if data and not self._begun:
            return _brotli_window(data[0])
        return self._largest if data or self._full else min(self._decoded, self._largest)

    def feed(self, data: bytes) -> Iterator[bytes]:
        if data and not self._begun:
            self._begun, self._largest = True, _brotli_window(data[0])
        try:
            for start in range(0, len(data), _SLICE_BYTES):
                last = start + _SLICE_BYTES >= len(data)
                piece = self._stream.process(data[start : start + _SLICE_BYTES], output_buffer_limit=_BROTLI_BYTES)
                while piece:
                    self._decoded += len(piece)
                    after = self._stream.process(b"", output_buffer_limit=_BROTLI_BYTES)
                    self._full = bool(after) or not last
                    yield piece
                    piece = after
            self._full = False
        except brotli.error:
            raise AnswerError("a compressed body that is damaged") from None

    def finish(self) -> None:
        if self._begun and not self._stream.is_finished():
            raise AnswerError("a compressed body that is cut off")

    def coding_of(self, raw: bytes) -> bytes:
        return b"br" if raw else b""


def _brotli_window(first: int) -> int:
    """Return how many bytes a stream's window may have, by its first byte (RFC 7932 section 9.1): up to 16 MiB."""
    if not first & 1:
        return 1 << 16
    high, low = first >> 1 & 7, first >> 4 & 7
    return 1 << (17 + high if high or not low else 8 + low)
