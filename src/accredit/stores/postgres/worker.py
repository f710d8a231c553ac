"""One connection to the database's primary, and the batches on it. One event loop uses it.

Questions are asked in batches, one batch after the other. A batch has questions of one kind. The task that asks them
ends when no question is waiting.

- [safety] A connection is used for answers only if its safety was checked (`session.check`), both when it was opened
  and within the last `STORE_CHECK_SECONDS`.
- [failure] After a failure the connection is closed: the current batch may have been committed. A batch that may be
  repeated is sent once more, over another connection. Everything else is refused.
- [pause] After several failures in a row there is a pause, in which everything is refused at once. A server whose
  standby is gone keeps each attempt's connection until the standby is back. Without a pause, the attempts would use up
  all connections that it has.
- [bounds] A question that has waited for `STORE_WAIT_SECONDS` is refused. At most `MAX_STORE_JOBS` wait.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from accredit.base.log_events import log_event
from accredit.errors import AccreditError, StoreUnavailable
from accredit.limits import MAX_STORE_JOBS, STORE_BATCH_JOBS, STORE_WAIT_SECONDS
from accredit.stores.postgres.address import DatabaseAddress
from accredit.stores.postgres.driver import Connection
from accredit.stores.postgres.schema import behind
from accredit.stores.postgres.session import ClocksDiffer, check, open_session

STORE_CHECK_SECONDS = 10.0
"""The interval between checks of a database's settings and clock while it is in use. A check takes three short
queries."""
STORE_TEND_SECONDS = 1.0
"""While a store is in use, the interval at which a process deletes expired rows, at most `STORE_SWEEP_ROWS` of each
table."""
STORE_TEND_AGAIN_SECONDS = 0.1
"""The shorter interval after a full batch was deleted, as more rows may have expired. A process deletes 20,000 rows a
second, in some 50 ms (measured), which is more than it can add."""
STORE_PAUSE_SECONDS = (0.0, 0.0, 0.1, 0.5, 1.0, 2.0, 5.0)
"""The pauses after one, two, three ... failures of a database in a row; after more failures, the last of them.
Meanwhile calls are refused at once. A new primary is found within such a pause. A server whose standby is gone keeps
each attempt's connection; with 100, the default, it lasts for minutes."""


_logger = logging.getLogger("accredit.stores")

Q = TypeVar("Q")
A = TypeVar("A")


class Batch(NamedTuple, Generic[Q, A]):
    """A kind of question. `ask` is given several questions, and returns an answer for each, or one of our errors in its
    place.

    With `repeatable` a question may be asked again if its answer was lost.
    """

    ask: Callable[[Connection, Sequence[Q]], Awaitable[Sequence[A | AccreditError]]]
    repeatable: bool


class Maintenance(Protocol):
    """Maintains a store's tables."""

    async def __call__(self, connection: Connection, *, is_checked: bool) -> bool:
        """Do what is due, and return whether there is more to do. `is_checked` says that the connection was checked
        just now."""
        ...


class _Waiting(NamedTuple):
    kind: Batch[Any, Any]
    question: Any
    answer: "asyncio.Future[Any]"


