"""The transactions on the tables of the log. Blocking I/O, on the given connection.

A transaction that is rolled back leaves no trace: the next one is numbered as if it had not been.
"""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from accredit.attest import (
    CallDecision,
    CallRecord,
    Head,
    LogSigner,
    Outcome,
    decision_payload,
    decode_statement,
    outcome_payload,
    unknown_payload,
)
from accredit.errors import AttestationError
from accredit.limits import RECORDS_A_TURN, RECORDS_A_TURN_ELSEWHERE
from accredit.stores.audit_log.appender import Tail, add_writer, insert

CUT_OFF = "the process that forwarded this call ended before its outcome was recorded"
"""The detail of an `unknown` outcome."""

_OPEN = "INSERT INTO log_open (call, writer, entry)"
_FIND = "SELECT call FROM log_open WHERE call IN (SELECT value FROM json_each(?))"
_CLOSE = "DELETE FROM log_open WHERE call IN (SELECT value FROM json_each(?))"


def records_a_turn(signer: LogSigner) -> int:
    """Return how many records are written in one turn."""
    return RECORDS_A_TURN if signer.records is None else RECORDS_A_TURN_ELSEWHERE


class Event(NamedTuple):
    """Something to record about a call: its decision or, if `outcome` is given, that; and when."""

    decided: CallDecision
    now_ms: int
    outcome: Outcome | None = None


class Chain(NamedTuple):
    """One writer's chain, and its signer."""

    name: str
    signer: LogSigner

    def turn(self, connection: sqlite3.Connection, number: int, events: Sequence[Event]) -> list[str | None]:
        """Append events; return, for each, why it was not recorded, or None. Turns are numbered from 1.

        Does nothing if this turn, or a later one, was written before: a store that did not answer in time may still
        have written it.
        """
        tail = Tail(connection, self.signer, self.name)
        if tail.turn >= number:
            return [None] * len(events)
        tail.turn = number
        turn = _Turn(tail, _closed(connection, [each.decided.call.id for each in events if each.outcome is not None]))
        errors = [turn.append(event) for event in events]
        tail.write()
        insert(connection, _OPEN, [(call, tail.writer, entry) for call, entry in turn.opened.items()])
        _keep_certificates(connection, events)
        return errors

    def close_calls(self, connection: sqlite3.Connection, name: str, now_ms: int, policy_digest: str) -> bool:
        """Close calls that a writer left open as `unknown`, at most one turn's worth; return True when none is left.

        `policy_digest` is for calls whose decisions don't name one.
        """
        most = records_a_turn(self.signer)
        rows = connection.execute(
            "SELECT call, payload FROM log_open JOIN log_writers USING (writer) LEFT JOIN log_entries USING (entry)"
            " WHERE name = ? LIMIT ?",
            (name, most),
        ).fetchall()
        _closed(connection, [call for call, _ in rows])
        tail = Tail(connection, self.signer, self.name)
        for _, payload in rows:
            _close_call(tail, payload, now_ms, policy_digest)
        tail.write()
        return len(rows) < most

    def checkpoint(self, connection: sqlite3.Connection, name: str, now_ms: int) -> None:
        """Append a checkpoint of a writer's chain, its own or another's, unless its head has one."""
        tail = Tail(connection, self.signer, name)
        tail.checkpoint(now_ms)
        tail.write()


class _Turn:
    """Records that are appended together. An allowed call is open from its decision to its outcome; an outcome of a
    call that is not open is skipped."""

    def __init__(self, tail: Tail, closed: set[str]) -> None:
        self.opened: dict[str, int] = {}
        """Calls opened in this turn, with the entries of their decisions."""
        self._tail = tail
        self._closed = closed

    def append(self, event: Event) -> str | None:
        """Append an event's record; return None, or why it was not recorded."""
        decided, now_ms, outcome = event
        call = decided.call.id
        try:
            if outcome is None:
                entry = self._tail.append(lambda place: decision_payload(decided, place, now_ms), now_ms)
                if decided.decision.verdict == "allow":
                    self.opened[call] = entry
            elif call in self._closed or call in self.opened:
                self._closed.discard(call)
                self.opened.pop(call, None)
                self._tail.append(lambda place: outcome_payload(decided, outcome, place, now_ms), now_ms)
        except AttestationError as error:
            return str(error)
        return None


def add_and_list_writers(connection: sqlite3.Connection, name: str) -> list[str]:
    """Add a writer; return the names of the others that have not ended properly."""
    add_writer(connection, name)
    rows = connection.execute("SELECT name FROM log_writers WHERE over = 0 AND name <> ?", (name,))
    return [other for (other,) in rows]


def touch_writer(connection: sqlite3.Connection, name: str) -> None:
    """Rewrite an existing value, to find out whether the file can be written."""
    connection.execute("UPDATE log_writers SET over = over WHERE name = ?", (name,))


def end_writer(connection: sqlite3.Connection, name: str) -> bool:
    """End a writer unless it has open calls, and return whether it has ended. A writer without records is deleted."""
    connection.execute(
        "UPDATE log_writers SET over = 1 WHERE name = ? AND writer NOT IN (SELECT writer FROM log_open)", (name,)
    )
    connection.execute("DELETE FROM log_writers WHERE name = ? AND over = 1 AND records = 0", (name,))
    return not connection.execute("SELECT 1 FROM log_writers WHERE name = ? AND over = 0", (name,)).fetchone()


def signed_head(connection: sqlite3.Connection, name: str) -> Head | None:
    """Return a writer's head if a checkpoint has signed it, else None."""
    row = connection.execute(
        "SELECT records, head FROM log_writers WHERE name = ? AND records = checkpointed AND records > 0", (name,)
    ).fetchone()
    return Head(name, *row) if row is not None else None


def _closed(connection: sqlite3.Connection, calls: list[str]) -> set[str]:
    """Remove calls from those that are open; return those that were."""
    if not calls:
        return set()
    listed = (msgspec.json.encode(calls).decode(),)
    closed = {call for (call,) in connection.execute(_FIND, listed)}
    connection.execute(_CLOSE, listed)
    return closed


def _close_call(tail: Tail, payload: object, now_ms: int, policy_digest: str) -> None:
    # A damaged record can't be closed, and must not keep a writer from starting. `log verify` reports it.
    try:
        decision = decode_statement(payload if isinstance(payload, bytes) else b"")
    except AttestationError:
        return
    record = decision.predicate
    if isinstance(record, CallRecord):
        tail.append(lambda place: unknown_payload(decision, record, CUT_OFF, place, now_ms, policy_digest), now_ms)


def _keep_certificates(connection: sqlite3.Connection, events: Sequence[Event]) -> None:
    chains = {
        decided.authority.chain_sha256: decided.certificates
        for decided, _, outcome in events
        if outcome is None and decided.authority is not None and decided.certificates is not None
    }
    for chain in chains.items():
        connection.execute("INSERT INTO log_delegations VALUES (?, ?) ON CONFLICT DO NOTHING", chain)
