"""The log's tables in an SQLite file. Blocking I/O.

The code makes as few statements as it can: each releases the interpreter's lock, and getting that back takes a while.
"""

# ruff: noqa: S608 - statements are made of constants

import itertools
import sqlite3
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, TypeVar

import msgspec

from accredit.attest import Stored
from accredit.attest.statements import GENESIS
from accredit.errors import StoreUnavailable
from accredit.limits import MAX_LEFT_WRITERS, STORE_LOCK_SECONDS, STORE_WAIT_SECONDS
from accredit.stores.audit_log.reading import entry_in, key_range, open_in
from accredit.stores.audit_log.schema import OF_CALL, short
from accredit.stores.audit_log.tables import (
    RECORD,
    WRITER_ID,
    ChainChange,
    ChainEnd,
    ChainMoved,
    NewEntry,
    NewestEntry,
    OpenCall,
    OpenWriters,
    encode_members,
    limit_payloads,
)
from accredit.stores.sqlite.database import Database, Job

LOG_TAIL_ENTRIES = 200_000
"""How many entries of a log's file are searched at a time for the last one of a chain, the newest first (0.2 s). A
writer that has done nothing for long has it further back. Entries are counted, not their numbers: these may be anything
in a file that somebody has changed."""
ROWS_A_STATEMENT = 100
"""Rows inserted by one statement: SQLite before 3.32 accepts at most 999 values in one."""


T = TypeVar("T")

_END = "SELECT name, writer, records, head, checkpointed, turn, over FROM log_writers WHERE name = ?"
_ADD = (
    "INSERT INTO log_writers (name, records, head, checkpointed, turn, over) VALUES (?, 0, ?, 0, 0, 0)"
    " ON CONFLICT DO NOTHING"
)
_LAST_ENTRY = "SELECT coalesce(max(entry), 0) FROM log_entries"
_TAIL = "SELECT entry, writer FROM log_entries WHERE entry <= ? ORDER BY entry DESC LIMIT ?"
_BEFORE = "SELECT entry FROM log_entries WHERE entry <= ? ORDER BY entry DESC LIMIT 1 OFFSET ?"
_INSERT = "INSERT INTO log_entries (entry, writer, number, key, payload, ed25519, ml_dsa_65, members, proof)"
_MOVE_ON = "UPDATE log_writers SET records = ?, head = ?, checkpointed = ?, turn = ? WHERE writer = ?"
_OPEN = "INSERT INTO log_open (call, writer, entry, resume)"
_THESE = (
    "FROM log_open WHERE call IN (SELECT value FROM json_each(?))"
    " AND writer = (SELECT writer FROM log_writers WHERE name = ?)"
)
_CLAIM = (
    "UPDATE log_open SET writer = (SELECT writer FROM log_writers WHERE name = ?1) WHERE call = ?2 AND resume = ?3"
    " AND EXISTS (SELECT 1 FROM log_writers WHERE name = ?1 AND over = 0)"
)
_OTHERS = "SELECT substr(name, 1, 33) FROM log_writers WHERE over = 0 AND name <> ? ORDER BY writer LIMIT ?"
_ENTRY = f"w.name, e.number, k.id, {short('payload, ed25519, ml_dsa_65, members', 'e.')}"
_WITH_NAMES = "LEFT JOIN log_writers w ON w.writer = e.writer LEFT JOIN log_keys k ON k.key = e.key"
_NEWEST = (
    f"SELECT {_ENTRY} FROM log_entries e {_WITH_NAMES}"
    f" WHERE e.entry = (SELECT entry FROM ({_TAIL}) WHERE writer = ? LIMIT 1)"
)
_AT = f"SELECT {_ENTRY} FROM log_entries e {_WITH_NAMES} WHERE e.entry = ?"
_OPEN_CALLS = (
    f"SELECT o.call, {_ENTRY} FROM log_open o LEFT JOIN log_entries e ON e.entry = o.entry {_WITH_NAMES} WHERE"
)
_OF_WRITER = "o.writer = (SELECT writer FROM log_writers WHERE name = ?) AND o.call > ? ORDER BY o.call LIMIT ?"
_OF_CALL = f"SELECT {short('payload')} FROM log_entries WHERE {OF_CALL} LIMIT ?"


