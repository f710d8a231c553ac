"""Logs that are being written, for tests: writers as the gateway has them, and what goes wrong for them. I/O: files,
threads, processes."""

import asyncio
import resource
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self, TypeVar

import pytest
from tests.world.children import children
from tests.world.postgres import cluster, database_for
from tests.world.recorded import thread
from tests.world.records import GATEWAY, NOW_MS, OK, POLICY, decided, gateway

from accredit.attest import (
    CallDecision,
    CallRecord,
    Head,
    LogReport,
    LogSigner,
    Outcome,
)
from accredit.errors import StoreUnavailable
from accredit.ports import Records
from accredit.stores import SqliteFile
from accredit.stores.audit_log.places import DatabaseLog, FileLog
from accredit.stores.audit_log.process import LogProcess
from accredit.stores.audit_log.queue import QueuedRecords
from accredit.stores.audit_log.reading import LogReader
from accredit.stores.audit_log.requests import AppendEvents, CheckWritable, LogExecutor, WriterRequest
from accredit.stores.audit_log.writer import LogThread
from accredit.stores.lasting import PostgresDatabase
from accredit.stores.postgres.address import DatabaseAddress

T = TypeVar("T")
Executors = Callable[[Path, LogSigner, bool], LogExecutor]


def by_thread(path: Path, signer: LogSigner, durable: bool) -> LogExecutor:
    """A thread writes the log."""
    return thread(path, signer, durable=durable)


def place_in(database: DatabaseAddress) -> DatabaseLog:
    """The log of a database, for a gateway whose neighbours are dead as soon as they are silent."""
    return DatabaseLog(database, GATEWAY, "here", silent_seconds=0.05)


def by_database_thread(path: Path, signer: LogSigner, durable: bool) -> LogExecutor:
    """A thread writes the log into the database that stands for the file's folder."""
    with database_for(path.parent) as database:
        return LogThread(place_in(database), signer)


def by_database_process(path: Path, signer: LogSigner, durable: bool) -> LogExecutor:
    """A process does, where it can."""
    if signer.records is not None:
        return by_database_thread(path, signer, durable)
    with database_for(path.parent) as database:
        return LogProcess(place_in(database), signer)


def by_process(path: Path, signer: LogSigner, durable: bool) -> LogExecutor:
    """A process writes the log, where it can: another signer stays where it was opened."""
    if signer.records is not None:
        return by_thread(path, signer, durable)
    return LogProcess(FileLog(path, "FULL" if durable else "NORMAL", GATEWAY), signer)


class Watched:
    """An executor that notes what it is asked for, and fails where a test says so."""

    def __init__(self, executor: LogExecutor) -> None:
        self.place = executor.place
        self.turn_records = executor.turn_records
        self.inner = executor
        self.asked: list[WriterRequest[object]] = []
        self.full = False
        """No record fits on the disk any more; the touch of `ready` still does."""
        self.forgets = False
        """Answers are lost, though what was asked was done."""

    async def run(self, request: WriterRequest[T]) -> T:
        self.asked.append(request)
        if self.full and type(self.asked[-1]) is not CheckWritable:
            raise StoreUnavailable("database or disk is full")
        answer = await self.inner.run(request)
        if self.forgets:
            raise StoreUnavailable("it has not answered in time")
        return answer

    async def aclose(self) -> None:
        await self.inner.aclose()

    def at_once(self) -> int:
        """How many records it was asked to write in one turn at most."""
        return max(len(each.events) for each in self.asked if isinstance(each, AppendEvents))


