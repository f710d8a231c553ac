"""Where a log is, and which of its writers are alive there.

In a file, each writer holds a lock on a file of its own while its process lives. Blocking I/O: files in `FILE-writers/`
beside the log's file. The kernel releases a lock when its process ends, however that happens, so neither clocks nor
process ids are involved. Only the machine that has the log's file writes to it, so such locks are enough. For a log in
a database, the writer's session holds its lock (`stores.postgres.log_tables`), and nothing has to be held here
(`SessionLock`).
"""

import asyncio
import contextlib
import os
from pathlib import Path

from msgspec import Struct

from accredit.attest import LogKey
from accredit.base.files import open_locked
from accredit.errors import StoreUnavailable
from accredit.limits import STORE_WAIT_SECONDS
from accredit.stores.postgres.address import DatabaseAddress
from accredit.stores.sqlite.database import Synchronous

LOG_SILENT_SECONDS = 60.0
"""How long a writer in a database may be silent and unconnected before it counts as dead. The writer that declares it
dead must have been connected for as long. A failover, in which all may be silent, takes less. With `LOG_LOOK_SECONDS`,
the calls of a lost machine are closed within 90 s."""


class FileLock:
    """The lock of one writer of a log in a file. A live writer holds its own; a dead one's is held by the process that
    closes its calls."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)

    def end(self) -> None:
        """Mark the writer as properly ended: remove the lock's file, so that nobody examines this writer again."""
        with contextlib.suppress(OSError):
            self._path.unlink()


class SessionLock:
    """Stands in for `FileLock` where the log is in a database: there the writer's session is the lock."""

    def close(self) -> None:
        """Do nothing: the end of the session releases the lock."""

    def end(self) -> None:
        """Do nothing: the writer's row in the log shows that the writer has ended."""


WriterLock = FileLock | SessionLock


class FileLog(Struct, frozen=True, tag=True):
    """A log in an SQLite file. `gateway` is the writing gateway's id. `trusted` are keys that sign for this gateway
    beside its own (`author`)."""

    path: Path
    synchronous: Synchronous = "FULL"
    gateway: str = ""
    trusted: tuple[LogKey, ...] = ()

    @property
    def name(self) -> str:
        """The file, for people and logs."""
        return str(self.path)

    async def lock_writer(self, writer: str) -> WriterLock | None:
        """Take the lock of a writer that is to begin, or that has died. Return None if the writer lives. Raises
        `StoreUnavailable`."""
        return await acquire_in_thread(self.path, writer)


class DatabaseLog(Struct, frozen=True, tag=True):
    """A log in a database, with `gateway` and `trusted` as in `FileLog`. `host` is the machine's name, for people. A
    writer that is silent for `silent_seconds` may be dead."""

    database: DatabaseAddress
    gateway: str
    host: str
    silent_seconds: float
    trusted: tuple[LogKey, ...] = ()

    @property
    def name(self) -> str:
        """The database, for people and logs."""
        return self.database.name

    async def lock_writer(self, writer: str) -> WriterLock | None:
        """Return a lock that does nothing. The writer's session shows that it is alive: only a writer whose session has
        ended can be found dead (`find_others`)."""
        return SessionLock()


LogPlace = FileLog | DatabaseLog
"""Where a log is."""


def acquire(log_file: Path, writer: str, of: str = "writers") -> FileLock | None:
    """Take the lock of a writer, or of another role (`of`) beside the log. Return None if its holder is alive. Raises
    `StoreUnavailable`."""
    folder = log_file.with_name(f"{log_file.name}-{of}")
    path = folder / writer
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        return FileLock(path, open_locked(path))
    except BlockingIOError:
        return None
    except OSError as error:
        raise StoreUnavailable(f"can't lock a file in {folder}: {error.strerror}") from None


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
