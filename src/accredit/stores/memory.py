"""The tables of an SQLite file in the memory of one process, and a store in them. No I/O; threads may share it.

Issued challenges are not stored (`minted`), so requesting many takes no room.
"""

import secrets
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import TypeVar

from accredit.errors import StoreUnavailable
from accredit.stores.rules import NEVER
from accredit.stores.sqlite.database import Job
from accredit.stores.sqlite.schema import SCHEMA
from accredit.stores.sqlite.store import SqliteStore

T = TypeVar("T")


class MemoryWorker:
    """Runs jobs as `sqlite.worker` does, in the caller's thread. The tables are made for the first job."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None

    async def run(self, job: Job[T], *, writes: bool = True) -> T:
        """Return a job's answer, after one transaction. Raises `StoreUnavailable`, and what the job raises."""
        with self._lock:
            connection = self._connection = self._connection or _new_tables()
            try:
                connection.execute("BEGIN")
                answer = job(connection)
                connection.execute("COMMIT")
            except BaseException as error:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error):
                    raise StoreUnavailable(f"memory: {error}") from None
                raise
        return answer

    async def look(self, job: Job[T]) -> T:
        """Return the answer of a job that reads a few rows in one statement."""
        return await self.run(job)

    async def aclose(self) -> None:
        """Free the memory. Whatever is asked after that is refused."""
        if self._connection is not None:
            self._connection.close()


class MemoryStore(SqliteStore):
    """A `ProofStore` for one process. `draw(n)` returns n unpredictable bytes. Challenges that were spent before
    `since` are not known."""

    def __init__(self, draw: Callable[[int], bytes] = secrets.token_bytes, *, since: int = NEVER) -> None:
        super().__init__(MemoryWorker(), draw, since=since)


def _new_tables() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
    for step in SCHEMA:
        for statement in step:
            connection.execute(statement)
    return connection
