"""Prunes the log in a PostgreSQL database, as `stores.audit_log.pruning` does it in a file. Blocking.

The rules are the same. The chains are pruned one after the other, each in several transactions. If pruning a chain
stops at the outcome of a decision in another chain, it is tried again once that other chain was pruned. The digests of
removed records go into `log_pruned`.

A deleted row stays in its table's file. So the tables of the days from which records were removed are then rebuilt, or
dropped (`schema`). That has to wait for readers of the log; after a while it is given up, and reported. It needs a user
of `accredit_admin`. Not guaranteed: the database's write-ahead log, standbys, file systems, disks and backups may keep
deleted rows.
"""

# ruff: noqa: S608 - statements are made of constants

import datetime
import hashlib
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from accredit.attest import CallRecord, LogSigner, decode_statement, timestamp
from accredit.errors import StoreUnavailable
from accredit.limits import RECORDS_OF_A_CALL
from accredit.stores.audit_log.author import Keys, read_phases
from accredit.stores.audit_log.pruning import (
    EMPTY_LOG_SECONDS,
    PRUNE_ENTRIES,
    UNPRUNED,
    PrunedChain,
    Pruner,
    PruneReport,
    check_follows,
    comes_alone,
    damaged_chain,
)
from accredit.stores.postgres.address import DatabaseAddress
from accredit.stores.postgres.driver import LOCK_NOT_AVAILABLE, Connection, DatabaseFailed, Row
from accredit.stores.postgres.log_reader import DAYS, DIGESTS, LOG_ROW_BYTES, NOTE, RECORD
from accredit.stores.postgres.log_tables import payloads_of, read_stored
from accredit.stores.postgres.snapshot import Blocking

LOG_LOCK_SECONDS = 0.2
"""How long gateways wait at most for one of the log's tables to be dropped, which in turn has to wait for the log's
readers."""


_MAY = "SELECT has_table_privilege('log_entries', 'DELETE')"
_LOCK = "SELECT pg_try_advisory_lock(hashtext('accredit log prune'))"
_UNLOCK = "SELECT pg_advisory_unlock(hashtext('accredit log prune'))"
"""SQL: take and release the lock of pruning. If it is not released, the server does so, soon after the connection has
ended."""
_WRITERS = "SELECT writer, name FROM log_writers WHERE records > 0 ORDER BY writer"
_NOTE = f"SELECT max(number) FROM log_entries WHERE writer = $1 AND kind = {NOTE}"
_DIGESTS = f"SELECT first, last, {DIGESTS} FROM log_pruned WHERE writer = $1 AND first > $2 ORDER BY first LIMIT 64"
_FIRST_OPEN = "SELECT min(number) FROM log_open WHERE decided_by = $1"
_RECORDS = f"""
SELECT number, day, CASE WHEN octet_length(payload) <= {LOG_ROW_BYTES} THEN payload END FROM log_entries
WHERE writer = $1 AND kind = {RECORD} AND number > $2 ORDER BY number LIMIT $3"""
_REMOVE = f"""
WITH gone AS (DELETE FROM log_entries WHERE writer = $1 AND kind IN (0, 1, 2) AND number <= $2 RETURNING kind)
SELECT count(*) FROM gone WHERE kind = {RECORD}"""
_KEEP = "INSERT INTO log_pruned VALUES ($1, $2, $3, $4)"
_ADD_KEY = "INSERT INTO log_keys (id) VALUES ($1) ON CONFLICT DO NOTHING"
_ADD_NOTE = f"""
INSERT INTO log_entries (day, writer, kind, number, key, payload, ed25519, ml_dsa_65)
SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date, $1, {NOTE}, $2, key, $4, $5, $6 FROM log_keys WHERE id = $3"""
_UNCLEAN = f"{DAYS} AND pg_stat_get_tuples_deleted(inhrelid) > 0"


class _Writer(NamedTuple):
    number: int
    name: str


class _Old(NamedTuple):
    number: int
    day: datetime.date
    sha256: str


def prune(
    database: DatabaseAddress,
    signer: LogSigner,
    *,
    before_ms: int,
    now_ms: int,
    on_progress: Callable[[int], None],
    trusted: Keys = (),
) -> PruneReport:
    """Prune what was recorded before `before_ms` (unix milliseconds). `trusted` are keys that sign this log, too,
    beside those of `signer`.

    `on_progress` is called with the number of records so far. Raises `StoreUnavailable`, or `AttestationError` if the
    log is damaged before that time: verify it first.
    """
    link = Blocking(database)
    records, days = 0, set[datetime.date]()
    pruner = Pruner(signer, (*trusted, *signer.keys), timestamp(before_ms), timestamp(now_ms))
    try:
        writers = link.run(_begin)
        while writers:
            begun, held = records, list[_Writer]()
            for writer in writers:
                chain = _Chain(writer, pruner)
                while not chain.done:
                    chain = link.run(chain.step)
                    on_progress(records + chain.count)
                records += chain.count
                days |= chain.days
                held += [writer] if chain.is_held else []
            writers = held if records > begun else []  # their obstacles may have been pruned meanwhile
        deadline = time.monotonic() + EMPTY_LOG_SECONDS
        cleared = [_clear_day(link, day, deadline) for day in sorted(days.union(link.run(_unclean)))]
        link.run(_end)
    finally:
        link.close()
    return PruneReport(records, all(cleared))


