"""Reading a log, whatever engine keeps it: what each offers, and how a row becomes an entry. No I/O.

An open log shows its state at one moment until it is closed, or renewed. Entries are returned as they are:
`attest.verify_log` judges them. Something that can't even be an entry, or be read, raises `AttestationError`: the log
is damaged. `StoreUnavailable` says nothing about the log.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import NamedTuple, Self

from accredit.attest import (
    CallRecord,
    Checkpoint,
    Entry,
    Envelope,
    Examiner,
    Fault,
    Head,
    LogKey,
    LogReport,
    Marks,
    RecordKey,
    Signature,
    Statement,
    Stored,
    decode_statement,
    verify_log,
)
from accredit.attest.calls import MarksInMemory
from accredit.attest.proofs import is_held, kept_proof
from accredit.attest.signing import ML_DSA_65_SUFFIX
from accredit.errors import AttestationError, StoreUnavailable
from accredit.stores.audit_log.members import restore_members
from accredit.stores.audit_log.open_rows import OpenRows
from accredit.stores.audit_log.schema import CALL_KEY_CHARS
from accredit.stores.audit_log.tables import WRITER_ID, OpenCall

_FIRST_WINDOW = 256
NO_PLACE = "the next entry has no writer or number"


class LogAway(StoreUnavailable):
    """The log is not there, or does not answer, and may be back later."""


class Numbered(NamedTuple):
    """An entry of the log, and a number that puts it in order for people: later ones have a greater one. A digest may
    have 0. `proof` is the one that is kept with it, packed, where it was asked for; b"" for what can't be one."""

    number: int
    entry: Entry
    proof: bytes | None = None

    def statement(self) -> Statement | None:
        """Return the entry's statement, unverified, or None for a pruned record. Raises `AttestationError`."""
        return decode_statement(self.entry.envelope.payload) if isinstance(self.entry, Stored) else None

    def record(self) -> CallRecord | None:
        """Return the entry's record, unverified, or None for any other entry. Raises `AttestationError`."""
        statement = self.statement()
        return statement.predicate if statement and isinstance(statement.predicate, CallRecord) else None


class Bookmark(NamedTuple):
    """Where a record is: the number that puts it in order, and its place in its writer's chain."""

    number: int
    writer: str
    sequence: int


