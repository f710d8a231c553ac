"""A thread of this process that writes a log, for another signer of records, which stays where it was opened."""

import sqlite3
from pathlib import Path
from typing import TypeVar

from accredit.attest import LogSigner
from accredit.stores.audit_log.requests import Request
from accredit.stores.audit_log.transactions import records_a_turn
from accredit.stores.sqlite.database import Synchronous
from accredit.stores.sqlite.worker import Worker

T = TypeVar("T")


class LogThread:
    """A `LogExecutor`. Nothing is opened before the first request: processes may fork until then."""

    def __init__(self, path: Path, signer: LogSigner, synchronous: Synchronous) -> None:
        self.path = path
        self.turn_records = records_a_turn(signer)
        self._signer = signer
        self._worker = Worker(path, synchronous, awaited=synchronous == "FULL")

    async def run(self, request: Request[T]) -> T:
        """Return a request's answer. Raises `StoreUnavailable`, also after `STORE_WAIT_SECONDS`."""

        def job(connection: sqlite3.Connection) -> T:
            return request.run(connection, self._signer)

        return await self._worker.run(job)

    async def aclose(self) -> None:
        """End the thread after its requests, or abandon it if it hangs."""
        await self._worker.aclose()
