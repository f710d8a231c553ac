"""The log's tables in a database, over one connection.

- [atomicity] A change is one statement, and so one transaction: it is never half done, and holds no lock between
  statements.
- [chain-end] A change is written only if the chain ends where it was read, and has not ended for good. The calls that
  the change closes must still be open. If they are not, the statement divides by zero on purpose, which rolls all of it
  back.
- [cache] Rows that this connection has read or written are kept, and not read again before the next change is
  written. If another process has changed them, [chain-end] detects that.
- [dead-writers] A writer is dead if its lock is free and it has been silent for long, by the database's clock. The
  process that declares it dead must have been connected for as long. So after a failure of the database, the other
  writers have time to come back.
"""

# ruff: noqa: S608 - statements are made of constants

from collections.abc import Sequence
from time import monotonic

from accredit.attest import Stored
from accredit.attest.statements import GENESIS
from accredit.base.caching import RecentlyUsed
from accredit.errors import AttestationError
from accredit.limits import MAX_ATTESTATION_BYTES, MAX_RECORDED_CHAINS
from accredit.stores.audit_log.places import DatabaseLog
from accredit.stores.audit_log.reading import NO_PLACE, entry_in, key_range, open_in
from accredit.stores.audit_log.tables import (
    MAX_RECORDS_OF_A_CALL_BYTES,
    ChainChange,
    ChainEnd,
    ChainEnded,
    ChainMoved,
    NewEntry,
    NewestEntry,
    OpenCall,
    OpenWriters,
    encode_members,
    limit_payloads,
)
from accredit.stores.postgres.driver import Connection, DatabaseFailed
from accredit.stores.postgres.schema import CALL_KEY, short

LOG_BURIED_AT_ONCE = 8
"""How many dead writers of a database one process closes at a time. A rolling restart leaves a few, and other processes
look for them as well."""
MAKE_DAYS_LOCK_MS = 200
"""How many milliseconds a writer waits for the lock under which days are made. It is held for some milliseconds. There
are days until the tables matter, and the writer's records wait meanwhile."""


NO_PARTITION, DIVISION_BY_ZERO = "23514", "22012"

_ADD = """
INSERT INTO log_writers (name, gateway, host, records, head, checkpointed, turn, over, beat)
VALUES ($1, $2, $3, 0, $4, 0, 0, false, clock_timestamp()) ON CONFLICT DO NOTHING"""
_ROW = "d.name, d.writer, d.records, left(d.head, 65), d.checkpointed, d.turn, d.over"
_END = f"SELECT {_ROW} FROM log_writers d WHERE name = $1"
_BEAT = "UPDATE log_writers SET beat = clock_timestamp() WHERE name = $1 AND NOT over RETURNING writer"
_SILENT = """
SELECT name FROM log_writers WHERE NOT over AND name <> $1 AND beat < clock_timestamp() - make_interval(secs => $2)
AND name ~ '^[0-9a-f]{32}$' AND name <> ALL($4::text[]) ORDER BY beat LIMIT $3"""
_STILL = "SELECT name FROM log_writers WHERE NOT over AND name = ANY($1::text[])"
_ODD = "SELECT count(*) FROM log_writers WHERE NOT over AND name !~ '^[0-9a-f]{32}$'"
_LOCK = "SELECT pg_try_advisory_lock(hashtextextended('accredit log writer ' || $1, 0))"
_UNLOCK = "SELECT pg_advisory_unlock(hashtextextended('accredit log writer ' || $1, 0))"
_OPEN_AMONG = "SELECT call FROM log_open JOIN log_writers USING (writer) WHERE name = $1 AND call = ANY($2::text[])"
_SHOWN = f"d.name, e.number, k.id, {short('e.')}"
_AT = f"""
SELECT {_SHOWN} FROM log_entries e LEFT JOIN log_writers d ON d.writer = e.writer LEFT JOIN log_keys k ON k.key = e.key
WHERE e.writer = $1 AND e.kind = $2 AND e.number = $3"""
# A decision that was pruned and is back was put there by somebody: its outcome may have been pruned, too.
_OPEN = f"""
SELECT o.call, {_SHOWN} FROM log_open o
LEFT JOIN log_entries e ON (e.writer, e.kind, e.number, e.day) = (o.decided_by, 0, o.number, o.day)
AND NOT EXISTS (SELECT FROM log_pruned p WHERE p.writer = o.decided_by AND p.last >= o.number)
LEFT JOIN log_writers d ON d.writer = e.writer LEFT JOIN log_keys k ON k.key = e.key WHERE"""
_OPEN_CALLS = f"""{_OPEN} o.writer = (SELECT writer FROM log_writers WHERE name = $1) AND o.call > $2
ORDER BY o.call LIMIT $3"""
_OPEN_BY = f"{_OPEN} o.resume = $1 LIMIT 8"
_LAST = "(SELECT * FROM log_entries WHERE writer = d.writer AND kind = {} ORDER BY number DESC LIMIT 1)"
# A checkpoint or a note comes after the record of its number.
_NEWEST = f"""
SELECT {_ROW}, {_SHOWN} FROM log_writers d
LEFT JOIN LATERAL (
  SELECT * FROM ({" UNION ALL ".join(map(_LAST.format, (0, 1, 2)))}) AS last ORDER BY number DESC, kind DESC LIMIT 1
) AS e ON true LEFT JOIN log_keys k ON k.key = e.key WHERE d.name = $1"""
_OF_CALL = f"""
SELECT CASE WHEN sum(octet_length(payload)) OVER (ROWS UNBOUNDED PRECEDING) <= $3 THEN payload END FROM (
  SELECT payload FROM log_entries WHERE kind = 0 AND {CALL_KEY} = $1::bytea
  AND octet_length(payload) <= {MAX_ATTESTATION_BYTES} LIMIT $2) AS found"""