class LogReader(ABC):
    """A log to read: `with reader as log`. `name` is for people. All of it may raise `StoreUnavailable` and, while
    entries are read, `AttestationError`."""

    name: str

    def __enter__(self) -> Self:
        try:
            self.renew()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def renew(self) -> None:
        """Show the log as it is now. After a `StoreUnavailable` it may be tried again."""

    @abstractmethod
    def release(self) -> None:
        """Keep no state of the log alive, until it is renewed."""

    def close(self) -> None:
        """Release the log for good."""
        self.release()

    @abstractmethod
    def count(self) -> int:
        """Return about how many entries there are."""

    @abstractmethod
    def heads(self) -> list[Head]:
        """Return the head of each writer's chain, as the store knows it."""

    @abstractmethod
    def entries(self, *, proofs: bool = False) -> Iterator[Numbered]:
        """Yield all entries, those of each chain in order, and with `proofs` what is kept with them."""

    @abstractmethod
    def newest_first(self, before: int | None = None) -> Iterator[Numbered]:
        """Yield all records, and maybe other entries, in reverse order: an outcome comes before its decision. With
        `before`, only those whose number is smaller."""

    @abstractmethod
    def position(self) -> object:
        """Return how far the log has come."""

    @abstractmethod
    def after(self, position: object) -> Iterator[Numbered] | None:
        """Yield the records, and maybe other entries, that came after a position, in order; None if the position is not
        one of this log."""

    @abstractmethod
    def open_calls(self) -> Iterator[Numbered]:
        """Yield the decisions on calls that have no outcome yet."""

    @abstractmethod
    def open_rows(self, most: int) -> Iterator[OpenCall]:
        """Yield what the list of open calls says, in the order of their ids, at most so many: rows without a decision
        as well."""

    @abstractmethod
    def holding(self, text: str, since: Bookmark | None = None) -> Iterator[Numbered]:
        """Yield the entries that hold a text, such as a part of a call's id: the newest first. With `since`, those that
        are that record or came after it, in order; of its writer's chain at least."""

    @abstractmethod
    def of_calls(self, prefix: str) -> Iterator[Numbered]:
        """Yield the records of calls whose ids begin so, and maybe others, in any order, with the proofs that are kept
        with them: by an index, not by reading all."""

    @abstractmethod
    def summaries(self) -> Iterator[Numbered]:
        """Yield checkpoints and notes of pruning, those of each chain in order."""

    def latest_checkpoints(self) -> Iterable[Numbered]:
        """Return the latest checkpoint of each chain that has one."""
        latest: dict[str, Numbered] = {}
        for each in self.summaries():
            said = each.statement()
            if said and isinstance(said.predicate, Checkpoint):
                latest[said.predicate.writer] = each
        return latest.values()

    def covering(self, writer: str, sequence: int) -> Numbered | None:
        """Return the first checkpoint that counts a writer's record, or None."""
        for each in self.summaries():
            said = each.statement()
            if said and isinstance(said.predicate, Checkpoint):
                counted = said.predicate.count if said.predicate.writer == writer else 0
                if counted >= sequence:
                    return each
        return None

    @abstractmethod
    def sinks(self) -> list[str]:
        """Return the names of those to whom the log is sent on (`shipping`)."""

    @abstractmethod
    def behind(self, sink: str) -> int:
        """Return about how many entries a sink does not have yet."""

    @abstractmethod
    def unsent(self, sink: str) -> Numbered | None:
        """Return an entry that a sink does not have, the first of its chain; None if it has all."""

    @abstractmethod
    def chains(self) -> Iterator[bytes]:
        """Yield the chains of certificates that calls came with, as JSON arrays; no bytes for what can be none."""

    @abstractmethod
    def certificates(self, sha256: str) -> bytes | None:
        """Return the chain of certificates with this SHA-256, as a JSON array, or None."""

    def kept_of(self, decision: CallRecord) -> tuple[bytes | None, bytes | None]:
        """Return the texts of the chain and the proof that a call was made on, as far as they are there and can be
        read."""
        return self._texts(decision, self._packed(decision))

    def shown_of(self, decision: CallRecord, now: int) -> bytes | None:
        """Return the text of its proof, to be shown to anybody; None as long as it may be worth something, at a time in
        unix seconds."""
        packed = self._packed(decision)
        return None if is_held(packed, now) else self._texts(decision, packed)[1] or None

    def _texts(self, decision: CallRecord, packed: bytes | None) -> tuple[bytes | None, bytes | None]:
        if decision.authority is None:
            return None, None
        try:
            certificates = self.certificates(decision.authority.chain_sha256)
        except AttestationError:
            certificates = None
        proof = kept_proof(decision.authority, packed, certificates)
        return certificates, proof.text() if proof else proof

    def _packed(self, decision: CallRecord) -> bytes | None:
        """Return the proof that is kept with a decision."""
        place = f"{decision.log.writer}/{decision.log.sequence}"
        if decision.authority is None or decision.authority.proof != "kept":
            return None
        for each in self.of_calls(decision.call.id):
            if isinstance(each.entry, Stored) and each.entry.place == place and each.record():
                return each.proof
        return None

    def verify(
        self,
        keys: Iterable[LogKey | RecordKey],
        kept: Sequence[Envelope | Head] = (),
        watch: Callable[[Iterator[Numbered]], Iterable[Numbered]] = iter,
        examiner: Examiner | None = None,
        marks: Marks | None = None,
        *,
        proofs: bool = False,
    ) -> LogReport:
        """Verify the whole log and, where all else is good, its list of open calls. `watch` is given the entries, with
        what is kept with them if `proofs` says so, and yields them on; the others are those of `attest.verify_log`."""
        try:
            heads = self.heads()
        except AttestationError as error:
            return LogReport(0, (), Fault("the writers", str(error)))
        entries = (each.entry for each in watch(self.entries(proofs=proofs)))
        trusted = tuple(keys)
        rows = OpenRows(MarksInMemory() if marks is None else marks, self.open_rows, trusted)
        report = verify_log(entries, trusted, [*kept, *heads], examiner=examiner, has_digests=True, marks=rows)
        return (
            report if report.fault is not None else report._replace(fault=_find_uncounted(report, heads) or rows.fault)
        )


