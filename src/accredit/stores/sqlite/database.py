"""One SQLite file, opened on first use and again after a failure. Blocking I/O; one thread uses an object.

Each time the file is opened, in this order:

- [creation] A missing file is created, and only its owner may read it. Anything but a regular file is refused: opening
  a pipe would wait for its other end.
- [journal] The journal is WAL, so that readers and writers do not wait for each other, with the requested level of
  synchronization.
- [schema] A schema of an older version is upgraded, unless the file is only read; one of a newer version is refused.

While it is used, the open file is compared once a second with the file that now has its name, and again whenever it is
reopened. If the name now belongs to another file, or to none, the store fails. Another file does not know the spent
challenges, so they would be valid again. If a newer version has upgraded the file meanwhile, the store fails as well
([schema]). Not checked: who else can read an existing file.

`Tables` are the jobs on spent challenges and uses. Once a second, a bounded number of expired rows is deleted and the
tables' rows are counted. Between two counts, this process knows only of the rows that it has added itself. So a table's
bound can be exceeded by the rows that other processes add in a second.
"""

import contextlib
import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar
from urllib.parse import quote

from accredit.errors import AccreditError, StoreUnavailable
from accredit.limits import (
    CLOCK_BACK_SECONDS,
    MAX_ATTESTATION_BYTES,
    MAX_USE_MARKS,
    STORE_LOCK_SECONDS,
    STORE_SWEEP_ROWS,
    USE_TOTAL_TURN,
)
from accredit.ports import RateLimit, Spending
from accredit.stores.minted import Issued, read
from accredit.stores.rules import NEVER, Series, UseMark, certain, judge, made_before, mark, room_at, strictest
from accredit.stores.sqlite.forgetting import Table, read_forgotten_end, sweep
from accredit.stores.sqlite.schema import SCHEMA

MAX_SPENT_CHALLENGES = 262_144
"""The most spent challenges that a store remembers, some 200 bytes each (measured): 870 a second, if each is remembered
for 300 seconds. Each has cost somebody a valid proof; issued challenges are not remembered."""

_KEPT_LONGER: dict[Table, int] = {"spent": 0, "uses": CLOCK_BACK_SECONDS}
_KNOWN = (
    "SELECT EXISTS (SELECT 1 FROM spent WHERE challenge = ?), (SELECT key FROM challenge_key),"
    " (SELECT until FROM forgotten WHERE kind = 'spent'), (SELECT until FROM forgotten WHERE kind = 'since')"
)
_COUNTS = {table: f"SELECT count(*) FROM {table}" for table in _KEPT_LONGER}  # noqa: S608 - of constants

_SERIES = (
    "SELECT before + uses - coalesce((SELECT before FROM uses WHERE cert_id = ?1 AND window_s = ?2 AND mark > ?3"
    " ORDER BY mark LIMIT 1), before + uses), mark, before + uses"
    " FROM uses WHERE cert_id = ?1 AND window_s = ?2 ORDER BY mark DESC LIMIT 1"
)


class _Counted(NamedTuple):
    """The state of a series: the uses in its window, its latest mark, and the total of all its uses."""

    used: int
    latest: int
    total: int


