"""Server-sent events: an incremental parser that keeps the bytes, and a writer. No I/O.

Source: WHATWG HTML, "Server-sent events" (9.2.5, 9.2.6). Lines end with LF, CRLF or CR. A blank line ends an event. One
byte order mark at the start is skipped. However the stream is split into chunks, the events are the same (except for
empty ones), and their `raw` bytes concatenated are the stream.
"""

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from accredit.errors import AnswerError
from accredit.jsonrpc.lines import on_one_line
from accredit.jsonrpc.text import is_utf8

MAX_EVENT_LINES = 100_000
"""The most lines of one server-sent event. Servers write one to four; indented JSON of a megabyte makes some 40,000.
Each line costs a microsecond, so one-byte lines would cost more than any other input."""
EVENTS_PIECE_BYTES = 16_384
"""How many bytes of an event stream, or of a child's lines, are judged before others are served. With the smallest
events (three bytes each) that takes some 15 ms."""


_BLANK_LINES = re.compile(rb"[\r\n]+")
_FIELD = re.compile(rb"(data|event|id)(?:: ?|\Z)")
_BOM = b"\xef\xbb\xbf"

_USUAL = ((b"event: message\ndata: ", b"message"), (b"data: ", None))

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment that keeps an idle stream open."""


class Event(Struct, frozen=True):
    """One event. `data` is None if it has no `data` field (a comment, a lone `retry` or `id`). `in_utf8` says whether
    all its other lines are UTF-8."""

    raw: bytes
    data: bytes | None = None
    name: bytes | None = None
    id: bytes | None = None
    in_utf8: bool = True


class SseParser:
    """Splits the bytes of a stream into events.

    An event longer than `limit` bytes, or with more lines than `MAX_EVENT_LINES`, raises `AnswerError`, even before it
    is complete. Lines are read as they arrive, so little is left to do at the end of an event.
    """

    __slots__ = ("_buffer", "_data", "_id", "_in_utf8", "_limit", "_line", "_lines", "_name", "_scanned", "_started")

    def __init__(self, limit: int) -> None:
        self._buffer = bytearray()
        self._limit = limit
        self._started = False
        self._begin()

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that `chunk` completes, in order. The caller has to read this generator to its end, or to an
        error."""
        if not self._buffer and (event := self._usual(chunk)) is not None:
            self._started = True
            yield event
            return
        self._buffer += chunk
        if not self._started and not self._start():
            return
        while end := self._end_of_event():
            yield self._event(end)  # which is held nowhere here: it may be large
        self._check(len(self._buffer))

    def _event(self, end: int) -> Event:
        raw = bytes(memoryview(self._buffer)[:end])
        del self._buffer[:end]
        data = b"\n".join(self._data) if self._data else None
        event = Event(raw, data, self._name, self._id, self._in_utf8)
        self._begin()
        self._check(end)
        return event

    @property
    def size(self) -> int:
        """The number of bytes of the incomplete event."""
        return len(self._buffer)

    @property
    def pending(self) -> bool:
        """Whether the stream is in the middle of an event."""
        return bool(self._buffer)

    def _begin(self) -> None:
        """Start a new event."""
        self._line = self._scanned = self._lines = 0
        self._data: list[bytes] = []
        self._name: bytes | None = None
        self._id: bytes | None = None
        self._in_utf8 = True

    def _usual(self, chunk: bytes) -> Event | None:
        """Return the event if a chunk is exactly one event in the form that most servers write, with one line of data;
        else None."""
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
        """Return where the first event in the buffer ends; 0 if it has not ended.

        A CR at the end of the buffer may be the first half of a CRLF. If it ends an event, the event is returned at
        once: a following LF opens the next event as a blank line, which is ignored. If it ends any other line, the next
        byte is awaited. Consecutive blank lines count as one empty event: a peer can send millions.
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
            self._lines += 1
            if self._lines > MAX_EVENT_LINES:
                raise AnswerError(f"an event of more than {MAX_EVENT_LINES} lines", bound=True)
            self._read(self._line, end)
            self._line = self._scanned = after

    def _read(self, start: int, end: int) -> None:
        """Read one line. Unknown fields, comments and an id with a NUL are ignored."""
        field = _FIELD.match(self._buffer, start, end)
        with memoryview(self._buffer) as whole:
            value = bytes(whole[field.end() if field is not None else start : end])
        if field is not None and field[1] == b"data":
            self._data.append(value)
            return
        self._in_utf8 = self._in_utf8 and is_utf8(value)
        if field is None:
            return
        if field[1] == b"event":
            self._name = value
        elif b"\0" not in value:
            self._id = value

    def _check(self, length: int) -> None:
        if length > self._limit:
            raise AnswerError(f"an event longer than {self._limit} bytes", bound=True)


def _line_end(text: bytes | bytearray, start: int) -> tuple[int, int]:
    """Return where the line containing `start` ends, and where the next one begins. If the line does not end, the first
    is -1."""
    lf = text.find(b"\n", start)
    cr = text.find(b"\r", start, lf if lf >= 0 else len(text))
    if cr < 0:
        return lf, lf + 1
    return cr, cr + 2 if lf == cr + 1 else cr + 1


def pieces(chunk: bytes) -> Iterable[bytes]:
    """Split bytes of a stream into parts of bounded length, so that others are served between them: the bytes may hold
    many tiny events."""
    if len(chunk) <= EVENTS_PIECE_BYTES:
        return (chunk,)
    return (chunk[start : start + EVENTS_PIECE_BYTES] for start in range(0, len(chunk), EVENTS_PIECE_BYTES))


def encode_event(data: bytes, *, name: bytes | None = b"message", id: bytes | None = None) -> bytes:
    """Return one event. Line breaks between JSON tokens become spaces, since each line would need a `data` field of its
    own."""
    fields = [b"event: ", name, b"\n"] if name is not None else []
    if id is not None:
        fields += [b"id: ", id, b"\n"]
    return b"".join((*fields, b"data: ", on_one_line(data), b"\n\n"))
