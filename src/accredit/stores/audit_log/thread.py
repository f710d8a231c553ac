"""Threads of this process that write a log, for a signer of records other than the gateway's key: such a signer can't
be passed to another process."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Coroutine
from threading import Thread
from typing import Any, TypeVar

from accredit.attest import LogSigner
from accredit.errors import StoreUnavailable
from accredit.limits import STORE_WAIT_SECONDS
from accredit.stores.audit_log.author import Author
from accredit.stores.audit_log.file_tables import FileTables
from accredit.stores.audit_log.requests import DatabaseLog, FileLog, LogPlace, WriterRequest
from accredit.stores.audit_log.tables import ChainEnd, at_once
from accredit.stores.postgres.log_writer import DatabaseWriter
from accredit.stores.sqlite.worker import Worker

T = TypeVar("T")


class FileThread:
    """A `LogExecutor` for a file. Nothing is opened before the first request, so that processes may fork until then."""

    def __init__(self, place: FileLog, signer: LogSigner) -> None:
        self.place: LogPlace = place
        self._author = Author(signer, place.gateway, place.trusted)
        self.turn_records = self._author.turn_records
        self._worker = Worker(place.path, place.synchronous, awaited=place.synchronous == "FULL")

    async def run(self, request: WriterRequest[T]) -> T:
        """Return a request's answer. Raises `StoreUnavailable`, also after `STORE_WAIT_SECONDS`."""

        author = self._author

        def job(connection: sqlite3.Connection) -> tuple[T, ChainEnd | None]:
            author.take_written()  # drop what was rolled back
            return at_once(request.run(FileTables(connection), author)), author.take_written()

        answer, written = await self._worker.run(job)
        author.settle(written)
        return answer

    async def aclose(self) -> None:
        """End the thread after its requests, or abandon it if it hangs."""
        await self._worker.aclose()


class DatabaseThread:
    """A `LogExecutor` for a database: a `DatabaseWriter` in an event loop of its own, since making a signature may take
    long."""

    def __init__(self, place: DatabaseLog, signer: LogSigner) -> None:
        self.place: LogPlace = place
        self._writer = DatabaseWriter(place, signer)
        self.turn_records = self._writer.turn_records
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None

    async def run(self, request: WriterRequest[T]) -> T:
        """Return a request's answer. Raises `StoreUnavailable`, also after `STORE_WAIT_SECONDS`."""
        return await self._done(self._loop or self._start(), self._writer.run(request))

    async def aclose(self) -> None:
        """End the thread after its requests, or abandon it if it hangs."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        with contextlib.suppress(StoreUnavailable):
            await self._done(loop, self._writer.aclose())
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join, STORE_WAIT_SECONDS)
        if not thread.is_alive():
            loop.close()

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        thread = Thread(target=loop.run_forever, name="accredit-log", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            loop.close()
            raise StoreUnavailable(f"{self.place.name}: {error}") from None
        self._loop, self._thread = loop, thread
        return loop

    async def _done(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
        doing = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
        try:
            async with asyncio.timeout(STORE_WAIT_SECONDS):
                return await asyncio.shield(doing)  # a cancellation would close the connection that others use
        except asyncio.CancelledError:
            doing.add_done_callback(_retrieve)
            raise
        except TimeoutError:
            doing.add_done_callback(_retrieve)
            raise StoreUnavailable(f"{self.place.name} has not answered in {STORE_WAIT_SECONDS} s") from None


def _retrieve(done: "asyncio.Future[Any]") -> None:
    if not done.cancelled():
        done.exception()
