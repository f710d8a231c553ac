"""A child's stderr, as lines of our log: bounded in length and in number. Logs only.

Whatever the child writes is taken at once, so that it never waits for us; what is over the bounds is left out.
"""

import logging

from accredit.gateway.logs import log_event
from accredit.limits import STDERR_LINE_CHARS, STDERR_LINES_PER_SECOND

_log = logging.getLogger("accredit.gateway.stdio")


class StderrLog:
    """Bytes in, log lines out. Times are the event loop's, in seconds."""

    __slots__ = ("_dropped", "_line", "_pid", "_second", "_written")

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._line = bytearray()
        self._second = 0
        self._written = 0
        self._dropped = 0

    def feed(self, data: bytes, now: float) -> None:
        """Takes what the child wrote."""
        if int(now) != self._second:
            self._next_second(int(now))
        *ended, rest = data.split(b"\n")
        for part in ended:
            self._keep(part)
            self._log()
        self._keep(rest)

    def close(self) -> None:
        """Logs what is left: a last line may have no end."""
        self._log()
        self._next_second(0)

    def _keep(self, part: bytes) -> None:
        # Four bytes hold any character.
        self._line += part[: max(4 * STDERR_LINE_CHARS - len(self._line), 0)]

    def _log(self) -> None:
        text = self._line.decode("utf-8", "replace").strip()
        self._line.clear()
        if not text:
            return
        if self._written >= STDERR_LINES_PER_SECOND:
            self._dropped += 1
            return
        self._written += 1
        line = "".join(char if char.isprintable() else "?" for char in text[:STDERR_LINE_CHARS])
        log_event(_log, logging.INFO, "upstream_stderr", line=line, pid=self._pid)

    def _next_second(self, second: int) -> None:
        if self._dropped:
            log_event(_log, logging.WARNING, "upstream_stderr_dropped", lines=self._dropped, pid=self._pid)
        self._second, self._written, self._dropped = second, 0, 0
