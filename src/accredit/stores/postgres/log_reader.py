"""Reads the log in a PostgreSQL database, in its state at one moment. Blocking.

Nothing is ordered by `log_entries.entry`: its values are drawn from a sequence, and overlapping transactions are
committed in any order. The length of a chain is in its writer's row (`records`), and the numbers of records have no
gaps.

- [order] A chain's entries come in the order of their numbers. Of the entries with one number n, record n (or its
  digest, if it was pruned) comes first, then the note of pruning that covers n records, then the checkpoint that counts
  n records.
- [large-entries] An entry of more than `LOG_ROW_BYTES` is read by itself.
- [damage] Rows without a writer, or of an unknown kind, are yielded as well, as damage.
"""

# ruff: noqa: S608 - statements are made of constants

import datetime
import heapq
import itertools
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

from accredit.attest import Digest, Head
from accredit.errors import AttestationError, StoreUnavailable
from accredit.stores.audit_log.reading import (
    NO_PLACE,
    Bookmark,
    LogReader,
    NumberedEntry,
    certificates_in,
    damage_error,
    head_in,
    key_range,
    open_call,
    read_entry,
    windows,
)
from accredit.stores.audit_log.tables import OpenCall
from accredit.stores.postgres.address import DatabaseAddress
from accredit.stores.postgres.driver import Row
from accredit.stores.postgres.schema import CALL_KEY, SHORT_CERTIFICATES, SHORT_PROOF, short
from accredit.stores.postgres.snapshot import LOG_ROWS, Snapshot

LOG_ROW_BYTES = 16_384
"""The most bytes of an entry that is read together with others (`LOG_ROWS` of them, 8 MiB). A longer one is read by
itself."""


RECORD, CHECKPOINT, NOTE = 0, 1, 2
"""The kinds of entries."""
_KINDS = {RECORD: "record", CHECKPOINT: "checkpoint", NOTE: "note"}
_IN_ORDER = {RECORD: 0, NOTE: 1, CHECKPOINT: 2}
"""The order of the kinds of entries that have the same number."""

_SELECT = f"SELECT e.entry, e.day, e.writer, e.kind, e.number, e.key, {short('e.', LOG_ROW_BYTES)}"
_READ = f"{_SELECT} FROM log_entries e"
_READ_ALL = f"{_SELECT}, {SHORT_PROOF} FROM log_entries e"
"""SQL that also reads proofs."""
_READ_ONE = f"SELECT {short()} FROM log_entries WHERE writer = $1 AND kind = $2 AND number = $3 AND day = $4"
_OF_KIND = "{} WHERE e.kind = {} ORDER BY e.writer, e.number"
_OF_NO_KIND = f"{_READ} WHERE e.kind IS NULL OR e.kind NOT IN ({RECORD}, {CHECKPOINT}, {NOTE}) LIMIT 1"
DIGESTS = "CASE WHEN last < first + 32768 AND octet_length(digests) = 32 * (last - first + 1) THEN digests END"
"""SQL: the digests in a row of pruned records, or NULL if the row does not have the right number of them."""
_PRUNED = f"SELECT writer, first, {DIGESTS} FROM log_pruned ORDER BY writer, first"
_WRITERS = "SELECT writer, name, records, left(head, 65) FROM log_writers"
DAYS = (
    "SELECT to_date(right(relname, 8), 'YYYYMMDD') AS day FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid"
    " WHERE inhparent = 'log_entries'::regclass"
)
"""SQL: the days that have a table."""
# Each writer of a day by one index lookup, however many records it has.
_WRITERS_OF = """
WITH RECURSIVE found AS (
  SELECT min(writer) AS writer FROM log_entries WHERE day = $1
  UNION ALL
  SELECT (SELECT min(e.writer) FROM log_entries e WHERE e.day = $1 AND e.writer > found.writer) FROM found
  WHERE found.writer IS NOT NULL)
SELECT writer FROM found WHERE writer IS NOT NULL"""
_OF_A_DAY = f"{_READ} WHERE e.day = $1 AND e.writer = $2 AND e.kind = {RECORD} ORDER BY e.number DESC"
_NEW = f"{_READ} WHERE e.writer = $1 AND e.kind = {RECORD} AND e.number > $2 ORDER BY e.number"
# One index lookup for each, whatever the planner thinks of tables without statistics.
_OPEN = (
    f"{_SELECT} FROM log_open o CROSS JOIN LATERAL (SELECT * FROM log_entries WHERE writer = o.decided_by"
    f" AND kind = {RECORD} AND number = o.number AND day = o.day LIMIT 1) e"
)
# Longer call ids than are possible are not read.
_OPEN_ROWS = (
    f"{_SELECT}, left(o.call, 33), (SELECT h.name FROM log_writers h WHERE h.writer = o.writer AND NOT h.over)"
    " FROM log_open o LEFT JOIN LATERAL (SELECT * FROM log_entries"
    f" WHERE writer = o.decided_by AND kind = {RECORD} AND number = o.number AND day = o.day LIMIT 1) e ON true"
    " ORDER BY o.call LIMIT $1"
)
_LATEST = (
    f"{_SELECT} FROM log_writers w CROSS JOIN LATERAL (SELECT * FROM log_entries WHERE writer = w.writer"
    f" AND kind = {CHECKPOINT} ORDER BY number DESC LIMIT 1) e ORDER BY w.writer"
)
_COVERING = (
    f"{_READ} WHERE e.writer = (SELECT writer FROM log_writers WHERE name = $1) AND e.kind = {CHECKPOINT}"
    " AND e.number >= $2 ORDER BY e.number LIMIT 1"
)
_OF_CALLS = f"{{}} WHERE e.kind = {RECORD} AND {CALL_KEY} >= $1::bytea AND {CALL_KEY} < $2::bytea"
# A sink's position in each chain that is not at its end.
_SHIPPED = """
SELECT * FROM (
  SELECT w.writer, w.name, w.records, w.checkpointed, coalesce(s.record, 0) AS record,
    coalesce(s.checkpoint, 0) AS checkpoint
  FROM log_writers w LEFT JOIN log_sinks s ON s.writer = w.writer AND s.name = $1) each
WHERE records <> record OR checkpointed > checkpoint"""
_OF_CHAIN = f"{_READ} WHERE e.writer = $1 AND e.kind = {{}} AND e.number > $2 ORDER BY e.number LIMIT $3"
_HOLDING = f"{_READ} WHERE position($1::bytea IN e.payload) > 0"
_HOLDING_OF_A_DAY = f"{_HOLDING} AND e.day = $2 ORDER BY e.entry DESC"
_HOLDING_SINCE = (
    f"{_HOLDING} AND e.writer = (SELECT writer FROM log_writers WHERE name = $2) AND e.kind = {RECORD}"
    " AND e.number BETWEEN $3 AND $4 ORDER BY e.number"
)


