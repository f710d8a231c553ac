"""Reads the configured store. I/O: a file or a database; nothing is changed or created.

Each look-up ends after some seconds, with a reason. A drill counts if its record verifies and one of its calls was
allowed while enforcing: anybody can get a refused call with any tool's name recorded. A sink's position is the store's
word: it is not signed.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import TypeVar

from accredit.attest import CallRecord, Checkpoint, Statement
from accredit.cli.actions.doctor.engine import Found, Unknown
from accredit.cli.actions.doctor.production.facts import DiskSpace, FileStore, LogFound, SinkFound
from accredit.cli.actions.doctor.setup import is_still, reading_only
from accredit.cli.actions.log_place import own_keys
from accredit.config import Loaded, folder_of, read_public_key
from accredit.errors import AttestationError, ConfigurationError, StoreUnavailable
from accredit.limits import DOCTOR_DATABASE_SECONDS
from accredit.policy.drill import DRILL, DRILLS
from accredit.ratify import HybridPublicKey
from accredit.stores import (
    InMemory,
    LogStore,
    PostgresDatabase,
    RevocationLists,
    SqliteFile,
    StoreUrl,
    stored_lists,
)
from accredit.stores.audit_log.proven import Prover
from accredit.stores.audit_log.reader import LogFile
from accredit.stores.audit_log.reading import LogReader
from accredit.stores.postgres.condition import DatabaseCondition, read_condition
from accredit.stores.postgres.log_reader import LogDatabase

_T = TypeVar("_T")
_NO_FILE = "the store's file is not there yet: the gateway makes it when it starts"


def database_found(store: StoreUrl) -> Found[DatabaseCondition | None]:
    """Return a database's condition; None if the store is a file or in memory."""
    if not isinstance(store, PostgresDatabase):
        return None
    try:
        return read_condition(store)
    except (StoreUnavailable, ConfigurationError) as error:
        return Unknown(str(error))


def file_found(store: StoreUrl) -> Found[FileStore | None]:
    """Return a store file's schema; None if the store is not a file."""
    if not isinstance(store, SqliteFile):
        return None
    if not os.path.lexists(store.path):
        return FileStore(None)
    try:
        with reading_only(store.path) as connection:
            return FileStore(int(connection.execute("PRAGMA user_version").fetchone()[0]))
    except (sqlite3.Error, StoreUnavailable) as error:
        return Unknown(f"{store.path} can't be read: {error}")


