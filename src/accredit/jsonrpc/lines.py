"""Stdio framing: each message is one line, ended by LF (2025-11-25 and 2026-07-28, basic/transports). No I/O.

Of an overlong line, only the two ends are kept, and what they say is read (`line_too_long`). Programs write a message's
id before or after its long members, among short ones. Those short members are read here by JSON's own rules: forward
from the start to the first object or array, and backward from the last brace to the last object or array. When reading
backward, text inside a string could be mistaken for members, but then the number of its quotes would not be even. The
middle is not examined: a message that repeats a member is invalid anyway.

An id is used only if no reader could find another one at these ends: it occurs once, in one spelling.
"""

import re

from msgspec import Raw

from accredit.errors import FrameError, LineTooLong
from accredit.jsonrpc.objects import as_id, as_string
from accredit.limits import LINE_END_BYTES

_ON_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
_STRING = rb'"(?:[^"\\\x00-\x1f]|\\.)*"'
_SCALAR = rb"(?:%b|-?[0-9][0-9.eE+-]*|true|false|null)" % _STRING
_MEMBER = rb"[ \t\r]*(%b)[ \t\r]*:[ \t\r]*(%b)[ \t\r]*" % (_STRING, _SCALAR)
_FURTHER = re.compile(b"," + _MEMBER)
_NEXT = re.compile(_MEMBER + rb"([,}])")
_NAME = re.compile(rb"[ \t\r]*(%b)[ \t\r]*:" % _STRING)
_REQUESTS, _RESPONSES = frozenset({"method", "params"}), frozenset({"result", "error"})


class LineSplitter:
    """Splits bytes into lines without their line ends. Blank lines are skipped.

    A line longer than `limit` bytes is not kept: it is returned as a `LineTooLong`, with the members that were read at
    its two ends. It is returned when it ends. If it exceeds twice the limit, it is returned at once, since its end may
    never come. A line that does not begin like a message is returned as soon as it exceeds the limit. After `give_up` a
    line counts as overlong, whatever its length.
    """

    __slots__ = ("_buffer", "_detail", "_dropped", "_end", "_head", "_limit", "_told")

    def __init__(self, limit: int) -> None:
        self._buffer = bytearray()
        self._limit = limit
        self._end = min(LINE_END_BYTES, limit // 2)  # so that the two ends don't overlap
        self._head: bytes | None = None
        """The beginning of an overlong line, else None. While it is set, `_buffer` holds the line's most recent
        bytes."""
        self._detail = f"a line longer than {limit} bytes"
        self._dropped = 0
        self._told = False

    @property
    def size(self) -> int:
        """How many bytes are kept of a line that has not ended."""
        return len(self._buffer)

    def give_up(self, detail: str) -> None:
        """Treat the current line as overlong: keep only its two ends. `detail` is the reason."""
        self._detail = detail
        self._drop()

    def feed(self, chunk: bytes) -> list[bytes | FrameError]:
        """Return the lines that `chunk` completes, in order."""
        lines: list[bytes | FrameError] = []
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._take(part, lines)
            if self._head is not None:
                self._tell(bytes(self._buffer), lines)
            elif line := bytes(self._buffer).strip(b" \t\r"):
                lines.append(line)
            self._buffer.clear()
            if self._head is not None:
                self._detail = f"a line longer than {self._limit} bytes"
            self._head, self._dropped, self._told = None, 0, False
        self._take(rest, lines)
        return lines

    def _take(self, part: bytes, lines: list[bytes | FrameError]) -> None:
        self._buffer += part
        if self._head is None and len(self._buffer) <= self._limit:
            return
        head = self._drop()
        message = head.lstrip(b" \t\r").startswith((b"{", b"["))
        if not message or self._dropped + len(self._buffer) > 2 * self._limit:
            self._tell(b"", lines)

    def _drop(self) -> bytes:
        """Drop the middle of the line, and keep its two ends. Return its beginning."""
        if self._head is None:
            self._head = bytes(self._buffer[: self._end])
        beyond = len(self._buffer) - self._end
        if beyond > 0:
            del self._buffer[:beyond]
            self._dropped += beyond
        return self._head

    def _tell(self, tail: bytes, lines: list[bytes | FrameError]) -> None:
        if not self._told and self._head is not None:
            self._told = True
            lines.append(line_too_long(self._detail, self._head, tail))


def encode_line(text: bytes) -> bytes:
    """Return a message as a line. Line breaks between JSON tokens become spaces."""
    return on_one_line(text) + b"\n"


def on_one_line(text: bytes) -> bytes:
    """Return JSON text with spaces in place of line breaks."""
    return text.translate(_ON_ONE_LINE) if b"\n" in text or b"\r" in text else text


def line_too_long(detail: str, head: bytes, tail: bytes) -> LineTooLong:
    """Return the error for an overlong line of which only the two ends are kept. `detail` is the error's text. `tail`
    is b"" if the line has not ended yet."""
    head, tail = head.lstrip(b" \t\r"), tail.rstrip(b" \t\r")
    if not head.startswith(b"{"):
        return LineTooLong(detail, is_message=head.startswith(b"["))
    pairs = [*_first(head), *_last(tail)]
    names = {name for name, _ in pairs}
    ids = [(name, value) for name, value in pairs if name.casefold() == "id"]
    id = as_id(Raw(ids[0][1])) if len(ids) == 1 and ids[0][0] == "id" else None
    kinds = [kind for kind, own in (("call", _REQUESTS), ("response", _RESPONSES)) if names & own]
    return LineTooLong(detail, id=id, kind=kinds[0] if len(kinds) == 1 else "", is_message=True)


def _first(head: bytes) -> list[tuple[str, bytes]]:
    """Return the members before the first long one, and the name of that one without its value."""
    pairs: list[tuple[str, bytes]] = []
    at = 1
    while (member := _NEXT.match(head, at)) is not None:
        pairs.append((as_string(Raw(member[1])) or "", member[2]))
        at = member.end()
    named = _NAME.match(head, at)
    return [*pairs, (as_string(Raw(named[1])) or "", b"")] if named is not None else pairs


def _last(tail: bytes) -> list[tuple[str, bytes]]:
    """Return the members behind the last long one: the longest run of short ones up to the last brace."""
    seen = set[int]()  # where members begin: each is read once
    begun = tail.find(b",")
    while begun >= 0:
        pairs, at = list[tuple[str, bytes]](), begun
        while at not in seen and (member := _FURTHER.match(tail, at)) is not None:
            pairs.append((as_string(Raw(member[1])) or "", member[2]))
            seen.add(at)
            at = member.end()
        if pairs and tail[at:] == b"}":
            return pairs
        begun = tail.find(b",", begun + 1)
    return []
