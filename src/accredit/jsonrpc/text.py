"""Strict JSON text: the checks that a body must pass before it is parsed. No I/O.

`msgspec` parses. It skips `Raw` values instead of decoding them, so this module refuses faults that `msgspec`
overlooks. A text is

- [utf-8] UTF-8 without BOM;
- [depth] nested at most `MAX_DEPTH` deep, which is found without recursion;
- [finite] with numbers that every parser reads as finite (`1e999` is Infinity to some).

All checks are passes of C code, linear in the text. A pass that creates objects, or a copy, works on slices.

`simdjson` does most of the work in one pass, two to eight times faster (`reads_well`). It can confirm a text, but never
refuses one. It accepts two kinds of text that the passes refuse: with a byte order mark, and nested up to 1,024 deep.
These are excluded separately. It also rejects some good texts (with integers beyond 64 bits), so a text that it rejects
is checked again by the passes, which give the reason. Where it is not installed, it confirms nothing.

A bracket takes C code ten times as long to skip as any other byte, and 16 MiB of text can hold sixteen million. So the
number of arrays and objects is bounded first: `check_amount` for requests, `check_structures` for answers.
"""

import codecs
import math
import re
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, Protocol

from msgspec import Raw

from accredit.errors import FrameError, JsonError
from accredit.limits import MAX_DEPTH, MAX_VALUES

try:
    from simdjson import Parser
except (ImportError, RuntimeError):  # wheels exist for common machines only
    Parser = None

ONE_PASS_BYTES = 262_144
"""The most bytes of a text that the fast parser reads in one pass (some 0.2 ms). Longer texts are read in slices. The
parser reserves up to 14 times as much memory, but uses only what the largest text so far needed."""


_BOM_BEGINS = 0xEF
_parse: Callable[[bytes], Any] | None = Parser(ONE_PASS_BYTES).parse if Parser is not None else None


class ParsedObject(Protocol):
    """A parsed object, duplicate members included. While it is in use, the parser can't parse anything else."""

    def __len__(self) -> int:
        """Return the number of members."""
        ...

    def __iter__(self) -> Iterator[str]:
        """Yield the name of each member."""
        ...

    def __getitem__(self, name: str) -> object:
        """Return the value of the first member of this name."""
        ...


def reads_well(data: bytes) -> bool:
    """Return whether a text is certain to be UTF-8 without a byte order mark, and valid JSON with finite numbers only.

    Depth and ambiguous names are not checked. False means undecided.
    """
    if _parse is None or not 0 < len(data) <= ONE_PASS_BYTES or data[0] == _BOM_BEGINS:
        return False
    try:
        _parse(data)
    except (ValueError, RuntimeError, MemoryError):
        return False
    return True


def parsed_object(data: bytes) -> ParsedObject | None:
    """Return the object in a text that begins with `{`, if it is certain to be valid (`reads_well`)."""
    if _parse is None or len(data) > ONE_PASS_BYTES:
        return None
    try:
        return _parse(data)
    except (ValueError, RuntimeError, MemoryError):
        return None


MAX_EXTREME_NUMBERS = 10_000
"""The most numbers of 1e100 and more in one body. Each is converted to find out whether it is finite (0.5 us). Real
data has a few such numbers, as markers (1.7976931348623157e308)."""
MAX_STRUCTURES = 65_536
"""The most arrays, objects and members of objects in a request, at every depth. Each costs three times as much as a
number. Real requests have a few hundred; a map with 20,000 points has 40,000."""
MAX_ANSWER_STRUCTURES = 1_048_576
"""The most arrays and objects in an answer, at every depth. Tool definitions that consist only of schemas have one per
22 bytes."""
MAX_NUMBER_BYTES = 1_048_576
"""The most bytes of a JSON number that is checked for finiteness; a longer one counts as too large. The fast parser
reads texts of at most `ONE_PASS_BYTES`, so it meets no longer number."""


_SLICE = 1 << 18

# Digits and the plus sign become "0", exponent letters "e", opening brackets "[": so that one search finds every
# exponent of three digits and more, and one count bounds the depth.
_SHAPE = bytes.maketrans(b"0123456789+Ee{", b"00000000000ee[")
_LONG_EXPONENT = b"0e000"
# A number overflows a double from 309 digits on; with an exponent of two digits from 209 on.
_LONG_DIGITS = b"0" * 200
_EXTREME_NUMBER = re.compile(
    rb"-?[0-9](?:[0-9]*+(?:\.[0-9]++)?[eE]\+?[0-9]{3,}+|[0-9]{199,}+(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)"
)
# Numbers, separated by blanks; of words only an `e` remains, which is no number. The plus signs are left out.
_NUMBERS = bytes(byte if byte in b"0123456789.+-eE" else ord(" ") for byte in range(256))

