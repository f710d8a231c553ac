"""Offline verification of single envelopes and of whole logs. No I/O.

Each entry of a log is checked in this order; the first failure ends the verification:

- [statement] its statement can be read (`statements`);
- [signature] its key is one of those trusted here, and its signatures are valid (`signing`);
- [place] its place and kind are those that the store states;
- [chain] it continues its chain (`chains`);
- [checkpoints] the log contains every checkpoint kept elsewhere, and every head of a chain that its store knows. A
  chain with another record at that place, or without one, was changed or cut;
- [calls] the records of each call fit together (`calls`); this is judged when all chains have been read to their ends.

The first two steps, which take nearly all the time, need only the entry (`examine`). Several processes may share them,
as long as the results come in the order of the entries.

Without a checkpoint kept elsewhere, nobody can notice that records are missing from the end of a chain. Not checked:
whether the keys are the right ones, and whether the records tell the truth.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from accredit.attest.calls import Mark, Marks, MarksInMemory, Step, first_fault, step_of
from accredit.attest.chains import Chain
from accredit.attest.dsse import Envelope, decode_envelope
from accredit.attest.signing import LogKey, RecordKey
from accredit.attest.statements import CallRecord, Checkpoint, Place, Pruning, Statement, decode_statement
from accredit.base.text import excerpt
from accredit.errors import AttestationError

_FIRST = "the first entry"
"""The place that is reported for a fault before any record was read."""


class Stored(NamedTuple):
    """An envelope of a log. `place` is where a store holds it: "writer/number". The number is a record's sequence, a
    checkpoint's count, or a note's last record. `place` is "" for an entry of a file. `kind` is "record", "checkpoint"
    or "note", if the store says."""

    envelope: Envelope
    place: str = ""
    kind: str = ""


class Digest(NamedTuple):
    """What remains of a pruned record: the SHA-256 of its payload, 32 bytes."""

    writer: str
    sequence: int
    sha256: bytes


Entry = Stored | Digest


class Examined(NamedTuple):
    """The result of `examine`: the content of an entry. `fault` is why the entry is invalid, or None.

    `place` and `kind` are those of `Stored`. `says` is a record's place according to the record itself, or the
    predicate of a checkpoint or note; None if unreadable. `sha256` is that of a record's payload, or the subject of a
    checkpoint or note. `opened` is False if there was no envelope. `step` is what a record says about its call.
    `judged` is what the `judge` of `examine` returned.
    """

    place: str
    kind: str
    says: Place | Checkpoint | Pruning | None
    sha256: str = ""
    fault: str | None = None
    opened: bool = True
    step: Step | None = None
    judged: Any = None

    def __bool__(self) -> NoReturn:
        """Raise `TypeError`. As a tuple with members it would always be true, even for a forged entry."""
        raise TypeError("an Examined entry is neither true nor false: ask for found.fault, which is None if it is good")


Examiner = Callable[[Iterable[Any]], Iterable[Examined | Digest]]
"""Does for many entries what `examine` does for one, and yields the results in the same order. Its caller chooses the
form of the entries."""


class Head(NamedTuple):
    """A chain's end according to its store: the writer's record number `sequence` has this SHA-256.

    It is not signed. It reveals a damaged file, but somebody who cuts the log can change it, too.
    """

    writer: str
    sequence: int
    sha256: str


class Fault(NamedTuple):
    """The first fault: its place ("writer/sequence", or a description), and the reason."""

    place: str
    reason: str


class WriterReport(NamedTuple):
    """The state of one writer's chain. It has `records` in all; of these, `pruned` are gone, and `checkpointed` are
    covered by a checkpoint in the log. `head` is the SHA-256 of the last record's payload."""

    writer: str
    records: int
    head: str
    checkpointed: int
    pruned: int


class LogReport(NamedTuple):
    """The verdict on a log: valid if there is no `fault`. A log without any `records` is valid as well."""

    records: int
    writers: tuple[WriterReport, ...]
    fault: Fault | None

    def __bool__(self) -> NoReturn:
        """Raise `TypeError`. As a tuple it would always be true, and `if not verify_log(...)` would let changed logs
        pass."""
        raise TypeError("a LogReport is neither true nor false: ask for report.valid")

    @property
    def valid(self) -> bool:
        """Whether no fault was found."""
        return self.fault is None


def verify_envelope(envelope: bytes | str | Envelope, keys: Iterable[LogKey | RecordKey]) -> Statement:
    """Read one envelope and verify its signatures. Its place in a log is not checked. Raises `AttestationError`."""
    return _verify_statement(_to_envelope(envelope), {key.id: key for key in keys})


