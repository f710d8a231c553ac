"""Reading the log in an SQLite file. Blocking I/O; nothing is written.

An open log shows its state at the first read until it is closed; to see later entries, open it again. Closing it ends
all its cursors, so that none keeps the file in an old state.

Entries are returned as they are: `attest.verify_log` judges them. Something that can't even be an entry, or be read,
raises `AttestationError`: the file is damaged.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote

from accredit.attest import (
    CallRecord,
    Digest,
    Entry,
    Envelope,
    Fault,
    Head,
    LogKey,
    LogReport,
    RecordKey,
    Signature,
    Statement,
    Stored,
    decode_statement,
    verify_log,
)
from accredit.attest.signing import ML_DSA_65_SUFFIX
from accredit.errors import AttestationError, StoreUnavailable
from accredit.stores.audit_log.members import restored

_READ = (
    "SELECT entry, name, number, id, payload, ed25519, ml_dsa_65, digest, {members}"
    " FROM log_entries LEFT JOIN log_writers USING (writer) LEFT JOIN log_keys USING (key)"
)
_IS_OPEN = "WHERE entry IN (SELECT entry FROM log_open)"
_COLUMNS = "SELECT name FROM pragma_table_info('log_entries')"
_BEFORE_ALL = -(1 << 63)  # so that an entry that was moved before the first one (number 1) is read, too
_NO_SUCH_TABLE = "no such table"
_DAMAGED = (sqlite3.Error, UnicodeDecodeError)  # an error's own text may quote what is damaged


class Numbered(NamedTuple):
    """An entry of the log, and its number in the file: numbers grow."""

    number: int
    entry: Entry

    def statement(self) -> Statement | None:
        """Return the entry's statement, unverified, or None for a pruned record. Raises `AttestationError`."""
        return decode_statement(self.entry.envelope.payload) if isinstance(self.entry, Stored) else None

    def record(self) -> CallRecord | None:
        """Return the entry's record, unverified, or None for any other entry. Raises `AttestationError`."""
        statement = self.statement()
        return statement.predicate if statement and isinstance(statement.predicate, CallRecord) else None


