"""The requests to the writer of a log, each of which is one transaction over the log's tables. No I/O of its own.

They are run by a thread of this process or by a process beside it (`LogExecutor`). A transaction that is rolled
back leaves no trace: the next one uses its numbers again. Most raise `ChainEnded` if their writer was declared dead
(its calls are closed, and it may not open any more), and `ChainTaken` if somebody else has changed its chain.
"""

from collections.abc import Awaitable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

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
from accredit.attest.statements import has_outcome
from accredit.errors import AttestationError, StoreUnavailable
from accredit.limits import RECORDS_OF_A_CALL
from accredit.stores.audit_log.author import Author, ChainAppender, ProvenEnd, check_end, read_phases
from accredit.stores.audit_log.places import LogPlace
from accredit.stores.audit_log.tables import ChainChange, ChainEnded, ChainTaken, LogTables, OpenCall, OpenWriters

MAX_RECORD_BYTES = 33_554_432
"""The most bytes of a call's record. A longer record could not be read again: its base64 would exceed
`MAX_ATTESTATION_BYTES`."""
CLOSED_AT_ONCE = 16
"""How many open calls of a dead writer are closed at a time. In a log of ten million records, it takes 40 ms to find
out that one call has no outcome, and this gateway's records wait meanwhile."""


CUT_OFF = "the process that forwarded this call ended before its outcome was recorded"
"""The detail of an `unknown` outcome: why the real one is not known."""
NOT_OPEN = "the call is not open: its outcome is on record already, or another process has closed it"
"""Why an outcome was not recorded."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class WriterRequest(Protocol[T_co]):
    """One transaction of the writer that is called `writer`. `ANSWER` is the type of its result."""

    ANSWER: ClassVar[Any]

    @property
    def writer(self) -> str:
        """The name of the requesting writer."""
        ...

    async def run(self, tables: LogTables, author: Author) -> T_co:
        """Run the request. Raises `StoreUnavailable` (`ChainEnded`, `ChainMoved`) and `AttestationError`."""
        ...


class LogExecutor(Protocol):
    """Runs a writer's requests one after the other, outside the caller's event loop: in a process or in a thread."""

    place: LogPlace
    turn_records: int
    """The maximum number of records written in one request."""

    def run(self, request: WriterRequest[T]) -> Awaitable[T]:
        """Return a request's answer once it is committed. Raises `StoreUnavailable`; the request may then still be run
        later."""
        ...

    async def aclose(self) -> None:
        """Finish the requests, and release all resources."""
        ...


def check_in_time(deadline: float, now: float) -> None:
    """Refuse a request whose caller waits no longer. Raises `StoreUnavailable`."""
    if now >= deadline:
        raise StoreUnavailable("what was asked before took too long")


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
    """The head of a chain, which a checkpoint now covers (None if there are no records), or why it was not signed. If
    the chain's last entry was not found yet, `further` says where the search goes on."""

    head: Head | None
    fault: str = ""
    further: int | None = None


_decode_event = msgspec.msgpack.Decoder(Event).decode


class _OfWriter(Struct, frozen=True, tag=True):
    writer: str

    async def _end(self, tables: LogTables, author: Author) -> ProvenEnd:
        """Return the end of the writer's own chain."""
        end = await tables.end_of(self.writer)
        if end.over:
            raise ChainEnded(self.writer)
        remembered = author.remembered(end)
        if remembered is not None:
            return remembered
        try:
            end, newest, further = await tables.newest_of(self.writer)
            while further is not None:  # after a replaced process: others have written much since
                end, newest, further = await tables.newest_of(self.writer, further)
        except AttestationError:
            raise ChainTaken(self.writer) from None
        return author.go_on(end, newest)

    async def _write(self, tables: LogTables, author: Author, change: ChainChange) -> None:
        await tables.write(change)
        if change.after.name == self.writer:
            author.wrote(change.after)


class Begin(_OfWriter, frozen=True):
    """Register a writer."""

    ANSWER: ClassVar[Any] = None

    async def run(self, tables: LogTables, author: Author) -> None:
        """Add the writer."""
        await tables.add_writer(self.writer)


