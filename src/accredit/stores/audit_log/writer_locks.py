"""Tells which writers of a log in a file are alive: each holds a lock on a file of its own while its process lives.

Blocking I/O: files in `FILE-writers/` beside the log's file. The kernel releases a lock when its process ends, however
that happens, so neither clocks nor process ids are involved. Only the machine that has the log's file writes to it, so
such locks are enough. For a log in a database, the writer's session holds its lock (`stores.postgres.log_tables`), and
nothing has to be held here (`SessionLock`).
"""

import asyncio
import contextlib
import fcntl
import os
from pathlib import Path
from typing import Protocol

from accredit.errors import StoreUnavailable
from accredit.limits import STORE_WAIT_SECONDS


class WriterLock(Protocol):
    """The lock of one writer. A live writer holds its own; a dead one's is held by the process that closes its
    calls."""

    def close(self) -> None:
        """Release the lock."""
        ...

    def end(self) -> None:
        """Mark the writer as properly ended, before the lock is released."""
        ...


class FileLock:
    """A `WriterLock` for a log in a file."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)

    def end(self) -> None:
        """Remove the lock's file, so that nobody examines this writer again."""
        with contextlib.suppress(OSError):
            self._path.unlink()


class SessionLock:
    """A `WriterLock` for a log in a database, where the writer's session holds it."""

    def close(self) -> None:
        """Do nothing: the end of the session releases the lock."""

    def end(self) -> None:
        """Do nothing: the writer's row in the log says so."""


def acquire(log_file: Path, writer: str, of: str = "writers") -> FileLock | None:
    """Take the lock of a writer, or of another role (`of`) beside the log. Return None if its holder is alive. Raises
    `StoreUnavailable`."""
    folder = log_file.with_name(f"{log_file.name}-{of}")
    path = folder / writer
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError:
            os.close(descriptor)
            raise
    except OSError as error:
        raise StoreUnavailable(f"can't lock a file in {folder}: {error.strerror}") from None
    return FileLock(path, descriptor)


async def acquire_in_thread(log_file: Path, writer: str) -> FileLock | None:
    """Take a writer's lock as `acquire` does, in a thread. A lock that comes after a timeout is released. Raises
    `StoreUnavailable`."""
    holding = asyncio.ensure_future(asyncio.to_thread(acquire, log_file, writer))
    try:
        async with asyncio.timeout(STORE_WAIT_SECONDS):
            return await asyncio.shield(holding)
    except BaseException as error:
        holding.add_done_callback(_give_up)
        if isinstance(error, TimeoutError):
            raise StoreUnavailable(f"no lock beside {log_file} in {STORE_WAIT_SECONDS} s") from None
        raise


def _give_up(holding: "asyncio.Future[FileLock | None]") -> None:
    if not holding.cancelled() and holding.exception() is None and (life := holding.result()) is not None:
        life.end()
        life.close()