class Tables:
    """The jobs. Each takes the connection as its first argument, and returns None if a table has no room."""

    def __init__(self, since: int = NEVER) -> None:
        self._since = since
        self._swept_at: int | None = None
        self._rows = dict.fromkeys(_KEPT_LONGER, 0)

    def key(self, connection: sqlite3.Connection) -> bytes | None:
        """Return the key with which challenges issued here are made, or None if there is none yet."""
        row = connection.execute("SELECT key FROM challenge_key").fetchone()
        return row[0] if row else None

    def first_key(self, connection: sqlite3.Connection, drawn: bytes) -> bytes:
        """Return the key. If there is none, store `drawn` as the key. So all processes that share the file use the
        first key stored."""
        connection.execute("INSERT OR IGNORE INTO challenge_key VALUES (1, ?)", (drawn,))
        return self.key(connection) or drawn

    def look(
        self, connection: sqlite3.Connection, challenge: bytes, request_hash: bytes, *, issued: bool, now: int
    ) -> Spending:
        """Return what `spend` would return now. Changes nothing."""
        spent, ours, _, _ = _look_up(connection, challenge, request_hash)
        return judge(spent=spent, ours=ours, issued=issued, now=now)

    def spend(
        self,
        connection: sqlite3.Connection,
        challenge: bytes,
        request_hash: bytes,
        *,
        issued: bool,
        keep_until: int,
        now: int,
    ) -> Spending | None:
        """Spend a challenge if it is valid, and return the verdict."""
        spent, ours, forgotten_until, since = _look_up(connection, challenge, request_hash)
        if since is None:
            since = self._since
            connection.execute("INSERT INTO forgotten VALUES ('since', ?)", (since,))
        issued = issued or made_before(since, keep_until)
        verdict = judge(spent=spent, ours=ours, issued=issued, now=now)
        if verdict is not Spending.FIRST:
            return verdict
        if ours:
            keep_until = max(keep_until, ours.expires_at)
        certain(keep_until, forgotten_until)
        if not self._has_room(connection, "spent", MAX_SPENT_CHALLENGES, now):
            return None
        connection.execute("INSERT INTO spent VALUES (?, ?)", (challenge, keep_until))
        return verdict

    def count(self, connection: sqlite3.Connection, series: Series, now: int) -> int:
        """Return how many uses a series has in its window."""
        certain(now + 1, read_forgotten_end(connection, "uses"))
        return _count(connection, series, now).used

    def use(self, connection: sqlite3.Connection, limits: Sequence[RateLimit], now: int) -> bool | None:
        """Record one use for each limit, unless that exceeds one of them. Return whether it was recorded."""
        takings = strictest(limits)
        if takings:
            certain(now + 1, read_forgotten_end(connection, "uses"))
        found = [(series, taking, _count(connection, series, now)) for series, taking in takings.items()]
        if any(counted.used + taking.amount > taking.most for _, taking, counted in found):
            return False
        if not self._has_room(connection, "uses", MAX_USE_MARKS, now, more=len(takings)):
            return None
        for series, (amount, _, parts), (_, latest, total) in found:
            began = _begin_anew(connection, series) if total > USE_TOTAL_TURN else 0
            at = max(latest, mark(series.window_s, now, parts))
            connection.execute(
                "INSERT INTO uses VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (cert_id, window_s, mark) DO UPDATE SET uses = uses + excluded.uses",
                (*_key(series), at, total - began, amount, at + series.window_s),
            )
        return True

    def room_at(self, connection: sqlite3.Connection, limit: RateLimit, now: int) -> int | None:
        """Return when (unix seconds) there is room for one more use; None if never."""
        certain(now + 1, read_forgotten_end(connection, "uses"))
        series = Series(limit.cert_id, limit.window_s)
        rows = connection.execute(
            "SELECT mark, before FROM uses WHERE cert_id = ? AND window_s = ? AND mark > ? ORDER BY mark",
            (*_key(series), now - series.window_s),
        )
        return room_at([UseMark(*row) for row in rows], _count(connection, series, now).total, limit, now)

    def _has_room(self, connection: sqlite3.Connection, table: Table, most: int, now: int, *, more: int = 1) -> bool:
        if now != self._swept_at:
            self._swept_at = now
            for each, longer in _KEPT_LONGER.items():
                sweep(connection, each, now - longer, STORE_SWEEP_ROWS)
                (self._rows[each],) = connection.execute(_COUNTS[each]).fetchone()
        self._rows[table] += more
        return self._rows[table] <= most


def _look_up(
    connection: sqlite3.Connection, challenge: bytes, request_hash: bytes
) -> tuple[bool, Issued | None, int, int | None]:
    """Return four things about a challenge: whether it is spent; its content if it was issued here; the
    `read_forgotten_end` of spent challenges; and since when spent challenges are known. This is one statement, as each
    call needs it twice."""
    spent, key, until, since = connection.execute(_KNOWN, (challenge,)).fetchone()
    ours = read(key, challenge, request_hash) if key is not None else None
    return bool(spent), ours, NEVER if until is None else until, since


def _key(series: Series) -> tuple[bytes, int]:
    # As bytes: an id may hold lone surrogates.
    return series.cert_id.encode("utf-8", "surrogatepass"), series.window_s


def _count(connection: sqlite3.Connection, series: Series, now: int) -> _Counted:
    row = connection.execute(_SERIES, (*_key(series), now - series.window_s)).fetchone()
    return _Counted(*row) if row else _Counted(0, -1, 0)


def _begin_anew(connection: sqlite3.Connection, series: Series) -> int:
    """Find the smallest count among the kept marks of a series, subtract it from all of their counts, and return it."""
    (began,) = connection.execute(
        "SELECT min(before) FROM uses WHERE cert_id = ? AND window_s = ?", _key(series)
    ).fetchone()
    connection.execute("UPDATE uses SET before = before - ? WHERE cert_id = ? AND window_s = ?", (began, *_key(series)))
    return began


STORE_RETRY_SECONDS = 0.0005
"""The interval between attempts to take a lock that another process holds."""
STORE_FILE_CHECK_SECONDS = 1.0
"""The interval between checks whether the open file of a store is still the one that has its name, and of no newer
version."""


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

    def __init__(self, path: Path, synchronous: Synchronous = "NORMAL", *, upgrades: bool = True) -> None:
        self._path = path.absolute()
        self._upgrades = upgrades
        self._synchronous: Synchronous = synchronous
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._checked_at = 0.0

    def another(self) -> "Database":
        """Return another connection to this same file, for another thread. It never creates a file, and fails if the
        name now belongs to another one."""
        other = Database(self._path, self._synchronous, upgrades=self._upgrades)
        other._identity = self._identity
        return other

    def transact(self, jobs: Sequence[Job[T]], *, writes: bool) -> list[T]:
        """Run jobs in one transaction and return their answers. All jobs are committed, or none.

        Raises `StoreUnavailable`, and our own errors from a job. If another process holds the lock, raises
        `DatabaseLocked` (a subclass of `StoreUnavailable`) at once.
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
            if _identity(self._path) != self._identity or _version(self._connection) > len(SCHEMA):
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
        if self._upgrades and _version(connection) < len(SCHEMA):
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