class Heartbeat(_OfWriter, frozen=True):
    """Report that this writer lives, and look for others that may have died. Those in `left`, which were left open
    before, are not examined again."""

    ANSWER: ClassVar[Any] = OpenWriters

    left: list[str] = []

    async def run(self, tables: LogTables, author: Author) -> OpenWriters:
        """Return the names of the others."""
        return await tables.find_others(self.writer, self.left)


class CheckWritable(_OfWriter, frozen=True):
    """Test whether anything can be written to the log."""

    ANSWER: ClassVar[Any] = None

    async def run(self, tables: LogTables, author: Author) -> None:
        """Write without changing anything."""
        await tables.touch(self.writer)


class AppendEvents(_OfWriter, frozen=True):
    """Append events, each from `queue.encode_for_turn`. Events that are appended together are a turn; turns are
    numbered from 1.

    A store that did not answer in time may have written a turn nevertheless. So a turn that is found on record is not
    appended again ([repeated-turns] of `author`). With `elsewhere`, the turn was first sent to another writer's chain,
    and is always searched for. If it is found, a row is written unchanged: data that can be read may be on one machine
    alone, and only a successful write shows that it is kept.
    """

    ANSWER: ClassVar[Any] = list[str | None]

    number: int
    events: list[Raw]
    elsewhere: bool = False

    async def run(self, tables: LogTables, author: Author) -> list[str | None]:
        """Return, for each event, why it was not recorded, or None."""
        events = [_decode_event(event) for event in self.events]
        proved = await self._end(tables, author)
        if (self.elsewhere or proved.end.turn >= self.number) and await _is_on_record(tables, events):
            await tables.touch(self.writer)
            return [None] * len(events)
        outcomes = [each.decided.call.id for each in events if each.outcome is not None]
        is_open = await tables.open_among(self.writer, outcomes) if outcomes else set[str]()
        turn = _Turn(ChainAppender(proved, author.signer), is_open)
        errors = [turn.append(event) for event in events]
        await self._write(tables, author, turn.change(self.number, events))
        return errors


class Claim(_OfWriter, frozen=True):
    """Take over the open call with the key `resume`, whose answer has arrived in this process. There must be exactly
    one, and the record of its decision must show that it is open."""

    ANSWER: ClassVar[Any] = Claimed

    resume: bytes

    async def run(self, tables: LogTables, author: Author) -> Claimed:
        """Return the result."""
        await self._end(tables, author)
        found = await tables.open_by(self.resume)
        if len(found) != 1:
            return Claimed(len(found))
        (open_call,) = found
        decided = (await _judge(tables, author, found))[open_call.call]
        if isinstance(decided, str):
            return Claimed(1, fault=decided)
        await tables.claim(self.writer, open_call, self.resume)
        return Claimed(1, open_call.decision.envelope.payload if open_call.decision is not None else None)


class CloseCalls(_OfWriter, frozen=True):
    """Close open calls of the writer `dead`, or of this writer at its end, with the outcome `unknown`. At most
    `CLOSED_AT_ONCE` calls are handled, beginning after the id `after`. A call is not closed, and stays in the list, if
    the record of its decision does not show that it is open ([open-calls] of `author`). `policy_digest` is for calls
    whose decisions don't name one."""

    ANSWER: ClassVar[Any] = Closed

    dead: str
    now_ms: int
    policy_digest: str
    after: str = ""

    async def run(self, tables: LogTables, author: Author) -> Closed:
        """Close calls. Return where to continue."""
        tail = ChainAppender(await self._end(tables, author), author.signer)
        found = await tables.open_calls(self.dead, self.after, CLOSED_AT_ONCE)
        closed, faults = list[str](), list[str]()
        for call, decided in (await _judge(tables, author, found)).items():
            if isinstance(decided, str):
                faults.append(decided)
            else:
                self._close(tail, *decided)
                closed.append(call)
        if closed:
            await self._write(tables, author, tail.change()._replace(closed=closed, closed_of=self.dead))
        last = found[-1].call if len(found) == CLOSED_AT_ONCE else None
        return Closed(last or None, len(faults), faults[0] if faults else "")

    def _close(self, tail: ChainAppender, decision: Statement, record: CallRecord) -> None:
        def payload(place: Place) -> bytes:
            return unknown_payload(decision, record, CUT_OFF, place, self.now_ms, self.policy_digest)

        tail.append(payload, self.now_ms)