class LogFile:
    """A log to read: `with LogFile(path) as log`. Raises `StoreUnavailable` for a file that can't be opened or has no
    log."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reading = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._path.stat()  # SQLite does not say why it can't open a file
        except OSError as error:
            raise StoreUnavailable(f"can't open {self._path}: {error.strerror}") from None
        address = f"file:{quote(str(self._path.absolute()))}?mode=ro"
        try:
            self._connection = sqlite3.connect(address, uri=True, isolation_level=None)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"can't open {self._path}: {error}") from None
        try:
            self._connection.execute("BEGIN")
            self._connection.execute("SELECT 1 FROM log_entries LIMIT 1").fetchone()
            # A file of an older accredit lacks this column until a gateway writes to it.
            has_members = ("members",) in self._connection.execute(_COLUMNS).fetchall()
        except _DAMAGED as error:
            self._connection.close()
            why = "it holds no log" if _NO_SUCH_TABLE in str(error) else str(error)
            raise StoreUnavailable(f"can't read {self._path}: {why}") from None
        self._read = _READ.format(members="members" if has_members else "NULL")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reading.close()
        self._connection.close()

    def verify(
        self,
        keys: Iterable[LogKey | RecordKey],
        kept: Sequence[Envelope | Head] = (),
        watch: Callable[[Iterator[Numbered]], Iterable[Numbered]] = iter,
    ) -> LogReport:
        """Verify the whole log. `watch` is given the entries and yields them on, to show progress."""
        try:
            heads = self.heads()
        except AttestationError as error:
            return LogReport(0, (), Fault("the writers", str(error)))
        return verify_log((each.entry for each in watch(self.entries())), keys, [*kept, *heads])

    def count(self) -> int:
        """Return the number of entries. Raises `AttestationError`."""
        for (count,) in self._rows("SELECT count(*) FROM log_entries"):
            return count
        return 0

    def heads(self) -> list[Head]:
        """Return the head of each writer's chain, as the store knows it. Raises `AttestationError`.

        Read them before the entries: chains grow meanwhile.
        """
        rows = self._rows("SELECT name, records, head FROM log_writers WHERE records <> 0")
        return [_head(*row) for row in rows]

    def entries(self, after: int = _BEFORE_ALL) -> Iterator[Numbered]:
        """Yield the entries after number `after`, in order. Raises `AttestationError`."""
        for row in self._rows(f"{self._read} WHERE entry > ? ORDER BY entry", after):
            yield _numbered(row)

    def newest_first(self) -> Iterator[Numbered]:
        """Yield all entries in reverse order. Raises `AttestationError`."""
        for row in self._rows(f"{self._read} ORDER BY entry DESC"):
            yield _numbered(row)

    def open_calls(self) -> Iterator[Numbered]:
        """Yield the decisions on calls that have no outcome yet, in order. Raises `AttestationError`."""
        for row in self._rows(f"{self._read} {_IS_OPEN} ORDER BY entry"):
            yield _numbered(row)

    def holding(self, text: str) -> Iterator[Numbered]:
        """Yield the entries that hold a text, such as a part of a call's id, in order. Raises `AttestationError`."""
        for row in self._rows(f"{self._read} WHERE instr(payload, CAST(? AS BLOB)) ORDER BY entry", text):
            yield _numbered(row)

    def summaries(self) -> Iterator[Numbered]:
        """Yield checkpoints and notes of pruning, in order. Raises `AttestationError`."""
        for row in self._rows(f"{self._read} WHERE ml_dsa_65 IS NOT NULL ORDER BY entry"):
            yield _numbered(row)

    def chains(self) -> Iterator[bytes]:
        """Yield the chains of certificates that calls came with, as JSON arrays. Raises `AttestationError`."""
        for (text,) in self._rows("SELECT certificates FROM log_delegations"):
            if isinstance(text, bytes):
                yield text

    def certificates(self, sha256: str) -> bytes | None:
        """Return the chain of certificates with this SHA-256, as a JSON array, or None. Raises `AttestationError`."""
        for (text,) in self._rows("SELECT certificates FROM log_delegations WHERE sha256 = ?", sha256):
            if not isinstance(text, bytes):
                raise AttestationError("a chain of certificates is damaged")
            return text
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


def _head(name: object, records: object, head: object) -> Head:
    if not isinstance(name, str) or not isinstance(records, int) or not isinstance(head, str):
        raise AttestationError("a writer's row is damaged")
    return Head(name, records, head)


def _numbered(row: tuple[Any, ...]) -> Numbered:
    entry, writer, number, key_id, payload, ed25519, ml_dsa_65, digest, members = row
    if not isinstance(writer, str) or not isinstance(number, int):
        raise AttestationError("the next entry has no writer or number")
    place = f"{writer}/{number}"
    signatures = (ed25519, ml_dsa_65)
    if payload is None:
        if not isinstance(digest, bytes) or len(digest) != 32 or (key_id, *signatures, members) != (None,) * 4:
            raise AttestationError(f"{place} is damaged", place)
        return Numbered(entry, Digest(writer, number, digest))
    blobs = (payload, ed25519) if ml_dsa_65 is None else (payload, ed25519, ml_dsa_65)
    if not all(isinstance(each, bytes) for each in blobs) or digest is not None or not isinstance(key_id, str | None):
        raise AttestationError(f"{place} is damaged", place)
    first = restored(Signature(key_id or "", ed25519), members)
    if first is None:
        raise AttestationError(f"{place} is damaged", place)
    second = () if ml_dsa_65 is None else (Signature((key_id or "") + ML_DSA_65_SUFFIX, ml_dsa_65),)
    return Numbered(entry, Stored(Envelope(payload, (first, *second)), place))
