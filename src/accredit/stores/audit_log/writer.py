"""The writer of a log, in a file or a database; and a thread of this process in which it can run. Blocking I/O: the
file, or the database.

The thread is for a signer of records other than the gateway's key, as such a signer can't be passed to another process.
"""

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from threading import Thread
from typing import Any, TypeVar

from accredit.attest import LogSigner
from accredit.errors import StoreUnavailable
from accredit.limits import MAX_STORE_JOBS, STORE_LOCK_SECONDS, STORE_WAIT_SECONDS
from accredit.stores.audit_log.author import Author
from accredit.stores.audit_log.file_tables import FileTables
from accredit.stores.audit_log.places import FileLog, LogPlace
from accredit.stores.audit_log.requests import WriterRequest, check_in_time
from accredit.stores.audit_log.tables import ChainMoved, at_once
from accredit.stores.postgres.log_writer import DatabaseWriter
from accredit.stores.sqlite.database import Database

T = TypeVar("T")


class FileWriter:
    """Runs requests on a log in a file. It blocks its thread while it makes signatures, and while it waits for the
    file's lock."""

    def __init__(self, place: FileLog, signer: LogSigner) -> None:
        self._database = Database(place.path, place.synchronous)
        self._author = Author(signer, place.gateway, place.trusted)
        self.turn_records = self._author.turn_records

    async def run(self, request: WriterRequest[T], deadline: float) -> T:
        """Return a request's answer once it is committed. After `deadline` (seconds of the monotonic clock), nobody
        waits for it any more. Raises `StoreUnavailable`."""
        check_in_time(deadline, time.monotonic())
        tables = FileTables(self._database, deadline)
        try:
            return at_once(request.run(tables, self._author))
        except ChainMoved:
            return at_once(request.run(tables, self._author))

    async def aclose(self) -> None:
        """Close the file."""
        self._database.close()


def open_writer(place: LogPlace, signer: LogSigner) -> FileWriter | DatabaseWriter:
    """Return the writer of a log. It opens nothing before the first request."""
    return FileWriter(place, signer) if isinstance(place, FileLog) else DatabaseWriter(place, signer)


class LogThread:
    """A `LogExecutor` that runs a writer in an event loop in a thread of its own, since making a signature may take
    long. Nothing is opened before the first request, so that processes may fork until then."""

    def __init__(self, place: LogPlace, signer: LogSigner) -> None:
        self.place = place
        self._writer = open_writer(place, signer)
        self.turn_records = self._writer.turn_records
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._waiting = set[asyncio.Future[Any]]()
        self._closed = False

    async def run(self, request: WriterRequest[T]) -> T:
        """Return a request's answer. Raises `StoreUnavailable`, also after `STORE_WAIT_SECONDS`."""
        if self._closed:
            raise StoreUnavailable(f"{self.place.name} was closed")
        if len(self._waiting) >= MAX_STORE_JOBS:
            raise StoreUnavailable(f"{self.place.name}: {MAX_STORE_JOBS} jobs are waiting")
        loop = self._loop or self._start()
        return await self._done(loop, self._writer.run(request, time.monotonic() + STORE_LOCK_SECONDS))

    async def aclose(self) -> None:
        """End the thread after its requests, or abandon it if it hangs."""
        self._closed = True
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
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
        # A daemon: a hanging disk must not keep the process from ending.
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
        self._waiting.add(doing)
        doing.add_done_callback(self._settle)
        try:
            async with asyncio.timeout(STORE_WAIT_SECONDS):
                return await asyncio.shield(doing)  # a cancellation would close the connection that others use
        except TimeoutError:
            raise StoreUnavailable(f"{self.place.name} has not answered in {STORE_WAIT_SECONDS} s") from None

    def _settle(self, done: "asyncio.Future[Any]") -> None:
        self._waiting.discard(done)
        if not done.cancelled():
            done.exception()  # its caller may have stopped waiting