def room_found(store: StoreUrl) -> Found[DiskSpace]:
    """Return the free space where the store's file is."""
    if isinstance(store, InMemory):
        return Unknown("a store in memory needs none")
    if isinstance(store, PostgresDatabase):
        return Unknown("the disk is the database's, and can't be seen from here")
    try:
        found = os.statvfs(store.path.parent)
    except OSError as error:
        return Unknown(f"{store.path.parent}: {error.strerror}")
    return DiskSpace(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


class _Stored:
    """Revocation lists from a store, read once (a `stores.revocation.RemoteLists`)."""

    def __init__(self, name: str, lists: Sequence[bytes]) -> None:
        self.name = name
        self._lists = lists

    async def fetch(self) -> None:
        """Do nothing: the lists never change."""

    def fetch_once(self) -> None:
        """Do nothing: the lists never change."""

    def stamp(self) -> object:
        """Return the lists' digests."""
        return [sha256(each).digest() for each in self._lists]

    def read(self) -> Sequence[bytes]:
        """Return the lists."""
        return self._lists


def lists_found(loaded: Loaded, store: StoreUrl) -> Found[tuple[int, int]]:
    """Verify the revocation lists; return how many there are, and how many certificates they revoke."""
    named = loaded.config.proofs.revocation
    folder = folder_of(loaded, ("proofs", "revocation"))
    roots = folder_of(loaded, ("proofs", "roots"))
    try:
        files = [*((folder, name) for name in named.public_key_files)]
        files += [(roots, root.public_key_file) for root in loaded.config.proofs.roots]
        keys = [read_public_key(where / name, name) for where, name in files]
        known: dict[str, HybridPublicKey] = {each.id: each.public_key for each in keys}
        stored = None if isinstance(store, InMemory) else _Stored(store.name, _read_lists(store))
        lists = RevocationLists([folder / name for name in named.files], known, store=stored)
        lists.load()
    except ConfigurationError as error:
        return Unknown(error.what)
    except (StoreUnavailable, sqlite3.Error, OSError) as error:
        return Unknown(str(error))
    problem = lists.problem()
    return lists.size() if problem is None else Unknown(problem)


def _read_lists(store: LogStore) -> Sequence[bytes]:
    if isinstance(store, PostgresDatabase):
        return stored_lists(store)
    if not os.path.lexists(store.path):
        return ()
    with reading_only(store.path) as connection:
        if connection.execute("PRAGMA user_version").fetchone() == (0,):
            return ()  # the gateway makes its tables when it opens it
        return [bytes(data) for (data,) in connection.execute("SELECT list FROM revocations")]


def log_found(store: StoreUrl) -> Found[LogFound]:
    """Return how far the log's sinks are."""
    return _read(store, _sinks)


def drill_found(store: StoreUrl, prover: Found[Prover]) -> Found[int | None]:
    """Return the time of the last recorded drill (unix seconds); None if there is none."""
    return prover if isinstance(prover, Unknown) else _read(store, lambda log: _find_drill_time(log, prover))


def prover_found(loaded: Loaded) -> Found[Prover]:
    """Return what verifies that records are this gateway's own."""
    try:
        keys = own_keys(loaded)
    except ConfigurationError as error:
        return Unknown(error.what)
    return Prover(keys) if keys else Unknown("there is no public key of the gateway's here, and so no record verifies")


def seconds_of(text: str) -> int:
    """Convert a record's time to unix seconds."""
    return int(datetime.fromisoformat(text).timestamp())


def _sinks(log: LogReader) -> LogFound:
    waiting = [(name, log.unsent(name)) for name in log.sinks()]
    made = [(name, each.statement() if each is not None else None) for name, each in waiting]
    return LogFound(tuple(SinkFound(name, _statement_time(said)) for name, said in made))


def _statement_time(statement: Statement | None) -> int | None:
    if statement is None:
        return None
    said = statement.predicate
    if isinstance(said, CallRecord):
        return seconds_of(said.times.recorded)
    return seconds_of(said.time if isinstance(said, Checkpoint) else said.before)


def _find_drill_time(log: LogReader, prover: Prover) -> Found[int | None]:
    late_at = time.monotonic() + DOCTOR_DATABASE_SECONDS
    for each in log.holding(DRILL):
        record = each.record()
        decision = record.decision if record is not None else None
        is_allowed = decision is not None and decision.verdict == "allow" and decision.enforced is not False
        is_drill = record is not None and is_allowed and record.call.target in DRILLS
        if record is not None and is_drill and prover.fault(each) is None:
            return seconds_of(record.times.recorded)
        if time.monotonic() > late_at:
            return Unknown("the log is too long to be looked through here")
    return None


def _read(store: StoreUrl, look: Callable[[LogReader], Found[_T]]) -> Found[_T]:
    if isinstance(store, InMemory):
        return Unknown("a store in memory has no log")
    if isinstance(store, SqliteFile) and not store.path.is_file():
        return Unknown(_NO_FILE)
    if isinstance(store, SqliteFile):
        log: LogReader = LogFile(store.path, still=is_still(store.path))
    else:
        log = LogDatabase(store, patience=DOCTOR_DATABASE_SECONDS)
    try:
        with log as opened:
            return look(opened)
    except (StoreUnavailable, AttestationError, ConfigurationError) as error:
        return Unknown(str(error))
