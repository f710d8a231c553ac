"""Prunes the log in a PostgreSQL database, as `stores.audit_log.pruning` does it in a file. Blocking.

For each writer, in the order of its chain:

- [records] Records from before the given time are removed. Pruning stops at the first record that is newer, whose call
  is still open, or that is the outcome of a decision in another chain that stays. (If that chain is to be pruned too,
  it is pruned first.) Each record must follow the one before it, and earlier pruned ones must match their note, since
  the new note is signed for all of them. So a trusted key must have signed the last record, which vouches for those
  before it, and the earlier note.
- [digests] The SHA-256 of all removed records but the last go into `log_pruned`. A note signed for all of them takes
  the last one's place.
- [checkpoints] Checkpoints that the note covers are removed as well.

This is done in steps, each one complete transaction. A deleted row stays in its table's file. So the tables of the days
from which records were removed are then rebuilt, or dropped (`schema`). That has to wait for readers of the log; after
a while it is given up, and reported. It needs a user of `accredit_admin`. Not guaranteed: the database's write-ahead
log, standbys, file systems, disks and backups may keep deleted rows.
"""

# ruff: noqa: S608 - statements are made of constants

import datetime
import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from accredit.attest import CallRecord, LogSigner, Pruning, decode_statement, pruning_payload, timestamp
from accredit.attest.statements import GENESIS
from accredit.errors import AttestationError, StoreUnavailable
from accredit.limits import RECORDS_OF_A_CALL
from accredit.stores.audit_log.author import Keys, check_pruned, read_phases
from accredit.stores.audit_log.pruning import EMPTY_LOG_SECONDS, PRUNE_ENTRIES, PruneReport, comes_alone, is_newer
from accredit.stores.postgres.address import DatabaseAddress
from accredit.stores.postgres.driver import Connection, DatabaseFailed, Row
from accredit.stores.postgres.log_reader import DAYS, DIGESTS, LOG_ROW_BYTES, NOTE, RECORD
from accredit.stores.postgres.log_tables import payloads_of, read_stored
from accredit.stores.postgres.snapshot import Blocking

LOG_LOCK_SECONDS = 0.2
"""How long gateways wait at most for one of the log's tables to be dropped, which in turn has to wait for the log's
readers."""


_LOCK_NOT_AVAILABLE = "55P03"

_MAY = "SELECT has_table_privilege('log_entries', 'DELETE')"
_LOCK = "SELECT pg_try_advisory_lock(hashtext('accredit log prune'))"
"""SQL: take the lock of pruning, which is held until the connection ends."""
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


