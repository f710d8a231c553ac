"""What is done to the tables of the log within one transaction. Blocking I/O, on the connection that is passed in.

Everything that goes on from one record to the next is read from the tables each time: a transaction that is undone
leaves no trace, and the next one is numbered as if it had not been.
"""

import sqlite3
from collections.abc import Callable, Sequence
from typing import NamedTuple

from accredit.attest import (
    CallRecord,
    Decided,
    Envelope,
    Head,
    LogSigner,
    Outcome,
    Place,
    checkpoint_payload,
    decision_payload,
    decode_statement,
    outcome_payload,
    sha256_hex,
    unknown_payload,
)
from accredit.attest.statements import GENESIS
from accredit.errors import AttestationError
from accredit.limits import CHECKPOINT_RECORDS, RECORDS_A_TURN

CUT_OFF = "the process that forwarded this call ended before its outcome was recorded"
"""The detail of an outcome `unknown`."""


_HEAD = (
    "SELECT writer, records, head, checkpointed, (SELECT key FROM log_keys WHERE id = ?)"
    " FROM log_writers WHERE name = ?"
)

Append = Callable[[sqlite3.Connection], None]
"""One more record."""


class _Head(NamedTuple):
    writer: int
    records: int
    sha256: str
    checkpointed: int
    key: int  # the number of the gateway's key


class Chain(NamedTuple):
    """One writer's chain, and who signs for it."""

    name: str
    signer: LogSigner

    def decision(self, connection: sqlite3.Connection, decided: Decided, now_ms: int) -> None:
        """Appends the record of a decision. A call that is allowed is open from now on."""
        entry, writer = self._append(connection, lambda place: decision_payload(decided, place, now_ms), now_ms)
        if decided.certificates is not None and decided.authority is not None:
            row = (decided.authority.chain_sha256, decided.certificates)
            connection.execute("INSERT INTO log_delegations VALUES (?, ?) ON CONFLICT DO NOTHING", row)
        if decided.decision.verdict == "allow":
            connection.execute("INSERT INTO log_open VALUES (?, ?, ?)", (decided.call.id, writer, entry))

    def outcome(self, connection: sqlite3.Connection, decided: Decided, outcome: Outcome, now_ms: int) -> None:
        """Appends the record of an outcome and closes the call. Nothing happens where it is not open."""
        if connection.execute("DELETE FROM log_open WHERE call = ?", (decided.call.id,)).rowcount:
            self._append(connection, lambda place: outcome_payload(decided, outcome, place, now_ms), now_ms)

    def turn(self, connection: sqlite3.Connection, number: int, appends: Sequence[Append]) -> None:
        """Appends what has waited, unless this turn, or a later one, was written before: a store that did not answer
        in time may have written it all the same. Turns are numbered from 1."""
        add_writer(connection, self.name)
        written = connection.execute(
            "UPDATE log_writers SET turn = ? WHERE name = ? AND turn < ?", (number, self.name, number)
        )
        if written.rowcount:
            for append in appends:
                append(connection)

    def close_calls(self, connection: sqlite3.Connection, name: str, now_ms: int) -> bool:
        """Closes calls that a writer left open as `unknown`, `RECORDS_A_TURN` at most; True when none is left."""
        rows = connection.execute(
            "SELECT call, payload FROM log_open JOIN log_writers USING (writer) LEFT JOIN log_entries USING (entry)"
            " WHERE name = ? LIMIT ?",
            (name, RECORDS_A_TURN),
        ).fetchall()
        for call, payload in rows:
            connection.execute("DELETE FROM log_open WHERE call = ?", (call,))
            self._close_call(connection, payload, now_ms)
        return len(rows) < RECORDS_A_TURN

    def checkpoint(self, connection: sqlite3.Connection, name: str, now_ms: int) -> None:
        """Appends a checkpoint of a writer's chain, its own or another's, unless there is one of its head."""
        head = self._head(connection, name)
        if head.records > head.checkpointed:
            self._checkpoint(connection, name, head, now_ms)

    def _close_call(self, connection: sqlite3.Connection, payload: object, now_ms: int) -> None:
        # What was damaged can't be closed, and must not keep a writer from starting: `log verify` tells of it.
        try:
            decision = decode_statement(payload if isinstance(payload, bytes) else b"")
        except AttestationError:
            return
        record = decision.predicate
        if isinstance(record, CallRecord):
            self._append(connection, lambda place: unknown_payload(decision, record, CUT_OFF, place, now_ms), now_ms)

    def _append(
        self, connection: sqlite3.Connection, payload_of: Callable[[Place], bytes], now_ms: int
    ) -> tuple[int, int]:
        head = self._head(connection, self.name)
        place = Place(writer=self.name, sequence=head.records + 1, previous=head.sha256)
        payload = payload_of(place)
        entry = self._insert(connection, head, place.sequence, self.signer.record(payload))
        head = head._replace(records=place.sequence, sha256=sha256_hex(payload))
        connection.execute(
            "UPDATE log_writers SET records = ?, head = ? WHERE writer = ?", (head.records, head.sha256, head.writer)
        )
        if head.records - head.checkpointed >= CHECKPOINT_RECORDS:
            self._checkpoint(connection, self.name, head, now_ms)
        return entry, head.writer

    def _checkpoint(self, connection: sqlite3.Connection, name: str, head: _Head, now_ms: int) -> None:
        payload = checkpoint_payload(name, head.records, head.sha256, now_ms)
        self._insert(connection, head, head.records, self.signer.summary(payload))
        connection.execute("UPDATE log_writers SET checkpointed = records WHERE writer = ?", (head.writer,))

    def _head(self, connection: sqlite3.Connection, name: str) -> _Head:
        row = connection.execute(_HEAD, (self.signer.id, name)).fetchone()
        if row is None:  # the file was put in place of another one while it was open
            add_writer(connection, name)
        elif row[-1] is None:  # the first record that this key signs
            key_number(connection, self.signer.id)
        else:
            return _Head(*row)
        return self._head(connection, name)

    def _insert(self, connection: sqlite3.Connection, head: _Head, number: int, envelope: Envelope) -> int:
        signatures = [signature.data for signature in envelope.signatures]
        signer = envelope.signatures[0].key_id
        cursor = connection.execute(
            "INSERT INTO log_entries (writer, number, key, payload, ed25519, ml_dsa_65) VALUES (?, ?, ?, ?, ?, ?)",
            (
                head.writer,
                number,
                head.key if signer == self.signer.id else key_number(connection, signer),
                envelope.payload,
                signatures[0],
                signatures[1] if len(signatures) > 1 else None,
            ),
        )
        assert cursor.lastrowid is not None  # noqa: S101 - sqlite3 has one after each INSERT
        return cursor.lastrowid


