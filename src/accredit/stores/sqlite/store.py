"""A store in one SQLite file, shared by all processes of a machine that open it. I/O in a thread of its own.

The file outlives the processes: a later process knows what an earlier one spent. A crash of the machine itself can lose
what was committed in the seconds before it, as SQLite's `synchronous` is NORMAL: FULL would make each call wait for the
disk. A proof spent in those seconds is valid again if the machine is back while the proof is fresh. A deployment that
records calls durably in the same file does not have that gap: each call waits until its record is on disk, and that
writes everything before it in the same write-ahead log.

A thread runs the jobs on the file (`Worker`), so that an event loop never waits for a disk. All jobs that wait are run
in one transaction, and answered after its commit. Each event loop gets all its answers in one wake-up. If a job of a
batch fails, the batch is rolled back and its jobs are run one by one, so that none spoils another. Nothing is opened
before the first job, so that a process may fork until then.

One kind of job is not given to the thread: reading a few rows by their keys (`look`). It takes less time than waking a
thread, so it is done in the caller's thread. The thread runs on the event loop's core. The two can't use the
interpreter at the same time anyway, and moving it between two busy cores costs a third of the throughput.

If a caller stops waiting, it is refused. Its job may still run later, and be committed.
"""

import asyncio
import contextlib
import secrets
import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread, get_native_id
from typing import Any, ClassVar, NamedTuple, TypeVar

from accredit.errors import AccreditError, ChallengesFull, StoreUnavailable
from accredit.limits import MAX_STORE_JOBS, STORE_BATCH_JOBS, STORE_LOCK_SECONDS, STORE_WAIT_SECONDS
from accredit.ports import RateLimit, Spending
from accredit.ratify.challenges import IssuedChallenge
from accredit.stores.cpu_affinity import Follower
from accredit.stores.minted import KEY_BYTES, RANDOM_BYTES, mint_challenge
from accredit.stores.rules import NEVER, Series
from accredit.stores.sqlite.database import STORE_RETRY_SECONDS, Database, DatabaseLocked, Job, Tables
from accredit.stores.sqlite.schema import SCHEMA

T = TypeVar("T")


class _Waiting(NamedTuple):
    job: Job[Any]
    writes: bool
    answer: asyncio.Future[Any]
    deadline: float  # monotonic seconds


