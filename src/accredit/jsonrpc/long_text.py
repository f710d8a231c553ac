"""Reads long answers in steps, between which others are served. Does the same as `text` and `objects`, one piece at a
time. No I/O.

C code that reads 100 MiB in one call blocks all other calls, whichever thread runs it. So a text is cut after commas
that stand outside strings. The brackets open at each cut are known. Written before and after a piece, they make it a
JSON text of its own; if all pieces are valid, so is the whole. Then all values nested deeper than the requested members
are left out, which gives a short text with the same members. Their values are views of the whole text.

Verdicts and reasons are those for short texts, in the same order (`tests/property/test_long_text.py`).
"""

import codecs
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate

import msgspec
from msgspec import Raw

from accredit.base.steps import Steps
from accredit.errors import FrameError, JsonError
from accredit.jsonrpc.objects import (
    MAX_MEMBERS,
    SEARCHED_BYTES,
    Names,
    check_names,
    is_object,
    members,
    pairs,
    parts_of,
    unambiguous_members,
)
from accredit.jsonrpc.simd import ONE_PASS_BYTES, reads_well
from accredit.jsonrpc.text import (
    ALL_BUT,
    ALL_BUT_ESCAPES,
    BRACKETS,
    MAX_NUMBER_BYTES,
    NUMBERS,
    STEPS,
    ExtremeNumbers,
    may_be_infinite,
    too_deep,
    too_large,
)
from accredit.limits import LONG_ANSWER_BYTES, MAX_DEPTH

# A piece from which a long string is cut consists of two slices and the brackets around them.
_SLICE = ONE_PASS_BYTES // 2 - 1_024
# A comma is searched in at most this many parts outside strings, from a slice's end: each part without one changes the
# level.
_SEGMENTS = 4 * MAX_DEPTH
# The longest escape that must not be cut is a surrogate pair, `\\ud83d\\ude00`.
_ESCAPE_BYTES = 12
_HIGH_SURROGATE = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")
_BEFORE_A_VALUE = re.compile(rb'[ \t\r\n]*+[{,][ \t\r\n]*+"(?:[^"\\]++|\\.)*+"[ \t\r\n]*+:[ \t\r\n]*+', re.DOTALL)
_CLOSING = bytes.maketrans(b"[{", b"]}")
_skip = msgspec.json.Decoder(Raw).decode
_NOT_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_BLANKS = b" \t\r\n"
_FIRST = re.compile(rb"[ \t\r\n]*+(?!\{)")


def members_in_steps(text: bytes | memoryview, names: Names) -> Steps[dict[str, Raw]]:
    """Do what `check_text` and `unambiguous_members` do, in steps. Raises `FrameError`."""
    listed = yield from pairs_in_steps(text)
    check_names([name for name, _ in listed], names)
    return dict(listed)


def pairs_in_steps(text: bytes | memoryview) -> Steps[list[tuple[str, Raw]]]:
    """Do what `check_text` and `pairs` do, in steps. Raises `FrameError`."""
    if _FIRST.match(text):  # the first byte shows that it is no object
        yield from check_in_steps(text)
        return pairs(bytes(text))
    reading = _Reading(text)
    while reading.goes_on:
        reading.take_slice()
        yield
    if not reading.sure:
        yield from check_in_steps(text)
    if reading.problem is not None:
        raise reading.problem()
    return reading.found


def check_in_steps(text: bytes | memoryview) -> Steps[None]:
    """Do what `check_text` does, in steps. Raises `JsonError`."""
    if text[:3] == codecs.BOM_UTF8:
        raise JsonError("the body starts with a byte order mark")
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(text), _SLICE):
            decoder.decode(text[start : start + _SLICE], start + _SLICE >= len(text))
            yield
    except UnicodeDecodeError:
        raise JsonError("the body is not UTF-8") from None
    depth = 0
    for part in outside_strings(text, BRACKETS):
        steps = part.translate(STEPS)
        if max(accumulate(memoryview(steps).cast("b"), initial=depth)) > MAX_DEPTH:
            raise too_deep()
        depth += 2 * steps.count(1) - len(steps)
        yield
    for start in range(0, len(text), _SLICE):
        if may_be_infinite(text, start, _SLICE):
            yield from _check_numbers(text)
            return
        yield