class Worker:
    """Asks the database. `tend` is run on each new connection, and once a second while the connection is in use (sooner
    if it has more to do)."""

    def __init__(self, database: DatabaseAddress, tend: Maintenance | None = None) -> None:
        self._database = database
        self._tend = tend
        self._waiting: deque[_Waiting] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._working: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._timeline = 0
        self.skew_seconds = 0.0
        """By how many seconds, at least, the clocks of the database and this machine differed at the last check."""
        self.schema: int | None = None
        """The version of the tables, as found by the last check."""
        self._checked_at = self._tended_at = float("-inf")
        self._failures = 0
        self._pause_until = float("-inf")
        self._problem = ""
        self._closed = False

    async def run(self, kind: Batch[Q, A], question: Q) -> A:
        """Return the answer to a question. Raises `StoreUnavailable`, and our own errors that are the answer."""
        loop = asyncio.get_running_loop()
        if self._closed:
            raise StoreUnavailable(f"{self._database.name} was closed")
        if len(self._waiting) >= MAX_STORE_JOBS:
            raise StoreUnavailable(f"{self._database.name}: {MAX_STORE_JOBS} questions are waiting")
        if self._loop not in (None, loop):
            raise StoreUnavailable(f"{self._database.name} was opened by another event loop")
        self._loop = loop
        answer: asyncio.Future[A] = loop.create_future()
        self._waiting.append(_Waiting(kind, question, answer))
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        late = loop.call_later(STORE_WAIT_SECONDS, self._refuse, answer)
        try:
            return await answer
        finally:
            late.cancel()

    async def aclose(self) -> None:
        """Finish the questions that wait, and close the connection."""
        self._closed = True
        if self._working is not None:
            await asyncio.wait([self._working])
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    def _refuse(self, answer: "asyncio.Future[Any]") -> None:
        _settle(answer, self._not_answered())

    def _not_answered(self) -> StoreUnavailable:
        return StoreUnavailable(f"{self._database.name} has not answered in {STORE_WAIT_SECONDS} s")

    async def _work(self) -> None:
        try:
            while batch := self._next():
                answers = await self._answers(batch[0].kind, [each.question for each in batch])
                for each, answer in zip(batch, answers, strict=True):
                    _settle(each.answer, answer)
        finally:
            self._working = None
            for each in self._waiting:
                _settle(each.answer, StoreUnavailable(f"{self._database.name} was closed"))
            self._waiting.clear()

    def _next(self) -> list[_Waiting]:
        """Remove and return the next batch: the question that has waited longest, and others of its kind."""
        batch: list[_Waiting] = []
        left: list[_Waiting] = []
        while self._waiting and len(batch) < STORE_BATCH_JOBS:
            each = self._waiting.popleft()
            if each.answer.done():  # its caller has stopped waiting
                continue
            (batch if not batch or each.kind is batch[0].kind else left).append(each)
        self._waiting.extendleft(reversed(left))
        return batch

    async def _answers(self, kind: Batch[Any, Any], questions: list[Any]) -> Sequence[Any]:
        give_up = self._now() + STORE_WAIT_SECONDS
        repeats = 1 if kind.repeatable else 0
        while True:
            try:
                async with asyncio.timeout_at(give_up):
                    connection = await self._checked()
                    answers = await kind.ask(connection, questions)
            except TimeoutError:
                problem = self._not_answered()
            except StoreUnavailable as error:
                problem = error
            except Exception as error:
                problem = StoreUnavailable(f"{self._database.name} can't be used: {type(error).__name__}")
            else:
                self._failures = 0
                return answers
            was_connected = self._drop()
            if not (was_connected and repeats and self._now() < give_up):
                self._failed(problem)
                return [problem] * len(questions)
            repeats -= 1

    async def _checked(self) -> Connection:
        """Return the connection. It is opened, or checked, if that is due."""
        if self._connection is not None and self._connection.lost:
            self._drop()
        if self._connection is None:
            if self._now() < self._pause_until:
                raise StoreUnavailable(self._problem)
            session = await open_session(self._database, self._timeline)
            self._connection, self._timeline = session
            self._checked_at = self._tended_at = float("-inf")
        is_due = self._now() - self._checked_at >= STORE_CHECK_SECONDS
        if is_due:
            before = self.schema
            try:
                self.skew_seconds, self.schema = await check(self._database, self._connection)
            except ClocksDiffer as error:
                self.skew_seconds = error.seconds
                raise
            if self.schema != before and (why := behind(self.schema)) is not None:
                log_event(_logger, logging.WARNING, "the database's tables are those of the version before", detail=why)
            self._checked_at = self._now()
        if self._tend is not None and (is_due or self._now() - self._tended_at >= STORE_TEND_SECONDS):
            sooner = STORE_TEND_SECONDS - STORE_TEND_AGAIN_SECONDS
            if not await self._tend(self._connection, is_checked=is_due):
                sooner = 0.0
            self._tended_at = self._now() - sooner
        return self._connection

    def _failed(self, problem: StoreUnavailable) -> None:
        if self._now() < self._pause_until:
            return
        self._failures += 1
        self._problem = str(problem)
        pause = STORE_PAUSE_SECONDS[min(self._failures, len(STORE_PAUSE_SECONDS)) - 1]
        self._pause_until = self._now() + pause

    def _drop(self) -> bool:
        """Close the connection; return whether there was one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
        return connection is not None

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _settle(answer: "asyncio.Future[Any]", with_what: object) -> None:
    if answer.done():
        return
    if isinstance(with_what, AccreditError):
        answer.set_exception(with_what)
    else:
        answer.set_result(with_what)
