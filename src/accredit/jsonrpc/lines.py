"""Stdio framing: each message is one line, ended by LF (2025-11-25 and 2026-07-28, basic/transports). No I/O."""

from accredit.errors import FrameError
from accredit.jsonrpc.ends import line_too_long
from accredit.limits import LINE_END_BYTES

_ON_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


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