async def _begin(connection: Connection) -> list[_Writer]:
    ((may,),) = await connection.fetch(_MAY)
    if not may:
        raise StoreUnavailable(f"{connection.name}: this user may not prune: that needs one of accredit_admin")
    ((is_ours,),) = await connection.fetch(_LOCK)
    if not is_ours:
        raise StoreUnavailable(f"{connection.name}: somebody else prunes this log now")
    try:
        await connection.fetch("SELECT log_make_days()")  # notes are entries of today
    except DatabaseFailed as error:
        if error.sqlstate != LOCK_NOT_AVAILABLE:
            raise
        what = "somebody holds the lock under which the log's days are made (in pg_locks, an advisory one)"
        raise StoreUnavailable(f"{connection.name}: {what}: nothing was pruned") from None
    await connection.fetch("SET enable_seqscan = off")  # a scan of the whole log in every step would take for ever
    return [_Writer(*row) for row in await connection.fetch(_WRITERS)]


async def _end(connection: Connection) -> None:
    await connection.fetch(_UNLOCK)


async def _unclean(connection: Connection) -> list[datetime.date]:
    """Return the days whose tables still hold removed bytes, because a pruning was interrupted."""
    return [day for (day,) in await connection.fetch(_UNCLEAN)]


def _clear_day(link: Blocking, day: datetime.date, deadline: float) -> bool:
    """Clear a day's table of removed bytes, and return whether that was done. After the deadline it is tried only
    once."""

    async def clear(connection: Connection) -> bool | None:
        try:
            async with connection.transaction():
                await connection.fetch(f"SET LOCAL lock_timeout = '{int(LOG_LOCK_SECONDS * 1000)}ms'")
                ((is_cleared,),) = await connection.fetch("SELECT log_clear_day($1)", day)
        except DatabaseFailed as error:
            if error.sqlstate != LOCK_NOT_AVAILABLE:
                raise
            return None  # somebody reads the log
        return is_cleared

    while True:
        is_cleared = link.run(clear)
        if is_cleared is not None or time.monotonic() > deadline:
            return bool(is_cleared)
        time.sleep(LOG_LOCK_SECONDS)  # lets in the gateways, which waited with us


class _Chain:
    """One writer's chain while it is pruned. `step` returns the state after one step."""

    def __init__(self, writer: _Writer, pruner: Pruner) -> None:
        self._writer, self._pruner = writer, pruner
        self._pruned: PrunedChain | None = None
        self._going: set[str] = set()
        self.is_held = False
        """Whether pruning of this chain stopped before an outcome whose decision still exists."""
        self.count = 0
        self.days: frozenset[datetime.date] = frozenset()
        self.done = False

    async def step(self, connection: Connection) -> "_Chain":
        """Prune the next records, in one transaction."""
        following = _Chain(self._writer, self._pruner)
        following._going = set(self._going)
        async with connection.transaction():
            pruned = self._pruned or await self._earlier(connection)
            rows = await connection.fetch(_RECORDS, self._writer.number, pruned.last, PRUNE_ENTRIES)
            ((first_open,),) = await connection.fetch(_FIRST_OPEN, self._writer.number)
            old: list[_Old] = []
            head = pruned.head
            for row in rows:
                found = await following._old(connection, row, pruned.last + len(old), head)
                if found is None or found.number == first_open:
                    break
                old.append(found)
                head = found.sha256
            following._pruned = await self._replace(connection, pruned, old) if old else pruned
        following.count = self.count + len(old)
        following.days = self.days.union(each.day for each in old)
        following.done = len(old) < PRUNE_ENTRIES
        return following

    async def _earlier(self, connection: Connection) -> PrunedChain:
        ((number,),) = await connection.fetch(_NOTE, self._writer.number)
        if number is None:
            return UNPRUNED
        digests, fed = hashlib.sha256(), 0
        while rows := await connection.fetch(_DIGESTS, self._writer.number, fed):
            for first, last, some in rows:
                if first != fed + 1 or some is None:
                    raise damaged_chain(f"{self._writer.name}/{first}")
                digests.update(some)
                fed = last
        return self._pruner.restore(await read_stored(connection, self._writer.number, NOTE, number), digests)

    async def _old(self, connection: Connection, row: Row, last: int, head: str) -> _Old | None:
        """Return the next record, or None if it is not old enough to be pruned. Raises `AttestationError` if it does
        not follow the record before it, which has this number and digest."""
        number, day, payload = row
        place = f"{self._writer.name}/{number}"
        if payload is None:
            payload = (await read_stored(connection, self._writer.number, RECORD, number)).envelope.payload
        record = decode_statement(payload).predicate
        if not isinstance(record, CallRecord):
            raise damaged_chain(place)
        check_follows(record, place, last, head)
        if self._pruner.is_newer(record) or await self._outlives(connection, record):
            return None
        return _Old(number, day, hashlib.sha256(payload).hexdigest())

    async def _outlives(self, connection: Connection, record: CallRecord) -> bool:
        """Return whether a record is an outcome whose decision still exists."""
        call = record.call.id
        if comes_alone(record, self._going):
            payloads = await payloads_of(connection, call, RECORDS_OF_A_CALL)
            self.is_held = (call, "decision") in read_phases(payloads)
        return self.is_held

    async def _replace(self, connection: Connection, pruned: PrunedChain, old: Sequence[_Old]) -> PrunedChain:
        writer, last = self._writer, old[-1].number
        stored = await read_stored(connection, writer.number, RECORD, last)
        longer, gone, note = self._pruner.extend(pruned, writer.name, [each.sha256 for each in old], stored)
        ((removed,),) = await connection.fetch(_REMOVE, writer.number, last)
        if removed != len(old):
            raise damaged_chain(f"{writer.name}/{last}")
        if gone:
            await connection.fetch(_KEEP, writer.number, max(pruned.last, 1), last - 1, b"".join(gone))
        key = self._pruner.signer.id
        await connection.fetch(_ADD_KEY, key)
        signatures = (signature.data for signature in note.signatures)
        await connection.fetch(_ADD_NOTE, writer.number, last, key, note.payload, *signatures)
        return longer
