"""The rules of the log, over its tables, in a file or a database. No I/O of its own.

A transaction that is rolled back leaves no trace: the next one uses its numbers again.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from accredit.attest import (
    CallDecision,
    CallRecord,
    Head,
    Outcome,
    Place,
    Statement,
    decision_payload,
    outcome_payload,
    unknown_payload,
)
from accredit.attest.statements import WRITTEN
from accredit.errors import AttestationError
from accredit.limits import RECORDS_OF_A_CALL
from accredit.stores.audit_log.appender import ChainAppender
from accredit.stores.audit_log.author import Author, ProvenEnd, check_end, read_phases
from accredit.stores.audit_log.tables import ChainChange, ChainEnded, ChainTaken, LogTables, OpenCall

CLOSED_AT_ONCE = 16
"""How many open calls of a dead writer are closed at a time. In a log of ten million records, it takes 40 ms to find
out that one call has no outcome, and others wait meanwhile."""


CUT_OFF = "the process that forwarded this call ended before its outcome was recorded"
"""The detail of an `unknown` outcome: why the real one is not known."""
NOT_OPEN = "the call is not open: its outcome is on record already, or another process has closed it"
"""Why an outcome was not recorded."""


class Event(NamedTuple):
    """An event of a call, and its time. It is the call's outcome if `outcome` is given, else its decision."""

    decided: CallDecision
    now_ms: int
    outcome: Outcome | None = None


class Claimed(NamedTuple):
    """How many open calls were found, and either the payload of the claimed call's decision or why none was claimed."""

    found: int
    payload: bytes | None = None
    fault: str = ""


class Closed(NamedTuple):
    """How far open calls were checked: the id of the last one checked, None if all were. `faults` is how many of them
    were not closed; `fault` is the reason for the first of these."""

    after: str | None
    faults: int = 0
    fault: str = ""


class Signed(NamedTuple):
    """The head of a chain, which a checkpoint now covers (None if there are no records), or why it was not signed."""

    head: Head | None
    fault: str = ""


class Chain(NamedTuple):
    """One writer's chain, and its author. Each method is one transaction. It raises `ChainEnded` if the writer was
    declared dead: then its calls are closed, and it may not open any. It raises `ChainTaken` if somebody else has
    changed the chain."""

    name: str
    author: Author

    async def turn(
        self, tables: LogTables, number: int, events: Sequence[Event], *, elsewhere: bool = False
    ) -> list[str | None]:
        """Append events. Return, for each, None, or why it was not recorded. Turns are numbered from 1. `elsewhere`
        says that this turn was sent to another chain before.

        A turn that is already written ([repeated-turns] of `author`) is not appended again: a store that did not answer
        in time may still have written it. In that case some value is rewritten: only a successful write shows that the
        turn is kept. Data that can be read may still be on one machine alone.
        """
        proved = await self._end(tables)
        if (elsewhere or proved.end.turn >= number) and await self._is_on_record(tables, events):
            await tables.touch(self.name)
            return [None] * len(events)
        outcomes = [each.decided.call.id for each in events if each.outcome is not None]
        is_open = await tables.open_among(self.name, outcomes) if outcomes else set[str]()
        turn = _Turn(ChainAppender(proved, self.author.signer), is_open, tables.version)
        errors = [turn.append(event) for event in events]
        await self._write(tables, turn.change(number, events))
        return errors

    async def close_calls(self, tables: LogTables, name: str, after: str, now_ms: int, policy_digest: str) -> Closed:
        """Close, as `unknown`, calls that a writer left open, from the id after `after`, at most one turn's worth. A
        call stays listed as open if its decision's own record does not show that it is ([open-calls] of `author`).

        `policy_digest` is for calls whose decisions don't name one.
        """
        tail = ChainAppender(await self._end(tables), self.author.signer)
        found = await tables.open_calls(name, after, CLOSED_AT_ONCE)
        closed, faults = list[str](), list[str]()
        for call, decided in (await self._judged(tables, found)).items():
            if isinstance(decided, str):
                faults.append(decided)
            else:
                payload = partial(
                    _unknown, *decided, now_ms=now_ms, policy_digest=policy_digest, version=tables.version
                )
                tail.append(payload, now_ms)
                closed.append(call)
        if closed:
            await self._write(tables, tail.change(closed=closed, closed_of=name))
        last = found[-1].call if len(found) == CLOSED_AT_ONCE else None
        return Closed(last or None, len(faults), faults[0] if faults else "")

    async def claim(self, tables: LogTables, resume: bytes) -> Claimed:
        """Take over the open call with the key `resume`. There must be exactly one, and the record of its decision must
        show that it is open."""
        await self._end(tables)
        found = await tables.open_by(resume)
        if len(found) != 1:
            return Claimed(len(found))
        (open_call,) = found
        decided = (await self._judged(tables, found))[open_call.call]
        if isinstance(decided, str):
            return Claimed(1, fault=decided)
        await tables.claim(self.name, open_call, resume)
        return Claimed(1, open_call.decision.envelope.payload if open_call.decision is not None else None)

    async def checkpoint(self, tables: LogTables, name: str, now_ms: int) -> Signed:
        """Append a checkpoint of a writer's chain, its own or another's, unless its head has one already. Return the
        head. Another writer's chain ends at its last entry ([other-chains] of `author`)."""
        own = await self._end(tables)
        proved = own
        if name != self.name:
            try:
                proved = check_end(*await tables.newest_of(name), self.author.keys)
            except AttestationError as error:
                return Signed(None, str(error))
        end = proved.end
        if not end.records:
            return Signed(None)
        is_covered = proved.covered == end.records
        if not is_covered and not end.over:
            tail = ChainAppender(proved, self.author.signer)
            tail.checkpoint(now_ms)
            await self._write(tables, tail.change())
            is_covered = True
        elif is_covered and end.checkpointed != end.records and not end.over:
            await self._write(tables, ChainChange(end, end._replace(checkpointed=end.records), []))
        return Signed(Head(name, end.records, end.head) if is_covered else None)

    async def _judged(
        self, tables: LogTables, calls: Sequence[OpenCall]
    ) -> dict[str, tuple[Statement, CallRecord] | str]:
        """Return the decision of each call listed as open, or why that call is not open ([open-calls] of `author`)."""
        judged: dict[str, tuple[Statement, CallRecord] | str] = {}
        for each in calls:
            try:
                judged[each.call] = self.author.check_open(each)
            except AttestationError as error:
                judged[each.call] = str(error)
        for call in [call for call, decided in judged.items() if not isinstance(decided, str)]:
            payloads = await tables.payloads_of(call, RECORDS_OF_A_CALL)
            if (call, "outcome") in read_phases(payloads):
                judged[call] = "what came of it is on record already"
            elif len(payloads) >= RECORDS_OF_A_CALL:
                judged[call] = "more records name it than a call has"
        return judged

    async def _end(self, tables: LogTables) -> ProvenEnd:
        """Return the end of the writer's own chain."""
        end = await tables.end_of(self.name)
        if end.over:
            raise ChainEnded(self.name)
        remembered = self.author.remembered(end)
        if remembered is not None:
            return remembered
        try:
            end, newest = await tables.newest_of(self.name)
        except AttestationError:
            raise ChainTaken(self.name) from None
        return self.author.go_on(end, newest)

    async def _is_on_record(self, tables: LogTables, events: Sequence[Event]) -> bool:
        """Return whether a turn is on record. Its first decision shows that: a turn is written as a whole or not at
        all."""
        first = next((each.decided.call.id for each in events if each.outcome is None), None)
        return first is not None and (first, "decision") in read_phases(
            await tables.payloads_of(first, RECORDS_OF_A_CALL)
        )

    async def _write(self, tables: LogTables, change: ChainChange) -> None:
        await tables.write(change)
        if change.after.name == self.name:
            self.author.wrote(change.after)


