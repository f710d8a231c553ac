"""The front door's memory in one process, in an SQLite file, in a PostgreSQL database. I/O: the file, the database.

Steps that write wait for each other: by a lock in memory, by SQLite's for a file, by an advisory lock in a database,
which several gateways share. Otherwise two uses of one code could both be the first. Such steps are seldom (a consent,
a refresh in a quarter of an hour) and take a few milliseconds.
"""

import sqlite3
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Self

from accredit.errors import AccreditError, StoreUnavailable
from accredit.ports import AuthorizationCode, Change, Grant, Login, Rejected
from accredit.rounds.sealing import KeyRing
from accredit.stores.door.rows import TABLE, Seals
from accredit.stores.door.steps import Stepper, Steps, T
from accredit.stores.postgres.address import DatabaseAddress
from accredit.stores.postgres.driver import Connection
from accredit.stores.postgres.worker import Batch
from accredit.stores.postgres.worker import Worker as DatabaseWorker
from accredit.stores.sqlite.worker import Worker as FileWorker

_LOCK = "SELECT pg_advisory_xact_lock(hashtext('accredit door'))"

Make = Callable[[], Steps[T]]
"""Makes steps. It is called again each time that the steps are run."""


class Door:
    """A `DoorStore` without the code that runs its steps. Each kind of store adds that."""

    def __init__(self, ring: KeyRing) -> None:
        self._steps = Stepper(Seals(ring))

    def sealed_with(self, ring: KeyRing) -> Self:
        """Return the same memory, as it is read and written with other keys."""
        other = copy(self)
        other._steps = Stepper(Seals(ring))
        return other

    async def _write(self, make: Make[T]) -> T:
        raise NotImplementedError

    async def _read(self, make: Make[T]) -> T:
        raise NotImplementedError

    async def register(self, client_id: str, document: bytes, *, ends: int, now: int) -> None:
        """Keep a client's document."""
        await self._write(partial(self._steps.register, client_id, document, ends, now))

    async def registered(self, client_id: str, *, now: int) -> bytes | None:
        """Return a client's document, or None."""
        return await self._read(partial(self._steps.registered, client_id, now))

    async def begin(self, client_id: str, subject: str, resource: str, seeds: bytes, *, ends: int, now: int) -> Grant:
        """Return the grant of this client, person and endpoint, or a new one. Raises `StoreUnavailable`."""
        return await self._write(partial(self._steps.begin, client_id, subject, resource, seeds, ends, now))

    async def approve(
        self, grant: Grant, change: Change, code: bytes, given: AuthorizationCode, *, ends: int, now: int
    ) -> bool:
        """Change a grant, and keep a code for it. Return False if the grant has ended."""
        return await self._write(partial(self._steps.approve, grant, change, code, given, ends, now))

    async def change(self, grant: Grant, change: Change, *, now: int) -> Grant | None:
        """Change a grant, and return it; None if it has ended."""
        return await self._write(partial(self._steps.change, grant, change, now))

    async def redeem(
        self, code: bytes, fits: Callable[[AuthorizationCode], bool], *, login: bytes, token: bytes, now: int
    ) -> Login | Rejected:
        """Use up a code, and begin a login if it fits."""
        return await self._write(partial(self._steps.redeem, code, fits, login, token, now))

    async def rotate(self, login: bytes, old: bytes, new: bytes, *, client_id: str, now: int) -> Login | Rejected:
        """Replace a login's refresh token, or end the login."""
        return await self._write(partial(self._steps.rotate, login, old, new, client_id, now))

    async def login(self, login: bytes, *, now: int) -> Login | None:
        """Return a login that has not ended, or None."""
        return await self._read(partial(self._steps.login, login, now))

    async def add_chain(self, grant: Grant, chain: bytes, *, ends: int, now: int) -> bool:
        """Keep one more chain of a grant. Return False if the grant has ended."""
        return await self._write(partial(self._steps.add_chain, grant, chain, ends, now))

    async def chains(self, grant: Grant, *, now: int) -> Sequence[bytes]:
        """Return the chains that were added to a grant, the latest end first."""
        return await self._read(partial(self._steps.chains, grant, now))

    async def end_login(self, login: bytes, *, client_id: str, now: int) -> bool:
        """End a login, and the grant with its last login. Return whether there was such a login."""
        return await self._write(partial(self._steps.end_login, login, client_id, now))

    async def end_grant(self, grant: Grant) -> None:
        """Forget a grant, and all that belongs to it."""
        await self._write(partial(self._steps.end_grant, grant))

    async def take_back(self, subject: str, holds: Callable[[bytes], bool], *, now: int) -> bool:
        """Forget the grants of a person, and the added chains, that hold what they take back."""
        return await self._write(partial(self._steps.take_back, subject, holds, now))

    async def aclose(self) -> None:
        """Release all resources."""
        raise NotImplementedError


class MemoryDoor(Door):
    """A `DoorStore` for one process: a database of SQLite's in its memory."""

    def __init__(self, ring: KeyRing) -> None:
        super().__init__(ring)
        self._lock = Lock()
        self._connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        for statement in TABLE:
            self._connection.execute(statement.format(small="INTEGER", bytes="BLOB", big="INTEGER"))

    async def _write(self, make: Make[T]) -> T:
        with self._lock:
            try:
                self._connection.execute("BEGIN")
                answer = _run(self._connection, make)
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise StoreUnavailable(f"memory: {error}") from None
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
        return answer

    async def _read(self, make: Make[T]) -> T:
        return await self._write(make)

    async def aclose(self) -> None:
        """Free the memory."""
        self._connection.close()


class SqliteDoor(Door):
    """A `DoorStore` in the file at `path`, shared by all processes of a machine."""

    def __init__(self, path: Path, ring: KeyRing) -> None:
        super().__init__(ring)
        self._worker = FileWorker(path)

    async def _write(self, make: Make[T]) -> T:
        return await self._worker.run(partial(_run, make=make))

    async def _read(self, make: Make[T]) -> T:
        return await self._worker.look(partial(_run, make=make))

    async def aclose(self) -> None:
        """End the thread and close the file."""
        await self._worker.aclose()


class PostgresDoor(Door):
    """A `DoorStore` in a database."""

    def __init__(self, database: DatabaseAddress, ring: KeyRing) -> None:
        super().__init__(ring)
        self._worker = DatabaseWorker(database)
        self._writes = Batch(_write_each, False)
        self._reads = Batch(_read_each, True)

    async def _write(self, make: Make[T]) -> T:
        return await self._worker.run(self._writes, make)

    async def _read(self, make: Make[T]) -> T:
        return await self._worker.run(self._reads, make)

    async def aclose(self) -> None:
        """Finish what waits, and close the connection."""
        await self._worker.aclose()


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


async def _write_each(connection: Connection, asked: Sequence[Make[Any]]) -> Sequence[Any]:
    answers: list[Any] = []
    for make in asked:
        try:
            async with connection.transaction():
                await connection.fetch(_LOCK)
                answers.append(await _run_in_database(connection, make))
        except AccreditError as error:
            if connection.lost:
                raise
            answers.append(error)
    return answers


async def _read_each(connection: Connection, asked: Sequence[Make[Any]]) -> Sequence[Any]:
    return [await _run_in_database(connection, make) for make in asked]
