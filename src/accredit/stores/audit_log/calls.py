"""Calls in the log, verified or not: the record of a decision joined with that of its outcome. No I/O."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, get_args

from accredit.attest import CallRecord, OutcomeStatus
from accredit.stores.audit_log.reading import NumberedEntry

STATUSES: tuple[str, ...] = (*get_args(OutcomeStatus), "open")
"""The possible states of a forwarded call."""


class FiledRecord(NamedTuple):
    """A record of a call, and the entry that holds it."""

    record: CallRecord
    entry: NumberedEntry


class CallRow(NamedTuple):
    """One call: its decision and its outcome. `outcome` is None while the call is open. `entries` are those of its
    records."""

    decision: CallRecord
    outcome: CallRecord | None
    entries: tuple[NumberedEntry, ...] = ()

    @property
    def status(self) -> str:
        """How the call ended: its outcome's status, "open", or "" for a call that was not forwarded."""
        if self.outcome is not None and self.outcome.outcome is not None:
            return self.outcome.outcome.status
        return "open" if self.decision.goes_on else ""

    @property
    def verdict(self) -> str:
        """The verdict of its decision."""
        return self.decision.decision.verdict if self.decision.decision else ""

    def members(self, names: Mapping[str, str]) -> dict[str, object]:
        """Return the call as JSON members. `names` are the known names, by id."""
        decision, authority = self.decision.decision, self.decision.authority
        outcome = self.outcome.outcome if self.outcome else None
        return {
            "call": self.decision.call.id,
            "received": self.decision.times.received,
            "method": self.decision.call.method,
            "target": self.decision.call.target,
            "server": self.decision.call.server,
            "decision": self.verdict,
            "enforced": decision.enforced is not False if decision else True,
            "error": decision.error if decision else None,
            "principal_id": authority.principal_id if authority else None,
            "principal_name": names.get(authority.principal_id, authority.principal_name) if authority else None,
            "agent_id": authority.agent_id if authority else None,
            "agent_name": names.get(authority.agent_id) if authority else None,
            "outcome": self.status or None,
            "detail": outcome.detail if outcome else None,
            "writer": self.decision.log.writer,
            "sequence": self.decision.log.sequence,
        }


def read_call_records(entries: Iterable[NumberedEntry]) -> Iterator[FiledRecord]:
    """Yield the call records among entries, unverified. Raises `AttestationError`."""
    for entry in entries:
        record = entry.record()
        if record is not None:
            yield FiledRecord(record, entry)


def join_newest_first(records: Iterable[FiledRecord]) -> Iterator[CallRow]:
    """Join records that come newest first. Each call is yielded when its decision is reached. Outcomes whose decisions
    were pruned are skipped."""
    outcomes: dict[str, FiledRecord] = {}
    for told in records:
        if told.record.phase == "outcome":
            outcomes[told.record.call.id] = told
        else:
            yield _row(told, outcomes.pop(told.record.call.id, None))


def join_as_they_end(records: Iterable[FiledRecord], open_calls: dict[str, FiledRecord]) -> Iterator[CallRow]:
    """Join records that come oldest first. Each call is yielded when it has ended. `open_calls` holds those still open,
    by id."""
    for told in records:
        record = told.record
        if record.phase == "outcome":
            decision = open_calls.pop(record.call.id, None)
            if decision is not None:
                yield _row(decision, told)
        elif record.goes_on:
            open_calls[record.call.id] = told
        else:
            yield _row(told, None)


def _row(decision: FiledRecord, outcome: FiledRecord | None) -> CallRow:
    if outcome is None:
        return CallRow(decision.record, None, (decision.entry,))
    return CallRow(decision.record, outcome.record, (decision.entry, outcome.entry))
