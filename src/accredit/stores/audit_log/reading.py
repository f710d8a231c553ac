"""Reads a log, in a file or a database: the common interface, and the conversion of a row into an entry. No I/O.

An open log shows its state at one moment until it is closed, or renewed. Entries are returned unverified, for
`attest.verify_log`. A row that can't be read, or can't be an entry, raises `AttestationError`: the log is damaged.
`StoreUnavailable` says nothing about the log's content.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self

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
from accredit.attest.canonical import hold_left, kept_proof
from accredit.attest.signing import ML_DSA_65_SUFFIX
from accredit.base.caching import RecentlyUsed
from accredit.errors import AttestationError, StoreUnavailable
from accredit.limits import MAX_RECORDED_CHAINS
from accredit.stores.audit_log.open_rows import OpenRows
from accredit.stores.audit_log.schema import CALL_KEY_CHARS
from accredit.stores.audit_log.tables import WRITER_ID, OpenCall, restore_members

_FIRST_WINDOW = 256
_CHAIN_MARK = b'"chain_sha256":"'
"""In a record, the text right before the SHA-256 of a chain of certificates. No string of JSON can contain it."""
NO_PLACE = "the next entry has no writer or number"


class LogAway(StoreUnavailable):
    """The log is missing, or does not answer, and may be back later."""


class NumberedEntry(NamedTuple):
    """An entry of the log, with a number for people: later entries have greater numbers. The digest of a pruned record
    may have 0. `proof` is the packed proof kept with the entry, if requested; it is b"" if the stored value can't be
    valid."""

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


class EntryWithEvidence(NamedTuple):
    """An entry, with the evidence that is kept for it: the proof (as in `NumberedEntry`), and the text of the
    certificate chain that its record names."""

    entry: Entry | bytes
    proof: bytes | None = None
    certificates: bytes | None = None


class Bookmark(NamedTuple):
    """The position of a record: the number that orders entries, and the record's place in its writer's chain."""

    number: int
    writer: str
    sequence: int


class LogReader(ABC):
    """A log to read: `with reader as log`. `name` is for people. All methods may raise `StoreUnavailable` and, while
    entries are read, `AttestationError`."""

    name: str

    def __enter__(self) -> Self:
        try:
            self.renew()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def renew(self) -> None:
        """Show the log's current state. After a `StoreUnavailable` this may be tried again."""

    @abstractmethod
    def release(self) -> None:
        """Release the log's state, so that the store need not keep it, until `renew` is called."""

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
    def entries(self, *, proofs: bool = False) -> Iterator[NumberedEntry]:
        """Yield all entries, those of each chain in order, with their proofs if `proofs`."""

    @abstractmethod
    def newest_first(self, before: int | None = None) -> Iterator[NumberedEntry]:
        """Yield all records, and maybe other entries, newest first: an outcome comes before its decision. With
        `before`, yield only those with a smaller number."""

    @abstractmethod
    def position(self) -> object:
        """Return the log's current end, for `after`."""

    @abstractmethod
    def after(self, position: object) -> Iterator[NumberedEntry] | None:
        """Yield, in order, the records added after a position, and maybe other entries. Return None if the position is
        not one of this log."""

    @abstractmethod
    def open_calls(self) -> Iterator[NumberedEntry]:
        """Yield the decisions on open calls."""

    @abstractmethod
    def open_rows(self, most: int) -> Iterator[OpenCall]:
        """Yield the rows of the list of open calls, at most `most`, in the order of the calls' ids. Rows without a
        decision are included."""

    @abstractmethod
    def holding(self, text: str, since: Bookmark | None = None) -> Iterator[NumberedEntry]:
        """Yield the entries that contain a text, such as a part of a call's id, newest first. With `since`, yield the
        record at that position and later ones, in order; later ones of other chains may be left out."""

    @abstractmethod
    def of_calls(self, prefix: str) -> Iterator[NumberedEntry]:
        """Yield the records of calls whose ids begin with this prefix, and maybe others, in any order, with their
        proofs. They are found by an index, not by a scan."""

    @abstractmethod
    def summaries(self) -> Iterator[NumberedEntry]:
        """Yield checkpoints and notes of pruning, those of each chain in order."""

    @abstractmethod
    def latest_checkpoints(self) -> Iterator[NumberedEntry]:
        """Yield the latest checkpoint of each chain that has one."""

    def covering(self, writer: str, sequence: int) -> NumberedEntry | None:
        """Return the first checkpoint that covers a writer's record, or None."""
        for each in self.summaries():
            said = each.statement()
            if said and isinstance(said.predicate, Checkpoint):
                counted = said.predicate.count if said.predicate.writer == writer else 0
                if counted >= sequence:
                    return each
        return None

    @abstractmethod
    def sinks(self) -> list[str]:
        """Return the names of the log's sinks (`shipping`)."""

    @abstractmethod
    def behind(self, sink: str) -> int:
        """Return about how many entries were not sent to a sink."""

    @abstractmethod
    def unsent(self, sink: str) -> NumberedEntry | None:
        """Return the first unsent entry of some chain (not sent to this sink), or None if all entries were sent."""

    @abstractmethod
    def chains(self) -> Iterator[bytes]:
        """Yield the certificate chains of calls, as JSON arrays; b"" for one that can't be valid."""

    @abstractmethod
    def certificates(self, sha256: str) -> bytes | None:
        """Return the certificate chain with this SHA-256, as a JSON array, or None."""

    def kept_of(self, decision: CallRecord) -> tuple[bytes | None, bytes | None]:
        """Return the texts of a call's certificate chain and proof. Each is None if it is missing or unreadable."""
        return self._texts(decision, self._packed(decision))

    def shown_of(self, decision: CallRecord, now: int) -> bytes | None:
        """Return the text of a call's proof; None while the proof could still be used, at `now` (unix seconds)."""
        packed = self._packed(decision)
        return None if hold_left(packed, now) else self._texts(decision, packed)[1] or None

    def hold_left(self, decision: CallRecord, now: int) -> int:
        """Return for how many seconds from `now` (unix seconds) `shown_of` still withholds a call's proof."""
        return hold_left(self._packed(decision), now)

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
        """Return the packed proof kept with a decision."""
        place = f"{decision.log.writer}/{decision.log.sequence}"
        if decision.authority is None or decision.authority.proof != "kept":
            return None
        for each in self.of_calls(decision.call.id):
            if isinstance(each.entry, Stored) and each.entry.place == place and each.record():
                return each.proof
        return None

    def _with_chains(self, entries: Iterable[NumberedEntry]) -> Iterator[EntryWithEvidence]:
        """Yield entries, each with the chain that its record names, if it is there and can be read."""
        known = RecentlyUsed[str, bytes](MAX_RECORDED_CHAINS)
        for each in entries:
            sha256 = _chain_named_in(each.entry)
            chain = known.get(sha256)
            if sha256 and chain is None:
                with suppress(AttestationError):
                    chain = self.certificates(sha256)
                if chain is not None:
                    known.put(sha256, chain)
            yield EntryWithEvidence(each.entry, each.proof, chain)

    def verify(
        self,
        keys: Iterable[LogKey | RecordKey],
        kept: Sequence[Envelope | Head] = (),
        watch: Callable[[Iterator[NumberedEntry]], Iterable[NumberedEntry]] = iter,
        examiner: Examiner | None = None,
        marks: Marks | None = None,
        *,
        proofs: bool = False,
    ) -> LogReport:
        """Verify the whole log; if no fault is found, also its list of open calls. `watch` sees each entry (with its
        proof if `proofs` is set) and returns it unchanged. The other arguments are those of `attest.verify_log`."""
        try:
            heads = self.heads()
        except AttestationError as error:
            return LogReport(0, (), Fault("the writers", str(error)))
        watched = watch(self.entries(proofs=proofs))
        entries = self._with_chains(watched) if proofs else (each.entry for each in watched)
        trusted = tuple(keys)
        rows = OpenRows(MarksInMemory() if marks is None else marks, self.open_rows, trusted)
        report = verify_log(entries, trusted, [*kept, *heads], examiner=examiner, has_digests=True, marks=rows)
        return (
            report if report.fault is not None else report._replace(fault=_find_uncounted(report, heads) or rows.fault)
        )


