"""Signed revocation lists in an SQLite file, in wire form: one per issuer, and those that the file's gateways have had
in force. Blocking I/O; nothing is verified.

To read lists upgrades no file: a gateway of an older version may run on it. A file that is older than a table has none
of its lists."""

# ruff: noqa: S608 - statements are made of constants

import contextlib
import sqlite3
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Literal

from accredit.limits import MAX_STATEMENT_BYTES
from accredit.stores.rules import FoundList, ListChange
from accredit.stores.sqlite.database import Database, Job, T
from accredit.stores.sqlite.untouched import reading_only

# SQLite keeps any type in any column. One byte more than may be decoded is read, so that a longer list is too long.
_LIST = f"coalesce(substr(CAST(list AS BLOB), 1, {MAX_STATEMENT_BYTES + 1}), x'')"
_SINCE = {"revocations": 1, "known_lists": 10}
"""The versions of a file's schema that brought these tables."""


def list_versions(path: Path) -> list[tuple[str, int]]:
    """Return the issuers that have a list, each with a number that changes with the list. Raises `StoreUnavailable`."""
    return _once(path, _versions, writes=False)


def read_lists(path: Path) -> list[FoundList]:
    """Return all lists. Raises `StoreUnavailable`."""
    return _once(path, _lists, writes=False)


def read_untouched_lists(path: Path) -> list[FoundList]:
    """Return all lists of a file, which is left as it is. Raises `StoreUnavailable`."""
    with reading_only(path) as connection:
        return _lists(connection)


def change_list(path: Path, issuer_id: str, change: Callable[[bytes | None], bytes]) -> ListChange:
    """Replace an issuer's list by what `change` returns when given the current one.

    Concurrent changes of a list wait for each other. Raises `StoreUnavailable`, and our own errors from `change`.
    """

    def job(connection: sqlite3.Connection) -> ListChange:
        row = connection.execute(f"SELECT {_LIST} FROM revocations WHERE issuer_id = ?", (issuer_id,)).fetchone()
        before = row[0] if row else None
        after = change(before)
        if after != before:
            connection.execute(
                "INSERT INTO revocations VALUES (?, 1, ?)"
                " ON CONFLICT (issuer_id) DO UPDATE SET version = version + 1, list = excluded.list",
                (issuer_id, after),
            )
        return ListChange(before, after)

    return _once(path, job, writes=True)


def known_lists(path: Path, issuers: Collection[str]) -> list[FoundList]:
    """Return the newest list of each of these issuers that the file remembers to have been in force. Raises
    `StoreUnavailable`."""

    def job(connection: sqlite3.Connection) -> list[FoundList]:
        rows = _rows(connection, "known_lists", f"{_LIST}, issuer_id")
        return [FoundList(data, issuer_id) for data, issuer_id in rows if issuer_id in issuers]

    return _once(path, job, writes=False)


def remember_list(path: Path, issuer_id: str, text: bytes, replaces: Callable[[bytes | None], bool]) -> None:
    """Remember an issuer's list that is in force. `replaces` is given the remembered list, or None, and says whether
    the new one replaces it. Raises `StoreUnavailable`."""

    def job(connection: sqlite3.Connection) -> None:
        row = connection.execute(f"SELECT {_LIST} FROM known_lists WHERE issuer_id = ?", (issuer_id,)).fetchone()
        known = row[0] if row else None
        if known != text and replaces(known):
            connection.execute("INSERT OR REPLACE INTO known_lists VALUES (?, ?)", (issuer_id, text))

    _once(path, job, writes=True)


def _once(path: Path, job: Job[T], *, writes: bool) -> T:
    with contextlib.closing(Database(path, "FULL", upgrades=writes)) as database:
        return database.transact_waiting(job, writes=writes)


def _versions(connection: sqlite3.Connection) -> list[tuple[str, int]]:
    return _rows(connection, "revocations", "issuer_id, version")


def _lists(connection: sqlite3.Connection) -> list[FoundList]:
    return [FoundList(*row) for row in _rows(connection, "revocations", f"{_LIST}, issuer_id")]


def _rows(connection: sqlite3.Connection, table: Literal["revocations", "known_lists"], columns: str) -> list[Any]:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version < _SINCE[table]:
        return []
    return connection.execute(f"SELECT {columns} FROM {table} ORDER BY issuer_id").fetchall()
