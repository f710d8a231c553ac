"""The writer of a log: its keys, the rules by which it verifies the tables' contents, and how it appends to a chain.
No I/O.

Not only gateways may be able to write to the tables. So a writer verifies a row before it signs or uses it.

- [own-chain] Its own chain ends where the writer remembers, or at a later entry that its own key has signed. Such an
  entry is no fault: the answer to the last write may have been lost, or a previous process may have written more. If
  the chain ends anywhere else, somebody else has changed it.
- [other-chains] Another writer's chain ends at its last entry, if a trusted key has signed that entry. The writer's row
  is used only as a counter.
- [open-calls] A call is open if no record holds its outcome, and the record of its decision verifies: it is signed by a
  trusted key, names this gateway, is at its own place, is filed under its own call, and its decision is to forward.
- [repeated-turns] A turn (the events written together) may have been written before, in this chain or in one that has
  ended since. If its first decision is on record, it was. A turn without a decision needs no check: if it was written,
  the calls that it ends are no longer open.

Not detected here: that the end of a chain was cut off, and its row changed to match. A checkpoint that was kept
elsewhere shows that.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from accredit.attest import (
    CallRecord,
    Checkpoint,
    LogKey,
    LogSigner,
    Place,
    Pruning,
    RecordKey,
    Statement,
    Stored,
    checkpoint_payload,
    decode_statement,
    sha256_hex,
    verify_envelope,
)
from accredit.attest.statements import GENESIS
from accredit.errors import AttestationError
from accredit.limits import RECORDS_A_TURN
from accredit.stores.audit_log.tables import CHECKPOINT, RECORD, ChainChange, ChainEnd, ChainTaken, NewEntry, OpenCall

RECORDS_A_TURN_ELSEWHERE = 16
"""The most records in one turn if the signer is not the gateway's own key, and so may be far away. With 100 ms for each
signature, they are written in time. If a turn takes more than `STORE_WAIT_SECONDS`, all waiting calls are refused, and
under the same load that would happen again in each later turn."""

CHECKPOINT_RECORDS = 1_000
"""A writer signs a checkpoint after so many records (0.7 ms with ML-DSA-65), however little time has passed."""


Keys = Collection[LogKey | RecordKey]
Said = tuple[str, str]
"""The call's id in a record, and its phase."""


class ProvenEnd(NamedTuple):
    """A chain's end, from its row, and how many of its records the chain's newest entry covers."""

    end: ChainEnd
    covered: int


class Author:
    """The keys and the memory of one writer of a log, for as long as it writes. `gateway` is the gateway's id in
    records. `trusted` are the keys that sign for that gateway beside its own: earlier ones, and those of other gateways
    that share the log."""

    def __init__(self, signer: LogSigner, gateway: str, trusted: Iterable[LogKey | RecordKey] = ()) -> None:
        self.signer = signer
        self.gateway = gateway
        self.keys: Keys = (*trusted, *signer.keys)
        self._name = ""
        self._known: ProvenEnd | None = None

    @property
    def turn_records(self) -> int:
        """The most records written in one turn."""
        return RECORDS_A_TURN if self.signer.records is None else RECORDS_A_TURN_ELSEWHERE

    def remembered(self, end: ChainEnd) -> ProvenEnd | None:
        """Return what this writer remembers of its own chain's end, or None if that is not `end` ([own-chain])."""
        if end.name != self._name:
            self._name, self._known = end.name, None
        return self._known if self._known is not None and end == self._known.end else None

    def go_on(self, end: ChainEnd, newest: Stored | None) -> ProvenEnd:
        """Return the end of this writer's own chain, taken from its last entry ([own-chain]). Raises `ChainTaken`."""
        known = self._known
        try:
            proved = check_end(end, newest, self.signer.keys)
        except AttestationError:
            raise ChainTaken(end.name) from None
        if known is not None and (known.end.records > end.records or known.end.writer != end.writer):
            raise ChainTaken(end.name)
        self._known = proved
        return proved

    def wrote(self, end: ChainEnd) -> None:
        """Note the new end of this writer's own chain, once it is committed."""
        self._known = ProvenEnd(end, end.checkpointed)

    def check_open(self, open_call: OpenCall) -> tuple[Statement, CallRecord]:
        """Return the decision on an open call, from its own record ([open-calls]). Raises `AttestationError` with the
        reason if it is not valid."""
        statement, record = decision_on(open_call, self.keys)
        if record.gateway != self.gateway:
            raise AttestationError("its decision is another gateway's")
        return statement, record