class Sign(_OfWriter, frozen=True):
    """Make sure that a checkpoint covers a chain, this writer's or a dead one's. Another writer's chain ends at its
    last entry ([other-chains] of `author`)."""

    ANSWER: ClassVar[Any] = Signed

    chain: str
    now_ms: int
    further: int | None = None

    async def run(self, tables: LogTables, author: Author) -> Signed:
        """Return the chain's head, or why it was not signed."""
        proved = await self._end(tables, author)
        if self.chain != self.writer:
            try:
                end, newest, further = await tables.newest_of(self.chain, self.further)
                if further is not None:
                    return Signed(None, further=further)
                proved = check_end(end, newest, author.keys)
            except AttestationError as error:
                return Signed(None, str(error))
        end = proved.end
        if not end.records:
            return Signed(None)
        is_covered = proved.covered == end.records
        if not is_covered and not end.over:
            tail = ChainAppender(proved, author.signer)
            tail.checkpoint(self.now_ms)
            await self._write(tables, author, tail.change())
            is_covered = True
        elif is_covered and end.checkpointed != end.records and not end.over:
            await self._write(tables, author, ChainChange(end, end._replace(checkpointed=end.records), []))
        return Signed(Head(self.chain, end.records, end.head) if is_covered else None)


class End(_OfWriter, frozen=True):
    """End a chain, this writer's or a dead one's, unless it has open calls."""

    ANSWER: ClassVar[Any] = bool

    chain: str

    async def run(self, tables: LogTables, author: Author) -> bool:
        """Return whether it has ended."""
        return await tables.end(self.chain)


AnyRequest = Begin | Heartbeat | CheckWritable | AppendEvents | Claim | CloseCalls | Sign | End


class _Turn:
    """Records that are appended together. A forwarded call is open from its decision to its outcome. The outcome of a
    call that is not open is not recorded."""

    def __init__(self, tail: ChainAppender, is_open: set[str]) -> None:
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
                number = self._tail.append(
                    lambda place: decision_payload(decided, place, now_ms), now_ms, decided.proof
                )
                if has_outcome(decided.call, decided.decision):
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

    def change(self, number: int, events: Sequence[Event]) -> ChainChange:
        """Return the change that writes the turn."""
        certificates = {
            decided.authority.chain_sha256: decided.certificates
            for decided, _, outcome in events
            if outcome is None and decided.authority is not None and decided.certificates is not None
        }
        resumes = {call: self._resumes[call] for call in self._opened if call in self._resumes}
        return self._tail.change(number)._replace(
            opened=self._opened, resumes=resumes, closed=self._closed, certificates=certificates
        )


async def _is_on_record(tables: LogTables, events: Sequence[Event]) -> bool:
    """Return whether a turn is on record. Its first decision shows that: a turn is written as a whole or not at all."""
    first = next((each.decided.call.id for each in events if each.outcome is None), None)
    return first is not None and (first, "decision") in read_phases(await tables.payloads_of(first, RECORDS_OF_A_CALL))


async def _judge(
    tables: LogTables, author: Author, calls: Sequence[OpenCall]
) -> dict[str, tuple[Statement, CallRecord] | str]:
    """Return the decision of each call listed as open, or why that call is not open ([open-calls] of `author`)."""
    judged: dict[str, tuple[Statement, CallRecord] | str] = {}
    for each in calls:
        try:
            judged[each.call] = author.check_open(each)
        except AttestationError as error:
            judged[each.call] = str(error)
    for call in [call for call, decided in judged.items() if not isinstance(decided, str)]:
        payloads = await tables.payloads_of(call, RECORDS_OF_A_CALL)
        if (call, "outcome") in read_phases(payloads):
            judged[call] = "what came of it is on record already"
        elif len(payloads) >= RECORDS_OF_A_CALL:
            judged[call] = "more records name it than a call has"
    return judged