def _check_numbers(text: bytes | memoryview) -> Steps[None]:
    extremes, word = ExtremeNumbers(), bytearray()
    for part in outside_strings(text):
        *ended, rest = part.translate(NUMBERS).split(b" ")
        if ended:
            word += ended[0]
            if not extremes.are_finite([bytes(word), *ended[1:]]):
                raise too_large()
            word.clear()
        word += rest
        if len(word) > MAX_NUMBER_BYTES:
            raise too_large()
        yield
    if not extremes.are_finite([bytes(word)]):
        raise too_large()


def outside_strings(text: bytes | memoryview, keep: bytes = b"") -> Iterator[bytes]:
    """Yield the text that is outside strings, slice by slice. If `keep` is given, yield only those of its bytes that
    are in `keep`."""
    inside, carried = 0, b""
    for start in range(0, len(text), _SLICE):
        part = bytes(text[start : start + _SLICE])
        part = carried + (part.translate(None, ALL_BUT_ESCAPES[keep]) if keep else part)
        part = part.replace(b"\\\\", b"").replace(b'\\"', b"")
        carried = b"\\" if part.endswith(b"\\") else b""
        part = part.removesuffix(carried)
        if keep:
            part = part.translate(None, ALL_BUT[keep])
        parts = part.split(b'"')
        yield b"".join(parts[inside::2])
        inside ^= (len(parts) - 1) & 1


def object_in_steps(value: Raw) -> Steps[dict[str, Raw]]:
    """Return an object's members by name (the last of duplicates), in steps if it is long; empty for any other value.
    Raises `FrameError`."""
    if not is_object(value):
        return {}
    if len(value) <= LONG_ANSWER_BYTES:
        return members(value)
    return dict((yield from pairs_in_steps(memoryview(value))))


def unambiguous_in_steps(value: bytes | Raw, names: Names) -> Steps[dict[str, Raw]]:
    """Do what `unambiguous_members` does, for an object that `text` has checked; in steps if it is long. Raises
    `FrameError`."""
    if len(value) <= LONG_ANSWER_BYTES:
        return unambiguous_members(value, names)
    return (yield from members_in_steps(memoryview(value), names))


def may_hold_any(value: Raw, *texts: bytes) -> Steps[bool]:
    """Return whether some string in a value may contain any of these texts (`may_hold`), in steps if the value is long.
    False is certain."""
    if len(value) <= SEARCHED_BYTES:
        whole = bytes(value)
        return b"\\u" in whole or any(text in whole for text in texts)
    for part in parts_of(value, max(map(len, texts))):
        if b"\\u" in part or any(text in part for text in texts):
            return True
        yield
    return False


def masked_slice(text: bytes | memoryview, start: int) -> bytes:
    """Return the slice that begins at `start`, cut so that no escape is split.

    Escaped backslashes and quotes are masked, so every remaining quote begins or ends a string.
    """
    masked = bytes(text[start : start + _SLICE])
    last = start + _SLICE >= len(text)
    if b"\\" in masked:
        masked = masked.replace(b"\\\\", b"__").replace(b'\\"', b"__")
        if not last:
            masked = masked.removesuffix(b"\\")
            at = masked.find(b"\\u", max(len(masked) - _ESCAPE_BYTES + 1, 0))
            if at > 6:
                masked = masked[: at - 6 if _HIGH_SURROGATE.fullmatch(masked, at - 6, at) else at]
    if not last:  # nor a character split
        while len(masked) > 1 and text[start + len(masked)] & 0xC0 == 0x80 and len(masked) > _SLICE - 4 - _ESCAPE_BYTES:
            masked = masked[:-1]
    return masked


