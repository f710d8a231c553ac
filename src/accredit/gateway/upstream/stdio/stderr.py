"""A child's stderr, as lines of our log, bounded in length and in number. Logs only.

Whatever the child writes is read at once, so that it never blocks; what exceeds the bounds is left out.
"""

import logging

from accredit.base.log_events import log_event
from accredit.gateway.upstream.stdio.pace import Pace
from accredit.limits import STDERR_LINE_CHARS, STDERR_LINES_PER_SECOND

_log = logging.getLogger("accredit.gateway.stdio")


class StderrLog:
    """Bytes in, log lines out. Times are the event loop's, in seconds."""

    __slots__ = ("_line", "_pace", "_pid")

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._line = bytearray()
        self._pace = Pace(STDERR_LINES_PER_SECOND)

    def feed(self, data: bytes, now: float) -> None:
        """Add what the child wrote."""
        *ended, rest = data.split(b"\n")
        for part in ended:
            self._keep(part)
            self._log(now)
        self._keep(rest)

    def close(self, now: float) -> None:
        """Log what remains: a last line may have no end."""
        self._log(now)
        self._log_skipped()

    def _keep(self, part: bytes) -> None:
        # Four bytes hold any character.
        self._line += part[: max(4 * STDERR_LINE_CHARS - len(self._line), 0)]

    def _log(self, now: float) -> None:
        text = self._line.decode("utf-8", "replace").strip()
        self._line.clear()
        if not text or not self._pace.admits(now):
            return
        self._log_skipped()
        line = "".join(char if char.isprintable() else "?" for char in text[:STDERR_LINE_CHARS])
        log_event(_log, logging.INFO, "upstream_stderr", line=line, pid=self._pid)

    def _log_skipped(self) -> None:
        skipped = self._pace.skipped()
        if skipped:
            log_event(_log, logging.WARNING, "upstream_stderr_dropped", lines=skipped, pid=self._pid)
