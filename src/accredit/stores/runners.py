"""Runs methods of stores that are written once for all kinds of store: as generators that yield SQL statements, and are
sent their rows. I/O: an SQLite file in a thread, or a PostgreSQL database.

The statements are in the part of SQL that SQLite and PostgreSQL share. A class of such methods (`SteppedStore`) marks
each as one of these:

- [writes] The statements are one transaction. It may be rolled back, and the method run anew. If several are called at
  once, in whatever processes, they run one after the other: a lock ensures that (in memory, SQLite's own for a file, an
  advisory one in a database). Otherwise two uses of one code could both be the first. Such methods are seldom called,
  and take a few milliseconds.
- [writes-alike] The same, for a method that may be called twice with the same outcome. If a database's answer is lost,
  it is asked again, once.
- [reads] The method makes one statement, which changes nothing. It does not wait for writers.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial, wraps
from pathlib import Path
from types import CoroutineType
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from accredit.errors import AccreditError
from accredit.stores.postgres.address import DatabaseAddress
from accredit.stores.postgres.driver import Connection
from accredit.stores.postgres.worker import Batch
from accredit.stores.postgres.worker import Worker as DatabaseWorker
from accredit.stores.sqlite.store import MemoryWorker, Worker

_LOCK = "SELECT pg_advisory_xact_lock(hashtext($1))"

P = ParamSpec("P")
T = TypeVar("T")
Steps = Generator[tuple[str, tuple[object, ...]], list[Any], T]
"""Yields statements with their values, which are `$1`, `$2` ... in them."""
Make = Callable[[], Steps[T]]
"""Makes steps. It is called again each time that the steps are run."""


class Runner(Protocol):
    """Runs steps in one kind of store. Raises `StoreUnavailable`, and our own errors from the steps."""

    async def write(self, make: Make[T], *, alike: bool = False) -> T:
        """Run steps in a transaction, one caller at a time ([writes]). With `alike`, run them again if the answer is
        lost ([writes-alike])."""
        ...

    async def read(self, make: Make[T]) -> T:
        """Run steps that are one statement which changes nothing ([reads])."""
        ...

    async def aclose(self) -> None:
        """Release all resources."""
        ...


class SteppedStore:
    """A store whose methods are steps. Without a `runner` it is in this process's memory."""

    def __init__(self, runner: Runner | None = None) -> None:
        self.runner = runner or SqliteRunner(MemoryWorker())

    async def aclose(self) -> None:
        """Release all resources."""
        await self.runner.aclose()


_Self = TypeVar("_Self", bound=SteppedStore)


def _run_with(run: Callable[[Runner, Make[Any]], Awaitable[Any]]):
    """Return a decorator that makes a method run its steps by `run`."""

    def decorate(
        method: Callable[Concatenate[_Self, P], Steps[T]],
    ) -> "Callable[Concatenate[_Self, P], CoroutineType[Any, Any, T]]":
        @wraps(method)
        async def call(self: _Self, *args: P.args, **named: P.kwargs) -> T:
            return await run(self.runner, partial(method, self, *args, **named))

        return call

    return decorate


writes = _run_with(lambda runner, make: runner.write(make))
"""Have a method run by the rule [writes]."""
writes_alike = _run_with(lambda runner, make: runner.write(make, alike=True))
"""Have a method run by the rule [writes-alike]."""
reads = _run_with(lambda runner, make: runner.read(make))
"""Have a method run by the rule [reads]."""


class SqliteRunner:
    """A `Runner` in the file at a path, shared by all processes of a machine, or in the memory of this one."""

    def __init__(self, place: Path | MemoryWorker) -> None:
        self._worker = Worker(place) if isinstance(place, Path) else place

    async def write(self, make: Make[T], *, alike: bool = False) -> T:
        """Run steps in a transaction."""
        return await self._worker.run(partial(_run, make=make))

    async def read(self, make: Make[T]) -> T:
        """Run steps, in the caller's thread if possible."""
        return await self._worker.look(partial(_run, make=make))

    async def aclose(self) -> None:
        """End the thread and close the file, or free the memory."""
        await self._worker.aclose()


class DatabaseRunner:
    """A `Runner` in a database. `lock` is a name: runners with the same name write one at a time."""

    def __init__(self, database: DatabaseAddress, lock: str) -> None:
        self.worker = DatabaseWorker(database)
        self._lock = lock
        self._writes, self._writes_alike = Batch(self._write_each, False), Batch(self._write_each, True)
        self._reads = Batch(_read_each, True)

    async def write(self, make: Make[T], *, alike: bool = False) -> T:
        """Run steps in a transaction."""
        return await self.worker.run(self._writes_alike if alike else self._writes, make)

    async def read(self, make: Make[T]) -> T:
        """Run steps."""
        return await self.worker.run(self._reads, make)

    async def aclose(self) -> None:
        """Finish what waits, and close the connection."""
        await self.worker.aclose()

    async def _write_each(self, connection: Connection, asked: Sequence[Make[Any]]) -> Sequence[Any]:
        """Run all in one transaction. If one of them fails, run each in a transaction of its own."""
        try:
            async with connection.transaction():
                await connection.fetch(_LOCK, self._lock)
                return [await _run_in_database(connection, make) for make in asked]
        except AccreditError as error:
            if connection.lost:
                raise
            if len(asked) == 1:
                return [error]
        return [answer for make in asked for answer in await self._write_each(connection, [make])]


async def _read_each(connection: Connection, asked: Sequence[Make[Any]]) -> Sequence[Any]:
    return [await _run_in_database(connection, make) for make in asked]


def _run(connection: sqlite3.Connection, make: Make[T]) -> T:
    steps = make()
    rows: list[Any] | None = None
    while True:
        try:
            statement, values = next(steps) if rows is None else steps.send(rows)
        except StopIteration as end:
            return end.value
        named = {str(place): value for place, value in enumerate(values, 1)}
        rows = connection.execute(statement, named).fetchall()


async def _run_in_database(connection: Connection, make: Make[T]) -> T:
    steps = make()
    rows: list[Any] | None = None
    while True:
        try:
            statement, values = next(steps) if rows is None else steps.send(rows)
        except StopIteration as end:
            return end.value
        rows = await connection.fetch(statement, *values)
