"""Offline verification of single envelopes and of whole logs. No I/O.

Each entry of a log is checked in this order; the first failure ends the verification:

1. its statement is read (`statements`);
2. its key is one of those trusted here, and its signatures are valid (`signing`);
3. it is where the store says that it is;
4. its chain continues with it (`chains`);
5. the log passes through every checkpoint that was kept elsewhere, and every head that its store knows of: a chain that
   has another record there, or ends before, was changed or cut.

Without a kept checkpoint, records missing from the end of a chain can't be noticed. Not checked: whether the keys are
the right ones, and whether what the records say is true.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from accredit.attest.chains import Chain
from accredit.attest.dsse import Envelope, decode_envelope
from accredit.attest.signing import LogKey, RecordKey
from accredit.attest.statements import CallRecord, Checkpoint, Pruning, Statement, decode_statement
from accredit.errors import AttestationError

_FIRST = "the first entry"
"""The place of a fault before any record is read."""


class Stored(NamedTuple):
    """An envelope of a log. `place` is where a store says that it is, "writer/number": a record's sequence, a
    checkpoint's count, or a note's last record; "" for an entry of a file."""

    envelope: Envelope
    place: str = ""


class Digest(NamedTuple):
    """What remains of a pruned record: the SHA-256 of its payload, 32 bytes."""

    writer: str
    sequence: int
    sha256: bytes


Entry = Stored | Digest


class Head(NamedTuple):
    """What a store knows of a writer's chain: its record `sequence` has this SHA-256.

    It is not signed. It reveals a damaged file, but whoever cuts the log can cut it as well.
    """

    writer: str
    sequence: int
    sha256: str


class Fault(NamedTuple):
    """The first fault: "writer/sequence", and the reason."""

    place: str
    reason: str


class WriterReport(NamedTuple):
    """The state of one writer's chain: `records` in all, of which `pruned` are gone and `checkpointed` are covered by a
    checkpoint in the log; `head` is the SHA-256 of the last payload."""

    writer: str
    records: int
    head: str
    checkpointed: int
    pruned: int


class LogReport(NamedTuple):
    """The verdict on a log: valid if there is no `fault`."""

    records: int
    writers: tuple[WriterReport, ...]
    fault: Fault | None

    @property
    def valid(self) -> bool:
        """Whether everything holds."""
        return self.fault is None


def verify_envelope(envelope: bytes | str | Envelope, keys: Iterable[LogKey | RecordKey]) -> Statement:
    """Read one envelope and verify its signatures. Its place in a log is not checked. Raises `AttestationError`."""
    return _verified(_opened(envelope), {key.id: key for key in keys})


def verify_log(
    entries: Iterable[Entry | Envelope | bytes | str],
    keys: Iterable[LogKey | RecordKey],
    kept: Iterable[Envelope | Head] = (),
) -> LogReport:
    """Verify a log as it streams by: a store's entries, envelopes, or the lines of an export.

    `kept` are checkpoints that were put aside before, and heads; a bad one is a fault as well. Raises nothing that
    depends on the log.
    """
    log = _Log({key.id: key for key in keys})
    try:
        for each in kept:
            log.keep(each if isinstance(each, Head) else log.head_of(each))
        log.place = _FIRST
        for entry in entries:
            log.add(entry if isinstance(entry, Stored | Digest) else Stored(_opened(entry)))
        log.end()
    except AttestationError as error:
        return log.report(Fault(error.place or log.place, str(error)))
    return log.report(None)


class _Log:
    def __init__(self, keys: Mapping[str, LogKey | RecordKey]) -> None:
        self.place = _FIRST
        self._keys = keys
        self._chains: dict[str, Chain] = {}
        self._kept: dict[str, dict[int, str]] = {}

    def head_of(self, checkpoint: Envelope) -> Head:
        self.place = "a kept checkpoint"
        statement = _verified(checkpoint, self._keys)
        if not isinstance(statement.predicate, Checkpoint):
            raise AttestationError("it is no checkpoint")
        return Head(statement.predicate.writer, statement.predicate.count, statement.sha256)

    def keep(self, head: Head) -> None:
        self.place = f"{head.writer}/{head.sequence}"
        if self._kept.setdefault(head.writer, {}).setdefault(head.sequence, head.sha256) != head.sha256:
            raise AttestationError("two different records were there, by what was kept or by the store's own head")

    def add(self, entry: Entry) -> None:
        if isinstance(entry, Digest):
            self.place = f"{entry.writer}/{entry.sequence}"
            self._chain(entry.writer).digest(entry.sequence, entry.sha256)
            self._pass(entry.writer, entry.sequence, entry.sha256.hex())
            return
        before, self.place = self.place, entry.place or f"the entry after {self.place}"
        statement = decode_statement(entry.envelope.payload)
        writer, number = _place(statement)
        place = f"{writer}/{number}"
        if not entry.place:
            self.place = place
        _check_signatures(statement, entry.envelope, self._keys)
        if entry.place and entry.place != place:
            raise AttestationError(f"the record here is {place}, after {before}")
        chain = self._chain(writer)
        match statement.predicate:
            case CallRecord() as record:
                chain.record(record, hashlib.sha256(entry.envelope.payload).hexdigest())
            case Checkpoint() as checkpoint:
                chain.checkpoint(statement, checkpoint)
            case Pruning() as note:
                chain.note(statement, note)
                self._forget(writer, note.last)
        self._pass(writer, chain.sequence, chain.head)

    def end(self) -> None:
        for writer, chain in self._chains.items():
            if chain.awaits_note:
                self.place = f"{writer}/{chain.sequence}"
                raise AttestationError("the note of the pruning is missing")
        for writer, counts in self._kept.items():
            if counts:
                self.place = f"{writer}/{min(counts)}"
                raise AttestationError("it was there, and the log ends before it")

    def report(self, fault: Fault | None) -> LogReport:
        writers = tuple(
            WriterReport(writer, chain.sequence, chain.head, chain.checkpointed, chain.pruned)
            for writer, chain in self._chains.items()
        )
        return LogReport(sum(writer.records for writer in writers), writers, fault)

    def _chain(self, writer: str) -> Chain:
        chain = self._chains.get(writer)
        if chain is None:
            chain = self._chains[writer] = Chain()
        return chain

    def _pass(self, writer: str, count: int, head: str) -> None:
        counts = self._kept.get(writer)
        if counts and counts.pop(count, head) != head:
            raise AttestationError("another record was there before")

    def _forget(self, writer: str, last: int) -> None:
        # The gateway signed the note. An export has no digests of the records that it covers, so what was kept of
        # them can't be compared.
        counts = self._kept.get(writer, {})
        for count in [count for count in counts if count < last]:
            del counts[count]


def _opened(envelope: bytes | str | Envelope) -> Envelope:
    if isinstance(envelope, Envelope):
        return envelope
    return decode_envelope(envelope.encode("utf-8", "surrogatepass") if isinstance(envelope, str) else envelope)


def _verified(envelope: Envelope, keys: Mapping[str, LogKey | RecordKey]) -> Statement:
    statement = decode_statement(envelope.payload)
    _check_signatures(statement, envelope, keys)
    return statement


def _check_signatures(statement: Statement, envelope: Envelope, keys: Mapping[str, LogKey | RecordKey]) -> None:
    key = keys.get(envelope.signatures[0].key_id) if envelope.signatures else None
    if key is None:
        raise AttestationError("it is signed by a key that is not known here")
    if isinstance(statement.predicate, CallRecord):
        key.check_record(envelope)
    else:
        key.check_summary(envelope)


def _place(statement: Statement) -> tuple[str, int]:
    match statement.predicate:
        case CallRecord(log=place):
            return place.writer, place.sequence
        case Checkpoint(writer=writer, count=count):
            return writer, count
        case Pruning(writer=writer, last=last):
            return writer, last