class Log:
    """`async with Log(path) as log`: one writer, as the gateway has it. `problems` and `heads` are what it told."""

    executors: Executors = staticmethod(by_thread)
    """Who writes: a test may run with each of them."""

    def __init__(
        self,
        path: Path,
        *,
        durable: bool = True,
        clock: Callable[[], int] = lambda: NOW_MS,
        signer: LogSigner | None = None,
    ) -> None:
        self.problems: list[str] = []
        self.heads: list[Head] = []
        self.executor = Watched(self.executors(path, signer or gateway()[0], durable))
        self.records = QueuedRecords(
            self.executor,
            durable=durable,
            policy_digest=POLICY,
            on_problem=self.problems.append,
            on_checkpoint=self.heads.append,
            clock=clock,
        )
        self.port: Records = self.records

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.records.aclose()

    async def call(self, outcome: Outcome | None = OK) -> CallDecision:
        """One call; without an outcome, it stays open."""
        call = decided()
        await self.port.begin(call)
        if outcome is not None:
            await self.port.finish(call, outcome)
        return call

    async def call_when_it_is_back(self) -> CallDecision:
        """One call, as soon as one is taken again: after failures of a database there is a pause."""
        while True:
            with suppress(StoreUnavailable):
                return await self.call()
            await asyncio.sleep(0.02)

    async def die(self) -> None:
        """Ends as a process does that is killed: the lock is given up, and nothing is written."""
        self.records._leave()
        for each in self.records._repeating:
            each.cancel()
        await self.executor.aclose()


def records_in(path: Path) -> list[CallRecord]:
    """All records of calls, in their order, in the file or in the database that stands for its folder."""
    with read(path) as log:
        return [record for each in log.newest_first() if (record := each.record()) is not None][::-1]


def verified(path: Path) -> LogReport:
    """The verdict on it, where the gateway's key is trusted."""
    with read(path) as log:
        return log.verify([gateway()[1]])


@contextmanager
def read(path: Path) -> Generator[LogReader]:
    """The log in the file or, where there is none, in the database that stands for its folder."""
    with ExitStack() as stack:
        store = SqliteFile(path) if path.exists() else stack.enter_context(database_for(path.parent))
        yield stack.enter_context(store.open_log())


def in_short(records: list[CallRecord]) -> list[tuple[str, str]]:
    """The calls' ids, and what each record says of them."""
    return [(each.call.id, each.outcome.status if each.outcome else "decision") for each in records]


@contextmanager
def full_disk(process: int | None = None, *, room: int = 0) -> Generator[None]:
    """No file of a process (this one) or of its children may grow to more than `room` bytes meanwhile."""
    mine = [0, *children()] if process is None else [process, *children(process)]
    before = {each: resource.prlimit(each, resource.RLIMIT_FSIZE) for each in mine}
    try:
        for each, (_, hard) in before.items():
            resource.prlimit(each, resource.RLIMIT_FSIZE, (room, hard))
        yield
    finally:
        for each, limits in before.items():
            with suppress(ProcessLookupError):  # it has ended meanwhile
                resource.prlimit(each, resource.RLIMIT_FSIZE, limits)


@contextmanager
def no_store(path: Path) -> Generator[None]:
    """Nothing can be written meanwhile: the disk of the file is full, or its database is away."""
    if path.exists():
        with full_disk():
            yield
        return
    with database_for(path.parent) as database, away(database):
        yield


@contextmanager
def away(database: PostgresDatabase) -> Generator[None]:
    """Nobody reaches a database meanwhile."""
    name = database.database
    cluster().run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false", *disconnecting(database))
    try:
        yield
    finally:
        cluster().run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


def disconnecting(database: PostgresDatabase) -> tuple[str]:
    """The statement that ends all connections to a database but its own."""
    others = f"datname = '{database.database}' AND pid <> pg_backend_pid()"
    return (f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}",)


FILES = pytest.mark.parametrize("each_executor", [by_thread, by_process], ids=["thread", "process"], indirect=True)
"""For a test of what only a file has: a disk that is full, locks beside it."""


@pytest.fixture(
    params=[by_thread, by_process, by_database_thread, pytest.param(by_database_process, marks=pytest.mark.long)],
    ids=["thread", "process", "database-thread", "database-process"],
)
def each_executor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Generator[None]:
    """Runs a test with each of those who may write a log; every day, each writer and each place once."""
    monkeypatch.setattr(Log, "executors", staticmethod(request.param))
    with ExitStack() as stack:
        if request.param in (by_database_thread, by_database_process):
            stack.enter_context(database_for(tmp_path))
        yield
