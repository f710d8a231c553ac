"""Opens the writer of a log (`LogWriter`), in a file or a database. Blocking I/O: the file, or the database."""

import sqlite3
from time import monotonic
from typing import TypeVar

from accredit.attest import LogSigner
from accredit.stores.audit_log.author import Author
from accredit.stores.audit_log.file_tables import FileTables
from accredit.stores.audit_log.requests import FileLog, LogPlace, LogWriter, WriterRequest, check_in_time
from accredit.stores.audit_log.tables import at_once
from accredit.stores.postgres.log_writer import DatabaseWriter
from accredit.stores.sqlite.database import Database

T = TypeVar("T")


def open_writer(place: LogPlace, signer: LogSigner) -> LogWriter:
    """Return the writer of a log. It opens nothing before the first request."""
    return FileWriter(place, signer) if isinstance(place, FileLog) else DatabaseWriter(place, signer)


class FileWriter:
    """A `LogWriter` for a file. It blocks its thread also while it waits for the file's lock, until the deadline."""

    def __init__(self, place: FileLog, signer: LogSigner) -> None:
        self._database = Database(place.path, place.synchronous)
        self._author = Author(signer, place.gateway, place.trusted)
        self.turn_records = self._author.turn_records

    async def run(self, request: WriterRequest[T], deadline: float) -> T:
        """Return a request's answer. Raises `StoreUnavailable`."""
        check_in_time(deadline, monotonic())
        author = self._author

        def job(connection: sqlite3.Connection) -> T:
            author.take_written()  # drop what was rolled back
            return at_once(request.run(FileTables(connection), author))

        answer = self._database.transact_waiting(job, writes=True, deadline=deadline)
        author.settle(author.take_written())
        return answer

    async def aclose(self) -> None:
        """Close the file."""
        self._database.close()