class ChainAppender:
    """A chain that grows from its end, which has been verified. Nothing reaches the tables until the caller writes what
    `change` returns. So all records of a transaction are written together."""

    def __init__(self, proved: ProvenEnd, signer: LogSigner) -> None:
        end = proved.end
        self._before = end
        self._name = end.name
        self._signer = signer
        self._records, self._head, self._checkpointed = end.records, end.head, proved.covered
        self._entries: list[NewEntry] = []

    def append(self, payload_of: Callable[[Place], bytes], now_ms: int, proof: bytes | None = None) -> int:
        """Append a record, with the proof to keep with it, and return its number. Raises `AttestationError` before
        anything has changed."""
        place = Place(writer=self._name, sequence=self._records + 1, previous=self._head)
        payload = payload_of(place)
        self._entries.append(NewEntry(RECORD, place.sequence, self._signer.record(payload), proof))
        self._records, self._head = place.sequence, sha256_hex(payload)
        if self._records - self._checkpointed >= CHECKPOINT_RECORDS:
            self.checkpoint(now_ms)
        return place.sequence

    def checkpoint(self, now_ms: int) -> None:
        """Append a checkpoint of all records so far, unless there is one."""
        if self._records > self._checkpointed:
            payload = checkpoint_payload(self._name, self._records, self._head, now_ms)
            self._entries.append(NewEntry(CHECKPOINT, self._records, self._signer.summary(payload)))
            self._checkpointed = self._records

    def change(self, turn: int | None = None) -> ChainChange:
        """Return the change to write, with no calls opened or closed. If the appended records are a queue's turn,
        `turn` is its number."""
        after = self._before._replace(
            records=self._records,
            head=self._head,
            checkpointed=self._checkpointed,
            turn=self._before.turn if turn is None else turn,
        )
        return ChainChange(self._before, after, self._entries, closed_of=self._name)


def decision_on(open_call: OpenCall, keys: Keys) -> tuple[Statement, CallRecord]:
    """Return the decision of an open call. Check only the rules of [open-calls] that need no more than the decision's
    entry and `keys`. Raises `AttestationError`."""
    entry = open_call.decision
    if entry is None:
        raise AttestationError("the record of its decision is not there, or is damaged")
    statement = verify_envelope(entry.envelope, keys)
    record = statement.predicate
    if not isinstance(record, CallRecord) or record.decision is None:
        raise AttestationError("it is filed with what is no decision")
    if entry.place != f"{record.log.writer}/{record.log.sequence}":
        raise AttestationError("the record of its decision is not where it belongs")
    if record.call.id != open_call.call:
        raise AttestationError("it is filed with the decision on another call")
    if not record.goes_on:
        raise AttestationError("its decision is a refusal")
    return statement, record


def check_pruned(entry: Stored, keys: Keys) -> None:
    """Check an entry before a new note of pruning is signed: the last record that the note covers, or an earlier note.
    A signed record vouches for all records before it, and a note for their digests. Raises `AttestationError`, with the
    place."""
    try:
        said = verify_envelope(entry.envelope, keys).predicate
        place = said.log.writer if isinstance(said, CallRecord) else said.writer
        if entry.place.partition("/")[0] != place:
            raise AttestationError("it is of another chain")
    except AttestationError as error:
        raise AttestationError(f"{entry.place}: {error}", entry.place) from None


def check_end(end: ChainEnd, newest: Stored | None, keys: Keys) -> ProvenEnd:
    """Compare a chain's row with its newest entry ([other-chains]). Raises `AttestationError`."""
    if {type(end.records), type(end.checkpointed), type(end.turn)} != {int}:  # SQLite keeps any type in any column
        raise AttestationError("its row is damaged")
    if newest is None:
        if (end.records, end.head) != (0, GENESIS):
            raise AttestationError("it has no record that can be found, and its row counts some")
        return ProvenEnd(end, 0)
    statement = verify_envelope(newest.envelope, keys)
    covered = end.records
    match statement.predicate:
        case CallRecord() as record:
            place, head = (record.log.writer, record.log.sequence), sha256_hex(newest.envelope.payload)
            covered = min(max(end.checkpointed, 0), end.records - 1)
        case Checkpoint() as checkpoint:
            place, head = (checkpoint.writer, checkpoint.count), statement.sha256
        case Pruning() as note:
            place, head = (note.writer, note.last), statement.sha256
    if newest.place != f"{place[0]}/{place[1]}" or (*place, head) != (end.name, end.records, end.head):
        raise AttestationError("its last entry is not the one that its row counts")
    return ProvenEnd(end, covered)


def read_phases(payloads: Iterable[bytes]) -> set[Said]:
    """Return the call and phase of each of these records, without verifying them. A forged outcome could at most keep a
    call from being closed ([open-calls]). Nobody could forge a decision of a turn that was never written, as nobody
    else knows the ids of its calls ([repeated-turns])."""
    found: set[Said] = set()
    for payload in payloads:
        with contextlib.suppress(AttestationError):  # an invalid statement counts for nothing
            record = decode_statement(payload).predicate
            if isinstance(record, CallRecord):
                found.add((record.call.id, record.phase))
    return found
