"""One writer of the audit log: `ports.Records`. I/O: the tables, through a `LogExecutor`, and locks (`places`).

An object is one writer. Its chain starts with its first call, or with the outcomes of calls that dead writers left
open: it closes these as `unknown` (`closing`), when it starts and every `LOG_LOOK_SECONDS`. If other processes declare
this writer dead (e.g. after a network split), or somebody else has changed its chain, its next record starts another
chain.

For each call, in this order:

- [begin] `begin` records the decision; only then may the call be forwarded;
- [finish] `finish` records the outcome; only then may the client see the answer;
- [checkpoint] a checkpoint follows after `CHECKPOINT_RECORDS` records or `CHECKPOINT_SECONDS`, and at the end.

Records are encoded when they queue: so a text that can't be written is found at once, and their size is known. They
are written many at a time, in turns. When the queue is full, `begin` refuses. A `durable` log answers when a record is
on disk. If a turn can't be written, all waiting calls are refused. Their outcomes are kept, and written as soon as the
log accepts them. For each refused call, an outcome "not forwarded" is written then as well, as the call's decision may
be on record after all.

A log that is not durable answers at once, and retries. It drops records only if they still wait `CLOSE_RECORDS_SECONDS`
after it was closed; their number is then reported.
"""

import asyncio
import contextlib
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from accredit.attest import CallDecision, Head, Outcome, decided_again, in_short
from accredit.attest.statements import clip_text
from accredit.base.clock import unix_ms
from accredit.errors import AccreditError, AttestationError, StoreUnavailable
from accredit.stores.audit_log.closing import Closing
from accredit.stores.audit_log.places import WriterLock
from accredit.stores.audit_log.requests import (
    MAX_RECORD_BYTES,
    AppendEvents,
    Begin,
    CheckWritable,
    Claim,
    Event,
    LogExecutor,
    WriterRequest,
)
from accredit.stores.audit_log.tables import ChainEnded

CHECKPOINT_SECONDS = 10.0
"""The longest time from a record to the checkpoint that covers it. If records that no checkpoint covers yet are cut
off, nobody can notice."""
MAX_QUEUED_RECORDS = 10_000
"""The most records that wait to be written, some 2 KiB each without arguments. Beyond that, calls are refused."""
MAX_QUEUED_RECORD_BYTES = 67_108_864
"""The most bytes of records that wait to be written, with arguments and certificates."""
RECORD_RETRY_SECONDS = 1.0
"""While the store refuses the waiting records, they are tried again at this interval. A new record is tried at once."""
UNREADY_SECONDS = 10.0
"""After a record could not be written, the gateway reports for this long that it is not ready, or until a record is
written. Load balancers usually check this often. A small write would be no test: it may succeed on a disk that has no
room for a record."""
LOG_LOOK_SECONDS = 10.0
"""The interval at which a log's writer reports that it lives, and looks for others that have died."""
CLOSE_RECORDS_SECONDS = 5.0
"""When the log is closed, the time for writing the waiting records. Any that then still wait are counted and
reported."""
MAX_KEPT_OUTCOMES = 10_000
"""The most outcomes that wait until a durable log can be written again: more than there can be open calls."""
MAX_KEPT_OUTCOME_BYTES = 16_777_216
"""The most bytes of such outcomes. Each has some 1 KiB: outcomes hold no arguments."""


T = TypeVar("T")

_encode_event = msgspec.msgpack.Encoder().encode


def encode_for_turn(event: Event) -> Raw:
    """Encode an event for `AppendEvents`. Raises `AttestationError` for a text that no record can hold (a lone
    surrogate), and for a record of more than `MAX_RECORD_BYTES`."""
    try:
        record = _encode_event(event)
    except UnicodeEncodeError:
        try:  # texts for people can always be written, once clipped
            record = _encode_event(_clip_event(event))
        except UnicodeEncodeError:
            raise AttestationError("a lone surrogate in a record") from None
    if len(record) > MAX_RECORD_BYTES:
        raise AttestationError(f"a record of more than {MAX_RECORD_BYTES} bytes")
    return Raw(record)


def _clip_event(event: Event) -> Event:
    decided, now_ms, outcome = event
    if outcome is not None:
        return Event(decided, now_ms, replace(outcome, detail=clip_text(outcome.detail or "")))
    decision = replace(decided.decision, reason=clip_text(decided.decision.reason or ""))
    return Event(replace(decided, decision=decision), now_ms)