# What may follow a backslash, and the backslash itself.
_ESCAPED = b"\\/bfnrtu"
_BRACKETS = b"[]{}"
_OPENING = b"[{"
_STRUCTURE = b"[{:,"
LIST_STRUCTURE = b"[]{},"
_COLONS = b":"
_ALL_BUT = {
    keep: bytes(set(range(256)) - set(b'"' + keep))
    for keep in (_BRACKETS, _OPENING, LIST_STRUCTURE, _STRUCTURE, _COLONS)
}
_ALL_BUT_ESCAPES = {keep: bytes(set(dropped) - set(_ESCAPED)) for keep, dropped in _ALL_BUT.items()}
# In a long text, up to this many brackets are found faster one by one than by counting all; most messages have fewer.
_FEW_BRACKETS = 16
_SHORT = 2_048
# As signed bytes: an opening bracket is 1, a closing one -1.
STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_THERE_AND_BACK = b"\x01\xff"
# Most brackets of real data are on the two innermost levels; removing one costs a fifth of counting it.
_TAKEN_LEVELS = 2


def check_text(data: bytes) -> None:
    """Check [utf-8], [depth] and [finite], together if possible, else one by one. Raises `JsonError`."""
    if not reads_well(data) or is_too_deep(data):
        check_each_rule(data)


def is_too_deep(data: bytes) -> bool:
    """Return whether a valid text breaks [depth]."""
    return len(data) > 2 * MAX_DEPTH and depth_exceeds(data, MAX_DEPTH)  # each level has two brackets


def check_each_rule(data: bytes) -> None:
    """Check [utf-8], [depth] and [finite], one after the other. Raises `JsonError`."""
    if data.startswith(codecs.BOM_UTF8):
        raise JsonError("the body starts with a byte order mark")
    check_utf8(data)
    opened, extreme = 0, False
    for start in range(0, len(data), _SLICE):
        shape = data[start : start + _SLICE + len(_LONG_DIGITS)].translate(_SHAPE)
        if opened <= MAX_DEPTH:  # removing them is the fastest way to count a few
            opened += len(shape) - len(shape.replace(b"[", b"", MAX_DEPTH + 1))
        extreme = extreme or _LONG_EXPONENT in shape or _LONG_DIGITS in shape
    if opened > MAX_DEPTH and depth_exceeds(data, MAX_DEPTH):
        raise too_deep()
    if extreme and not numbers_are_finite(data):
        raise JsonError("a number is too large")


def too_deep() -> JsonError:
    """Return the error for a text that breaks [depth]."""
    return JsonError(f"nested more than {MAX_DEPTH} deep", bound=True)


def check_amount(data: bytes) -> None:
    """Refuse a text with more than `MAX_VALUES` values, or `MAX_STRUCTURES` arrays, objects and members of objects.

    Call it first: the time of all other checks grows with these. Raises `FrameError`.
    """
    if len(data) <= MAX_STRUCTURES or _within_amount(data):
        return
    if not _within_amount(b"".join(outside_strings(data, _STRUCTURE))):
        if depth_exceeds(data[:_SLICE], MAX_DEPTH):
            raise too_deep()
        raise FrameError(f"more than {MAX_VALUES} values, or {MAX_STRUCTURES} arrays, objects and members", bound=True)


def check_structures(data: bytes) -> None:
    """Refuse an answer with more than `MAX_ANSWER_STRUCTURES` arrays and objects. Raises `FrameError`."""
    if len(data) <= 2 * MAX_ANSWER_STRUCTURES:  # each is two brackets
        return
    if data.count(b"[") + data.count(b"{") <= MAX_ANSWER_STRUCTURES:
        return
    if sum(map(len, outside_strings(data, _OPENING))) > MAX_ANSWER_STRUCTURES:
        raise FrameError(f"more than {MAX_ANSWER_STRUCTURES} arrays and objects", bound=True)


def _within_amount(data: bytes) -> bool:
    structures = data.count(b"[") + data.count(b"{") + data.count(b":")
    return structures <= MAX_STRUCTURES and structures + data.count(b",") <= MAX_VALUES


def check_utf8(data: bytes) -> None:
    """Check [utf-8]. Raises `JsonError`."""
    if not is_utf8(data):
        raise JsonError("the body is not UTF-8")


