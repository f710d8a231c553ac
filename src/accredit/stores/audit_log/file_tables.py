"""The log's tables in an SQLite file. Blocking I/O, on the given connection, in a transaction that has the file's lock.

The code makes as few statements as it can: each releases the interpreter's lock, and getting that back takes a while.
"""

# ruff: noqa: S608 - statements are made of constants

import itertools
import sqlite3
from collections.abc import Sequence

import msgspec

from accredit.attest import Stored
from accredit.attest.statements import GENESIS
from accredit.limits import MAX_LEFT_WRITERS
from accredit.stores.audit_log.reading import entry_in, key_range, open_in
from accredit.stores.audit_log.schema import OF_CALL, short
from accredit.stores.audit_log.tables import (
    RECORD,
    WRITER_ID,
    ChainChange,
    ChainEnd,
    NewEntry,
    OpenCall,
    OpenWriters,
    encode_members,
    limit_payloads,
)

LOG_TAIL_ENTRIES = 200_000
"""How many entries, counted from the end of a log's file, are searched for the last one of a chain (0.2 s). That is
enough: a dead writer is found within seconds, in which others add some 20,000 entries at most."""
ROWS_A_STATEMENT = 100
"""Rows inserted by one statement: SQLite before 3.32 accepts at most 999 values in one."""


_END = "SELECT name, writer, records, head, checkpointed, turn, over FROM log_writers WHERE name = ?"
_LAST_ENTRY = "SELECT coalesce(max(entry), 0) FROM log_entries"
_INSERT = "INSERT INTO log_entries (entry, writer, number, key, payload, ed25519, ml_dsa_65, members, proof)"
_MOVE_ON = "UPDATE log_writers SET records = ?, head = ?, checkpointed = ?, turn = ? WHERE writer = ?"
_OPEN = "INSERT INTO log_open (call, writer, entry, resume)"
_THESE = (
    "FROM log_open WHERE call IN (SELECT value FROM json_each(?))"
    " AND writer = (SELECT writer FROM log_writers WHERE name = ?)"
)
_OTHERS = "SELECT substr(name, 1, 33) FROM log_writers WHERE over = 0 AND name <> ? ORDER BY writer LIMIT ?"
_ENTRY = f"w.name, e.number, k.id, {short('payload, ed25519, ml_dsa_65, members', 'e.')}"
_WITH_NAMES = "LEFT JOIN log_writers w ON w.writer = e.writer LEFT JOIN log_keys k ON k.key = e.key"
_NEWEST = (
    f"SELECT {_ENTRY} FROM log_entries e {_WITH_NAMES}"
    f" WHERE e.writer = ? AND e.entry > (SELECT max(entry) FROM log_entries) - {LOG_TAIL_ENTRIES}"
    " ORDER BY e.entry DESC LIMIT 1"
)
_AT = f"SELECT {_ENTRY} FROM log_entries e {_WITH_NAMES} WHERE e.entry = ?"
_OPEN_CALLS = (
    f"SELECT o.call, {_ENTRY} FROM log_open o LEFT JOIN log_entries e ON e.entry = o.entry {_WITH_NAMES} WHERE"
)
_OF_WRITER = "o.writer = (SELECT writer FROM log_writers WHERE name = ?) AND o.call > ? ORDER BY o.call LIMIT ?"
_OF_CALL = f"SELECT {short('payload')} FROM log_entries WHERE {OF_CALL} LIMIT ?"


