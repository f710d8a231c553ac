"""The end of a writer's chain while records are appended to it. Blocking I/O, on the given connection.

The state that one record passes to the next is read from the tables once, and nothing is written before `Tail.write`.
All records of a transaction go into one statement: each statement releases the interpreter, and getting it back takes a
while.
"""

import itertools
import sqlite3
from collections.abc import Callable, Sequence

from accredit.attest import Envelope, LogSigner, Place, checkpoint_payload, sha256_hex
from accredit.attest.statements import GENESIS
from accredit.errors import StoreUnavailable
from accredit.limits import CHECKPOINT_RECORDS, ROWS_A_STATEMENT
from accredit.stores.audit_log.members import kept

_HEAD = "SELECT writer, records, head, checkpointed, turn, over FROM log_writers WHERE name = ?"
_LAST_ENTRY = "SELECT coalesce(max(entry), 0) FROM log_entries"
_INSERT = "INSERT INTO log_entries (entry, writer, number, key, payload, ed25519, ml_dsa_65, members)"
_MOVE_ON = "UPDATE log_writers SET records = ?, head = ?, checkpointed = ?, turn = ? WHERE writer = ?"


class Tail:
    """The end of the chain of the writer `name`. `writer` is its number, `turn` the last turn of the queue that was
    written. Raises `StoreUnavailable` for a writer that has ended."""

    def __init__(self, connection: sqlite3.Connection, signer: LogSigner, name: str) -> None:
        add_writer(connection, name)  # the file may have replaced another one while that was open
        self._connection, self._signer, self._name = connection, signer, name
        self.writer, self._records, self._head, self._checkpointed, self.turn, over = connection.execute(
            _HEAD, (name,)
        ).fetchone()
        if over:  # its calls are closed, so no call of it may be opened
            raise StoreUnavailable(f"another process took writer {name} for dead, and has ended it: restart")
        (self._entry,) = connection.execute(_LAST_ENTRY).fetchone()
        self._keys: dict[str, int] = {}
        self._rows: list[tuple[object, ...]] = []

    def append(self, payload_of: Callable[[Place], bytes], now_ms: int) -> int:
        """Add one more record and return its entry's number. Raises `AttestationError` before anything has changed."""
        place = Place(writer=self._name, sequence=self._records + 1, previous=self._head)
        payload = payload_of(place)
        entry = self._add(place.sequence, self._signer.record(payload))
        self._records, self._head = place.sequence, sha256_hex(payload)
        if self._records - self._checkpointed >= CHECKPOINT_RECORDS:
            self.checkpoint(now_ms)
        return entry

    def checkpoint(self, now_ms: int) -> None:
        """Add a checkpoint of all records so far, unless there is one."""
        if self._records > self._checkpointed:
            payload = checkpoint_payload(self._name, self._records, self._head, now_ms)
            self._add(self._records, self._signer.summary(payload))
            self._checkpointed = self._records

    def write(self) -> None:
        """Write everything into the tables."""
        insert(self._connection, _INSERT, self._rows)
        self._connection.execute(
            _MOVE_ON, (self._records, self._head, self._checkpointed, self.turn, self.writer)
        )  # fmt: skip

    def _add(self, number: int, envelope: Envelope) -> int:
        first, *rest = envelope.signatures
        key = self._keys.get(first.key_id)
        if key is None:
            key = self._keys[first.key_id] = key_number(self._connection, first.key_id)
        self._entry += 1
        second = rest[0].data if rest else None
        self._rows.append((self._entry, self.writer, number, key, envelope.payload, first.data, second, kept(first)))
        return self._entry


def insert(connection: sqlite3.Connection, into: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Insert rows, with as few statements as possible."""
    for first in range(0, len(rows), ROWS_A_STATEMENT):
        some = rows[first : first + ROWS_A_STATEMENT]
        row = f"({', '.join('?' * len(some[0]))})"
        connection.execute(f"{into} VALUES {', '.join([row] * len(some))}", list(itertools.chain.from_iterable(some)))


def key_number(connection: sqlite3.Connection, key_id: str) -> int:
    """Return the number that stands for a key id in `log_entries`."""
    row = connection.execute("SELECT key FROM log_keys WHERE id = ?", (key_id,)).fetchone()
    if row is None:
        connection.execute("INSERT INTO log_keys (id) VALUES (?)", (key_id,))
        return key_number(connection, key_id)
    return row[0]


def add_writer(connection: sqlite3.Connection, name: str) -> None:
    """Add a writer, unless it exists."""
    connection.execute(
        "INSERT INTO log_writers (name, records, head, checkpointed, turn, over) VALUES (?, 0, ?, 0, 0, 0)"
        " ON CONFLICT DO NOTHING",
        (name, GENESIS),
    )
