"""Reads the log in a PostgreSQL database for a sink, a receiver of its entries. Blocking.

The sink's position has, for each writer, the last record and the last checkpoint that were sent. A single number would
not be enough: entries of one chain are committed in order, but those of different chains in any order. The sink's
process holds a lock, which ends with its session.
"""

import heapq
from typing import NamedTuple

from accredit.attest import Stored
from accredit.errors import StoreUnavailable
from accredit.stores.audit_log.shipping import SINK_BATCH, Batch, BatchBuilder, Sink, is_followed, readable
from accredit.stores.postgres.address import DatabaseAddress
from accredit.stores.postgres.driver import Connection
from accredit.stores.postgres.log_reader import LogDatabase, Shipped
from accredit.stores.postgres.session import check_schema
from accredit.stores.postgres.snapshot import Blocking

_LOCK = "SELECT pg_try_advisory_lock(hashtext('accredit log sink'), hashtext($1))"
# For the writers that were read, and not for others with their numbers in a database that replaced this one.
_MOVE = """
INSERT INTO log_sinks (name, writer, record, checkpoint)
SELECT $1, w.writer, n.record, n.checkpoint FROM unnest($2::bigint[], $3::text[], $4::bigint[], $5::bigint[])
  AS n (writer, writer_name, record, checkpoint)
JOIN log_writers w ON w.writer = n.writer AND w.name = n.writer_name AND w.records >= n.record
ON CONFLICT (name, writer) DO UPDATE SET record = EXCLUDED.record, checkpoint = EXCLUDED.checkpoint"""


class _To(NamedTuple):
    writer: int
    name: str
    record: int
    checkpoint: int


class DatabaseSink(Sink):
    """One sink, by name, of the log in a database."""

    def __init__(self, database: DatabaseAddress, name: str) -> None:
        self._name = name
        self._log = LogDatabase(database)
        self._link = Blocking(database)
        self._locked: Connection | None = None
        self._last = 0

    def open(self) -> None:
        """Take the sink's lock."""
        if not self._link.run(self._hold):
            raise is_followed(self._name)

    def close(self) -> None:
        """Release the sink."""
        self._log.close()
        self._link.close()

    async def _hold(self, connection: Connection) -> bool:
        if connection is not self._locked:  # the lock was lost with the previous connection
            await check_schema(connection)
            ((is_ours,),) = await connection.fetch(_LOCK, self._name)
            self._locked = connection if is_ours else None
        return self._locked is not None

    def take(self) -> Batch:
        """Return the next batch. It is filled from one chain after the other, so that none has to wait for ever."""
        if not self._link.run(self._hold):
            raise StoreUnavailable(f"sink {self._name} is followed by another process meanwhile")
        try:
            self._log.renew()
            filling, moved, notes = BatchBuilder(), list[_To](), list[str]()
            for chain in sorted(
                self._log.shipped(self._name), key=lambda each: (each.writer <= self._last, each.writer)
            ):
                if filling.is_full:
                    break
                if chain.records < chain.record:
                    notes.append(f"{chain.name} has lost records, and is sent from its beginning")
                chain = chain.from_where()
                moved.append(self._fill(chain, filling))
            self._last = moved[-1].writer if moved else 0
            return Batch(tuple(filling.envelopes), filling.pruned, moved or None, filling.is_full, "; ".join(notes))
        finally:
            self._log.release()

    def _fill(self, chain: Shipped, filling: BatchBuilder) -> _To:
        """Add a chain's unsent entries to a batch. Return the position after them."""
        record, checkpoint = chain.record, chain.checkpoint
        found = self._log.of_chain(chain, SINK_BATCH + 1)
        for each in readable(heapq.merge(*found), filling):
            if filling.is_full:
                return _To(chain.writer, chain.name, record, checkpoint)
            number = each.number
            if each.is_checkpoint:
                checkpoint = number
            else:
                # Records missing before this one were pruned; so was the one in whose place a note stands.
                filling.pruned += number - record - 1 + each.is_note
                record = number
            if isinstance(each.entry.entry, Stored):
                filling.add(each.entry.entry.envelope)
        if filling.stopped:
            return _To(chain.writer, chain.name, record, checkpoint)
        filling.pruned += chain.records - record  # pruned without a note
        return _To(chain.writer, chain.name, chain.records, max(checkpoint, chain.checkpointed))

    def taken(self, batch: Batch) -> None:
        """Advance the position, in one statement."""
        moved = batch.to
        if not moved:
            return

        async def move(connection: Connection) -> None:
            if await self._hold(connection):
                await connection.fetch(_MOVE, self._name, *map(list, zip(*moved, strict=True)))

        self._link.run(move)
