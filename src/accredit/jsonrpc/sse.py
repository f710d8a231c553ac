"""Server-sent events: an incremental parser that keeps the bytes, and a writer. No I/O.

Source: WHATWG HTML, "Server-sent events" (9.2.5, 9.2.6). Lines end with LF, CRLF or CR; a blank line ends an event; one
byte order mark at the start is skipped. However the stream is split, the events are the same (except for empty ones),
and their `raw` bytes concatenated are the stream.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from accredit.errors import AnswerError
from accredit.jsonrpc.lines import on_one_line
from accredit.limits import MAX_EVENT_LINES

_BLANK_LINES = re.compile(rb"[\r\n]+")
_BOM = b"\xef\xbb\xbf"

_USUAL = ((b"event: message\ndata: ", b"message"), (b"data: ", None))

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment, which keeps an idle stream open and means nothing."""


class Event(Struct, frozen=True):
    """One event. `data` is None if it has no `data` field (a comment, a lone `retry` or `id`)."""

    raw: bytes
    data: bytes | None = None
    name: bytes | None = None
    id: bytes | None = None


class SseParser:
    """Bytes in, events out.

    An event longer than `limit` bytes, or with more lines than `MAX_EVENT_LINES`, raises `AnswerError`, complete or
    not.
    """

    __slots__ = ("_buffer", "_limit", "_line", "_lines", "_scanned", "_started")

    def __init__(self, limit: int) -> None:
        self._buffer = bytearray()
        self._limit = limit
        self._line = self._scanned = self._lines = 0
        self._started = False

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that `chunk` completes, in order. Read it to its end, or to the error."""
        if not self._buffer and (event := self._usual(chunk)) is not None:
            self._started = True
            yield event
            return
        self._buffer += chunk
        if not self._started and not self._start():
            return
        while end := self._end_of_event():
            raw = bytes(memoryview(self._buffer)[:end])
            del self._buffer[:end]
            self._line = self._scanned = self._lines = 0
            self._check(end)
            yield Event(raw) if raw.startswith((b"\r", b"\n")) else _parse(raw)
        self._check(len(self._buffer))

    @property
    def size(self) -> int:
        """How many bytes of an event have come that is not whole yet."""
        return len(self._buffer)

    @property
    def pending(self) -> bool:
        """Whether the stream is in the middle of an event."""
        return bool(self._buffer)

    def _usual(self, chunk: bytes) -> Event | None:
        """Return the event if a chunk is just one, of the form that most servers write: one line of data."""
        for beginning, name in _USUAL:
            if chunk.startswith(beginning):
                end = chunk.find(b"\n", len(beginning))
                whole = (
                    end >= 0 and end + 2 == len(chunk) <= self._limit and chunk.endswith(b"\n") and b"\r" not in chunk
                )
                return Event(chunk, chunk[len(beginning) : end], name) if whole else None
        return None

    def _start(self) -> bool:
        if len(self._buffer) < len(_BOM) and _BOM.startswith(self._buffer):
            return False
        self._started = True
        if self._buffer.startswith(_BOM):
            del self._buffer[: len(_BOM)]
        return True

    def _end_of_event(self) -> int:
        """Return where the first event in the buffer ends; 0 if it does not end yet.

        A CR that ends an event is not held back in case it becomes CRLF: a following LF opens the next event as a blank
        line, which means nothing. A CR that ends any other line is. Consecutive blank lines are one empty event: a peer
        can send millions.
        """
        blank = _BLANK_LINES.match(self._buffer)
        if blank is not None:
            return min(blank.end(), self._limit)
        while True:
            end, after = _line_end(self._buffer, self._scanned)
            if end < 0:
                self._scanned = len(self._buffer)
                return 0
            if end == self._line:
                return after
            if after == len(self._buffer) and self._buffer.endswith(b"\r"):
                self._scanned = end
                return 0
            self._line = self._scanned = after
            self._lines += 1
            if self._lines > MAX_EVENT_LINES:
                raise AnswerError(f"an event of more than {MAX_EVENT_LINES} lines", bound=True)

    def _check(self, length: int) -> None:
        if length > self._limit:
            raise AnswerError(f"an event longer than {self._limit} bytes", bound=True)


def _line_end(text: bytes | bytearray, start: int) -> tuple[int, int]:
    """Return where the line containing `start` ends, and where the next one begins; -1 if it does not end."""
    lf = text.find(b"\n", start)
    cr = text.find(b"\r", start, lf if lf >= 0 else len(text))
    if cr < 0:
        return lf, lf + 1
    return cr, cr + 2 if lf == cr + 1 else cr + 1


def _parse(raw: bytes) -> Event:
    """Read one event, up to its blank line. Unknown fields and comments are ignored, and so is an id with a NUL."""
    data: list[bytes] = []
    name: bytes | None = None
    id: bytes | None = None
    for line in raw.splitlines():
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
        elif field == b"id" and b"\0" not in value:
            id = value
    return Event(raw, b"\n".join(data) if data else None, name, id)


def encode_event(data: bytes, *, name: bytes | None = b"message", id: bytes | None = None) -> bytes:
    """Return one event; JSON text that spans several lines becomes as many `data` fields, or one, where they would be
    too many."""
    if data.count(b"\n") + data.count(b"\r") > MAX_EVENT_LINES:
        data = on_one_line(data)
    lines = [b"data: " + line for line in data.splitlines() or [b""]]
    if id is not None:
        lines.insert(0, b"id: " + id)
    if name is not None:
        lines.insert(0, b"event: " + name)
    return b"\n".join((*lines, b"", b""))
