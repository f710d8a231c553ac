"""Runs a log's requests on a database: over one connection (`worker`), one request after the other.

- [chain-moved] If a request finds that the chain has changed since it was read (`ChainMoved`), it has written nothing.
  It is run once more, and reads anew.
- [failure] Any other failure is a `StoreUnavailable`, after which the connection is closed. The request may have been
  committed nevertheless, but no turn is written twice ([repeated-turns] of `author`).
- [lock] Each new connection first takes the lock of its writer, which shows that the writer lives.
"""

import contextlib
from collections.abc import Sequence
from time import monotonic
from typing import Any, TypeVar

from accredit.attest import LogSigner
from accredit.errors import AccreditError
from accredit.stores.audit_log.author import Author
from accredit.stores.audit_log.places import DatabaseLog
from accredit.stores.audit_log.requests import WriterRequest, check_in_time
from accredit.stores.audit_log.tables import ChainMoved
from accredit.stores.postgres.driver import Connection, DatabaseFailed
from accredit.stores.postgres.log_tables import DatabaseTables
from accredit.stores.postgres.worker import Batch, Worker

LOG_MAKE_DAYS_SECONDS = 3_600.0
"""The interval at which a log's writer creates the tables for the next days, if they are missing."""


T = TypeVar("T")


class DatabaseWriter:
    """Runs requests on a log in a database, as `audit_log.writer.FileWriter` does in a file."""

    def __init__(self, place: DatabaseLog, signer: LogSigner) -> None:
        self._author = Author(signer, place.gateway, place.trusted)
        self.turn_records = self._author.turn_records
        self._place = place
        self._worker = Worker(place.database, self._tend)
        self._requests = Batch(self._run_each, False)
        self._tables: DatabaseTables | None = None
        self._writer: str | None = None
        self._days_made = float("-inf")

    async def run(self, request: WriterRequest[T], deadline: float = float("inf")) -> T:
        """Return a request's answer. Raises `StoreUnavailable`, also after `STORE_WAIT_SECONDS`."""
        check_in_time(deadline, monotonic())
        return await self._worker.run(self._requests, request)

    async def aclose(self) -> None:
        """Finish the requests, and close the connection."""
        await self._worker.aclose()

    async def _tend(self, connection: Connection, *, is_checked: bool) -> bool:
        if self._tables is None or self._tables.connection is not connection:
            self._tables = DatabaseTables(connection, self._place)
            if self._writer is not None:
                await self._tables.lock(self._writer)
        if is_checked and monotonic() - self._days_made >= LOG_MAKE_DAYS_SECONDS:
            with contextlib.suppress(DatabaseFailed):  # there is time until it matters
                await self._tables.make_days()
                self._days_made = monotonic()
        return False

    async def _run_each(self, connection: Connection, asked: Sequence[WriterRequest[Any]]) -> Sequence[Any]:
        return [await self._run(each) for each in asked]

    async def _run(self, request: WriterRequest[Any]) -> Any:
        """Return a request's answer. If one of our errors was raised, return that error instead."""
        assert self._tables is not None  # noqa: S101 - `_tend` has made them
        if self._writer != request.writer:
            self._writer = request.writer
            await self._tables.lock(request.writer)
        try:
            try:
                answer = await request.run(self._tables, self._author)
            except ChainMoved:
                self._tables.forget()
                answer = await request.run(self._tables, self._author)
        except DatabaseFailed:
            raise
        except AccreditError as error:
            return error
        return answer
