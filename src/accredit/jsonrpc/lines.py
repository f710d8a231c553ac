"""Stdio framing: one message a line, LF ended (2025-11-25 and 2026-07-28, basic/transports). No I/O."""

from accredit.errors import FrameError


class LineSplitter:
    """Bytes in, lines out, without their ends; blank lines are skipped.

    A line longer than `limit` bytes is not kept: it comes out as a `FrameError` as soon as it has passed the
    bound, also when no newline ever comes, and the rest of it is dropped.
    """

    __slots__ = ("_buffer", "_limit", "_skipping")

    def __init__(self, limit: int) -> None:
        self._buffer = bytearray()
        self._limit = limit
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes | FrameError]:
        """The lines that `chunk` completes, in their order."""
        lines: list[bytes | FrameError] = []
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._take(part, lines)
            if not self._skipping and (line := bytes(self._buffer).strip(b" \t\r")):
                lines.append(line)
            self._buffer.clear()
            self._skipping = False
        self._take(rest, lines)
        return lines

    def _take(self, part: bytes, lines: list[bytes | FrameError]) -> None:
        if self._skipping:
            return
        self._buffer += part
        if len(self._buffer) > self._limit:
            self._buffer.clear()
            self._skipping = True
            lines.append(FrameError(f"a line longer than {self._limit} bytes", bound=True))


def encode_line(text: bytes) -> bytes:
    """A message as a line. JSON text may hold line breaks between its tokens: they become spaces."""
    if b"\n" in text or b"\r" in text:
        text = text.replace(b"\r", b" ").replace(b"\n", b" ")
    return text + b"\n"