class _Waiting(NamedTuple):
    event: Raw
    decided: CallDecision | None  # None for an outcome
    written: asyncio.Future[None]


NOT_FORWARDED = Outcome(status="error", detail="the log had not answered in time: it was not forwarded")


class QueuedRecords:
    """One writer of a log. Nothing is opened before the first call, so that processes may fork until then.

    `durable` says that the executor answers when a record is on disk, and that calls wait for that. `policy_digest` is
    that of the configuration; it is used for calls of dead writers whose records don't name one. `on_problem` is called
    once per change, with a text for the program's log on why records can't be written. `on_checkpoint` is called with
    each signed head, except intermediate ones of a busy chain. `on_unverified` is called with each call or chain that
    is left open because it does not verify.
    """

    def __init__(
        self,
        executor: LogExecutor,
        *,
        durable: bool,
        policy_digest: str,
        on_problem: Callable[[str], None],
        on_checkpoint: Callable[[Head], None] = lambda _: None,
        on_unverified: Callable[[str], None] = lambda _: None,
        clock: Callable[[], int] = unix_ms,
    ) -> None:
        self.writer: str | None = None
        """This writer's id, once it has started."""
        self._executor = executor
        self._durable = durable
        self._policy_digest = policy_digest
        self._on_problem = on_problem
        self._on_unverified = on_unverified
        self._closing = Closing(executor.place, self._run, policy_digest, clock, on_checkpoint, on_unverified)
        self._clock = clock
        self._starting = asyncio.Lock()
        self._lock: WriterLock | None = None
        self._queue: deque[_Waiting] = deque()
        self._queued_bytes = 0
        self._refused: deque[CallDecision] = deque(maxlen=executor.turn_records)
        """Recent decisions on calls that were then refused, although the decisions may be on record."""
        self._kept: deque[Raw] = deque()
        """Outcomes of calls that were open when the log failed, in their order. Until it works again, no call can
        begin."""
        self._kept_bytes = 0
        self._wake = asyncio.Event()
        """Set when a record is queued, or the log is closing; cleared after a turn that could not be written."""
        self._turn = 0
        self._signed_turn = 0
        """The last turn before the newest checkpoint began."""
        self._writing: asyncio.Task[None] | None = None
        self._repeating: list[asyncio.Task[None]] = []
        self._problem: str | None = None
        self._unready_until = 0.0
        self._closed = False
        self.on_turn: Callable[[float], object] = lambda _: None
        """Called with the seconds that each written turn took."""

    @property
    def waiting(self) -> int:
        """How many records wait to be written."""
        return len(self._queue) + len(self._kept)

    async def start(self) -> None:
        """Register this writer, and close the calls of dead ones. Raises `StoreUnavailable`."""
        async with self._starting:
            if self.writer is not None:
                return
            try:
                await self._start()
            except StoreUnavailable as error:
                self._tell(str(error))
                raise
            if not self._repeating and not self._closed:
                self._repeating = [
                    asyncio.create_task(self._repeat(LOG_LOOK_SECONDS, self._closing.look)),
                    asyncio.create_task(self._repeat(CHECKPOINT_SECONDS, self._checkpoint)),
                ]

    def begin(self, decided: CallDecision) -> Awaitable[None]:
        """Record a decision. The call must not be forwarded if this, or awaiting the result, raises `StoreUnavailable`,
        or `AttestationError` for a text that no record can hold."""
        if self._is_full():
            raise StoreUnavailable(f"{len(self._queue)} records wait to be written")
        return self._add(Event(decided, self._clock())) if self._durable else self._begin_soon(decided)

    def finish(self, decided: CallDecision, outcome: Outcome) -> asyncio.Future[None]:
        """Record the outcome of a call that `begin` has recorded as allowed, whether or not the result is awaited.

        The result raises `StoreUnavailable` if the outcome is not on record yet; it will be recorded as soon as
        possible. It raises `AttestationError` for a text that no record can hold.
        """
        return self._add(Event(decided, self._clock(), outcome))

    async def _begin_soon(self, decided: CallDecision) -> None:
        await self._begun()
        await self._add(Event(decided, self._clock()))

    async def claim(self, resume: bytes) -> CallDecision | None:
        """Take over an open call, whose outcome this writer then records. Return its decision; None if there is no such
        call.

        Raises `StoreUnavailable`. Raises `AttestationError` if the call can't be told from another one, or its decision
        can't be read.
        """
        claimed = await self._as_writer(lambda writer: Claim(writer, resume))
        if not claimed.found:
            return None
        if claimed.fault:
            self._on_unverified(f"a call is left open, as what the log holds of it does not verify: {claimed.fault}")
        if claimed.payload is None:
            raise AttestationError(f"{claimed.found} open calls are found, and none could be claimed")
        return decided_again(claimed.payload, self._policy_digest)

    def problem(self) -> str | None:
        """Return why records can't be written, or None."""
        return self._problem

    def unverified(self) -> str | None:
        """Return which writers were left open or unsigned because they do not verify, or None."""
        return self._closing.problem()

    @property
    def left(self) -> int:
        """How many other writers were left open because something of theirs does not verify."""
        return self._closing.left

    async def ready(self) -> bool:
        """Return whether a decision could be recorded now. After a failure this is False for `UNREADY_SECONDS`, unless
        a record was written since."""
        try:
            await self._begun()
            await self._as_writer(CheckWritable)
        except StoreUnavailable:
            return False
        if time.monotonic() < self._unready_until:  # a touch may succeed on a disk on which no record fits
            return False
        self._problem = None
        return not self._is_full()

    async def aclose(self) -> None:
        """End this writer: write what waits, close open calls, and sign a checkpoint of everything."""
        self._closed = True
        self._wake.set()
        for each in self._repeating:
            each.cancel()
        if self._repeating:
            await asyncio.wait(self._repeating)
        if self._writing is not None:
            await asyncio.wait([self._writing], timeout=CLOSE_RECORDS_SECONDS)
            if lost := len(self._queue) + len(self._kept):
                self._on_problem(f"{lost} records were lost: the store did not take them")
            self._writing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._writing
        async with self._starting:  # a concurrent `start` must end as well
            if self.writer is not None:
                with contextlib.suppress(StoreUnavailable):
                    if await self._closing.end(self.writer, self.writer) and self._lock is not None:
                        self._lock.end()
                self._leave()
            await self._executor.aclose()

    async def _start(self) -> None:
        # Made here, after any fork: each process is a writer of its own.
        writer = secrets.token_hex(16)
        lock = await self._executor.place.lock_writer(writer)
        if lock is None:
            raise StoreUnavailable(f"another process has locked writer {writer}")
        try:
            await self._run(Begin(writer))
            await self._closing.look(writer)
        except BaseException:
            lock.end()
            lock.close()
            raise
        self._lock, self.writer = lock, writer

    def _leave(self) -> None:
        """Stop being a writer: release the lock, and forget the name."""
        self.writer = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    async def _repeat(self, seconds: float, work: Callable[[str], Awaitable[None]]) -> None:
        """Do some work of this writer at this interval."""
        while True:
            await asyncio.sleep(seconds)
            with contextlib.suppress(StoreUnavailable):
                await work(await self._begun())

    async def _checkpoint(self, writer: str) -> None:
        """Sign a checkpoint if records were written since the last one."""
        turn = self._turn
        if self._signed_turn < turn:
            await self._closing.sign(writer, writer)
            self._signed_turn = turn

    async def _as_writer(self, request_of: Callable[[str], WriterRequest[T]]) -> T:
        """Run a request as this writer, and return its answer. If this writer was declared dead, first become a new
        writer. Raises `StoreUnavailable`."""
        try:
            return await self._run(request_of(self.writer or await self._begun()))
        except ChainEnded:
            return await self._run(request_of(await self._begun()))

    async def _begun(self) -> str:
        if self.writer is None:
            await self.start()
        if self.writer is None or self._closed:
            raise StoreUnavailable("the log is closed")
        return self.writer

    def _is_full(self) -> bool:
        return len(self._queue) >= MAX_QUEUED_RECORDS or self._queued_bytes >= MAX_QUEUED_RECORD_BYTES

    def _add(self, event: Event) -> asyncio.Future[None]:
        """Queue an event. The future is done when the event is written; if the log is not `durable`, at once."""
        written = asyncio.get_running_loop().create_future()
        try:
            if self._closed:
                raise StoreUnavailable("the log is closed")
            record = encode_for_turn(event)
        except AccreditError as error:
            written.set_exception(error)
            return written
        if not self._durable:
            written.set_result(None)
        self._queue.append(_Waiting(record, event.decided if event.outcome is None else None, written))
        self._queued_bytes += len(record)
        self._wake.set()
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        return written

    async def _write(self) -> None:
        """Write the queue, in order, until it is empty."""
        try:
            while self._queue or self._kept or self._refused:
                if await self._take_turn():
                    continue
                if self._closed and not self._kept:
                    return
                self._wake.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RECORD_RETRY_SECONDS):
                        await self._wake.wait()
        finally:
            if self._durable:  # all waiting calls must get an answer
                self._tell_waiting([StoreUnavailable("the record could not be written")] * len(self._queue))

    async def _take_turn(self) -> bool:
        """Write the next turn, and return True. If that fails, refuse all waiting calls, keep what is known of them,
        and return False."""
        self._turn += 1
        refused = [encode_for_turn(Event(decided, self._clock(), NOT_FORWARDED)) for decided in self._refused]
        room = self._executor.turn_records - len(refused)
        kept = list(islice(self._kept, room // 2))  # the other half is for calls that wait now
        turn = list(islice(self._queue, room - len(kept)))
        try:
            answers = await self._append([*refused, *kept, *(each.event for each in turn)])
        except StoreUnavailable as error:
            self._refused += [in_short(each.decided) for each in turn if each.decided is not None]
            self._keep_outcomes()
            self._tell_waiting([error] * len(self._queue))  # those beyond this turn have waited as well
            return False
        self._refused.clear()
        for _ in kept:
            self._kept_bytes -= len(self._kept.popleft())
        self._tell_waiting(answers[len(refused) + len(kept) :])
        return True

    def _keep_outcomes(self) -> None:
        """Keep the outcomes in the queue. If there is no room for one, drop it: its call is closed as `unknown` when
        this writer ends."""
        lost = 0
        for event, decided, _ in self._queue:
            if decided is not None:
                continue
            if len(self._kept) >= MAX_KEPT_OUTCOMES or self._kept_bytes + len(event) > MAX_KEPT_OUTCOME_BYTES:
                lost += 1
            else:
                self._kept.append(event)
                self._kept_bytes += len(event)
        if lost:
            self._on_problem(f"{lost} outcomes were lost: {len(self._kept)} wait for the store already")

    async def _append(self, events: list[Raw]) -> list[AttestationError | None]:
        """Append records, and return the error of each, or None. On failure, raise `StoreUnavailable` for a durable
        log; otherwise retry until it succeeds."""
        asked = set[str]()

        def turn(writer: str) -> AppendEvents:
            asked.add(writer)
            return AppendEvents(writer, self._turn, events, len(asked) > 1)

        while True:
            began = time.monotonic()
            try:
                texts = await self._as_writer(turn)
            except StoreUnavailable:
                self._unready_until = time.monotonic() + UNREADY_SECONDS
                if self._durable:
                    raise
                await asyncio.sleep(RECORD_RETRY_SECONDS)
            else:
                self._unready_until, self._problem = 0.0, None
                self.on_turn(time.monotonic() - began)
                return [None if text is None else AttestationError(text) for text in texts]

    def _tell_waiting(self, errors: Sequence[AccreditError | None]) -> None:
        """Dequeue as many records as `errors` has results, and answer their callers. None is a success."""
        for error in errors:
            waiting = self._queue.popleft()
            self._queued_bytes -= len(waiting.event)
            if waiting.written.done():  # cancelled, or answered at once
                continue
            if error is None:
                waiting.written.set_result(None)
            else:
                waiting.written.set_exception(error)

    async def _run(self, request: WriterRequest[T]) -> T:
        try:
            return await self._executor.run(request)
        except ChainEnded as error:
            if error.writer == self.writer:
                self._leave()
            self._on_problem(str(error))
            raise
        except StoreUnavailable as error:
            self._tell(str(error))
            raise

    def _tell(self, problem: str) -> None:
        if self._problem != problem:
            self._problem = problem
            self._on_problem(problem)
