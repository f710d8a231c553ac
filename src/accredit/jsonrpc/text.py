"""Strict JSON text: what a body must satisfy before anything in it is believed. No I/O.

`msgspec` parses; this module refuses what it lets through unread (`Raw` values are skipped, not decoded):

1. UTF-8 without BOM,
2. nesting at most `MAX_DEPTH` deep, found without recursion and before any parser runs,
3. numbers that every parser reads as finite (`1e999` is Infinity to some),
4. one JSON value with nothing after it (the parser's own check),
5. member names that occur once, also when spelled with escapes: at the top of a message (`members`), or at
   every depth (`check_no_duplicates`).

All checks are passes of C code over the bytes: none loops over a peer's bytes in Python.
"""

import codecs
import contextlib
import json
import re
from collections.abc import Callable

import msgspec
from msgspec import Raw

from accredit.errors import FrameError, JsonError
from accredit.limits import MAX_DEPTH, MAX_ENVELOPE_BYTES, MAX_QUOTED

# Digits and the plus sign become "0", exponent letters "e", opening brackets "[": so that one search finds
# every exponent of three digits and more, and one count bounds the depth.
_SHAPE = bytes.maketrans(b"0123456789+Ee{", b"00000000000ee[")
_LONG_EXPONENT = b"0e000"
# A number overflows a double from 309 digits on; with an exponent of two digits from 209 on.
_LONG_DIGITS = b"0" * 200
_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NOT_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'"\\[]{}')
_PAIR_UP = bytes.maketrans(b"{}", b"[]")
_MIN_BIG_MEMBER = 4096

_decode_object: Callable[[bytes | Raw], dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_array: Callable[[bytes | Raw], list[Raw]] = msgspec.json.Decoder(list[Raw]).decode


def excerpt(text: str | bytes) -> str:
    """At most `MAX_QUOTED` printable ASCII characters of what a peer sent, for an error's text."""
    if isinstance(text, bytes):
        text = text[: MAX_QUOTED * 4].decode("utf-8", "replace")
    return "".join(char if " " <= char <= "~" else "?" for char in text[:MAX_QUOTED])


def check_text(body: bytes | Raw) -> None:
    """Rules 1 to 3 on a whole body. Raises `JsonError`."""
    data = bytes(body)
    if data.startswith(codecs.BOM_UTF8):
        raise JsonError("the body starts with a byte order mark")
    check_utf8(data)
    shape = data.translate(_SHAPE)
    if shape.count(b"[") > MAX_DEPTH and depth_exceeds(data, MAX_DEPTH):
        raise JsonError(f"nested more than {MAX_DEPTH} deep", bound=True)
    if (_LONG_EXPONENT in shape or _LONG_DIGITS in shape) and not numbers_are_finite(data):
        raise JsonError("a number is too large")


def check_utf8(data: bytes) -> None:
    """Rule 1, in slices: a body of 100 MiB is not copied whole to be looked at."""
    if data.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    view = memoryview(data)
    step = 1 << 20
    try:
        for start in range(0, len(data), step):
            decoder.decode(view[start : start + step], start + step >= len(data))
    except UnicodeDecodeError:
        raise JsonError("the body is not UTF-8") from None


def _outside_strings(data: bytes) -> list[bytes]:
    # Escaped backslashes and quotes go first, so that every quote left opens or closes a string.
    return data.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2]


def depth_exceeds(data: bytes, limit: int) -> bool:
    """Whether brackets outside strings are nested deeper than `limit`.

    Each round removes every innermost pair at once, so `limit` rounds suffice. A text with unbalanced brackets
    may count as too deep; it is no JSON either way.
    """
    skeleton = b"".join(_outside_strings(data.translate(None, _NOT_STRUCTURE))).translate(_PAIR_UP)
    for _ in range(limit):
        if not skeleton:
            return False
        skeleton = skeleton.replace(b"[]", b"")
    return bool(skeleton)


def numbers_are_finite(data: bytes) -> bool:
    """Whether each number outside strings is finite as an IEEE 754 double (RFC 8259 section 6)."""
    return all(
        abs(float(match[0])) != float("inf")
        for part in _outside_strings(data)
        for match in _NUMBER.finditer(part)
    )