def _chain_named_in(entry: Entry) -> str:
    """Return the SHA-256 of the chain that a record names, or "". It only serves to find the chain: the record is not
    verified."""
    if not isinstance(entry, Stored):
        return ""
    _, mark, rest = entry.envelope.payload.partition(_CHAIN_MARK)
    return rest[:64].decode("ascii", "replace") if mark else ""


def _find_uncounted(report: LogReport, heads: Iterable[Head]) -> Fault | None:
    """Return a fault if there is a record beyond the count in its writer's row, or None. A record and that count are
    written together. Missing records were already looked for when the entries were verified."""
    counted: dict[str, int] = {}
    for head in heads:
        counted[head.writer] = min(head.sequence, counted.get(head.writer, head.sequence))
    for each in report.writers:
        last = counted.get(each.writer, 0)
        if last != each.records:
            return Fault(f"{each.writer}/{last + 1}", "it is there, and the row of its writer does not count it")
    return None


def windows(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield number ranges, (first, last), that together cover a long one.

    A database reads a range until it has found one match more than was requested. So the first ranges are short: if
    there is an early match, little is read.
    """
    size = _FIRST_WINDOW
    while first <= last:
        yield first, min(last, first + size - 1)
        first, size = first + size, size * 4


def key_range(prefix: str) -> tuple[bytes, bytes]:
    """Return the range of index keys for call ids that begin with this prefix: its first key, and its end, which is not
    in it."""
    first = prefix.encode("utf-8", "surrogatepass")[:CALL_KEY_CHARS]
    return first, first + b"\xff"


def head_in(name: object, records: object, head: object) -> Head:
    """Return the head in a writer's row. Raises `AttestationError`."""
    if not isinstance(name, str) or not isinstance(records, int) or not isinstance(head, str):
        raise AttestationError("a writer's row is damaged")
    return Head(name, records, head)


def certificates_in(value: object) -> bytes:
    """Return the certificate chain in a row. Raises `AttestationError`."""
    if not isinstance(value, bytes):
        raise AttestationError("a chain of certificates is damaged")
    return value


def read_entry(
    order: int, writer: object, number: object, key_id: object, payload: object, ed25519: object, ml_dsa_65: object,
    members: object, proof: object = None, kind: str = "",
) -> NumberedEntry:  # fmt: skip
    """Return the entry in a row. `kind` is the entry's kind according to the store. Raises `AttestationError`."""
    stored = entry_in(writer, number, key_id, payload, ed25519, ml_dsa_65, members, kind)
    return NumberedEntry(order, stored, proof if isinstance(proof, bytes | None) else b"")


def entry_in(
    writer: object, number: object, key_id: object, payload: object, ed25519: object, ml_dsa_65: object,
    members: object, kind: str = "",
) -> Stored:  # fmt: skip
    """Return the entry in a row, without what is kept with it. Raises `AttestationError`."""
    if not isinstance(writer, str) or not isinstance(number, int):
        raise AttestationError(NO_PLACE)
    place = f"{writer}/{number}"
    if not (isinstance(payload, bytes) and isinstance(ed25519, bytes) and isinstance(key_id, str | None)):
        raise damage_error(place)
    first = restore_members(Signature(key_id or "", ed25519), members)
    if first is None or not isinstance(ml_dsa_65, bytes | None):
        raise damage_error(place)
    second = () if ml_dsa_65 is None else (Signature((key_id or "") + ML_DSA_65_SUFFIX, ml_dsa_65),)
    return Stored(Envelope(payload, (first, *second)), place, kind)


def open_call(call: object, writer: object, read: Callable[[], NumberedEntry]) -> OpenCall:
    """Return a row of the list of open calls. `writer` is the name of the writer that must close the call, if that has
    not ended. `read` returns the entry of the call's decision, or raises `AttestationError`."""
    try:
        entry = read().entry
    except AttestationError:
        entry = None
    is_left = not isinstance(writer, str) or not WRITER_ID.fullmatch(writer)
    return OpenCall(call if isinstance(call, str) else "", entry if isinstance(entry, Stored) else None, is_left)


def open_in(row: Sequence[Any]) -> OpenCall:
    """Return a row of the list of open calls as a writer reads it: the call, and the entry of its decision."""
    call, *entry = row
    try:
        decision = entry_in(*entry)
    except AttestationError:
        decision = None
    return OpenCall(call if isinstance(call, str) else "", decision)


def damage_error(place: str) -> AttestationError:
    """Return the error for a row that is not an entry."""
    return AttestationError(f"{place} is damaged", place)