def examine(
    entry: Entry | Envelope | bytes | str,
    keys: Mapping[str, LogKey | RecordKey],
    judge: Callable[[Statement], object] | None = None,
) -> Examined | Digest:
    """Read one entry, and verify its signatures with the trusted keys, which are given by their ids. A digest is
    returned as it is. If the signatures are valid, `judge` is called with the statement."""
    if isinstance(entry, Digest):
        return entry
    try:
        stored = entry if isinstance(entry, Stored) else Stored(_to_envelope(entry))
    except AttestationError as error:
        return Examined("", "", None, fault=str(error), opened=False)
    place, kind, says, sha256, step = stored.place, stored.kind, None, "", None
    try:
        statement = decode_statement(stored.envelope.payload)
        match statement.predicate:
            case CallRecord(log=says) as record:
                sha256 = hashlib.sha256(stored.envelope.payload).hexdigest()
                step = step_of(record)
            case Checkpoint() | Pruning() as says:
                sha256 = statement.sha256
        _check_signatures(statement, stored.envelope, keys)
    except AttestationError as error:
        return Examined(place, kind, says, sha256, str(error))
    return Examined(place, kind, says, sha256, step=step, judged=None if judge is None else judge(statement))


def misplaced(found: Examined) -> str | None:
    """Return how an entry with valid signatures differs from what its store says about it, or None."""
    if found.says is None:
        return None
    kind, writer, number = _kind_and_place(found.says)
    place = f"{writer}/{number}"
    if found.place and found.place != place:
        return f"the record here is {place}"
    if found.kind and found.kind != kind:
        return f"it is stored as a {found.kind}, and is a {kind}"
    return None


def verify_log(
    entries: Iterable[Any],
    keys: Iterable[LogKey | RecordKey],
    kept: Iterable[Envelope | Head] = (),
    *,
    examiner: Examiner | None = None,
    has_digests: bool = False,
    marks: Marks | None = None,
) -> LogReport:
    """Verify a log while it is being read: a store's entries, envelopes, or the lines of an export.

    `kept` are checkpoints kept elsewhere, and heads of chains; an invalid one is a fault as well. `examiner` replaces
    `examine` with these keys, and determines the form of the entries. `has_digests` says that digests of pruned records
    must be there, as in a store. `marks` keeps the marks of all calls until the end, by default in memory.

    Raises nothing that depends on the log. Raises `ValueError` if there are no keys: otherwise a log that proves
    nothing would be valid.
    """
    known = {key.id: key for key in keys}
    if not known:
        raise ValueError("no keys: nothing of a log verifies without one; give keys=[log_key(load_public_key(path))]")
    log = _Log(known, MarksInMemory() if marks is None else marks, has_digests=has_digests)
    try:
        for each in kept:
            log.keep(each if isinstance(each, Head) else log.head_of(each))
        log.place = _FIRST
        for found in examiner(entries) if examiner else (examine(entry, known) for entry in entries):
            log.add(found)
        log.end()
    except AttestationError as error:
        return log.report(Fault(error.place or log.place, str(error)))
    return log.report(None)


