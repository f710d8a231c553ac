"""Implements `accredit log follow`. It only reads the log, in its own process, so no call waits for a sink.

A failed delivery is retried at growing intervals, and nothing more is read meanwhile. Entries that a collector rejects
(partial success) are only counted: OTLP forbids a retry, and does not say which entries they were.
"""

import os
import re
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Literal, TypeVar

from accredit.base.text import several
from accredit.config.load import load
from accredit.config.values import Url, WrongValue, check
from accredit.errors import CollectorError, ConfigurationError, StoreUnavailable
from accredit.limits import FOLLOW_SECONDS
from accredit.ops.log_place import LogSource, as_configuration_errors
from accredit.ops.log_sinks import CollectorLogs, LinesFile, Stdout, Target
from accredit.stores import LogStore
from accredit.stores.postgres.session import SchemaUnknown
from accredit.terminal.output import tell

SINK_RETRY_SECONDS, MAX_SINK_RETRY_SECONDS = 0.5, 30.0
"""The pause before a failed delivery is tried again, in seconds: at first, and at most. It doubles each time."""


T = TypeVar("T")
Format = Literal["jsonl", "otlp"]
_FAILURES = (OSError, CollectorError, StoreUnavailable)


_SINK_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def run_follow(*, sink: str, form: Format, to: str | None, source: LogSource) -> int:
    """Run `accredit log follow`; return the exit code. Raises `ConfigurationError`."""
    if not _SINK_NAME.fullmatch(sink):
        raise ConfigurationError("--sink: not a name", "write letters, digits, - and _: 64 at most")
    return follow_log(source.place(), sink, target_of(form, to, source))


def target_of(form: Format, to: str | None, source: LogSource) -> Target:
    """Return the target; for OTLP, the configuration's collector is the default. Raises `ConfigurationError`."""
    if form == "otlp" and to is None and (source.store is None or source.config is not None):
        to = load(source.config, os.environ, {}).config.telemetry.endpoint
    if form == "jsonl":
        if to is not None and "://" in to:
            raise ConfigurationError(f"--to {to}: lines go to a file", "name a file, or say --format otlp")
        return Stdout() if to in (None, "-") else LinesFile(Path(to))
    if to is None or not to.startswith(("http://", "https://")):
        raise ConfigurationError(
            "--format otlp needs a URL",
            "name the collector's, such as --to http://127.0.0.1:4318, or set telemetry.endpoint",
        )
    try:
        check(Url, to, ("--to",))
    except WrongValue as error:
        raise ConfigurationError(f"--to {error}", "name the collector's URL, such as http://127.0.0.1:4318") from None
    return CollectorLogs(to)


def follow_log(store: LogStore, name: str, target: Target) -> int:
    """Send entries until the process is stopped; return the exit code. Raises `ConfigurationError`."""
    rejected = told = 0
    with (
        as_configuration_errors(),
        suppress(KeyboardInterrupt),
        _Stop() as stop,
        store.open_sink(name) as sink,
        target,
    ):
        while True:
            batch = _retry(sink.take, "the log can't be read", stop)
            if batch.note:
                tell(f"note: {batch.note}")
            if batch.pruned:
                tell(f"note: {several(batch.pruned, 'record')} had been pruned before {name} got them")
            with stop.deferred():
                if batch.envelopes:
                    rejected += _retry(lambda now=batch: target.take(now.envelopes), f"{name} takes nothing", stop)
                # Retried until the position is written; otherwise these entries would be read and sent again.
                _retry(lambda now=batch: sink.taken(now), "the store does not take how far it came", stop)
            if rejected >= max(1, 2 * told):
                told = _tell_rejected(rejected)
            if not batch.more:
                time.sleep(FOLLOW_SECONDS)
    if rejected > told:
        _tell_rejected(rejected)
    return 0


def _tell_rejected(number: int) -> int:
    tell(f"note: {number} of the entries sent were rejected by the collector for good, as it says (partial_success)")
    return number


def _retry(what: Callable[[], T], problem: str, stop: "_Stop") -> T:
    """Run `what` until it succeeds, and return its result. Print a note on the first failure, and on the recovery. A
    `SchemaUnknown` is raised again at once."""
    pause = SINK_RETRY_SECONDS
    while True:
        try:
            done = what()
        except SchemaUnknown:
            raise
        except _FAILURES as error:
            if pause == SINK_RETRY_SECONDS:
                tell(f"note: {problem}, and is tried again: {_reason(error)}")
            stop.sleep(max(pause, error.wait if isinstance(error, CollectorError) else 0.0))
            pause = min(2 * pause, MAX_SINK_RETRY_SECONDS)
            continue
        if pause != SINK_RETRY_SECONDS:
            tell("note: it goes on")
        return done


def _reason(error: Exception) -> str:
    return error.strerror or "it failed" if isinstance(error, OSError) else str(error)


class _Stop:
    """Raises `KeyboardInterrupt` on SIGINT and SIGTERM. It is raised at once, but deferred after entries were
    delivered, until the new position is noted. Otherwise the next start would send the same entries again."""

    def __init__(self) -> None:
        self._is_deferred = self._is_asked = False

    def __enter__(self) -> "_Stop":
        self._before = {number: signal.signal(number, self._take) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def deferred(self) -> Generator[None]:
        """Defer an interruption to the end of the block. Raises `KeyboardInterrupt` there."""
        self._is_deferred = True
        yield
        self._is_deferred = False
        self._raise_if_asked()

    def sleep(self, seconds: float) -> None:
        """Pause before another try. An interruption is never deferred meanwhile: who knows when a sink comes back?
        Raises `KeyboardInterrupt`."""
        before, self._is_deferred = self._is_deferred, False
        self._raise_if_asked()
        time.sleep(seconds)
        self._is_deferred = before

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        self._is_asked = True
        if not self._is_deferred:
            raise KeyboardInterrupt

    def _raise_if_asked(self) -> None:
        if self._is_asked:
            raise KeyboardInterrupt