class _Ordered(NamedTuple):
    """An entry, or why it is damaged; and its sort key: its writer, its number, and the place of its kind among those
    with one number."""

    place: tuple[int, int, int]
    entry: NumberedEntry | AttestationError


class Shipped(NamedTuple):
    """A chain's length (its records, and how many its last checkpoint counts), and a sink's position in it."""

    writer: int
    name: str
    records: int
    checkpointed: int
    record: int
    checkpoint: int

    def from_where(self) -> "Shipped":
        """Return the chain with the position from which to continue: the sink's, or the chain's start if records of it
        were lost."""
        return self if self.record <= self.records else self._replace(record=0, checkpoint=0)


class ChainEntry(NamedTuple):
    """An entry of a chain, with its sort key there."""

    number: int
    rank: int
    entry: NumberedEntry

    @property
    def is_checkpoint(self) -> bool:
        """Whether it is a checkpoint."""
        return self.rank == _IN_ORDER[CHECKPOINT]

    @property
    def is_note(self) -> bool:
        """Whether it is a note of pruning."""
        return self.rank == _IN_ORDER[NOTE]


class LogDatabase(LogReader):
    """The log in a database. It needs a user who may read it."""

    def __init__(self, database: DatabaseAddress, *, patience: float | None = None) -> None:
        """`patience` is how many seconds a statement may take at most; None sets no limit."""
        self.name = database.name
        self._snapshot = Snapshot(database, patience)
        self._names: Mapping[int, object] = {}
        self._keys: Mapping[int, object] = {}

    def renew(self) -> None:
        """Begin a transaction, which shows the current state."""
        try:
            self._snapshot.renew()
            self._names = {writer: name for writer, name, *_ in self._snapshot.rows(_WRITERS)}
            self._keys = {row[0]: row[1] for row in self._snapshot.rows("SELECT key, id FROM log_keys")}
        except AttestationError as error:  # a table is gone
            raise StoreUnavailable(str(error)) from None

    def release(self) -> None:
        """End the transaction."""
        self._snapshot.release()

    def close(self) -> None:
        """Close the connection."""
        self._snapshot.close()

    def count(self) -> int:
        """Return the number of records, according to the writers' rows."""
        ((count,),) = self._snapshot.fetch("SELECT coalesce(sum(records), 0)::bigint FROM log_writers")
        return count

    def heads(self) -> list[Head]:
        """Return the head of each writer's chain."""
        return [head_in(name, records, head) for _, name, records, head in self._snapshot.rows(_WRITERS) if records]

    def entries(self, *, proofs: bool = False) -> Iterator[NumberedEntry]:
        """Yield all entries, chain by chain."""
        for row in self._snapshot.fetch(_OF_NO_KIND):
            yield self._numbered(row)
        read = _READ_ALL if proofs else _READ
        yield from _in_order(self._digests(), *(self._of_kind(kind, read) for kind in _KINDS))

    def summaries(self) -> Iterator[NumberedEntry]:
        """Yield checkpoints and notes of pruning, chain by chain."""
        return _in_order(self._of_kind(CHECKPOINT), self._of_kind(NOTE))

    def latest_checkpoints(self) -> Iterator[NumberedEntry]:
        """Yield the latest checkpoint of each chain that has one."""
        return map(self._numbered, self._snapshot.rows(_LATEST))

    def covering(self, writer: str, sequence: int) -> NumberedEntry | None:
        """Return the first checkpoint that counts a writer's record, or None."""
        return next(map(self._numbered, self._snapshot.fetch(_COVERING, writer, sequence)), None)

    def newest_first(self, before: int | None = None) -> Iterator[NumberedEntry]:
        """Yield all records, newest first, day by day. Those with the number `before` or a greater one are read, but
        not yielded."""
        every = self._newest_first()
        return every if before is None else filter(lambda each: each.number < before, every)

    def _newest_first(self) -> Iterator[NumberedEntry]:
        for day in self._days():
            writers = [writer for (writer,) in self._snapshot.rows(_WRITERS_OF, day)]
            at_a_time = max(1, LOG_ROWS // max(1, len(writers)))
            yield from self._merged([(_OF_A_DAY, day, writer) for writer in writers], at_a_time, reverse=True)

    def position(self) -> object:
        """Return each writer's number of records."""
        return {writer: records for writer, _, records, _ in self._snapshot.rows(_WRITERS) if records}

    def after(self, position: object) -> Iterator[NumberedEntry] | None:
        """Yield the records added after a position. Return None if a writer in it is gone, or has fewer records now."""
        known, now = cast("dict[int, int]", position), cast("dict[int, int]", self.position())
        if any(now.get(writer, 0) < records for writer, records in known.items()):
            return None
        new = [writer for writer, records in now.items() if records > known.get(writer, 0)]
        at_a_time = max(1, LOG_ROWS // max(1, len(new)))
        return self._merged([(_NEW, writer, known.get(writer, 0)) for writer in new], at_a_time)

    def shipped(self, sink: str) -> list[Shipped]:
        """Return the chains with entries that were not sent to a sink yet, each with the sink's position."""
        return [Shipped(*row) for row in self._snapshot.fetch(_SHIPPED, sink)]

    def of_chain(self, chain: Shipped, limit: int) -> list[Iterator[ChainEntry]]:
        """Return iterators over the unsent part of a chain: one for each kind of entry, each in order, and of at most
        `limit` entries."""
        after = {RECORD: chain.record, NOTE: chain.record, CHECKPOINT: chain.checkpoint}
        return [self._placed(chain.writer, kind, number, limit) for kind, number in after.items()]

    def sinks(self) -> list[str]:
        """Return the names of the log's sinks."""
        return [name for (name,) in self._snapshot.rows("SELECT DISTINCT name FROM log_sinks ORDER BY name")]

    def behind(self, sink: str) -> int:
        """Return how many records were not sent to a sink."""
        return sum(chain.records - chain.from_where().record for chain in self.shipped(sink))

    def unsent(self, sink: str) -> NumberedEntry | None:
        """Return an entry that was not sent to a sink: the oldest of the chains' first unsent ones. None if all were
        sent."""
        lacking = (next(heapq.merge(*self.of_chain(chain.from_where(), 1)), None) for chain in self.shipped(sink))
        return min((each.entry for each in lacking if each is not None), key=lambda each: each.number, default=None)

    def _placed(self, writer: int, kind: int, after: int, limit: int) -> Iterator[ChainEntry]:
        for row in self._snapshot.rows(_OF_CHAIN.format(kind), writer, after, limit):
            yield ChainEntry(row[4], _IN_ORDER[kind], self._numbered(row))

    def open_calls(self) -> Iterator[NumberedEntry]:
        """Yield the decisions on open calls."""
        return map(self._numbered, self._snapshot.rows(_OPEN))

    def open_rows(self, most: int) -> Iterator[OpenCall]:
        """Yield the rows of the list of open calls."""
        for *row, call, writer in self._snapshot.rows(_OPEN_ROWS, most):
            yield open_call(call, writer, partial(self._numbered, tuple(row)))

    def holding(self, text: str, since: Bookmark | None = None) -> Iterator[NumberedEntry]:
        """Yield the entries that contain a text, day by day. With `since`, yield the entries of its writer from that
        place on."""
        part = text.encode("utf-8", "surrogatepass")
        if since is not None:
            return map(self._numbered, self._in_chain(part, since))
        days = (self._snapshot.rows(_HOLDING_OF_A_DAY, part, day) for day in self._days())
        return map(self._numbered, itertools.chain.from_iterable(days))

    def _in_chain(self, part: bytes, since: Bookmark) -> Iterator[Row]:
        for (newest,) in self._snapshot.fetch("SELECT records FROM log_writers WHERE name = $1", since.writer):
            for first, last in windows(since.sequence, newest):
                yield from self._snapshot.rows(_HOLDING_SINCE, part, since.writer, first, last)

    def _days(self) -> list[datetime.date]:
        """Return the days that have a table, the latest first."""
        return sorted((day for (day,) in self._snapshot.rows(DAYS)), reverse=True)

    def of_calls(self, prefix: str) -> Iterator[NumberedEntry]:
        """Yield the records of calls whose ids begin with this prefix, with one lookup in each day's index."""
        return map(self._numbered, self._snapshot.rows(_OF_CALLS.format(_READ_ALL), *key_range(prefix)))

    def chains(self) -> Iterator[bytes]:
        """Yield the certificate chains of calls."""
        for (text,) in self._snapshot.rows(SHORT_CERTIFICATES, at_a_time=16):
            yield text if isinstance(text, bytes) else b""

    def certificates(self, sha256: str) -> bytes | None:
        """Return the certificate chain with this SHA-256."""
        for (text,) in self._snapshot.fetch(f"{SHORT_CERTIFICATES} WHERE sha256 = $1", sha256):
            return certificates_in(text)
        return None

    def _of_kind(self, kind: int, read: str = _READ) -> Iterator[_Ordered]:
        rank = _IN_ORDER[kind]
        for row in self._snapshot.rows(_OF_KIND.format(read, kind)):
            if not isinstance(row[2], int) or not isinstance(row[4], int):
                raise AttestationError(NO_PLACE)  # in columns of a table made by hand
            place = (row[2], row[4], rank)
            try:
                entry = self._numbered(row)
            except AttestationError as error:
                yield _Ordered(place, error)
            else:
                yield _Ordered(place, entry)

    def _digests(self) -> Iterator[_Ordered]:
        for writer, first, digests in self._snapshot.rows(_PRUNED, at_a_time=8):
            if not isinstance(writer, int) or not isinstance(first, int):
                raise AttestationError(NO_PLACE)
            name = self._names.get(writer)
            if not isinstance(name, str) or not isinstance(digests, bytes):
                error = damage_error(f"{name}/{first}") if isinstance(name, str) else AttestationError(NO_PLACE)
                yield _Ordered((writer, first, 0), error)
                continue
            for place in range(len(digests) // 32):
                digest = Digest(name, first + place, digests[32 * place : 32 * (place + 1)])
                yield _Ordered((writer, first + place, 0), NumberedEntry(0, digest))

    def _merged(
        self, queries: list[tuple[Any, ...]], at_a_time: int, *, reverse: bool = False
    ) -> Iterator[NumberedEntry]:
        """Yield records of several chains in the order in which they came; with `reverse`, the newest first."""
        each = [map(self._numbered, self._snapshot.rows(*query, at_a_time=at_a_time)) for query in queries]
        return heapq.merge(*each, key=_order, reverse=reverse)

    def _numbered(self, row: Row) -> NumberedEntry:
        entry, day, writer, kind, number, key, payload, ed25519, ml_dsa_65, members, *proof = row
        if not isinstance(entry, int):
            raise AttestationError(NO_PLACE)
        if payload is None:
            payload, ed25519, ml_dsa_65, members = self._alone(writer, kind, number, day)
        if kind not in _KINDS:
            raise damage_error(f"{self._names.get(writer)}/{number}")
        name, key_id = self._names.get(writer), self._keys.get(key)
        row = entry, name, number, key_id, payload, ed25519, ml_dsa_65, members, *proof
        return read_entry(*row, kind=_KINDS[kind])

    def _alone(self, writer: int, kind: int, number: int, day: datetime.date) -> Row:
        for row in self._snapshot.fetch(_READ_ONE, writer, kind, number, day):
            return row
        raise damage_error(f"{self._names.get(writer)}/{number}")


def _in_order(*sorted_entries: Iterator[_Ordered]) -> Iterator[NumberedEntry]:
    for _, entry in heapq.merge(*sorted_entries, key=_place):
        if isinstance(entry, AttestationError):
            raise entry
        yield entry


def _place(ordered: _Ordered) -> tuple[int, int, int]:
    return ordered.place


def _order(entry: NumberedEntry) -> int:
    return entry.number