def key_number(connection: sqlite3.Connection, key_id: str) -> int:
    """The number that stands for a key id in `log_entries`."""
    row = connection.execute("SELECT key FROM log_keys WHERE id = ?", (key_id,)).fetchone()
    if row is None:
        connection.execute("INSERT INTO log_keys (id) VALUES (?)", (key_id,))
        return key_number(connection, key_id)
    return row[0]


def add_writer(connection: sqlite3.Connection, name: str) -> list[str]:
    """Adds a writer, unless it is there; returns the names of the others that have not ended in order."""
    connection.execute(
        "INSERT INTO log_writers (name, records, head, checkpointed, turn, over) VALUES (?, 0, ?, 0, 0, 0)"
        " ON CONFLICT DO NOTHING",
        (name, GENESIS),
    )
    rows = connection.execute("SELECT name FROM log_writers WHERE over = 0 AND name <> ?", (name,))
    return [other for (other,) in rows]


def touch_writer(connection: sqlite3.Connection, name: str) -> None:
    """Writes what is there already: whether it can be is what one wants to know."""
    connection.execute("UPDATE log_writers SET over = 0 WHERE name = ?", (name,))


def end_writer(connection: sqlite3.Connection, name: str) -> None:
    """A writer has ended: nobody needs to look after it any more. One without records is forgotten."""
    connection.execute("UPDATE log_writers SET over = 1 WHERE name = ?", (name,))
    connection.execute("DELETE FROM log_writers WHERE name = ? AND records = 0", (name,))


def signed_head(connection: sqlite3.Connection, name: str) -> Head | None:
    """A writer's head, where a checkpoint has signed it."""
    row = connection.execute(
        "SELECT records, head FROM log_writers WHERE name = ? AND records = checkpointed AND records > 0", (name,)
    ).fetchone()
    return Head(name, *row) if row is not None else None
