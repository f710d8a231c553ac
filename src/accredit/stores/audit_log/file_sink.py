"""Reads the log in an SQLite file for a sink, a receiver of its entries. Blocking I/O.

The sink's position is an entry's number. Writers take turns, so a later entry never has a smaller number, and pruning
keeps the numbers. The sink's process holds a lock in `FILE-sinks/`, which the kernel releases when the process ends.
"""

import sqlite3
from pathlib import Path
from typing import NamedTuple

from accredit.attest import Pruning, Stored, decode_statement
from accredit.errors import AttestationError
from accredit.stores.audit_log.places import WriterLock, acquire
from accredit.stores.audit_log.reader import LogFile
from accredit.stores.audit_log.reading import LogAway
from accredit.stores.audit_log.shipping import Batch, BatchBuilder, Sink, is_followed, readable
from accredit.stores.sqlite.database import Database


class _To(NamedTuple):
    file: tuple[int, int]
    before: int
    entry: int


class FileSink(Sink):
    """One sink, by name, of the log in a file."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._log = LogFile(path)
        self._database = Database(path)
        self._file: tuple[int, int] | None = None
        self._life: WriterLock | None = None

    def open(self) -> None:
        """Open the log, and take the sink's lock."""
        self._log.renew()  # a file that is not a log is refused, and not made into one
        self._log.release()
        self._life = acquire(self._path, self._name, "sinks")
        if self._life is None:
            raise is_followed(self._name)

    def close(self) -> None:
        """Release the sink."""
        self._log.close()
        self._database.close()
        if self._life is not None:
            self._life.close()

    def take(self) -> Batch:
        """Return the next entries."""
        try:
            self._log.renew()
            before = self._log.shipped(self._name)
            if before is None or self._log.file != self._file:
                return self._begin()
            return self._after(before)
        finally:
            self._log.release()

    def _begin(self) -> Batch:
        """Take the first batch from a file that does not know this sink yet: add the sink's row."""
        note = "" if self._file is None else f"{self._path} is another log now: what the one before still had is lost"
        self._file = self._log.file
        self._log.release()
        self._database.close()
        self._database = Database(self._path)
        self._database.transact_waiting(self._make_row, writes=True)
        return Batch((), 0, None, more=True, note=note)

    def _make_row(self, connection: sqlite3.Connection) -> None:
        connection.execute("INSERT OR IGNORE INTO log_sinks VALUES (?, 0)", (self._name,))

    def _after(self, before: int) -> Batch:
        note, start = "", before
        if self._log.newest() < before:
            note, start = f"{self._path} has lost entries, and is sent from its beginning", 0
        filling, entry = BatchBuilder(), start
        for each in readable(self._log.entries_after(start), filling):
            if filling.is_full:
                break
            entry = each.number
            if isinstance(each.entry, Stored):
                filling.add(each.entry.envelope)
                filling.pruned += _is_note(each.entry.envelope.payload)
            else:
                filling.pruned += 1
        to = _To(self._log.file, before, entry) if entry != before else None
        return Batch(tuple(filling.envelopes), filling.pruned, to, filling.is_full, note)

    def taken(self, batch: Batch) -> None:
        """Move the position past a batch that was sent, in one short transaction."""
        to = batch.to
        if to is None:
            return
        try:
            is_here = self._log.identity() == to.file
        except LogAway:
            return  # the next `take` reports it
        if is_here:
            self._database.transact_waiting(lambda connection: self._move(connection, to), writes=True)

    def _move(self, connection: sqlite3.Connection, to: _To) -> None:
        connection.execute(
            "UPDATE log_sinks SET entry = ? WHERE name = ? AND entry = ?", (to.entry, self._name, to.before)
        )


def _is_note(payload: bytes) -> bool:
    """Return whether an entry is a note of pruning. Such a note stands in the log where the last record that it covers
    stood."""
    try:
        return isinstance(decode_statement(payload).predicate, Pruning)
    except AttestationError:
        return False  # it is sent as it is