class _Turn:
    """Records that are appended together. A forwarded call is open from its decision to its outcome. The outcome of a
    call that is not open is not recorded."""

    def __init__(self, tail: ChainAppender, is_open: set[str], version: int) -> None:
        self._tail = tail
        self._version = version
        self._is_open = is_open
        self._opened: dict[str, int] = {}
        self._resumes: dict[str, bytes] = {}
        self._closed: list[str] = []

    def append(self, event: Event) -> str | None:
        """Append an event's record; return None, or why it was not recorded."""
        decided, now_ms, outcome = event
        call = decided.call.id
        try:
            if outcome is None:
                proof = decided.proof if self._version == WRITTEN else None
                number = self._tail.append(
                    lambda place: decision_payload(decided, place, now_ms, self._version), now_ms, proof
                )
                if decided.goes_on:
                    self._opened[call] = number
                    if decided.resume is not None:
                        self._resumes[call] = decided.resume
                return None
            if call not in self._opened and call not in self._is_open:
                return NOT_OPEN
            self._tail.append(lambda place: outcome_payload(decided, outcome, place, now_ms, self._version), now_ms)
        except AttestationError as error:
            return str(error)
        if self._opened.pop(call, None) is None:
            self._is_open.discard(call)
            self._closed.append(call)
        return None

    def change(self, number: int, events: Sequence[Event]) -> ChainChange:
        """Return the change that writes the turn."""
        certificates = {
            decided.authority.chain_sha256: decided.certificates
            for decided, _, outcome in events
            if outcome is None and decided.authority is not None and decided.certificates is not None
        }
        resumes = {call: self._resumes[call] for call in self._opened if call in self._resumes}
        return self._tail.change(
            number, opened=self._opened, resumes=resumes, closed=self._closed, certificates=certificates
        )


def _unknown(
    decision: Statement, record: CallRecord, place: Place, *, now_ms: int, policy_digest: str, version: int
) -> bytes:
    return unknown_payload(decision, record, CUT_OFF, place, now_ms, policy_digest, version)