def _last_comma(masked: bytes, inside: bool) -> int:
    """Return the position of the last comma outside strings in a masked slice, or -1 if there is none near its end.

    `inside` says whether the slice ends inside a string.
    """
    end = len(masked)
    for _ in range(_SEGMENTS):
        quote = masked.rfind(b'"', 0, end)
        if not inside:
            comma = masked.rfind(b",", quote + 1, end)
            if comma >= 0:
                return comma
        if quote < 0:
            return -1
        end, inside = quote, not inside
    return -1


def _opening_brackets(stack: bytes) -> bytes:
    """Return the text that opens these brackets, so that a member or element can be written after it."""
    return stack[:-1].replace(b"{", b'{"":') + stack[-1:]


def _element(stack: bytes) -> bytes:
    return b"0" if stack.endswith(b"[") else b'"":0'


def _closing_brackets(stack: bytes) -> bytes:
    return stack[::-1].translate(_CLOSING)


class _Reading:
    """An object read slice by slice. `sure` says that the rules for its text are known to hold. If it breaks a rule,
    `problem` is a function that makes the error. The error itself is not kept, since its traceback would hold the text.

    A piece is the text between two cuts; each piece is checked. A part is the text between two cuts at the object's own
    level. An `envelope` is a part without its deeper values: from it the part's members are read, and added to `found`.
    """

    def __init__(self, text: bytes | memoryview) -> None:
        self.found: list[tuple[str, Raw]] = []
        self.problem: Callable[[], FrameError] | None = None
        self.sure = text[:3] != codecs.BOM_UTF8
        self._text = text
        self._at = 0
        self._inside = False
        self._stack = b""
        self._cuts_string = False
        """Whether the rest of the current string may be left out. A string that could be a member's name must be kept
        whole."""
        self._piece: list[tuple[int, int]] = []
        """The ranges of the text that make up the piece so far."""
        self._piece_stack = b""
        self._lowest = 0
        """The lowest level that the piece reaches."""
        self._envelope: list[bytes | memoryview] = []
        self._length = 0
        self._whole = True
        self._kept_stack = b""
        """The brackets open at the end of the envelope."""
        self._places: list[tuple[int, int]] = []
        """Where each range that was kept begins: its position in the envelope, and in the whole text."""

    @property
    def goes_on(self) -> bool:
        """Whether there is more to read."""
        return self._at < len(self._text) and self.problem is None

    def take_slice(self) -> None:
        """Read on: to the last comma of the next slice or, if there is none, to the slice's end."""
        start, masked = self._at, masked_slice(self._text, self._at)
        if self._inside and b'"' not in masked:
            self._at += len(masked)
            self._take_string(start)
            return
        inside = bool((masked.count(b'"') & 1) ^ self._inside)
        comma = _last_comma(masked, inside)
        if comma >= 0:
            masked, inside = masked[: comma + 1], False
        self._at += len(masked)
        if not self._inside and (masked.isdigit() or not masked.strip(_BLANKS)):
            self._piece.append((start, start + 1))  # one stands for any number of blanks, or of digits within a number
            self._whole = False
            self.sure = self.sure and not masked.isdigit()
        else:
            self._piece.append((start, self._at))
        if self._follow(masked):
            if inside:
                self._cuts_string = len(self._stack) > 1 or masked[: masked.rfind(b'"')].rstrip(_BLANKS).endswith(b":")
            self._inside = inside
            if comma >= 0 or self._at == len(self._text):
                self._end_piece()

    def _take_string(self, start: int) -> None:
        """Read a slice that lies wholly inside a string, which is longer than a slice. `start` is where the slice
        begins."""
        if not self._cuts_string:
            self._piece.append((start, self._at))
        elif self._is_valid(b'"%b"' % self._text[start : self._at]):
            self._whole = False
        else:
            self._fail()
            return
        if self._at == len(self._text):
            self._fail()  # it has no end

    def _follow(self, masked: bytes) -> bool:
        """Note which brackets are open after this slice, and the smallest number that were open within it. Return False
        if they can't be valid."""
        parts = masked.translate(None, ALL_BUT[BRACKETS]).replace(b'""', b"").split(b'"')
        brackets = b"".join(parts[self._inside :: 2])
        if not brackets:
            return True
        steps = memoryview(brackets.translate(STEPS)).cast("b")
        try:
            levels = bytes(accumulate(steps, initial=len(self._stack)))
        except ValueError:  # more brackets are closed than opened, or nested far too deep
            self._fail()
            return False
        self.sure = self.sure and max(levels) <= MAX_DEPTH
        lowest, now = min(levels), levels[-1]
        self._lowest = min(self._lowest, lowest)
        # The bracket that opened a level is the first after the last position below that level.
        self._stack = self._stack[:lowest] + bytes(brackets[levels.rfind(level)] for level in range(lowest, now))
        return True

    def _end_piece(self) -> None:
        piece = b"".join(self._text[start:end] for start, end in self._piece)
        if self._piece_stack:  # there is a comma on either side, so something must follow
            piece = _opening_brackets(self._piece_stack) + _element(self._piece_stack) + b"," + piece
        if self._at < len(self._text):
            piece += _element(self._stack) + _closing_brackets(self._stack)
        if not self._is_valid(piece):
            self._fail()
            return
        if self._lowest > 1:
            self._whole = False
        else:
            self._keep()
        self._piece, self._piece_stack, self._lowest = [], self._stack, len(self._stack)
        if len(self._stack) == 1 or self._at == len(self._text):
            self._end_part()

    def _keep(self) -> None:
        if self._kept_stack != self._piece_stack:
            # A placeholder for what was left out: it closes what was open, and opens what is open now.
            self._put(
                _element(self._kept_stack)
                + _closing_brackets(self._kept_stack[2:])
                + b","
                + _opening_brackets(self._piece_stack[1:])[1:]
            )
        for start, end in self._piece:
            self._places.append((self._length, start))
            self._put(self._text[start:end])
        self._kept_stack = self._stack

    def _put(self, part: bytes | memoryview) -> None:
        self._envelope.append(part)
        self._length += len(part)

    def _fail(self) -> None:
        self.sure = False
        self._keep()
        self._end_part()
        if self.problem is None:
            self.problem = partial(JsonError, "not valid JSON")

    def _end_part(self) -> None:
        envelope = b"".join(self._envelope)
        if self._at < len(self._text) and self.problem is None and envelope.endswith(b","):
            envelope = envelope[:-1] + b"}"
        try:
            listed = pairs(envelope, MAX_MEMBERS - len(self.found))
        except FrameError as error:
            self.sure, self.problem = False, partial(type(error), error.detail, bound=error.bound)
            return
        self.found += listed if self._whole else self._in_the_whole(envelope, listed)
        # The next part is an object of its own.
        self._envelope, self._length, self._places, self._whole = list[bytes | memoryview]((b"{",)), 1, [], True

    def _is_valid(self, piece: bytes) -> bool:
        if reads_well(piece):
            return True
        self.sure = False
        try:
            _skip(piece)
        except _NOT_JSON:
            return False
        return True

    def _in_the_whole(self, envelope: bytes, listed: list[tuple[str, Raw]]) -> Iterator[tuple[str, Raw]]:
        """Yield the members that were read from the envelope, with their complete values from the whole text."""
        at, text = 0, memoryview(self._text)
        for name, value in listed:
            before = _BEFORE_A_VALUE.match(envelope, at)
            assert before is not None  # noqa: S101 - it is valid, and this is its next member
            at = before.end() + len(value)
            yield name, Raw(text[self._place(before.end()) : self._place(at - 1) + 1])

    def _place(self, at: int) -> int:
        """Return the position in the whole text of a byte of the envelope."""
        began, start = self._places[bisect_right(self._places, (at, len(self._text))) - 1]
        return start + at - began
