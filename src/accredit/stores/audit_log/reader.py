"""Reads the log in an SQLite file. Blocking I/O; nothing is written.

The query of `entries`, which serves verification, has no condition, so that it misses no row. All other queries read a
part of the log. In a table that was made by hand, the value of `entry` may be something else than an integer: a reader
treats such a row as damage. It does the same with an entry of more than `MAX_ATTESTATION_BYTES`, which is not read at
all.

Closing the log ends all its cursors, so that none keeps an old state of the file alive.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from accredit.attest import Checkpoint, Digest, Head
from accredit.errors import AttestationError, StoreUnavailable
from accredit.limits import MAX_ATTESTATION_BYTES
from accredit.stores.audit_log.reading import (
    NO_PLACE,
    Bookmark,
    LogAway,
    LogReader,
    NumberedEntry,
    certificates_in,
    damage_error,
    head_in,
    key_range,
    open_call,
    read_entry,
    windows,
)
from accredit.stores.audit_log.schema import OF_CALL, SHORT_CERTIFICATES, SHORT_PROOF, short
from accredit.stores.audit_log.tables import OpenCall
from accredit.stores.sqlite.database import check_regular

_READ = (
    "SELECT entry, name, number, id, {columns}"
    " FROM log_entries LEFT JOIN log_writers USING (writer) LEFT JOIN log_keys USING (key)"
)
_IS_OPEN = "WHERE entry IN (SELECT entry FROM log_open)"
# Longer call ids than are possible are not read.
_OPEN_ROWS = (
    "SELECT substr(o.call, 1, 33), (SELECT h.name FROM log_writers h WHERE h.writer = o.writer AND h.over = 0),"
    " e.entry, w.name, e.number, k.id, {columns}"
    " FROM log_open o LEFT JOIN log_entries e ON e.entry = o.entry LEFT JOIN log_writers w ON w.writer = e.writer"
    " LEFT JOIN log_keys k ON k.key = e.key ORDER BY o.call LIMIT ?"
)
# Two index lookups; with both in one query SQLite would read every row.
_ENDS = "SELECT coalesce((SELECT min(entry) FROM log_entries), 1), coalesce((SELECT max(entry) FROM log_entries), 0)"
_COLUMNS = "SELECT name FROM pragma_table_info('log_entries')"
_INDEX = "SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = 'log_calls'"
_NO_SUCH_TABLE = "no such table"
_NO_NUMBER = "the file is damaged: the next entry is under no number"
_DAMAGED = (sqlite3.Error, UnicodeDecodeError)  # an error's own text may quote what is damaged


class _Position(NamedTuple):
    file: tuple[int, int]
    newest: int


class LogFile(LogReader):
    """The log in a file."""

    def __init__(self, path: Path, *, still: bool = False) -> None:
        """`still` says that nobody writes to the file: then SQLite makes no files beside it."""
        self.name = str(path)
        self._path = path
        self._how = "immutable=1" if still else "mode=ro"
        self._reading = ExitStack()

    def renew(self) -> None:
        """Open the file anew, in its current state."""
        self.release()
        try:
            self._open()
        except StoreUnavailable:
            self.release()
            raise

    def _open(self) -> None:
        check_regular(self._path)
        self.file = self.identity()  # SQLite does not say why it can't open a file
        address = f"file:{quote(str(self._path.absolute()))}?{self._how}"
        try:
            self._connection = sqlite3.connect(address, uri=True, isolation_level=None)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"can't open {self._path}: {error}") from None
        self._reading.callback(self._connection.close)
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_ATTESTATION_BYTES)
        try:
            self._connection.execute("BEGIN")
            self._connection.execute("SELECT 1 FROM log_entries LIMIT 1").fetchone()
            # A file of an older accredit lacks some columns until a gateway writes to it.
            there = {name for (name,) in self._connection.execute(_COLUMNS)}
            self._has_calls = self._connection.execute(_INDEX).fetchone() is not None
        except _DAMAGED as error:
            if _NO_SUCH_TABLE in str(error):
                raise LogAway(f"can't read {self._path}: it holds no log") from None
            raise StoreUnavailable(f"can't read {self._path}: {error}") from None
        if self.identity() != self.file:
            raise LogAway(f"can't read {self._path}: it is being replaced")
        columns = short(f"payload, ed25519, ml_dsa_65, digest, {'members' if 'members' in there else 'NULL'}")
        self._read, self._open_rows = _READ.format(columns=columns), _OPEN_ROWS.format(columns=columns)
        self._read_all = _READ.format(columns=f"{columns}, {SHORT_PROOF if 'proof' in there else 'NULL'}")

    def release(self) -> None:
        """Close the file."""
        self._reading.close()

    def position(self) -> object:
        """Return the identity of the file, and the number of its newest entry."""
        return _Position(self.file, self.newest())

    def after(self, position: object) -> Iterator[NumberedEntry] | None:
        """Yield the entries after a position. Return None if the position belongs to another file, or entries were lost
        since."""
        now = self.position()
        if not isinstance(position, _Position) or not isinstance(now, _Position):
            return None
        if position.file != now.file or position.newest > now.newest:
            return None
        return self.entries_after(position.newest)

    def identity(self) -> tuple[int, int]:
        """Return the identity of the file that is at the path now. Raises `LogAway`."""
        try:
            status = self._path.stat()
        except OSError as error:
            raise LogAway(f"can't open {self._path}: {error.strerror}") from None
        return status.st_dev, status.st_ino

    def shipped(self, sink: str) -> int | None:
        """Return the number of the last entry sent to a sink; None if this file does not know the sink."""
        try:
            rows = self._connection.execute("SELECT entry FROM log_sinks WHERE name = ?", (sink,)).fetchall()
        except sqlite3.Error as error:
            if _NO_SUCH_TABLE in str(error):  # a file of an older accredit
                return None
            raise AttestationError(f"the file is damaged: {error}") from None
        return rows[0][0] if rows and isinstance(rows[0][0], int) else None

    def sinks(self) -> list[str]:
        """Return the names of the log's sinks."""
        if next(self._rows("SELECT 1 FROM sqlite_master WHERE name = 'log_sinks'"), None) is None:
            return []  # a file of an older accredit
        return [str(name) for (name,) in self._rows("SELECT name FROM log_sinks ORDER BY name")]

    def behind(self, sink: str) -> int:
        """Return about how many entries were not sent to a sink, computed from their numbers."""
        return self.newest() - self._sent(sink)

    def unsent(self, sink: str) -> NumberedEntry | None:
        """Return the first entry not sent to a sink."""
        return next(self.entries_after(self._sent(sink)), None)

    def _sent(self, sink: str) -> int:
        sent = self.shipped(sink) or 0
        return sent if sent <= self.newest() else 0  # a log that has lost entries is sent from its start

    def newest(self) -> int:
        """Return the number of the newest entry, or 0."""
        return self._ends()[1]

    def count(self) -> int:
        """Return about how many entries there are, computed from the numbers of the first and the last."""
        oldest, newest = self._ends()
        return newest - oldest + 1

    def heads(self) -> list[Head]:
        """Return the head of each writer's chain."""
        rows = self._rows("SELECT name, records, head FROM log_writers WHERE records <> 0")
        return [head_in(*row) for row in rows]

    def entries(self, *, proofs: bool = False) -> Iterator[NumberedEntry]:
        """Yield all entries, in order: every row of the table."""
        for row in self._rows(f"{self._read_all if proofs else self._read} ORDER BY entry"):
            yield _read_row(row)

    def entries_after(self, number: int) -> Iterator[NumberedEntry]:
        """Yield the entries after a number, in order."""
        for row in self._rows(f"{self._read} WHERE entry > ? ORDER BY entry", number):
            yield _read_row(row)

    def newest_first(self, before: int | None = None) -> Iterator[NumberedEntry]:
        """Yield all entries in reverse order, or those with a smaller number than `before`."""
        condition, values = ("", ()) if before is None else ("WHERE entry < ?", (before,))
        for row in self._rows(f"{self._read} {condition} ORDER BY entry DESC", *values):
            yield _read_row(row)

    def open_calls(self) -> Iterator[NumberedEntry]:
        """Yield the decisions on open calls."""
        for row in self._rows(f"{self._read} {_IS_OPEN} ORDER BY entry"):
            yield _read_row(row)

    def open_rows(self, most: int) -> Iterator[OpenCall]:
        """Yield the rows of the list of open calls."""
        for call, writer, *row in self._rows(self._open_rows, most):
            yield open_call(call, writer, partial(_read_row, tuple(row)))

    def holding(self, text: str, since: Bookmark | None = None) -> Iterator[NumberedEntry]:
        """Yield the entries that contain a text, newest first. With `since`, yield those from there on, in order."""
        part = text.encode("utf-8", "surrogatepass")
        if since is None:
            found = ((first, last, "DESC") for first, last in self._backwards())
        else:
            found = ((first, last, "ASC") for first, last in windows(since.number, self._ends()[1]))
        query = f"{self._read} WHERE instr(payload, ?) AND entry BETWEEN ? AND ? ORDER BY entry"
        for first, last, order in found:
            for row in self._rows(f"{query} {order}", part, first, last):
                yield _read_row(row)

    def of_calls(self, prefix: str) -> Iterator[NumberedEntry]:
        """Yield the records of calls whose ids begin with this prefix, with one index lookup for each run of entries. A
        file of an older accredit lacks the index until a gateway opens it: there the log is scanned, newest first."""
        if not self._has_calls:
            yield from self.holding(prefix)
            return
        for row in self._rows(f"{self._read_all} WHERE {OF_CALL} ORDER BY entry", *key_range(prefix)):
            yield _read_row(row)

    def summaries(self) -> Iterator[NumberedEntry]:
        """Yield checkpoints and notes of pruning, in order."""
        for row in self._rows(f"{self._read} WHERE ml_dsa_65 IS NOT NULL ORDER BY entry"):
            yield _read_row(row)

    def latest_checkpoints(self) -> Iterator[NumberedEntry]:
        """Yield the latest checkpoint of each chain that has one, found by a scan from the newest entry."""
        missing = {name for (name,) in self._rows("SELECT name FROM log_writers WHERE checkpointed <> 0")}
        query = f"{self._read} WHERE ml_dsa_65 IS NOT NULL AND entry BETWEEN ? AND ? ORDER BY entry DESC"
        for first, last in self._backwards() if missing else ():
            for row in self._rows(query, first, last):
                entry = _read_row(row)
                said = entry.statement()
                if said and isinstance(said.predicate, Checkpoint) and said.predicate.writer in missing:
                    missing.discard(said.predicate.writer)
                    yield entry
            if not missing:
                return

    def _ends(self) -> tuple[int, int]:
        """Return the numbers of the first and the last entry; 1 and 0 for an empty log."""
        ((oldest, newest),) = self._rows(_ENDS)
        if not isinstance(oldest, int) or not isinstance(newest, int):
            raise AttestationError(_NO_NUMBER)
        return oldest, newest

    def _backwards(self) -> Iterator[tuple[int, int]]:
        """Yield ranges of entries, (first, last), that cover the log, newest first. They grow from a short one."""
        oldest, newest = self._ends()
        return ((-last, -first) for first, last in windows(-newest, -oldest))

    def chains(self) -> Iterator[bytes]:
        """Yield the certificate chains of calls."""
        for (text,) in self._rows(SHORT_CERTIFICATES):
            yield text if isinstance(text, bytes) else b""

    def certificates(self, sha256: str) -> bytes | None:
        """Return the certificate chain with this SHA-256."""
        for (text,) in self._rows(f"{SHORT_CERTIFICATES} WHERE sha256 = ?", sha256):
            return certificates_in(text)
        return None

    def _rows(self, query: str, *values: object) -> Iterator[Any]:
        try:
            cursor = self._connection.execute(query, values)
            # A half-read cursor that is still alive would keep a closed connection reading.
            self._reading.callback(cursor.close)
            # Not `yield from`: it would close the cursor of an abandoned generator, possibly after its connection.
            for row in cursor:  # noqa: UP028
                yield row
        except _DAMAGED as error:
            raise AttestationError(f"the file is damaged: {error}") from None


def _read_row(row: tuple[Any, ...]) -> NumberedEntry:
    entry, writer, number, key_id, payload, ed25519, ml_dsa_65, digest, members, *proof = row
    if not isinstance(entry, int):
        raise AttestationError(_NO_NUMBER)
    if payload is not None:
        if digest is not None:
            members = ""  # a type that no entry has
        return read_entry(entry, writer, number, key_id, payload, ed25519, ml_dsa_65, members, *proof)
    if not isinstance(writer, str) or not isinstance(number, int):
        raise AttestationError(NO_PLACE)
    if not isinstance(digest, bytes) or len(digest) != 32 or (key_id, ed25519, ml_dsa_65, members) != (None,) * 4:
        raise damage_error(f"{writer}/{number}")
    return NumberedEntry(entry, Digest(writer, number, digest))