class FileTables:
    """`LogTables` in a file. No method waits for anything but the disk and the file's lock.

    Each method is a transaction. Only the methods that write hold the file's lock, and nothing is signed while it is
    held: a signer may be slow, or hang, and others write to the same file.
    """

    def __init__(self, database: Database, deadline: float) -> None:
        """After `deadline` (seconds of the monotonic clock), nobody waits for an answer."""
        self._database = database
        self._deadline = deadline

    async def add_writer(self, name: str) -> None:
        """Add a writer, unless it exists."""
        self._write(lambda connection: connection.execute(_ADD, (name, GENESIS)))

    async def find_others(self, name: str, left: Sequence[str]) -> OpenWriters:
        """Return all other writers without an end. Whether they are dead is found later, by the locks of their
        files."""
        rows = self._read(lambda connection: connection.execute(_OTHERS, (name, 2 * MAX_LEFT_WRITERS)).fetchall())
        found = [other for (other,) in rows if isinstance(other, str) and WRITER_ID.fullmatch(other)]
        were_left = {*left}
        others = [other for other in found if other not in were_left]
        return OpenWriters(others, [other for other in found if other in were_left], len(rows) - len(found))

    async def end_of(self, name: str) -> ChainEnd:
        """Return the end of a chain."""
        return await self._found(name, lambda connection, end: end)

    async def newest_of(self, name: str, further: int | None = None) -> NewestEntry:
        """Return a chain's end and its newest entry, both from one state of the file. Only `LOG_TAIL_ENTRIES` entries
        are searched."""

        def read(connection: sqlite3.Connection, end: ChainEnd) -> tuple[ChainEnd, Sequence[Any] | None, int | None]:
            last = further if further is not None else connection.execute(_LAST_ENTRY).fetchone()[0]
            row = connection.execute(_NEWEST, (last, LOG_TAIL_ENTRIES, end.writer)).fetchone()
            if row is not None or end.records == 0:
                return end, row, None
            before = connection.execute(_BEFORE, (last, LOG_TAIL_ENTRIES)).fetchone()
            return end, None, before[0] if before is not None else None

        end, row, before = await self._found(name, read)
        return NewestEntry(end, entry_in(*row) if row is not None else None, before)

    async def open_among(self, name: str, calls: Sequence[str]) -> set[str]:
        """Return which of these calls are open, and this writer's to close."""
        rows = self._read(
            lambda connection: connection.execute(f"SELECT call {_THESE}", (_json(calls), name)).fetchall()
        )
        return {call for (call,) in rows}

    async def open_calls(self, name: str, after: str, most: int) -> Sequence[OpenCall]:
        """Return some of a writer's open calls."""
        return self._read_open(_OF_WRITER, name, after, most)

    async def payloads_of(self, call: str, most: int) -> Sequence[bytes]:
        """Return the payloads of a call's records, found by the index."""
        return self._read(lambda connection: payloads_of(connection, call, most))

    async def open_by(self, resume: bytes) -> Sequence[OpenCall]:
        """Return the first open calls, at most eight, with the key `resume`."""
        return self._read_open("o.resume = ? LIMIT 8", resume)

    async def claim(self, name: str, open_call: OpenCall, resume: bytes) -> None:
        """Make the call this writer's."""
        claimed = self._write(lambda connection: connection.execute(_CLAIM, (name, open_call.call, resume)).rowcount)
        if not claimed:
            raise ChainMoved("a call is not open any more")

    async def write(self, change: ChainChange) -> None:
        """Write all of a change, or nothing."""
        self._write(lambda connection: _write(connection, change))

    async def touch(self, name: str) -> None:
        """Write without changing anything, as a test of whether writes are kept (`LogTables`)."""
        self._write(lambda connection: connection.execute("UPDATE log_writers SET over = over WHERE name = ?", (name,)))

    async def end(self, name: str) -> bool:
        """End a writer that has no open calls. If it has no records either, delete it."""
        return self._write(lambda connection: _end(connection, name))

    async def _found(self, name: str, read: Callable[[sqlite3.Connection, ChainEnd], T]) -> T:
        """Read something of a writer, whose row is made if it is not there."""

        def job(connection: sqlite3.Connection) -> tuple[T] | None:
            end = _read_end(connection, name)
            return None if end is None else (read(connection, end),)

        for _ in range(2):
            found = self._read(job)
            if found is not None:
                return found[0]
            await self.add_writer(name)  # the file has replaced another one while that was open
        raise StoreUnavailable(f"the row of writer {name} is not kept")

    def _read_open(self, which: str, *values: object) -> list[OpenCall]:
        rows = self._read(lambda connection: connection.execute(f"{_OPEN_CALLS} {which}", values).fetchall())
        return list(map(open_in, rows))

    def _read(self, job: Job[T]) -> T:
        return self._database.transact_waiting(job, writes=False, deadline=self._deadline)

    def _write(self, job: Job[T]) -> T:
        # The lock is waited for, however long the signatures took.
        deadline = max(self._deadline, monotonic() + STORE_WAIT_SECONDS - STORE_LOCK_SECONDS)
        return self._database.transact_waiting(job, writes=True, deadline=deadline)


