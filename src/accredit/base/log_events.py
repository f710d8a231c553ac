"""Logs one line per event to stderr, as JSON for programs or as text for people.

A caller names the event and adds facts as fields, but never tokens, keys, arguments or results. A peer's text can't
forge a line or control a terminal: JSON is written in pure ASCII, and in text everything that is not printable is
escaped.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal, TextIO, cast

from accredit.base.terminal import rows, width_of

MAX_LOG_TEXT = 8_192
"""The most characters of one text in a log line: a traceback of some 80 frames. A peer must not fill a disk with it."""


LogFormat = Literal["json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]

_FIELDS = "accredit_fields"
_notices = logging.getLogger("accredit.notice")


def log_event(
    logger: logging.Logger,
    level: int,
    event: str,
    /,
    *,
    exc_info: BaseException | None = None,
    **fields: object,
) -> None:
    """Log an event with its facts. `event` is a short constant sentence. `exc_info` adds a traceback as one field."""
    if logger.isEnabledFor(level):
        logger.log(level, event, exc_info=exc_info, extra={_FIELDS: fields})


class Pace:
    """Admits the first `per_second` events of each second: a peer must not fill a disk through the log. Times are the
    event loop's, in seconds."""

    __slots__ = ("_admitted", "_per_second", "_second", "_skipped")

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._second = 0
        self._admitted = 0
        self._skipped = 0

    def admits(self, now: float) -> bool:
        """Return whether an event is admitted now."""
        if int(now) != self._second:
            self._second, self._admitted = int(now), 0
        if self._admitted >= self._per_second:
            self._skipped += 1
            return False
        self._admitted += 1
        return True

    def skipped(self) -> int:
        """Return how many events were not admitted since the last call."""
        skipped, self._skipped = self._skipped, 0
        return skipped


def notice(line: str) -> None:
    """Print a line for the person who started this process and waits for it, at every log level.

    It is a sentence if the log is text or goes to a terminal. Otherwise it is an event, for programs that read the log.
    """
    _notices.info(line)


def configure_logs(level: LogLevel, format: LogFormat, stream: TextIO | None = None) -> None:
    """Send all logs of this process to `stream` (stderr). Call it only from a command, which owns the process.

    Other libraries (uvicorn, asyncio) are logged from warnings up, and fully at `debug`. The HTTP client for tokens is
    never logged fully: it would quote URLs with their queries, and answers of authorization servers.
    """
    stream = stream or sys.stderr  # which is None where it was closed before the start
    for_people = format == "text" or (stream is not None and stream.isatty())
    _notices.handlers = [_Handler(stream)]
    _notices.handlers[0].setFormatter(_NoticeFormatter() if for_people else _JsonFormatter())
    _notices.propagate = False
    _notices.setLevel(logging.INFO)
    handler = _Handler(stream)
    handler.setFormatter(_JsonFormatter() if format == "json" else _TextFormatter())
    chosen = logging.getLevelNamesMapping()[level.upper()]
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(chosen if chosen == logging.DEBUG else max(chosen, logging.WARNING))
    logging.getLogger("accredit").setLevel(chosen)
    for client in ("httpx2", "httpcore2"):
        logging.getLogger(client).setLevel(logging.WARNING)
    logging.captureWarnings(True)


class _Handler(logging.StreamHandler[TextIO]):
    def format(self, record: logging.LogRecord) -> str:
        """Return the line for a record. On a terminal it is folded into rows that can't be taken for another line."""
        line = super().format(record)
        return line if isinstance(self.formatter, _JsonFormatter) else "\n".join(rows(line, width_of(self.stream)))

    def handleError(self, record: logging.LogRecord) -> None:
        """Ignore that a record could not be written: a closed stderr must not stop the gateway."""


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        head: dict[str, object] = {
            "ts": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": _shorten(record.getMessage()),
        }
        return json.dumps(head | fields_of(record) | head, default=_short_text)


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(
            f" {name}={json.dumps(value, default=_short_text, ensure_ascii=False)}"
            for name, value in fields_of(record).items()
        )
        message = _shorten(record.getMessage())
        return _printable(f"{_timestamp(record)} {record.levelname.lower():<7} {record.name}: {message}{fields}")


class _NoticeFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return _printable(f"accredit: {record.getMessage()}")


def _timestamp(record: logging.LogRecord) -> str:
    when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return when.replace("+00:00", "Z")


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """Return the facts of an event that `log_event` logged, each of them bounded."""
    given = cast("dict[str, object]", getattr(record, _FIELDS, {}))
    fields = {name: _shorten(value) if isinstance(value, str) else value for name, value in given.items()}
    if record.exc_info:
        fields["exception"] = _shorten(logging.Formatter().formatException(record.exc_info))
    return fields


def _shorten(text: str) -> str:
    """Shorten a text by leaving out its middle: a traceback names its cause last."""
    if len(text) <= MAX_LOG_TEXT:
        return text
    half = MAX_LOG_TEXT // 2
    return f"{text[:half]} [...] {text[-half:]}"


def _short_text(value: object) -> str:
    return _shorten(str(value))


def _printable(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in line)