def _find_uncounted(report: LogReport, heads: Iterable[Head]) -> Fault | None:
    """Return the first record that its writer's row does not count, though both were written at once; or None. That the
    chain comes as far as the row says was verified with its entries."""
    counted: dict[str, int] = {}
    for head in heads:
        counted[head.writer] = min(head.sequence, counted.get(head.writer, head.sequence))
    for each in report.writers:
        last = counted.get(each.writer, 0)
        if last != each.records:
            return Fault(f"{each.writer}/{last + 1}", "it is there, and the row of its writer does not count it")
    return None


def windows(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of numbers that make up a long one, as (first, last): short ones at the beginning, so that whoever
    finds something there has read little. Engines look one match ahead."""
    size = _FIRST_WINDOW
    while first <= last:
        yield first, min(last, first + size - 1)
        first, size = first + size, size * 4


def key_range(prefix: str) -> tuple[bytes, bytes]:
    """Return between which keys those of calls are whose ids begin so: from the first, and less than the second."""
    first = prefix.encode("utf-8", "surrogatepass")[:CALL_KEY_CHARS]
    return first, first + b"\xff"


def head_in(name: object, records: object, head: object) -> Head:
    """Return the head that a writer's row has. Raises `AttestationError`."""
    if not isinstance(name, str) or not isinstance(records, int) or not isinstance(head, str):
        raise AttestationError("a writer's row is damaged")
    return Head(name, records, head)


def certificates_in(value: object) -> bytes:
    """Return the chain of certificates that a row has. Raises `AttestationError`."""
    if not isinstance(value, bytes):
        raise AttestationError("a chain of certificates is damaged")
    return value


def read_entry(
    order: int, writer: object, number: object, key_id: object, payload: object, ed25519: object, ml_dsa_65: object,
    members: object, proof: object = None, kind: str = "",
) -> Numbered:  # fmt: skip
    """Return the entry that a row has. `kind` is what the store says that it is. Raises `AttestationError`."""
    if not isinstance(writer, str) or not isinstance(number, int):
        raise AttestationError(NO_PLACE)
    place = f"{writer}/{number}"
    if not (isinstance(payload, bytes) and isinstance(ed25519, bytes) and isinstance(key_id, str | None)):
        raise damage_error(place)
    first = restore_members(Signature(key_id or "", ed25519), members)
    if first is None or not isinstance(ml_dsa_65, bytes | None):
        raise damage_error(place)
    second = () if ml_dsa_65 is None else (Signature((key_id or "") + ML_DSA_65_SUFFIX, ml_dsa_65),)
    kept = proof if isinstance(proof, bytes | None) else b""
    return Numbered(order, Stored(Envelope(payload, (first, *second)), place, kind), kept)


def open_call(call: object, writer: object, read: Callable[[], Numbered]) -> OpenCall:
    """Return what a row of the list of open calls says. `writer` is the name of the one that has it to close, if that
    has not ended; `read` returns the entry that it is filed with, or raises `AttestationError`."""
    try:
        entry = read().entry
    except AttestationError:
        entry = None
    is_left = not isinstance(writer, str) or not WRITER_ID.fullmatch(writer)
    return OpenCall(call if isinstance(call, str) else "", entry if isinstance(entry, Stored) else None, is_left)


def damage_error(place: str) -> AttestationError:
    """Return the error for a row that is no entry."""
    return AttestationError(f"{place} is damaged", place)
