"""Server-sent events: an incremental parser that keeps the bytes, and a writer. No I/O.

Source: WHATWG HTML, "Server-sent events" (9.2.5, 9.2.6). Lines end with LF, CRLF or CR; a blank line ends an
event; one byte order mark at the start is skipped. Any split of the stream gives the same events (but for
empty ones), and their `raw` bytes put together are the stream.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from accredit.errors import AnswerError

_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
_BOM = b"\xef\xbb\xbf"

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment: it keeps an idle stream open and means nothing."""


class Event(Struct, frozen=True):
    """One event. `data` is None where it has no `data` field (a comment, a lone `retry` or `id`)."""

    raw: bytes
    data: bytes | None = None
    name: bytes | None = None
    id: bytes | None = None


class SseParser:
    """Bytes in, events out; an event longer than `limit` bytes raises `AnswerError`, ended or not."""

    __slots__ = ("_buffer", "_limit", "_scanned", "_started")

    def __init__(self, limit: int) -> None:
        self._buffer = bytearray()
        self._limit = limit
        self._scanned = 0
        self._started = False

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that `chunk` completes, in their order; to be read to its end, or to the error."""
        self._buffer += chunk
        if not self._started and not self._start():
            return
        while end := self._end_of_event():
            raw = bytes(self._buffer[:end])
            del self._buffer[:end]
            self._scanned = 0
            self._check(end)
            yield parse_event(raw)
        self._check(len(self._buffer))

    @property
    def pending(self) -> bool:
        """Whether the stream is in the middle of an event."""
        return bool(self._buffer)

    def _start(self) -> bool:
        if len(self._buffer) < len(_BOM) and _BOM.startswith(self._buffer):
            return False
        self._started = True
        if self._buffer.startswith(_BOM):
            del self._buffer[: len(_BOM)]
        return True

    def _end_of_event(self) -> int:
        """Where the first event in the buffer ends; 0 when it does not yet.

        A CR that ends an event is not waited on to become CRLF: a LF that follows opens the next event as a
        blank line, which means nothing.
        """
        if self._buffer.startswith((b"\r", b"\n")):
            return 2 if self._buffer.startswith(b"\r\n") else 1
        found = _BLANK_LINE.search(self._buffer, self._scanned)
        if found is not None:
            return found.end()
        self._scanned = max(len(self._buffer) - 3, 0)
        return 0

    def _check(self, length: int) -> None:
        if length > self._limit:
            raise AnswerError(f"an event longer than {self._limit} bytes", bound=True)


def parse_event(raw: bytes) -> Event:
    """Reads the fields of one event. Unknown fields and comments are no fields; an id with NUL is ignored."""
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
    """One event; JSON text that spans lines becomes as many `data` fields."""
    lines = [b"data: " + line for line in data.splitlines() or [b""]]
    if id is not None:
        lines.insert(0, b"id: " + id)
    if name is not None:
        lines.insert(0, b"event: " + name)
    return b"\n".join((*lines, b"", b""))
