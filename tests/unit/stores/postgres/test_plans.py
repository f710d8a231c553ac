"""How many rows the store's statements read: what a call costs must not grow with what others have called."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.world.postgres import Cluster
from tests.world.records import OK, POLICY, decided, gateway
from tests.world.running import run
from tests.world.stores import NOW, challenge, request

from accredit.ports import RateLimit, Spending, Task
from accredit.stores.audit_log.places import DatabaseLog
from accredit.stores.audit_log.queue import QueuedRecords
from accredit.stores.audit_log.writer import LogThread
from accredit.stores.lasting import PostgresDatabase
from accredit.stores.postgres import worker
from accredit.stores.postgres.driver import Connection
from accredit.stores.postgres.store import PostgresStore
from accredit.stores.postgres.worker import Batch
from accredit.stores.runners import DatabaseRunner
from accredit.stores.tasks import Tasks

pytestmark = [pytest.mark.slow, pytest.mark.holds("stores/postgres/driver")]

MANY = 20_000
CALLS = 8
"""Before the tables grow: from the sixth time on the server keeps a plan."""
FEW = 100
"""Rows that calls may read of a table, each."""
FILL = (
    "INSERT INTO spent SELECT sha256(n::text::bytea), '', {end} FROM generate_series(1, {many}) AS n",
    "INSERT INTO use_series SELECT sha256(n::text::bytea), 60, 1, 1, {end} FROM generate_series(1, {many}) AS n",
    "INSERT INTO uses SELECT sha256(n::text::bytea), 60, 1, 0, {end} FROM generate_series(1, {many}) AS n",
    "INSERT INTO tasks SELECT sha256(n::text::bytea), sha256(n::text::bytea), '', '', '', '', {end}"
    " FROM generate_series(1, {many}) AS n",
)
READ = """
SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables)::bigint,
  (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)::bigint"""


FILL_LOG = (
    "INSERT INTO log_writers (name, gateway, host, records, head, checkpointed, turn, over, beat)"
    " SELECT 'writer ' || n, 'g', 'h', 0, '', 0, 0, true, now() FROM generate_series(1, {many}) AS n",
    "INSERT INTO log_open (call, writer, decided_by, number, day)"
    " SELECT 'call ' || n, 1 + n, 1 + n, 0, current_date FROM generate_series(1, {many}) AS n",
    "INSERT INTO log_delegations SELECT n, '' FROM generate_series(1, {many}) AS n",
)


async def rows_read(connection: Connection, asked: Sequence[None]) -> Sequence[list[int]]:
    await connection.fetch("SELECT pg_stat_force_next_flush()")
    return [list((await connection.fetch(READ))[0])] * len(asked)


async def call(store: PostgresStore, tasks: Tasks, number: int) -> None:
    """Everything that a call may ask for."""
    assert await store.look(challenge(number), request(1), issued=False, now=NOW) is Spending.FIRST
    spent = await store.spend(challenge(number), request(1), issued=False, keep_until=NOW + 300, now=NOW)
    assert spent is Spending.FIRST
    limits = [RateLimit("cert", 60, 10 * CALLS)]
    assert await store.use(limits, now=NOW)
    assert await store.uses("cert", 60, now=NOW)
    task = Task(challenge(number), "tools/call", "pay", b"", "flow")
    assert await tasks.keep(challenge(number), task, keep_until=NOW + 300, now=NOW) == task
    assert await tasks.find(challenge(number), now=NOW) == task
    assert await tasks.owned(challenge(number), now=NOW)


@pytest.mark.holds("stores/postgres/driver", "indexes")
async def test_what_a_call_reads_does_not_grow_with_the_tables__though_its_plans_were_made_while_they_were_empty(
    database: PostgresDatabase, server: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "STORE_TEND_SECONDS", 0.0)  # what has ended is looked for each time
    monkeypatch.setattr(worker, "STORE_CHECK_SECONDS", 600.0)  # but rows are counted once
    server.run("VACUUM ANALYZE", database=database.database)  # the server knows that the tables are empty

    async def read() -> list[int]:
        counting = Batch(rows_read, True)
        await runner.worker.run(counting, None)
        return await store.worker.run(counting, None)

    store, runner = PostgresStore(database, clock=str(NOW)), DatabaseRunner(database, "tasks")
    tasks = Tasks(runner)
    for number in range(CALLS):
        await call(store, tasks, number)
    statements = [each.format(end=NOW + 300, many=MANY) for each in FILL]
    await asyncio.to_thread(server.run, *statements, database=database.database)
    before = await read()
    for number in range(CALLS, 2 * CALLS):
        await call(store, tasks, number)
    by_scan, by_index = (now - then for now, then in zip(await read(), before, strict=True))
    assert by_scan <= CALLS * FEW
    assert by_index <= CALLS * FEW
    for each in (store, tasks):
        await each.aclose()


@pytest.mark.holds("stores/postgres/driver", "indexes")
def test_what_a_record_reads_does_not_grow_with_the_log__the_calls_that_are_open_or_the_writers_that_were(
    database: PostgresDatabase, server: Cluster
) -> None:
    server.run("VACUUM ANALYZE", database=database.database)
    signer, _ = gateway()

    async def main() -> None:
        thread: Any = LogThread(DatabaseLog(database, "g", "h", 60.0), signer)
        records = QueuedRecords(thread, durable=True, policy_digest=POLICY, on_problem=print)
        await records.start()
        for _ in range(CALLS):
            await record(records)
        statements = [each.format(many=MANY) for each in FILL_LOG]
        await asyncio.to_thread(server.run, *statements, database=database.database)
        before = await thread._done(thread._loop, thread._writer._worker.run(Batch(rows_read, True), None))
        for _ in range(CALLS):
            await record(records)
        after = await thread._done(thread._loop, thread._writer._worker.run(Batch(rows_read, True), None))
        by_scan, by_index = (now - then for now, then in zip(after, before, strict=True))
        assert by_scan <= CALLS * FEW
        assert by_index <= CALLS * FEW
        await records.aclose()

    async def record(records: QueuedRecords) -> None:
        call = decided()
        await records.begin(call)
        await records.finish(call, OK)

    run(main())