class _Pruned(NamedTuple):
    """The pruned part of a chain: a SHA-256 object that has taken the digests of all its records but the last, and the
    last record's number and digest."""

    digests: Any
    last: int
    head: str


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
    """Prune what was recorded before `before_ms` (unix milliseconds). `trusted` are keys that sign this log beside its
    own.

    `on_progress` is called with the number of records so far. Raises `StoreUnavailable`, or `AttestationError` if the
    log is damaged before that time: verify it first.
    """
    link = Blocking(database)
    records, days = 0, set[datetime.date]()
    try:
        writers = link.run(_begin)
        while writers:
            begun, held = records, list[_Writer]()
            for writer in writers:
                chain = _Chain(writer, signer, (*trusted, *signer.keys), timestamp(before_ms), timestamp(now_ms))
                while not chain.done:
                    chain = link.run(chain.step)
                    on_progress(records + chain.count)
                records += chain.count
                days |= chain.days
                held += [writer] if chain.is_held else []
            writers = held if records > begun else []  # their obstacles may have been pruned meanwhile
        deadline = time.monotonic() + EMPTY_LOG_SECONDS
        cleared = [_clear_day(link, day, deadline) for day in sorted(days.union(link.run(_unclean)))]
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
    await connection.fetch("SELECT log_make_days()")  # notes are entries of today
    await connection.fetch("SET enable_seqscan = off")  # a scan of the whole log in every step would take for ever
    return [_Writer(*row) for row in await connection.fetch(_WRITERS)]


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
            if error.sqlstate != _LOCK_NOT_AVAILABLE:
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

    def __init__(self, writer: _Writer, signer: LogSigner, keys: Keys, before: str, now: str) -> None:
        self._writer, self._signer, self._keys = writer, signer, keys
        self._before, self._now = before, now
        self._pruned: _Pruned | None = None
        self._going: set[str] = set()
        self.is_held = False
        """Whether pruning of this chain stopped before an outcome whose decision still exists."""
        self.count = 0
        self.days: frozenset[datetime.date] = frozenset()
        self.done = False

    async def step(self, connection: Connection) -> "_Chain":
        """Prune the next records, in one transaction."""
        following = _Chain(self._writer, self._signer, self._keys, self._before, self._now)
        following._going = set(self._going)
        async with connection.transaction():
            pruned = self._pruned or await self._earlier(connection)
            rows = await connection.fetch(_RECORDS, self._writer.number, pruned.last, PRUNE_ENTRIES)
            ((first_open,),) = await connection.fetch(_FIRST_OPEN, self._writer.number)
            old: list[_Old] = []
            head = pruned.head
            for row in rows:
                found = await following._old(connection, row, pruned.last + len(old) + 1, head)
                if found is None or found.number == first_open:
                    break
                old.append(found)
                head = found.sha256
            following._pruned = await self._replace(connection, pruned, old) if old else pruned
        following.count = self.count + len(old)
        following.days = self.days.union(each.day for each in old)
        following.done = len(old) < PRUNE_ENTRIES
        return following

    async def _earlier(self, connection: Connection) -> _Pruned:
        digests = hashlib.sha256()
        ((number,),) = await connection.fetch(_NOTE, self._writer.number)
        if number is None:
            return _Pruned(digests, 0, GENESIS)
        stored = await read_stored(connection, self._writer.number, NOTE, number)
        statement = decode_statement(stored.envelope.payload)
        note, fed = statement.predicate, 0
        if not isinstance(note, Pruning) or note.last != number:
            raise self._damaged(number)
        check_pruned(stored, self._keys)
        while rows := await connection.fetch(_DIGESTS, self._writer.number, fed):
            for first, last, some in rows:
                if first != fed + 1 or some is None:
                    raise self._damaged(first)
                digests.update(some)
                fed = last
        whole = digests.copy()
        whole.update(bytes.fromhex(statement.sha256))
        if fed != number - 1 or whole.hexdigest() != note.digests_sha256:
            raise self._damaged(number)
        return _Pruned(digests, number, statement.sha256)

    async def _old(self, connection: Connection, row: Row, expected: int, head: str) -> _Old | None:
        """Return the next record, or None if it is not old enough to be pruned. Raises `AttestationError` if it does
        not follow the record before it."""
        number, day, payload = row
        if payload is None:
            payload = (await read_stored(connection, self._writer.number, RECORD, number)).envelope.payload
        record = decode_statement(payload).predicate
        if number != expected or not isinstance(record, CallRecord):
            raise self._damaged(number)
        if (record.log.writer, record.log.sequence, record.log.previous) != (self._writer.name, number, head):
            raise self._damaged(number)
        if is_newer(record, self._before) or await self._outlives(connection, record):
            return None
        return _Old(number, day, hashlib.sha256(payload).hexdigest())

    async def _outlives(self, connection: Connection, record: CallRecord) -> bool:
        """Return whether a record is an outcome whose decision still exists."""
        call = record.call.id
        if comes_alone(record, self._going):
            payloads = await payloads_of(connection, call, RECORDS_OF_A_CALL)
            self.is_held = (call, "decision") in read_phases(payloads)
        return self.is_held

    async def _replace(self, connection: Connection, pruned: _Pruned, old: Sequence[_Old]) -> _Pruned:
        writer, last = self._writer.number, old[-1]
        check_pruned(await read_stored(connection, writer, RECORD, last.number), self._keys)
        gone = b"".join(bytes.fromhex(each.sha256) for each in old[:-1])
        if pruned.last:
            gone = bytes.fromhex(pruned.head) + gone
        ((removed,),) = await connection.fetch(_REMOVE, writer, last.number)
        if removed != len(old):
            raise self._damaged(last.number)
        first = max(pruned.last, 1)
        if gone:
            await connection.fetch(_KEEP, writer, first, last.number - 1, gone)
        digests = pruned.digests.copy()
        digests.update(gone)
        whole = digests.copy()
        whole.update(bytes.fromhex(last.sha256))
        note = Pruning(
            writer=self._writer.name,
            last=last.number,
            before=self._before,
            digests_sha256=whole.hexdigest(),
            time=self._now,
        )
        envelope = self._signer.summary(pruning_payload(note, last.sha256))
        ed25519, ml_dsa_65 = (signature.data for signature in envelope.signatures)
        await connection.fetch(_ADD_KEY, self._signer.id)
        await connection.fetch(_ADD_NOTE, writer, last.number, self._signer.id, envelope.payload, ed25519, ml_dsa_65)
        return _Pruned(digests, last.number, last.sha256)

    def _damaged(self, number: int) -> AttestationError:
        place = f"{self._writer.name}/{number}"
        return AttestationError(f"{place} is damaged, or is not what follows there", place)
