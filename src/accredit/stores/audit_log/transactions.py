"""The rules of the log, over its tables, whatever holds them. No I/O of its own.

A transaction that is rolled back leaves no trace: the next one is numbered as if it had not been.
"""

from collections.abc import Sequence
from typing import NamedTuple

from accredit.attest import (
    CallDecision,
    CallRecord,
    LogSigner,
    Outcome,
    decision_payload,
    decode_statement,
    outcome_payload,
    unknown_payload,
)
from accredit.errors import AttestationError
from accredit.limits import RECORDS_A_TURN, RECORDS_A_TURN_ELSEWHERE
from accredit.stores.audit_log.appender import Tail
from accredit.stores.audit_log.tables import ChainEnd, ChainEnded, Change, Claimed, LogTables

CUT_OFF = "the process that forwarded this call ended before its outcome was recorded"
"""The detail of an `unknown` outcome."""
NOT_OPEN = "the call is not open: its outcome is on record already, or another process has closed it"
"""Why an outcome was not recorded."""


def records_a_turn(signer: LogSigner) -> int:
    """Return how many records are written in one turn."""
    return RECORDS_A_TURN if signer.records is None else RECORDS_A_TURN_ELSEWHERE


class Event(NamedTuple):
    """Something to record about a call: its decision or, if `outcome` is given, that; and when."""

    decided: CallDecision
    now_ms: int
    outcome: Outcome | None = None


class Chain(NamedTuple):
    """One writer's chain, and its signer. Each method is one transaction, and raises `ChainEnded` if the writer was
    taken for dead: its calls are closed, so no call of it may be opened."""

    name: str
    signer: LogSigner

    async def turn(self, tables: LogTables, number: int, events: Sequence[Event]) -> list[str | None]:
        """Append events; return, for each, why it was not recorded, or None. Turns are numbered from 1.

        Of a turn that was written before, or a later one, nothing is appended: a store that did not answer in time may
        still have written it. Something else is written then, for what is only read may be on one machine alone.
        """
        end = await self._end(tables)
        if end.turn >= number:
            await tables.touch(self.name)
            return [None] * len(events)
        outcomes = [each.decided.call.id for each in events if each.outcome is not None]
        is_open = await tables.open_among(self.name, outcomes) if outcomes else set[str]()
        turn = _Turn(Tail(end, self.signer), is_open)
        errors = [turn.append(event) for event in events]
        await tables.write(turn.change(number, events))
        return errors

    async def close_calls(self, tables: LogTables, name: str, now_ms: int, policy_digest: str) -> bool:
        """Close calls that a writer left open as `unknown`, at most one turn's worth; return True when none is left.

        `policy_digest` is for calls whose decisions don't name one.
        """
        tail = Tail(await self._end(tables), self.signer)
        most = records_a_turn(self.signer)
        left = await tables.open_calls(name, most)
        for _, payload in left:
            _close_call(tail, payload, now_ms, policy_digest)
        if left:
            await tables.write(tail.change(closed=[call for call, _ in left], closed_of=name))
        return len(left) < most

    async def claim(self, tables: LogTables, resume: bytes) -> Claimed:
        """Take over the open call that is found by `resume`."""
        await self._end(tables)
        return await tables.claim(self.name, resume)

    async def checkpoint(self, tables: LogTables, name: str, now_ms: int) -> None:
        """Append a checkpoint of a writer's chain, its own or another's, unless its head has one."""
        end = await self._end(tables) if name == self.name else await tables.end_of(name)
        if end.records > end.checkpointed and not end.over:
            tail = Tail(end, self.signer)
            tail.checkpoint(now_ms)
            await tables.write(tail.change())

    async def _end(self, tables: LogTables) -> ChainEnd:
        end = await tables.end_of(self.name)
        if end.over:
            raise ChainEnded(self.name)
        return end


class _Turn:
    """Records that are appended together. A call that goes on is open from its decision to its outcome; an outcome of a
    call that is not open is not recorded."""

    def __init__(self, tail: Tail, is_open: set[str]) -> None:
        self._tail = tail
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
                number = self._tail.append(lambda place: decision_payload(decided, place, now_ms), now_ms)
                if decided.decision.goes_on:
                    self._opened[call] = number
                    if decided.resume is not None:
                        self._resumes[call] = decided.resume
                return None
            if call not in self._opened and call not in self._is_open:
                return NOT_OPEN
            self._tail.append(lambda place: outcome_payload(decided, outcome, place, now_ms), now_ms)
        except AttestationError as error:
            return str(error)
        if self._opened.pop(call, None) is None:
            self._is_open.discard(call)
            self._closed.append(call)
        return None

    def change(self, number: int, events: Sequence[Event]) -> Change:
        """Return what the turn writes."""
        certificates = {
            decided.authority.chain_sha256: decided.certificates
            for decided, _, outcome in events
            if outcome is None and decided.authority is not None and decided.certificates is not None
        }
        resumes = {call: self._resumes[call] for call in self._opened if call in self._resumes}
        return self._tail.change(
            number, opened=self._opened, resumes=resumes, closed=self._closed, certificates=certificates
        )


def _close_call(tail: Tail, payload: object, now_ms: int, policy_digest: str) -> None:
    # A damaged record can't be closed, and must not keep a writer from starting. `log verify` reports it.
    try:
        decision = decode_statement(payload if isinstance(payload, bytes) else b"")
    except AttestationError:
        return
    record = decision.predicate
    if isinstance(record, CallRecord):
        tail.append(lambda place: unknown_payload(decision, record, CUT_OFF, place, now_ms, policy_digest), now_ms)