class FileTables:
    """`LogTables` in a file. No method waits for anything but the disk."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._keys: dict[str, int] = {}

    async def add_writer(self, name: str) -> None:
        """Add a writer, unless it exists."""
        self._connection.execute(
            "INSERT INTO log_writers (name, records, head, checkpointed, turn, over) VALUES (?, 0, ?, 0, 0, 0)"
            " ON CONFLICT DO NOTHING",
            (name, GENESIS),
        )

    async def find_others(self, name: str, left: Sequence[str]) -> OpenWriters:
        """Return all other writers without an end. Whether they are dead is found later, by the locks of their
        files."""
        rows = self._connection.execute(_OTHERS, (name, 2 * MAX_LEFT_WRITERS)).fetchall()
        found = [other for (other,) in rows if isinstance(other, str) and WRITER_ID.fullmatch(other)]
        were_left = {*left}
        others = [other for other in found if other not in were_left]
        return OpenWriters(others, [other for other in found if other in were_left], len(rows) - len(found))

    async def end_of(self, name: str) -> ChainEnd:
        """Return the end of a chain."""
        row = self._connection.execute(_END, (name,)).fetchone()
        if row is None:  # the file has replaced another one while that was open
            await self.add_writer(name)
            row = self._connection.execute(_END, (name,)).fetchone()
        return ChainEnd(*row)

    async def newest_of(self, name: str) -> tuple[ChainEnd, Stored | None]:
        """Return a chain's end and its newest entry. They belong to one state, as the file's lock is held."""
        end = await self.end_of(name)
        row = self._connection.execute(_NEWEST, (end.writer,)).fetchone()
        return end, entry_in(*row) if row is not None else None

    async def open_among(self, name: str, calls: Sequence[str]) -> set[str]:
        """Return which of these calls are open, and this writer's to close."""
        rows = self._connection.execute(f"SELECT call {_THESE}", (_json(calls), name))
        return {call for (call,) in rows}

    async def open_calls(self, name: str, after: str, most: int) -> Sequence[OpenCall]:
        """Return some of a writer's open calls."""
        return list(map(open_in, self._connection.execute(f"{_OPEN_CALLS} {_OF_WRITER}", (name, after, most))))

    async def payloads_of(self, call: str, most: int) -> Sequence[bytes]:
        """Return the payloads of a call's records, found by the index."""
        rows = self._connection.execute(_OF_CALL, (*key_range(call), most))
        return limit_payloads((payload for (payload,) in rows if isinstance(payload, bytes)), most)

    async def open_by(self, resume: bytes) -> Sequence[OpenCall]:
        """Return the first open calls, at most eight, with the key `resume`."""
        return list(map(open_in, self._connection.execute(f"{_OPEN_CALLS} o.resume = ? LIMIT 8", (resume,))))

    async def claim(self, name: str, open_call: OpenCall, resume: bytes) -> None:
        """Make the call this writer's. The transaction holds the file's lock, so nobody else can claim it meanwhile."""
        self._connection.execute(
            "UPDATE log_open SET writer = (SELECT writer FROM log_writers WHERE name = ?) WHERE call = ?",
            (name, open_call.call),
        )

    async def write(self, change: ChainChange) -> None:
        """Write a change. The transaction holds the file's lock: nobody has written since it read the chain's end."""
        after = change.after
        (last,) = self._connection.execute(_LAST_ENTRY).fetchone()
        rows = [self._row(last + place, after.writer, each) for place, each in enumerate(change.entries, 1)]
        places = {each.number: last + place for place, each in enumerate(change.entries, 1) if each.kind == RECORD}
        _insert(self._connection, _INSERT, rows)
        if change.before != after:
            moved = (after.records, after.head, after.checkpointed, after.turn, after.writer)
            self._connection.execute(_MOVE_ON, moved)
        opened = [
            (call, after.writer, places[number], change.resumes.get(call)) for call, number in change.opened.items()
        ]
        _insert(self._connection, _OPEN, opened)
        if change.closed:
            self._connection.execute(f"DELETE {_THESE}", (_json(change.closed), change.closed_of))
        for chain in change.certificates.items():
            self._connection.execute("INSERT INTO log_delegations VALUES (?, ?) ON CONFLICT DO NOTHING", chain)

    async def touch(self, name: str) -> None:
        """Write without changing anything, as a test of whether writes are kept (`LogTables`)."""
        self._connection.execute("UPDATE log_writers SET over = over WHERE name = ?", (name,))

    async def end(self, name: str) -> bool:
        """End a writer that has no open calls. If it has no records either, delete it."""
        self._connection.execute(
            "UPDATE log_writers SET over = 1 WHERE name = ? AND writer NOT IN (SELECT writer FROM log_open)", (name,)
        )
        self._connection.execute("DELETE FROM log_writers WHERE name = ? AND over = 1 AND records = 0", (name,))
        open_still = "SELECT 1 FROM log_writers WHERE name = ? AND over = 0"
        return not self._connection.execute(open_still, (name,)).fetchone()

    def _row(self, entry: int, writer: int, each: NewEntry) -> tuple[object, ...]:
        first, *rest = each.envelope.signatures
        key = self._keys.get(first.key_id)
        if key is None:
            key = self._keys[first.key_id] = key_number(self._connection, first.key_id)
        second = rest[0].data if rest else None
        return (
            entry,
            writer,
            each.number,
            key,
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
