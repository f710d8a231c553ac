"""What a server that is asked writes to its stderr: kept, and shown where the server could not be asked. Logs only."""

import logging
from collections import deque
from types import TracebackType
from typing import Self

from accredit.base.log_events import fields_of
from accredit.cli.actions.output import tell
from accredit.limits import MAX_OVERHEARD_LINES

_EVENT = "upstream_stderr"


class Overheard(logging.Handler):
    """Keeps what the gateway logs of a child's stderr while it is entered, whatever else is logged."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._logger = logging.getLogger("accredit.gateway.stdio")
        self._lines: deque[str] = deque(maxlen=MAX_OVERHEARD_LINES)
        self._before = logging.WARNING
        self._pid: object = None

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line of the child's."""
        if record.getMessage() == _EVENT:
            fields = fields_of(record)
            if fields.get("pid") != self._pid:  # it was started again: what it says now is what counts
                self._lines.clear()
            self._pid = fields.get("pid")
            self._lines.append(str(fields.get("line", "")))
        elif record.levelno >= self._before:
            logging.getLogger().handle(record)

    def tell(self) -> None:
        """Show the last lines that were kept, on stderr."""
        for line in self._lines:
            tell(f"the server: {line}")

    def __enter__(self) -> Self:
        self._before = self._logger.getEffectiveLevel()
        self._logger.setLevel(logging.INFO)
        self._logger.propagate = False
        self._logger.addHandler(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = True
        self._logger.setLevel(logging.NOTSET)