class _Log:
    def __init__(self, keys: Mapping[str, LogKey | RecordKey], marks: Marks, *, has_digests: bool) -> None:
        self.place = _FIRST
        self._keys = keys
        self._has_digests = has_digests
        self._marks = marks
        self._marked = 0
        self._pruned_before = ""
        self._chains: dict[str, Chain] = {}
        self._kept: dict[str, dict[int, str]] = {}

    def head_of(self, checkpoint: Envelope) -> Head:
        self.place = "a kept checkpoint"
        statement = _verify_statement(checkpoint, self._keys)
        if not isinstance(statement.predicate, Checkpoint):
            raise AttestationError("it is no checkpoint")
        return Head(statement.predicate.writer, statement.predicate.count, statement.sha256)

    def keep(self, head: Head) -> None:
        self.place = f"{head.writer}/{head.sequence}"
        if self._kept.setdefault(head.writer, {}).setdefault(head.sequence, head.sha256) != head.sha256:
            raise AttestationError("two different records were there, by what was kept or by the store's own head")

    def add(self, found: Examined | Digest) -> None:
        if isinstance(found, Digest):
            self.place = f"{found.writer}/{found.sequence}"
            self._chain(found.writer).digest(found.sequence, found.sha256)
            self._pass(found.writer, found.sequence, found.sha256.hex())
            return
        before = self.place
        if found.opened:
            self.place = found.place or f"the entry after {before}"
        if found.says is None:
            raise AttestationError(found.fault or "")
        _, writer, number = _kind_and_place(found.says)
        self.place = found.place or f"{writer}/{number}"
        if found.fault is not None:
            raise AttestationError(found.fault)
        wrong = misplaced(found)
        if wrong is not None:
            raise AttestationError(f"{wrong}, after {before}")
        chain = self._chain(writer)
        match found.says:
            case Place() as record:
                chain.record(record, found.sha256)
                if found.step is not None:
                    self._mark(chain, found.step)
            case Checkpoint() as checkpoint:
                chain.checkpoint(checkpoint, found.sha256)
            case Pruning() as note:
                self._note(chain, note, found.sha256)
        self._pass(writer, chain.sequence, chain.head)

    def _mark(self, chain: Chain, step: Step) -> None:
        self._marked += 1
        self._marks.add(Mark(step.call, self._marked, chain.index, chain.sequence, step.says, step.received))

    def _note(self, chain: Chain, note: Pruning, sha256: str) -> None:
        if self._has_digests and note.last > 1 and not chain.sequence:
            raise AttestationError("the digests of what was pruned are missing")
        chain.note(note, sha256)
        self._pruned_before = max(self._pruned_before, note.before)
        self._forget(note.writer, note.last)

    def end(self) -> None:
        for writer, chain in self._chains.items():
            if chain.awaits_note:
                self.place = f"{writer}/{chain.sequence}"
                raise AttestationError("the note of the pruning is missing")
        for writer, counts in self._kept.items():
            if counts:
                self.place = f"{writer}/{min(counts)}"
                raise AttestationError("it was there, and the log ends before it")
        self._judge_calls()

    def _judge_calls(self) -> None:
        fault = first_fault(self._marks.by_call(), self._pruned_before)
        if fault is not None:
            self.place = self._place_of(fault.at)
            other = "" if fault.other is None else f" (the other record is {self._place_of(fault.other)})"
            raise AttestationError(f"{fault.reason}{other}")

    def _place_of(self, mark: Mark) -> str:
        return f"{[*self._chains][mark.chain]}/{mark.sequence}"

    def report(self, fault: Fault | None) -> LogReport:
        writers = tuple(
            WriterReport(writer, chain.sequence, chain.head, chain.checkpointed, chain.pruned)
            for writer, chain in self._chains.items()
        )
        return LogReport(sum(writer.records for writer in writers), writers, fault)

    def _chain(self, writer: str) -> Chain:
        chain = self._chains.get(writer)
        if chain is None:
            chain = self._chains[writer] = Chain(len(self._chains))
        return chain

    def _pass(self, writer: str, count: int, head: str) -> None:
        counts = self._kept.get(writer)
        if counts and counts.pop(count, head) != head:
            raise AttestationError("another record was there before")

    def _forget(self, writer: str, last: int) -> None:
        # The gateway signed the note. An export lacks the digests of the records that it covers, so what was kept of
        # them can't be compared.
        counts = self._kept.get(writer, {})
        for count in [count for count in counts if count < last]:
            del counts[count]


def _to_envelope(envelope: bytes | str | Envelope) -> Envelope:
    if isinstance(envelope, Envelope):
        return envelope
    return decode_envelope(envelope.encode("utf-8", "surrogatepass") if isinstance(envelope, str) else envelope)


def _verify_statement(envelope: Envelope, keys: Mapping[str, LogKey | RecordKey]) -> Statement:
    statement = decode_statement(envelope.payload)
    _check_signatures(statement, envelope, keys)
    return statement


def _check_signatures(statement: Statement, envelope: Envelope, keys: Mapping[str, LogKey | RecordKey]) -> None:
    signer = envelope.signatures[0].key_id if envelope.signatures else "none"
    key = keys.get(signer)
    if key is None:
        raise AttestationError(f"it is signed by a key that is not known here: {excerpt(signer)}")
    if isinstance(statement.predicate, CallRecord):
        key.check_record(envelope)
    else:
        key.check_summary(envelope)


def _kind_and_place(says: Place | Checkpoint | Pruning) -> tuple[str, str, int]:
    match says:
        case Place(writer=writer, sequence=sequence):
            return "record", writer, sequence
        case Checkpoint(writer=writer, count=count):
            return "checkpoint", writer, count
        case Pruning(writer=writer, last=last):
            return "note", writer, last
