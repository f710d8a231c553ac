"""Keeps one mark for each record while a log of any length is verified. Blocking I/O: a temporary file.

The file is SQLite's own: an unnamed database. It is in a cache of `MARKS_CACHE_KIB` until that is full, then in the
temporary folder (`SQLITE_TMPDIR`, `TMPDIR`). It has no name there, and is gone when the process ends.
"""

import sqlite3
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import ClassVar, Self

from accredit.attest import Mark
from accredit.errors import StoreUnavailable

MARKS_AT_ONCE, MARKS_CACHE_KIB = 4_096, 16_384
"""How many marks (some 60 bytes each) a verification writes at one time to its temporary file, and how many KiB of that
file are kept in memory. The marks of a log of 100,000 records fit into that memory."""


_SETTINGS = (
    "PRAGMA journal_mode = OFF",
    "PRAGMA synchronous = OFF",
    "PRAGMA temp_store = FILE",
    f"PRAGMA cache_size = -{MARKS_CACHE_KIB}",
)
_IN_ORDER = "SELECT lower(hex(call)), place, chain, sequence, says, received FROM marks ORDER BY call, place"


class InTemporaryFile:
    """A temporary database with one table. Between `__enter__` and `__exit__` it is in one transaction."""

    table: ClassVar[str]
    """The statement that creates the table."""

    def __enter__(self) -> Self:
        self._connection = sqlite3.connect("", isolation_level=None)
        for statement in (*_SETTINGS, self.table, "BEGIN"):
            self._connection.execute(statement)
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


class MarksInFile(InTemporaryFile):
    """`with MarksInFile() as marks`: an `attest.Marks`. All of it may raise `StoreUnavailable`."""

    table = (
        "CREATE TABLE marks (call BLOB, place INTEGER, chain INTEGER, sequence INTEGER, says INTEGER, received TEXT)"
    )

    def __init__(self) -> None:
        self._new: list[Mark] = []

    def add(self, mark: Mark) -> None:
        """Keep a mark."""
        self._new.append(mark)
        if len(self._new) >= MARKS_AT_ONCE:
            self._write()

    def by_call(self) -> Iterator[Mark]:
        """Yield all marks, those of one call together."""
        self._write()
        with temporary_room():
            for row in self._connection.execute(_IN_ORDER):
                yield Mark(*row)

    def _write(self) -> None:
        rows = [(bytes.fromhex(mark.call), *mark[1:]) for mark in self._new]
        self._new.clear()
        with temporary_room():
            self._connection.executemany("INSERT INTO marks VALUES (?, ?, ?, ?, ?, ?)", rows)


@contextmanager
def temporary_room() -> Generator[None]:
    """Raise `StoreUnavailable` if a temporary database fails within this block."""
    try:
        yield
    except sqlite3.Error as error:
        what = "the temporary file for what is known of each call can't be used (TMPDIR)"
        raise StoreUnavailable(f"{what}: {error}") from None
