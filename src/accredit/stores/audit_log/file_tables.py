"""The log's tables in an SQLite file. Blocking I/O, on the given connection, in a transaction that has the file's lock.

Few statements are made: each releases the interpreter, and getting it back takes a while.
"""

import itertools
import sqlite3
from collections.abc import Sequence

import msgspec

from accredit.attest import Head
from accredit.attest.statements import GENESIS
from accredit.limits import ROWS_A_STATEMENT
from accredit.stores.audit_log.members import kept
from accredit.stores.audit_log.tables import RECORD, ChainEnd, Change, Claimed, NewEntry

_END = "SELECT name, writer, records, head, checkpointed, turn, over FROM log_writers WHERE name = ?"
_LAST_ENTRY = "SELECT coalesce(max(entry), 0) FROM log_entries"
_INSERT = "INSERT INTO log_entries (entry, writer, number, key, payload, ed25519, ml_dsa_65, members)"
_MOVE_ON = "UPDATE log_writers SET records = ?, head = ?, checkpointed = ?, turn = ? WHERE writer = ?"
_OPEN = "INSERT INTO log_open (call, writer, entry, resume)"
_THESE = (
    "FROM log_open WHERE call IN (SELECT value FROM json_each(?))"
    " AND writer = (SELECT writer FROM log_writers WHERE name = ?)"
)


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

    async def find_others(self, name: str) -> Sequence[str]:
        """Return all that have not ended: which of them live, their locks say."""
        rows = self._connection.execute("SELECT name FROM log_writers WHERE over = 0 AND name <> ?", (name,))
        return [other for (other,) in rows]

    async def end_of(self, name: str) -> ChainEnd:
        """Return the end of a chain."""
        row = self._connection.execute(_END, (name,)).fetchone()
        if row is None:  # the file has replaced another one while that was open
            await self.add_writer(name)
            row = self._connection.execute(_END, (name,)).fetchone()
        return ChainEnd(*row)

    async def open_among(self, name: str, calls: Sequence[str]) -> set[str]:
        """Return those of these calls that are open, and this writer's."""
        rows = self._connection.execute(f"SELECT call {_THESE}", (_json(calls), name))
        return {call for (call,) in rows}

    async def open_calls(self, name: str, most: int) -> Sequence[tuple[str, object]]:
        """Return some of a writer's open calls."""
        return self._connection.execute(
            "SELECT call, payload FROM log_open JOIN log_writers USING (writer) LEFT JOIN log_entries USING (entry)"
            " WHERE name = ? LIMIT ?",
            (name, most),
        ).fetchall()

    async def claim(self, name: str, resume: bytes) -> Claimed:
        """Make an open call this writer's."""
        found = self._connection.execute(
            "SELECT call, payload FROM log_open LEFT JOIN log_entries USING (entry) WHERE resume = ?", (resume,)
        ).fetchall()
        if len(found) != 1:
            return Claimed(len(found))
        ((call, payload),) = found
        self._connection.execute(
            "UPDATE log_open SET writer = (SELECT writer FROM log_writers WHERE name = ?) WHERE call = ?", (name, call)
        )
        return Claimed(1, payload if isinstance(payload, bytes) else None)

    async def write(self, change: Change) -> None:
        """Nobody else has written since it was read, as one transaction holds the file's lock."""
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
        """Rewrite an existing value."""
        self._connection.execute("UPDATE log_writers SET over = over WHERE name = ?", (name,))

    async def end(self, name: str) -> bool:
        """A writer without records is deleted."""
        self._connection.execute(
            "UPDATE log_writers SET over = 1 WHERE name = ? AND writer NOT IN (SELECT writer FROM log_open)", (name,)
        )
        self._connection.execute("DELETE FROM log_writers WHERE name = ? AND over = 1 AND records = 0", (name,))
        open_still = "SELECT 1 FROM log_writers WHERE name = ? AND over = 0"
        return not self._connection.execute(open_still, (name,)).fetchone()

    async def signed_head(self, name: str) -> Head | None:
        """Return a writer's head if it is signed."""
        row = self._connection.execute(
            "SELECT records, head FROM log_writers WHERE name = ? AND records = checkpointed AND records > 0", (name,)
        ).fetchone()
        return Head(name, *row) if row else None

    def _row(self, entry: int, writer: int, each: NewEntry) -> tuple[object, ...]:
        first, *rest = each.envelope.signatures
        key = self._keys.get(first.key_id)
        if key is None:
            key = self._keys[first.key_id] = key_number(self._connection, first.key_id)
        second = rest[0].data if rest else None
        return (entry, writer, each.number, key, each.envelope.payload, first.data, second, kept(first))


def key_number(connection: sqlite3.Connection, key_id: str) -> int:
    """Return the number that stands for a key id in `log_entries`."""
    row = connection.execute("SELECT key FROM log_keys WHERE id = ?", (key_id,)).fetchone()
    if row is None:
        connection.execute("INSERT INTO log_keys (id) VALUES (?)", (key_id,))
        return key_number(connection, key_id)
    return row[0]


def _json(calls: Sequence[str]) -> str:
    return msgspec.json.encode(calls).decode()


def _insert(connection: sqlite3.Connection, into: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows, with as few statements as possible."""
    for first in range(0, len(rows), ROWS_A_STATEMENT):
        some = rows[first : first + ROWS_A_STATEMENT]
        row = f"({', '.join('?' * len(some[0]))})"
        connection.execute(f"{into} VALUES {', '.join([row] * len(some))}", list(itertools.chain.from_iterable(some)))