def payloads_of(connection: sqlite3.Connection, call: str, most: int) -> Sequence[bytes]:
    """Return what is recorded of a call, as `LogTables.payloads_of` does."""
    rows = connection.execute(_OF_CALL, (*key_range(call), most))
    return limit_payloads((payload for (payload,) in rows if isinstance(payload, bytes)), most)


def _read_end(connection: sqlite3.Connection, name: str) -> ChainEnd | None:
    row = connection.execute(_END, (name,)).fetchone()
    return None if row is None else ChainEnd(*row)


def _write(connection: sqlite3.Connection, change: ChainChange) -> None:
    after = change.after
    if _read_end(connection, after.name) != change.before:
        raise ChainMoved("the end of a chain is not where it was")
    (last,) = connection.execute(_LAST_ENTRY).fetchone()
    keys: dict[str, int] = {}
    rows = [
        (last + place, after.writer, *_columns(connection, keys, each)) for place, each in enumerate(change.entries, 1)
    ]
    places = {each.number: last + place for place, each in enumerate(change.entries, 1) if each.kind == RECORD}
    _insert(connection, _INSERT, rows)
    if change.before != after:
        moved = (after.records, after.head, after.checkpointed, after.turn, after.writer)
        connection.execute(_MOVE_ON, moved)
    opened = [(call, after.writer, places[number], change.resumes.get(call)) for call, number in change.opened.items()]
    _insert(connection, _OPEN, opened)
    if change.closed:
        closed = connection.execute(f"DELETE {_THESE}", (_json(change.closed), change.closed_of))
        if closed.rowcount != len(change.closed):
            raise ChainMoved("a call is not open any more")
    for chain in change.certificates.items():
        connection.execute("INSERT INTO log_delegations VALUES (?, ?) ON CONFLICT DO NOTHING", chain)


def _end(connection: sqlite3.Connection, name: str) -> bool:
    connection.execute(
        "UPDATE log_writers SET over = 1 WHERE name = ? AND writer NOT IN (SELECT writer FROM log_open)", (name,)
    )
    connection.execute("DELETE FROM log_writers WHERE name = ? AND over = 1 AND records = 0", (name,))
    open_still = "SELECT 1 FROM log_writers WHERE name = ? AND over = 0"
    return not connection.execute(open_still, (name,)).fetchone()


def _columns(connection: sqlite3.Connection, keys: dict[str, int], each: NewEntry) -> tuple[object, ...]:
    first, *rest = each.envelope.signatures
    if first.key_id not in keys:
        keys[first.key_id] = key_number(connection, first.key_id)
    second = rest[0].data if rest else None
    return (
        each.number,
        keys[first.key_id],
        each.envelope.payload,
        first.data,
        second,
        encode_members(first),
        each.proof,
    )


def key_number(connection: sqlite3.Connection, key_id: str) -> int:
    """Return the number of a key id in `log_entries`, adding it if new."""
    row = connection.execute("SELECT key FROM log_keys WHERE id = ?", (key_id,)).fetchone()
    if row is None:
        connection.execute("INSERT INTO log_keys (id) VALUES (?)", (key_id,))
        return key_number(connection, key_id)
    return row[0]


def read_stored(connection: sqlite3.Connection, entry: int) -> Stored:
    """Return an entry by its number. Raises `AttestationError` for one that is damaged."""
    return entry_in(*connection.execute(_AT, (entry,)).fetchone())


def _json(calls: Sequence[str]) -> str:
    return msgspec.json.encode(calls).decode()


def _insert(connection: sqlite3.Connection, into: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows, with as few statements as possible."""
    for first in range(0, len(rows), ROWS_A_STATEMENT):
        some = rows[first : first + ROWS_A_STATEMENT]
        row = f"({', '.join('?' * len(some[0]))})"
        connection.execute(f"{into} VALUES {', '.join([row] * len(some))}", list(itertools.chain.from_iterable(some)))
