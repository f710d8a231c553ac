"""Reads records that verify, one by one, from any store: for commands and pages that rely on what a log says. No I/O of
its own.

- [signature] A record is proven if it has valid signatures by a trusted key, and its content and place are those that
  its store states.
- [unproven] Somebody else may be able to write to the log, so nothing but proven records is believed. An unproven
  record is left out and counted, or shown with the reason. It never leads a person to sign something.

Not checked here: whether records are missing, duplicated, or in another order. `verify_log` does that.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from accredit.attest import (
    CallRecord,
    Digest,
    Entry,
    Envelope,
    Examined,
    Examiner,
    LogKey,
    RecordKey,
    Stored,
    examine,
    misplaced,
)
from accredit.errors import AttestationError
from accredit.stores.audit_log.reading import NumberedEntry


class ProvenRecord(NamedTuple):
    """A record that is proven, and the SHA-256 of its subject."""

    entry: NumberedEntry
    record: CallRecord
    sha256: str


class UnverifiedEntries(NamedTuple):
    """Entries left out because they don't verify: how many, where the first of them is, and why it does not."""

    entries: int = 0
    place: str = ""
    reason: str = ""


NOTHING_LEFT = UnverifiedEntries()


class Prover:
    """Reads entries with trusted keys. `left` reports what was left out so far."""

    def __init__(self, keys: Iterable[LogKey | RecordKey], examiner: Examiner | None = None) -> None:
        """To verify thousands of entries, `examiner` is used instead of `examine` with these keys."""
        self._keys = {key.id: key for key in keys}
        self._examiner = examiner or self._examined
        self.left = NOTHING_LEFT

    @property
    def has_keys(self) -> bool:
        """Whether anything can be verified here."""
        return bool(self._keys)

    def records(
        self, entries: Iterable[NumberedEntry], wanted: Callable[[CallRecord], bool] = lambda _: True
    ) -> Iterator[ProvenRecord]:
        """Yield the proven records, in the order of the entries. `wanted` is given a record's unverified content, and
        says whether to verify it; other records are skipped. An error in reading the entries is raised only after all
        records before it were yielded."""
        waiting = deque[NumberedEntry]()
        for found in self._examiner(_select_wanted(entries, wanted, waiting)):
            each = waiting.popleft()
            if isinstance(found, Digest):
                continue
            fault = found.fault or misplaced(found)
            if fault is not None:
                self.left = UnverifiedEntries(
                    self.left.entries + 1, self.left.place or found.place, self.left.reason or fault
                )
                continue
            statement = each.statement()
            if statement is not None and isinstance(statement.predicate, CallRecord):
                yield ProvenRecord(each, statement.predicate, statement.sha256)

    def fault(self, entry: NumberedEntry) -> str | None:
        """Return why an entry, of any kind, does not verify. Return None if it verifies, or is the digest of a pruned
        record."""
        if not isinstance(entry.entry, Stored):
            return None
        found = examine(entry.entry, self._keys)
        return (found.fault or misplaced(found)) if isinstance(found, Examined) else None

    def _examined(self, entries: Iterable[Entry | Envelope | bytes | str]) -> Iterator[Examined | Digest]:
        return (examine(entry, self._keys) for entry in entries)


def _select_wanted(
    entries: Iterable[NumberedEntry], wanted: Callable[[CallRecord], bool], waiting: deque[NumberedEntry]
) -> Iterator[Entry]:
    """Yield the entries to examine. Each is also put into `waiting`, for when its result comes."""
    for each in entries:
        try:
            record = each.record()
            passes = record is not None and wanted(record)
        except AttestationError:
            passes = True  # an invalid statement, which is counted
        if passes:
            waiting.append(each)
            yield each.entry


def is_decision_since(first: str, record: CallRecord) -> bool:
    """Return whether a record is a decision on a call that came at this time or later (RFC 3339, UTC)."""
    return record.decision is not None and record.times.received >= first