_CLAIM = """
WITH mine AS (SELECT writer FROM log_writers WHERE name = $1 AND NOT over FOR UPDATE)
UPDATE log_open o SET writer = mine.writer FROM mine WHERE o.call = $2 AND o.resume = $3 RETURNING o.call"""
_WRITE = """
WITH moved AS (
  UPDATE log_writers SET records = $2, head = $3, checkpointed = $4, turn = $5
  WHERE writer = $1 AND NOT over AND (records, head, checkpointed, turn) = ($6, $7, $8, $9) RETURNING writer),
at AS (SELECT writer, (now() AT TIME ZONE 'UTC')::date AS day FROM moved),
closed AS (
  DELETE FROM log_open o USING moved
  WHERE o.call = ANY($10::text[]) AND o.writer = (SELECT w.writer FROM log_writers w WHERE w.name = $11) RETURNING 1),
entries AS (
  INSERT INTO log_entries (day, writer, kind, number, key, payload, ed25519, ml_dsa_65, members, proof)
  SELECT at.day, at.writer, new.* FROM at, unnest(
    $12::smallint[], $13::bigint[], $14::int[], $15::bytea[], $16::bytea[], $17::bytea[], $18::bytea[], $24::bytea[]
  ) AS new),
opened AS (
  INSERT INTO log_open (call, writer, decided_by, number, day, resume)
  SELECT new.call, at.writer, at.writer, new.number, at.day, new.resume
  FROM at, unnest($19::text[], $20::bigint[], $21::bytea[]) AS new (call, number, resume)),
chains AS (
  INSERT INTO log_delegations SELECT new.* FROM moved, unnest($22::text[], $23::bytea[]) AS new (sha256, certificates)
  ORDER BY new.sha256 ON CONFLICT DO NOTHING),
found AS (SELECT (SELECT count(*) FROM moved) AS moved, (SELECT count(*) FROM closed) AS closed)
SELECT moved, 1 / (CASE WHEN moved = 1 AND closed <> cardinality($10::text[]) THEN 0 ELSE 1 END) FROM found"""
_TOUCH = "UPDATE log_writers SET turn = turn WHERE name = $1 AND NOT over RETURNING writer"
_LOCK_ROW = "SELECT over FROM log_writers WHERE name = $1 FOR UPDATE"
_END_IT = """
UPDATE log_writers w SET over = true WHERE name = $1 AND NOT EXISTS (SELECT FROM log_open o WHERE o.writer = w.writer)
RETURNING writer"""


