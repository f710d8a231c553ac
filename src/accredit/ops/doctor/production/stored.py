"""Reads the configured store. I/O: a file or a database; nothing is changed or created.

Each look-up ends after some seconds; facts that are missing then are unknown, with a reason. A drill counts only if its
record verifies, and if one of its calls was allowed while proofs were enforced. A refused call proves nothing: anybody
can make one. A sink's position is taken from the store, where it is not signed.
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import TypeVar

from accredit.attest import CallRecord, Checkpoint, LogKey, RecordKey, Statement
from accredit.config.load import Loaded
from accredit.config.named_files import named_files
from accredit.config.proofs import read_public_key
from accredit.errors import StoreUnavailable
from accredit.limits import DOCTOR_DATABASE_SECONDS
from accredit.ops.doctor.engine import Found, Unknown
from accredit.ops.doctor.production.facts import SinkFound
from accredit.policy.drill import DRILL, DRILLS
from accredit.ratify import HybridPublicKey
from accredit.stores import RevocationLists, StoreUrl
from accredit.stores.audit_log.proven import Prover
from accredit.stores.audit_log.reading import LogReader
from accredit.stores.rules import DiskSpace, FoundList, SchemaState

_T = TypeVar("_T")
_NO_DISK = "a store in memory needs none"
_NO_FILE = "the store's file is not there yet: the gateway makes it when it starts"


def file_schema_found(store: StoreUrl) -> Found[SchemaState | None]:
    """Return the schema of a store's file; None if the store is not a file."""
    try:
        return store.schema_state() if store.file is not None else None
    except StoreUnavailable as error:
        return Unknown(f"{store.file} can't be read: {error}")


def disk_space_found(store: StoreUrl) -> Found[DiskSpace]:
    """Return the free space where the store's file is."""
    elsewhere = "the disk is the database's, and can't be seen from here" if store.is_shared else _NO_DISK
    try:
        return store.disk_space() or Unknown(elsewhere)
    except OSError as error:
        return Unknown(f"{store.file and store.file.parent}: {error.strerror}")


class _Stored:
    """Revocation lists that were read from a store once, in the form in which they are verified (a
    `stores.revocation.RemoteLists`)."""

    def __init__(self, name: str, lists: Sequence[FoundList]) -> None:
        self.name = name
        self._lists = lists

    async def fetch(self) -> None:
        """Do nothing: the lists never change."""

    def fetch_once(self) -> None:
        """Do nothing: the lists never change."""

    def stamp(self) -> object:
        """Return the lists' digests."""
        return [sha256(each.text).digest() for each in self._lists]

    def read(self) -> Sequence[FoundList]:
        """Return the lists."""
        return self._lists


def lists_found(loaded: Loaded, store: StoreUrl) -> Found[tuple[int, int]]:
    """Verify the revocation lists; return how many there are, and how many certificates they revoke."""
    named = [each for each in named_files(loaded) if each.place[0] == "proofs"]
    keys = [read_public_key(each.path, each.name) for each in named if each.use.is_of_others]
    files = [each.path for each in named if each.key == "proofs.revocation.files"]
    known: dict[str, HybridPublicKey] = {each.id: each.public_key for each in keys}
    place = store.lasting
    stored = None if place is None else _Stored(place.name, place.read_lists(untouched=True))
    lists = RevocationLists(files, known, store=stored)
    lists.load()
    problem = lists.problem()
    return lists.size() if problem is None else Unknown(problem)


def sinks_found(store: StoreUrl) -> Found[Sequence[SinkFound]]:
    """Return the log's sinks, and how far each has come."""
    return _read(store, _sinks)


def drill_found(keys: Sequence[LogKey | RecordKey], store: StoreUrl) -> Found[int | None]:
    """Return the time of the last recorded drill (unix seconds), or None. `keys` are the gateway's own."""
    if not keys:
        return Unknown("there is no public key of the gateway's here, and so no record verifies")
    return _read(store, lambda log: _find_drill_time(log, Prover(keys)))


def seconds_of(text: str) -> int:
    """Convert a record's time to unix seconds."""
    return int(datetime.fromisoformat(text).timestamp())


def _sinks(log: LogReader) -> list[SinkFound]:
    waiting = [(name, log.unsent(name)) for name in log.sinks()]
    return [SinkFound(name, _statement_time(each.statement() if each is not None else None)) for name, each in waiting]


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
    if store.lasting is None:
        return Unknown("a store in memory has no log")
    if store.file is not None and not store.file.is_file():
        return Unknown(_NO_FILE)
    with store.lasting.open_log(DOCTOR_DATABASE_SECONDS, untouched=True) as log:
        return look(log)
