"""The targets of `accredit log follow`: a file, stdout, or an OTLP collector. I/O: these. A target reports an entry as
taken only if it is certain to have it."""

import asyncio
import fcntl
import os
import stat
import sys
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from typing import Protocol, Self

from accredit.attest import Envelope, encode_envelope
from accredit.base.deferred import require_extra
from accredit.errors import ConfigurationError
from accredit.keys.files import sync_folder
from accredit.limits import EXPORT_SECONDS, MAX_ATTESTATION_BYTES
from accredit.telemetry.export import Lookups, rejected_count
from accredit.telemetry.log_records import logs_request

_CHUNK = 65_536
_LOGS = "/v1/logs"
_BEGINNING = b'{"payload'
"""How an envelope begins."""


class Target(Protocol):
    """A context manager that takes entries."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def take(self, envelopes: Sequence[Envelope]) -> int:
        """Take all entries. Return how many were rejected for good. Raises `OSError` or `CollectorError`, perhaps after
        some entries were taken."""
        ...


class LinesFile:
    """A file to which lines are appended. It is reopened for each batch, so that it can be rotated.

    If the disk is full, part of a batch may have been written. The next attempt writes only the other lines: writing
    all of them again would use up any space that was freed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._batch: Sequence[Envelope] = ()
        self._written = 0

    def __enter__(self) -> Self:
        try:
            os.close(self._open())
        except BlockingIOError:  # another sink holds its lock, and so can write to it; each delivery is tried again
            pass
        except OSError as error:
            raise ConfigurationError(
                f"can't write {self._path}: {error.strerror}", "name a regular file that can be written, or no --to"
            ) from None
        return self

    def __exit__(self, *_: object) -> None: ...

    def take(self, envelopes: Sequence[Envelope]) -> int:
        """Append lines, and sync them to disk."""
        if envelopes is not self._batch:
            self._batch, self._written = envelopes, 0
        descriptor = self._open()
        try:
            self._append(descriptor, [encode_envelope(each) + b"\n" for each in envelopes[self._written :]])
        finally:
            os.close(descriptor)
        return 0

    def _append(self, descriptor: int, lines: Sequence[bytes]) -> None:
        start = os.fstat(descriptor).st_size
        try:
            _write(descriptor, b"".join(lines))
        finally:
            os.fsync(descriptor)
            ends = accumulate(map(len, lines), initial=start)
            self._written += max(0, bisect_right([*ends], os.fstat(descriptor).st_size) - 1)  # or somebody emptied it

    def _open(self) -> int:
        """Open and lock the file, and cut off an unfinished last line. A process that was killed left that line, and
        its entry will be sent again."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            descriptor = os.open(self._path, flags)
        except FileNotFoundError:
            descriptor = os.open(self._path, flags | os.O_CREAT, 0o600)
            sync_folder(self._path.parent)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(0, "it is no regular file")
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _cut(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


class Stdout:
    """Lines to stdout, for a program that reads them."""

    def __enter__(self) -> Self:
        os.set_blocking(sys.stdout.fileno(), True)
        return self

    def __exit__(self, *_: object) -> None: ...

    def take(self, envelopes: Sequence[Envelope]) -> int:
        """Write lines to stdout. If that is a pipe, they may still be unread."""
        try:
            _write(sys.stdout.fileno(), _lines(envelopes))
        except OSError as error:  # what is written of a line can't be taken back here, so it is not tried again
            raise ConfigurationError(
                f"can't write to stdout: {error.strerror}", "start again, with what reads it; or name a file with --to"
            ) from None
        return 0


class CollectorLogs:
    """An OTLP collector, given by its base URL or by the URL for its logs."""

    def __init__(self, url: str) -> None:
        require_extra("opentelemetry.proto", "telemetry", "--format otlp needs OpenTelemetry, which is not installed")
        self._url = url.rstrip("/").removesuffix(_LOGS)

    def __enter__(self) -> Self:
        from accredit.net.otlp import Collector  # noqa: PLC0415 - httpx2 is for this alone

        async def made() -> Collector:
            return Collector(self._url)

        self._runner = asyncio.Runner()
        self._runner.get_loop().set_default_executor(Lookups())
        self._collector = self._runner.run(made())
        return self

    def __exit__(self, *_: object) -> None:
        with closing(self._runner):
            self._runner.run(self._collector.aclose())

    def take(self, envelopes: Sequence[Envelope]) -> int:
        """Send them in one request."""
        answer = self._runner.run(self._collector.send(_LOGS, logs_request(envelopes), EXPORT_SECONDS))
        return min(rejected_count(answer), len(envelopes))


def _lines(envelopes: Sequence[Envelope]) -> bytes:
    return b"".join(encode_envelope(each) + b"\n" for each in envelopes)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _cut(descriptor: int) -> None:
    """Cut off an unfinished last line. Raises `OSError` if the file holds something else."""
    size = end = os.fstat(descriptor).st_size
    _check_begins(descriptor, 0)
    while end > 0:
        start = max(0, end - _CHUNK)
        last = os.pread(descriptor, end - start, start).rfind(b"\n")
        if last >= 0:
            end = start + last + 1
            break
        end = start
        if size - end > 2 * MAX_ATTESTATION_BYTES:
            raise OSError(0, "it is no file of lines")
    if end < size:
        _check_begins(descriptor, end)
        os.ftruncate(descriptor, end)


def _check_begins(descriptor: int, at: int) -> None:
    head = os.pread(descriptor, len(_BEGINNING), at)
    if not _BEGINNING.startswith(head):
        raise OSError(0, "it is no file of envelopes")
