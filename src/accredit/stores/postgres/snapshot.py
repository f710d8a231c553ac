"""A database for blocking callers, and its state at one moment. I/O: a connection, whose event loop has a thread.

All statements of a `Snapshot` are in one transaction (REPEATABLE READ, READ ONLY). Rows come through server-side
cursors, a batch at a time, and the next batch is requested while one is used. So memory does not grow with a table.
"""

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from accredit.errors import AttestationError, StoreUnavailable
from accredit.stores.audit_log.reading import LogAway
from accredit.stores.postgres.address import DatabaseAddress
from accredit.stores.postgres.driver import INSUFFICIENT_PRIVILEGE, Connection, DatabaseFailed, Row
from accredit.stores.postgres.session import SchemaUnknown, check_schema, open_session

LOG_ROWS = 512
"""How many rows of a database's log are requested at a time, one batch ahead."""
LOG_READER_IDLE_SECONDS = 3_600
"""How long a reader of a database's log may be idle, for example while its output waits in a pager. The database keeps
deleted rows meanwhile."""


T = TypeVar("T")

_BEGIN = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    # Before anything is read: a rebuilt table (`log_pruning`) appears empty to a reader with an older state.
    "LOCK TABLE log_entries IN ACCESS SHARE MODE",
    f"SET LOCAL idle_in_transaction_session_timeout = '{LOG_READER_IDLE_SECONDS}s'",
    # A log is read in the order of an index: a sort would need as much room as the log.
    "SET LOCAL enable_sort = off",
)
_DAMAGED = ("XX", "22", "42")
"""Classes of SQL errors which say that the database, or one of its tables, is damaged."""


class Blocking:
    """A connection for a blocking caller; its event loop has a thread of its own."""

    def __init__(self, database: DatabaseAddress) -> None:
        self.database = database
        self.connection: Connection | None = None
        self._runner = asyncio.Runner()
        self._thread = ThreadPoolExecutor(1, "accredit-database")
        self._closed = False

    def run(self, main: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        """Run `main` with the connection, which is opened if necessary. Raises `AttestationError` if a table is
        damaged, and `StoreUnavailable`."""
        try:
            return self.start(self._connected(main)).result()
        except SchemaUnknown:
            raise
        except DatabaseFailed as error:
            raise meaning(error) from None
        except LogAway:
            raise
        except StoreUnavailable as error:
            raise LogAway(str(error)) from None

    def start(self, asked: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run a coroutine in the loop, after all that were started before it."""
        return self._thread.submit(self._runner.run, asked)

    def close(self) -> None:
        """Close the connection at once, even with pending statements, and end the thread."""
        connection, self.connection = self.connection, None
        if connection is not None:
            self._runner.get_loop().call_soon_threadsafe(connection.terminate)
        if not self._closed:
            self._closed = True
            self._thread.submit(self._runner.close)
            self._thread.shutdown()

    async def _connected(self, main: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        if self.connection is None or self.connection.lost:
            connection = (await open_session(self.database)).connection
            try:
                await check_schema(connection)
            except BaseException:
                connection.terminate()
                raise
            self.connection = connection
        return await main(self.connection)


class Snapshot:
    """A database at the moment of its last `renew`. One thread uses it."""

    def __init__(self, database: DatabaseAddress, patience: float | None = None) -> None:
        """`patience` is how many seconds a statement may take at most; None sets no limit."""
        self._patience = patience
        self._link = Blocking(database)
        self._cursors = itertools.count()
        self._is_open = False

    def renew(self) -> None:
        """Show the current state, over a new connection if necessary. Raises `StoreUnavailable`."""
        self.release()
        self._link.run(_begin)
        self._is_open = True
        if self._patience is not None:
            self.fetch(f"SET LOCAL statement_timeout = {int(self._patience * 1000)}")

    def release(self) -> None:
        """End the transaction; the connection is kept."""
        was_open, self._is_open = self._is_open, False
        connection = self._link.connection
        if was_open and connection is not None and not connection.lost:  # none is opened for that
            self._link.run(_end)

    def close(self) -> None:
        """Close the connection."""
        self._is_open = False
        self._link.close()

    def fetch(self, statement: str, *values: object) -> list[Row]:
        """Return the rows of a statement. Raises `AttestationError` if a table is damaged, and `StoreUnavailable`."""
        return _result(self._ask(statement, *values))

    def rows(self, query: str, *values: object, at_a_time: int = LOG_ROWS) -> Iterator[Row]:
        """Yield the rows of a query. Two batches of `at_a_time` rows are in memory at once. Raises the same errors as
        `fetch`."""
        cursor = f"rows_{next(self._cursors)}"
        self.fetch(f"DECLARE {cursor} NO SCROLL CURSOR FOR {query}", *values)
        more = f"FETCH {at_a_time} FROM {cursor}"
        coming = self._ask(more)
        while True:
            rows = _result(coming)
            if len(rows) < at_a_time:
                self.fetch(f"CLOSE {cursor}")
                yield from rows
                return
            coming = self._ask(more)
            yield from rows

    def _ask(self, statement: str, *values: object) -> "Future[list[Row]]":
        if not self._is_open or self._link.connection is None:
            raise StoreUnavailable(f"{self._link.database.name}: its log was closed")
        return self._link.start(self._link.connection.fetch(statement, *values))


async def _begin(connection: Connection) -> None:
    for statement in _BEGIN:
        await connection.fetch(statement)


async def _end(connection: Connection) -> None:
    try:
        await connection.fetch("ROLLBACK")
    except DatabaseFailed:
        connection.terminate()


def _result(asked: "Future[list[Row]]") -> list[Row]:
    try:
        return asked.result()
    except DatabaseFailed as error:
        raise meaning(error) from None


def meaning(error: DatabaseFailed) -> StoreUnavailable | AttestationError:
    """Return the error that reports a failure to a reader of the log."""
    if error.sqlstate is None:
        return LogAway(str(error))
    if error.sqlstate == INSUFFICIENT_PRIVILEGE:
        return StoreUnavailable(f"{error} (who may read is of accredit_gateway, who may prune of accredit_admin)")
    if error.sqlstate.startswith(_DAMAGED):
        return AttestationError(f"the database is damaged: {error}")
    return LogAway(str(error))