class DatabaseTables:
    """`LogTables` in a database, seen over one connection of the writer `own`."""

    def __init__(self, connection: Connection, place: DatabaseLog) -> None:
        self.connection = connection
        self._place = place
        self._since = monotonic()
        self._ends: dict[str, ChainEnd] = {}
        self._open: dict[str, set[str]] = {}
        """The calls that were opened over this connection, by the name of their writer."""
        self._keys: dict[str, int] = {}
        self._chains = RecentlyUsed[str, bool](MAX_RECORDED_CHAINS)
        self._locked: set[str] = set()

    def forget(self) -> None:
        """Drop the caches."""
        self._ends.clear()
        self._open.clear()

    async def add_writer(self, name: str) -> None:
        """Add a writer, unless it exists."""
        await self.connection.fetch(_ADD, name, self._place.gateway, self._place.host, GENESIS)

    async def lock(self, name: str) -> bool:
        """Take the lock of a writer; it lasts as long as this connection. Return False if another connection has it."""
        if name not in self._locked:
            ((locked,),) = await self.connection.fetch(_LOCK, name)
            if not locked:
                return False
            self._locked.add(name)
        return True

    async def find_others(self, name: str, left: Sequence[str]) -> OpenWriters:
        """Return the dead writers ([dead-writers]), with their locks held, so that no other process takes them."""
        if not await self.connection.fetch(_BEAT, name):
            await self._check_not_over(name)
        await self.lock(name)
        for other in left:
            await self._unlock(other)
        still = [row[0] for row in await self.connection.fetch(_STILL, left)] if left else []
        if monotonic() - self._since < self._place.silent_seconds:
            return OpenWriters([], still)
        ((odd,),) = await self.connection.fetch(_ODD)
        return OpenWriters(await self._dead(name, left), still, odd)

    async def _dead(self, name: str, left: Sequence[str]) -> list[str]:
        silence = self._place.silent_seconds
        asked = (_SILENT, name, silence, LOG_BURIED_AT_ONCE, left)
        dead = [row[0] for row in await self.connection.fetch(*asked) if await self.lock(row[0])]
        still = {row[0] for row in await self.connection.fetch(*asked)}
        for other in dead:
            if other not in still:  # it was back before it was locked
                await self._unlock(other)
        return [other for other in dead if other in still]

    async def end_of(self, name: str) -> ChainEnd:
        """Return the end of a chain."""
        if name not in self._ends:
            rows = await self.connection.fetch(_END, name)
            if not rows:  # the database was restored from a copy
                await self.add_writer(name)
                rows = await self.connection.fetch(_END, name)
            self._ends[name] = ChainEnd(*rows[0])
        return self._ends[name]

    async def open_among(self, name: str, calls: Sequence[str]) -> set[str]:
        """Return which of these calls are open, and this writer's to close."""
        if self._open.get(name, set()).issuperset(calls):
            return set(calls)
        return {row[0] for row in await self.connection.fetch(_OPEN_AMONG, name, calls)}

    async def newest_of(self, name: str, further: int | None = None) -> NewestEntry:
        """Return the chain's end and its newest entry from one statement, so that they fit together."""
        await self.end_of(name)
        (row,) = await self.connection.fetch(_NEWEST, name)
        end, (writer, number, *entry) = ChainEnd(*row[:7]), row[7:]
        self._ends[name] = end
        return NewestEntry(end, None if number is None else entry_in(writer, number, *entry))

    async def open_calls(self, name: str, after: str, most: int) -> Sequence[OpenCall]:
        """Return some of a writer's open calls."""
        return [open_in(row) for row in await self.connection.fetch(_OPEN_CALLS, name, after, most)]

    async def payloads_of(self, call: str, most: int) -> Sequence[bytes]:
        """Return the payloads of a call's records. The index of each day is searched, as the day in a row may be
        forged."""
        return await payloads_of(self.connection, call, most)

    async def open_by(self, resume: bytes) -> Sequence[OpenCall]:
        """Return the open calls with the key `resume`."""
        return [open_in(row) for row in await self.connection.fetch(_OPEN_BY, resume)]

    async def claim(self, name: str, open_call: OpenCall, resume: bytes) -> None:
        """Make an open call this writer's."""
        if not await self.connection.fetch(_CLAIM, name, open_call.call, resume):
            raise ChainMoved(f"{self._place.name}: a call is not open any more")

    async def write(self, change: ChainChange) -> None:
        """Write all of a change, or nothing ([atomicity] and [chain-end])."""
        chains = {sha256: text for sha256, text in change.certificates.items() if self._chains.get(sha256) is None}
        proofs = [each.proof for each in change.entries]
        values = (*await self._values(change), [*chains], [*chains.values()], proofs)
        try:
            ((moved, _),) = await self.connection.fetch(_WRITE, *values)
        except DatabaseFailed as error:
            if error.sqlstate == NO_PARTITION:
                await self.make_days()
            elif error.sqlstate != DIVISION_BY_ZERO:
                raise
            moved = 0
        if not moved:
            raise ChainMoved(f"{self._place.name}: the end of a chain is not where it was")
        name = change.after.name
        self._ends[name] = change.after
        self._open.setdefault(name, set()).update(change.opened)
        self._open.setdefault(change.closed_of, set()).difference_update(change.closed)
        for sha256 in chains:
            self._chains.put(sha256, True)

    async def touch(self, name: str) -> None:
        """Write without changing anything, as a test of whether writes are kept (`LogTables`)."""
        if not await self.connection.fetch(_TOUCH, name):
            await self._check_not_over(name)

    async def end(self, name: str) -> bool:
        """End a writer without open calls. Its row is locked first, as for opening or claiming a call, so that neither
        can happen meanwhile."""
        self._ends.pop(name, None)
        self._open.pop(name, None)
        async with self.connection.transaction():
            ended = any(over for (over,) in await self.connection.fetch(_LOCK_ROW, name))
            ended = ended or bool(await self.connection.fetch(_END_IT, name))
        if ended:
            await self._unlock(name)
        return ended

    async def make_days(self) -> None:
        """Create the tables for the entries of the next days. Raises `DatabaseFailed`, also if another session holds
        the lock for that: any user of the database can take it, and no record may wait for it."""
        async with self.connection.transaction():
            await self.connection.fetch(f"SET LOCAL lock_timeout = '{MAKE_DAYS_LOCK_MS}ms'")
            await self.connection.fetch("SELECT log_make_days()")

    async def _values(self, change: ChainChange) -> list[object]:
        before, after = change.before, change.after
        keys = [await self._key(each) for each in change.entries]
        return [
            *(after.writer, after.records, after.head, after.checkpointed, after.turn),
            *(before.records, before.head, before.checkpointed, before.turn),
            *(change.closed, change.closed_of),
            *([each.kind for each in change.entries], [each.number for each in change.entries], keys),
            *map(list, _entry_columns(change.entries)),
            *([*change.opened], [*change.opened.values()], [change.resumes.get(call) for call in change.opened]),
        ]

    async def _key(self, entry: NewEntry) -> int:
        key_id = entry.envelope.signatures[0].key_id
        if key_id not in self._keys:
            await self.connection.fetch("INSERT INTO log_keys (id) VALUES ($1) ON CONFLICT DO NOTHING", key_id)
            ((key,),) = await self.connection.fetch("SELECT key FROM log_keys WHERE id = $1", key_id)
            self._keys[key_id] = key
        return self._keys[key_id]

    async def _check_not_over(self, name: str) -> None:
        self._ends.pop(name, None)
        if (await self.end_of(name)).over:
            raise ChainEnded(name)

    async def _unlock(self, name: str) -> None:
        if name in self._locked:
            self._locked.discard(name)
            await self.connection.fetch(_UNLOCK, name)


async def payloads_of(connection: Connection, call: str, most: int) -> list[bytes]:
    """Return what is recorded of a call, as `LogTables.payloads_of` does."""
    rows = await connection.fetch(_OF_CALL, key_range(call)[0], most, MAX_RECORDS_OF_A_CALL_BYTES)
    return limit_payloads((row[0] for row in rows), most)


async def read_stored(connection: Connection, writer: int, kind: int, number: int) -> Stored:
    """Return an entry by its place. Raises `AttestationError` for one that is damaged."""
    rows = await connection.fetch(_AT, writer, kind, number)
    if not rows:
        raise AttestationError(NO_PLACE)
    return entry_in(*rows[0])


def _entry_columns(entries: Sequence[NewEntry]) -> tuple[list[object], ...]:
    """Return, as one column each, the entries' payloads, their signatures of both kinds, and the first signatures'
    members."""
    payloads, first, second, members = list[object](), list[object](), list[object](), list[object]()
    for each in entries:
        one, *rest = each.envelope.signatures
        payloads.append(each.envelope.payload)
        first.append(one.data)
        second.append(rest[0].data if rest else None)
        members.append(encode_members(one))
    return payloads, first, second, members