def split_array(body: bytes | Raw) -> list[Raw]:
    """The elements of one JSON array. Raises `FrameError`."""
    try:
        return _decode_array(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise JsonError("not valid JSON") from None


def members(body: bytes | Raw) -> dict[str, Raw]:
    """The members of one JSON object, in their order, each value's text untouched (rules 4 and 5).

    The text must have passed `check_text`. Raises `FrameError`.
    """
    try:
        found = _decode_object(body)
    except msgspec.ValidationError:
        raise FrameError("not a JSON object") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise JsonError("not valid JSON") from None
    # `{"a":1,"b":2}`: two quotes and a colon a member, a comma between two, two braces. A body of exactly this
    # length has no room for a member that the decoder has overwritten, nor for an escape in a name.
    compact = 4 * len(found) + 1 + sum(map(len, found)) + sum(map(len, map(memoryview, found.values())))
    if len(memoryview(body)) != compact and found:
        _check_top_names(bytes(body), found)
    return found


def _check_top_names(data: bytes, found: dict[str, Raw]) -> None:
    """Rule 5 for an object that is not written compactly: its names are read again, by a reader that sees all.

    A large member is cut out first, so that the time depends on the envelope and not on a peer's payload.
    """
    name, largest = max(found.items(), key=lambda item: len(memoryview(item[1])))
    text = bytes(largest)
    if len(text) >= _MIN_BIG_MEMBER:
        at = data.rfind(text)
        rest = b"".join((data[:at], b"null", data[at + len(text) :]))
        if len(rest) > MAX_ENVELOPE_BYTES:
            raise FrameError("the members beside the largest one are too long")
        pairs = _top_pairs(rest)
        if (name, None) not in pairs:
            raise FrameError(f"a duplicate member: {excerpt(name)}")
    else:
        pairs = _top_pairs(data)
    if len(pairs) != len(found):
        names = [pair[0] for pair in pairs]
        twice = next((name for name in names if names.count(name) > 1), "")
        raise FrameError(f"a duplicate member: {excerpt(twice)}")


def _top_pairs(data: bytes) -> list[tuple[str, object]]:
    # json calls the hook for inner objects first and for the whole last; inner ones are not kept.
    last: list[tuple[str, object]] = []

    def keep(pairs: list[tuple[str, object]]) -> None:
        nonlocal last
        last = pairs

    json.loads(data, object_pairs_hook=keep)
    return last


def check_no_duplicates(data: bytes) -> None:
    """Rule 5 at every depth. The text must have passed `check_text` and be JSON. Raises `FrameError`."""
    with contextlib.suppress(msgspec.MsgspecError):
        if msgspec.json.encode(msgspec.json.decode(data)) == data:
            return  # equal to its own encoding: no decoder has dropped anything
    try:
        json.loads(data, object_pairs_hook=_refuse_duplicates)
    except (ValueError, RecursionError):
        raise JsonError("not valid JSON") from None


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> None:
    names = {name for name, _ in pairs}
    if len(names) != len(pairs):
        seen = [name for name, _ in pairs]
        raise FrameError(f"a duplicate member: {excerpt(next(n for n in seen if seen.count(n) > 1))}")


def check_spelling(names: dict[str, Raw], defined: frozenset[str]) -> None:
    """Refuses a member whose name differs only by case from a defined one.

    Some parsers (Go's among them) take `Name` for `name`, so two readers would see two messages. Case is folded
    as Unicode does it: the Kelvin sign is a k to them too. Raises `FrameError`.
    """
    for name in names:
        if name not in defined and name.casefold() in _folded(defined):
            raise FrameError(f"a member differs only by case from a defined one: {excerpt(name)}")


_FOLDED: dict[frozenset[str], frozenset[str]] = {}


def _folded(defined: frozenset[str]) -> frozenset[str]:
    folded = _FOLDED.get(defined)
    if folded is None:
        folded = _FOLDED[defined] = frozenset(name.casefold() for name in defined)
    return folded


def as_string(raw: Raw | None) -> str | None:
    """The value of a JSON string, or None when it is anything else."""
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw, type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


_INTEGER = re.compile(rb"-?(?:0|[1-9][0-9]*)")


def as_integer(raw: Raw | None) -> int | None:
    """The value of a JSON number written as an integer (1.0 is not, nor is 1e3), or None."""
    if raw is None:
        return None
    text = bytes(raw)
    return int(text) if len(text) < _MIN_BIG_MEMBER and _INTEGER.fullmatch(text) else None


def is_object(raw: Raw | None) -> bool:
    """Whether a value that is known to be valid JSON is an object."""
    return raw is not None and memoryview(raw)[:1] == b"{"
