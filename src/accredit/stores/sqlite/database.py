"""One SQLite file, opened on first use and again after a failure. Blocking I/O; one thread uses an object.

Each time the file is opened, in this order:

- [creation] A missing file is created, and only its owner may read it. Anything but a regular file is refused: opening
  a pipe would wait for its other end.
- [journal] The journal is WAL, so that readers and writers do not wait for each other, with the requested level of
  synchronization.
- [schema] A schema of an older version is upgraded; one of a newer version is refused.

While it is used, the open file is compared once a second with the file that now has its name, and again whenever it is
reopened. If the name now belongs to another file, or to none, the store fails. Another file does not know the spent
challenges, so they would be valid again. Not checked: who else can read an existing file.
"""

import contextlib
import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import quote

from accredit.errors import AccreditError, StoreUnavailable
from accredit.limits import MAX_ATTESTATION_BYTES, STORE_LOCK_SECONDS
from accredit.stores.sqlite.schema import SCHEMA

STORE_RETRY_SECONDS = 0.0005
"""The interval between attempts to take a lock that another process holds."""
STORE_FILE_CHECK_SECONDS = 1.0
"""The interval between checks whether the open file of a store is still the one that has its name."""


T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]
"""Work that is done in a transaction. It may be rolled back and run again, so it must have no effects but in the
database."""

Synchronous = Literal["NORMAL", "FULL"]
"""FULL: committed data survives a crash of the machine. NORMAL: it survives a crash of the process; a crash of the
machine can lose the last seconds, but never damages the file."""

_PRIVATE = 0o600
_PRIMARY = 0xFF  # the low byte of SQLite's extended error codes
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class DatabaseLocked(StoreUnavailable):
    """Another process holds the lock, so it is worth trying again."""


class Database:
    """A connection to the file, opened when it is needed."""

    def __init__(self, path: Path, synchronous: Synchronous = "NORMAL") -> None:
        self._path = path.absolute()
        self._synchronous: Synchronous = synchronous
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._checked_at = 0.0

    def another(self) -> "Database":
        """Return another connection to this same file, for another thread. It never creates a file, and fails if the
        name now belongs to another one."""
        other = Database(self._path, self._synchronous)
        other._identity = self._identity
        return other

    def transact(self, jobs: Sequence[Job[T]], *, writes: bool) -> list[T]:
        """Run jobs in one transaction and return their answers. All jobs are committed, or none.

        Raises `StoreUnavailable`; its subclass `DatabaseLocked`, without waiting for the lock; and our own errors from
        a job.
        """

        def transaction(connection: sqlite3.Connection) -> list[T]:
            connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            answers = [job(connection) for job in jobs]
            connection.execute("COMMIT")
            return answers

        return self.look(transaction)

    def look(self, job: Job[T]) -> T:
        """Run a job that is a single reading statement, and so needs no transaction. Raises the same errors as
        `transact`."""
        try:
            return job(self._current())
        except sqlite3.Error as error:
            # Errors from SQLite itself have a code; those of Python's module have none.
            if getattr(error, "sqlite_errorcode", 0) & _PRIMARY in _LOCKED:
                self._undo()
                raise DatabaseLocked(f"{self._path} is locked by another process") from None
            self.close()
            raise StoreUnavailable(f"{self._path} can't be used: {error}") from None
        except AccreditError:
            self._undo()
            raise
        except Exception as error:
            self.close()
            raise StoreUnavailable(f"{self._path} can't be used: {error}") from error
        except BaseException:
            self.close()
            raise

    def transact_waiting(self, job: Job[T], *, writes: bool, deadline: float | None = None) -> T:
        """Run one job. Wait for a lock for `STORE_LOCK_SECONDS`, or until `deadline` (monotonic). Raises the same
        errors as `transact`."""
        deadline = time.monotonic() + STORE_LOCK_SECONDS if deadline is None else deadline
        while True:
            try:
                return self.transact([job], writes=writes)[0]
            except DatabaseLocked:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(STORE_RETRY_SECONDS)

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _undo(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            self.close()

    def _current(self) -> sqlite3.Connection:
        now = time.monotonic()
        if self._connection is not None and now - self._checked_at >= STORE_FILE_CHECK_SECONDS:
            self._checked_at = now
            if _identity(self._path) != self._identity:
                self.close()
        if self._connection is None:
            self._connection = self._open()
            self._checked_at = now
        return self._connection

    def _open(self) -> sqlite3.Connection:
        if self._identity is None:
            _make(self._path)
            check_regular(self._path)
        elif _identity(self._path) != self._identity:
            raise StoreUnavailable(
                f"{self._path} was replaced or taken away while it was in use: put it back, or restart"
            )
        address = f"file:{quote(os.fsencode(self._path))}?mode=rw"
        connection = sqlite3.connect(address, uri=True, timeout=0, isolation_level=None)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_ATTESTATION_BYTES)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._identity = _identity(self._path)
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StoreUnavailable(f"{self._path} lies where SQLite can't share a file between processes")
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        if _version(connection) < len(SCHEMA):
            connection.execute("BEGIN IMMEDIATE")
            for step in SCHEMA[_version(connection) :]:  # read again: another process may have upgraded it meanwhile
                for statement in step:
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(SCHEMA)}")
            connection.execute("COMMIT")
        if _version(connection) > len(SCHEMA):
            raise StoreUnavailable(f"{self._path} was made by a newer accredit (schema {_version(connection)})")


def check_regular(path: Path) -> None:
    """Refuse anything but a regular file: SQLite would wait for a pipe, or read a device. Raises `StoreUnavailable`."""
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return  # SQLite reports what is wrong with it
    if not is_file:
        raise StoreUnavailable(f"{path} can't be used: it is no regular file")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return version


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _make(path: Path) -> None:
    """Create an empty file of mode 0600 if there is none."""
    if path.exists():
        return
    # Under a temporary name first: POSIX drops SQLite's locks on a file when this process closes any descriptor of it.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _PRIVATE))
    try:
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(temporary)
    finally:
        temporary.unlink()