def is_utf8(data: bytes) -> bool:
    """Return whether bytes are UTF-8."""
    if data.isascii():
        return True
    try:
        if len(data) <= _SLICE:
            str(data, "utf-8")
            return True
        decoder = codecs.getincrementaldecoder("utf-8")()
        for start in range(0, len(data), _SLICE):
            decoder.decode(data[start : start + _SLICE], start + _SLICE >= len(data))
    except UnicodeDecodeError:
        return False
    return True


def outside_strings(data: bytes | Raw, keep: bytes = b"") -> Iterator[bytes]:
    """Yield the text that is outside strings, slice by slice. If `keep` is given, yield only those of its bytes that
    are in `keep`."""
    text, inside, carried = memoryview(data), 0, b""
    for start in range(0, len(text), _SLICE):
        part = carried + text[start : start + _SLICE]
        # Escaped backslashes and quotes go first, so that every quote left opens or closes a string. The letters of
        # other escapes must go later: without its n, the backslash of `\n` would join the next one.
        if b"\\" in part:
            if keep:
                part = part.translate(None, _ALL_BUT_ESCAPES[keep])
            part = part.replace(b"\\\\", b"").replace(b'\\"', b"")
        carried = b"\\" if part.endswith(b"\\") else b""
        part = part.removesuffix(carried)
        if keep:
            # Most strings are now two quotes. Pairs that close one string and open the next may go too.
            part = part.translate(None, _ALL_BUT[keep]).replace(b'""', b"")
        parts = part.split(b'"')
        yield b"".join(parts[inside::2])
        inside ^= (len(parts) - 1) & 1


def _has_few_brackets(data: bytes, most: int) -> bool:
    """Return whether at most `most` brackets open, counting those in strings. Quick.

    In a long text it gives up at 17 brackets, and returns False.
    """
    if len(data) <= _SHORT:
        return data.count(b"[") + data.count(b"{") <= most
    most = min(most, _FEW_BRACKETS)
    for bracket in (b"[", b"{"):
        at = data.find(bracket)
        while at >= 0:
            most -= 1
            if most < 0:
                return False
            at = data.find(bracket, at + 1)
    return True


def depth_exceeds(data: bytes, limit: int) -> bool:
    """Return whether brackets outside strings are nested deeper than `limit`."""
    if _has_few_brackets(data, limit):
        return False
    steps = b"".join(outside_strings(data, _BRACKETS)).translate(STEPS)
    # After everything is closed, each removal of all innermost pairs makes it one level less deep.
    steps += b"\xff" * (2 * steps.count(1) - len(steps))
    for _ in range(min(_TAKEN_LEVELS, limit)):
        steps = steps.replace(_THERE_AND_BACK, b"")
        limit -= 1
    if steps.count(1) <= limit:
        return False
    depth = 0
    for start in range(0, len(steps), _SLICE):
        part = steps[start : start + _SLICE]
        if max(accumulate(memoryview(part).cast("b"), initial=depth)) > limit:
            return True
        depth += 2 * part.count(1) - len(part)
    return False


def numbers_are_finite(data: bytes) -> bool:
    """Return whether each number outside strings is finite as an IEEE 754 double (RFC 8259 section 6).

    False also if there are more than `MAX_EXTREME_NUMBERS` that could be too large.
    """
    left, last = MAX_EXTREME_NUMBERS, b""
    for part in outside_strings(data):
        words = last + part.translate(_NUMBERS, b"+")
        end = words.rfind(b" ") + 1
        last = words[end:]  # it may go on
        left -= _count_extreme(words[:end], left)
        if left < 0 or len(last) > MAX_NUMBER_BYTES:
            return False
    return _count_extreme(last, left) <= left


def _count_extreme(words: bytes, most: int) -> int:
    """Return how many of these numbers could be too large; `most + 1` if one is, or if there are more than `most`."""
    found, shape = 0, words.translate(_SHAPE)
    for sign in (_LONG_EXPONENT, _LONG_DIGITS):
        at = shape.find(sign)
        while at >= 0:
            begin, end = words.rfind(b" ", 0, at) + 1, words.find(b" ", at)
            number = _EXTREME_NUMBER.match(words, begin)
            if number is not None:
                found += 1
                if found > most or math.isinf(float(number[0])):
                    return most + 1
            at = shape.find(sign, end) if end >= 0 else -1
    return found


def count_members(data: bytes) -> int:
    """Return the number of members of all objects in a JSON text, at every depth.

    Outside strings, each member has one colon.
    """
    return sum(map(len, outside_strings(data, _COLONS)))