class Worker:
    """Runs jobs on the file at `path`, one after the other, in a thread of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database = Database(path)
        self._looks: Database | None = None
        self._looker = 0
        self._steps: dict[asyncio.AbstractEventLoop, list[_Waiting]] = {}
        """The jobs that were given in the current step of each loop."""
        self._waiting: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._starting = Lock()
        self._thread: Thread | None = None
        self._closed = False

    async def run(self, job: Job[T], *, writes: bool = True) -> T:
        """Return a job's answer once it is committed. Without `writes`, the job does not wait for other processes'
        locks.

        Raises our own errors from the job. Raises `StoreUnavailable` for any other error, and after
        `STORE_WAIT_SECONDS`.
        """
        if self._closed:
            raise StoreUnavailable(f"{self._path} was closed")
        loop, now = asyncio.get_running_loop(), time.monotonic()
        step = self._steps.get(loop)
        if self._waiting.qsize() + (len(step) if step is not None else 0) >= MAX_STORE_JOBS:
            raise StoreUnavailable(f"{self._path}: {MAX_STORE_JOBS} jobs are waiting")
        if self._thread is None:
            self._start()
        if step is None:
            step = self._steps[loop] = []
            loop.call_soon(self._hand_over, loop)
        answer: asyncio.Future[T] = loop.create_future()
        step.append(_Waiting(job, writes, answer, now + STORE_LOCK_SECONDS))
        late = loop.call_later(STORE_WAIT_SECONDS, self._refuse, answer)
        try:
            return await answer
        finally:
            late.cancel()

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give the thread all jobs of one step of a loop, so that it is woken once, and commits them together."""
        for each in self._steps.pop(loop, ()):
            self._waiting.put(each)

    def _refuse(self, answer: asyncio.Future[Any]) -> None:
        if not answer.done():
            answer.set_exception(StoreUnavailable(f"{self._path} has not answered in {STORE_WAIT_SECONDS} s"))

    async def look(self, job: Job[T]) -> T:
        """Return the answer of a job that reads a few rows by their keys, in one statement. Raises what `run` raises.

        It is run here, on a connection of the caller's thread, as that takes less time than waking another thread. The
        first such job, and any that meets a lock or an error, is run by `run`.
        """
        if self._looks is not None and self._looker == get_native_id() and not self._closed:
            with contextlib.suppress(StoreUnavailable):
                return self._looks.look(job)
        answer = await self.run(job, writes=False)
        if self._looks is None:
            self._looks, self._looker = self._database.another(), get_native_id()
        return answer

    async def aclose(self) -> None:
        """End the thread after the waiting jobs, or abandon it if it hangs."""
        self._closed = True
        if self._looks is not None and self._looker == get_native_id():
            self._looks.close()
        thread, self._thread = self._thread, None
        if thread is not None:
            for loop in list(self._steps):
                self._hand_over(loop)
            self._waiting.put(None)
            await asyncio.to_thread(thread.join, STORE_WAIT_SECONDS)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                name = f"accredit-store-{self._path.name}"
                # A daemon: a hanging disk must not keep the process from ending.
                thread = Thread(target=self._work, args=(get_native_id(),), name=name, daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:
                    raise StoreUnavailable(f"{self._path}: {error}") from None
                self._thread = thread

    def _work(self, leader: int) -> None:
        follower = Follower(leader)
        going = True
        while going:
            first = self._waiting.get()
            batch = [] if first is None else [first]
            follower.follow()
            going = first is not None
            while going and len(batch) < STORE_BATCH_JOBS and not self._waiting.empty():
                following = self._waiting.get()
                if following is None:
                    going = False
                else:
                    batch.append(following)
            self._serve(batch)
        self._database.close()
        follower.close()

    def _serve(self, batch: list[_Waiting]) -> None:
        while batch := self._in_time(batch):
            try:
                answers = self._database.transact(
                    [each.job for each in batch], writes=any(each.writes for each in batch)
                )
            except DatabaseLocked:
                time.sleep(STORE_RETRY_SECONDS)
            except AccreditError as error:
                if len(batch) == 1:
                    _answer([(batch[0], error)])
                    return
                for each in batch:
                    self._serve([each])
                return
            else:
                _answer(list(zip(batch, answers, strict=True)))
                return

    def _in_time(self, batch: list[_Waiting]) -> list[_Waiting]:
        """Return the jobs of a batch whose callers still wait, and refuse the others."""
        now = time.monotonic()
        late = [each for each in batch if each.deadline <= now]
        if not late:
            return batch
        what = f"{self._path} was locked or busy for {STORE_LOCK_SECONDS} s"
        _answer([(each, StoreUnavailable(what)) for each in late])
        return [each for each in batch if now < each.deadline]


class MemoryWorker:
    """Runs jobs as `Worker` does, on tables in this process's memory, in the caller's thread. The tables are made for
    the first job. Threads may share the worker."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None

    async def run(self, job: Job[T], *, writes: bool = True) -> T:
        """Return a job's answer, after one transaction. Raises our own errors from the job, and `StoreUnavailable` for
        any other error."""
        with self._lock:
            connection = self._connection = self._connection or _new_tables()
            try:
                connection.execute("BEGIN")
                answer = job(connection)
                connection.execute("COMMIT")
            except BaseException as error:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                if isinstance(error, AccreditError) or not isinstance(error, Exception):
                    raise
                raise StoreUnavailable(f"the store in memory can't be used: {error}") from error
        return answer

    async def look(self, job: Job[T]) -> T:
        """Return the answer of a job that reads a few rows in one statement."""
        return await self.run(job)

    async def aclose(self) -> None:
        """Free the memory. Whatever is asked after that is refused."""
        if self._connection is not None:
            self._connection.close()


def _new_tables() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    for step in SCHEMA:
        for statement in step:
            connection.execute(statement)
    return connection


def _answer(answered: Sequence[tuple[_Waiting, Any]]) -> None:
    """Give the answers, or the errors in their place, to the event loops that wait for them."""
    loops = {each.answer.get_loop() for each, _ in answered}
    for loop in loops:
        mine = [(each.answer, answer) for each, answer in answered if each.answer.get_loop() is loop]
        with contextlib.suppress(RuntimeError):  # the loop was closed: nothing waits
            loop.call_soon_threadsafe(_settle, mine)


def _settle(answered: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    for waiting, answer in answered:
        if waiting.done():
            continue
        if isinstance(answer, AccreditError):
            waiting.set_exception(answer)
        else:
            waiting.set_result(answer)


class SqliteStore:
    """A `ProofStore` in the file at a path. `draw(n)` returns n unpredictable bytes. If the tables are new, they do not
    know challenges that were spent before `since`."""

    skew_seconds: ClassVar[None] = None

    def __init__(
        self, place: Path | MemoryWorker, draw: Callable[[int], bytes] = secrets.token_bytes, *, since: int = NEVER
    ) -> None:
        self._draw = draw
        self._tables = Tables(since)
        self._worker = Worker(place) if isinstance(place, Path) else place

    async def issue(self, request_hash: bytes, *, expires_at: int) -> IssuedChallenge:
        """Issue a fresh challenge for one request. The key is read from the file each time, so that no challenge is
        issued while the store does not answer."""
        key = await self._worker.run(self._tables.key, writes=False)
        if key is None:
            key = await self._worker.run(partial(self._tables.first_key, drawn=self._draw(KEY_BYTES)))
        return IssuedChallenge(mint_challenge(key, self._draw(RANDOM_BYTES), request_hash, expires_at), expires_at)

    async def look(self, challenge: bytes, request_hash: bytes, *, issued: bool, now: int) -> Spending:
        """Return what `spend` would return now. Changes nothing."""
        job = partial(self._tables.look, challenge=challenge, request_hash=request_hash, issued=issued, now=now)
        return await self._worker.look(job)

    async def spend(
        self, challenge: bytes, request_hash: bytes, *, issued: bool, keep_until: int, now: int
    ) -> Spending:
        """Spend a challenge if it is valid. Raises `ChallengesFull`."""
        verdict = await self._worker.run(
            partial(
                self._tables.spend,
                challenge=challenge,
                request_hash=request_hash,
                issued=issued,
                keep_until=keep_until,
                now=now,
            )
        )
        if verdict is None:
            raise ChallengesFull("too many challenges were spent of late")
        return verdict

    async def uses(self, cert_id: str, window_s: int, *, now: int) -> int:
        """Return how many uses of a certificate `use` recorded for a limit of this window, in the last `window_s`
        seconds."""
        job = partial(self._tables.count, series=Series(cert_id, window_s), now=now)
        return await self._worker.run(job, writes=False)

    async def use(self, limits: Sequence[RateLimit], *, now: int) -> bool:
        """Record one use for each limit, unless that exceeds one of them. Return whether it was recorded. Raises
        `StoreUnavailable` if there is no room."""
        recorded = await self._worker.run(partial(self._tables.use, limits=limits, now=now))
        if recorded is None:
            raise StoreUnavailable("no room to note one more use of a certificate")
        return recorded

    async def room_at(self, limit: RateLimit, *, now: int) -> int | None:
        """Return when (unix seconds) one more use will be within a limit; None if never."""
        return await self._worker.run(partial(self._tables.room_at, limit=limit, now=now), writes=False)

    async def ready(self) -> bool:
        """Return whether the file can be locked for writing."""
        try:
            await self._worker.run(bool)
        except StoreUnavailable:
            return False
        return True

    def problem(self) -> None:
        """Return None: this store has no problems to report."""

    async def aclose(self) -> None:
        """End the thread and close the file."""
        await self._worker.aclose()
