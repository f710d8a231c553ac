"""Batches on one connection, and what is said when that fails."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.world.postgres import Cluster

from accredit.errors import ClockSetBack, StoreUnavailable
from accredit.stores.lasting import PostgresDatabase
from accredit.stores.postgres import worker as module
from accredit.stores.postgres.address import DatabaseHost
from accredit.stores.postgres.driver import Connection
from accredit.stores.postgres.schema import VERSION
from accredit.stores.postgres.worker import Batch, Worker

pytestmark = pytest.mark.holds("stores/postgres/worker")


class Doubling:
    """Doubles numbers in the database, and remembers in which batches."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.before: list[str] = []

    async def ask(self, connection: Connection, asked: Sequence[int]) -> Sequence[int]:
        self.batches.append(list(asked))
        for statement in self.before:
            await connection.fetch(statement)
        rows = await connection.fetch("SELECT 2 * n FROM unnest($1::int[]) AS n", list(asked))
        return [row[0] for row in rows]


async def test_what_waits_is_asked_together__each_kind_by_itself__and_in_its_order(database: PostgresDatabase) -> None:
    worker, one, two = Worker(database), Doubling(), Doubling()
    kinds = Batch(one.ask, True), Batch(two.ask, True)
    said = await asyncio.gather(*(worker.run(kinds[number % 2], number) for number in range(20)))
    assert said == [2 * number for number in range(20)]
    assert [sum(map(len, each.batches)) for each in (one, two)] == [10, 10]
    assert len(one.batches) + len(two.batches) <= 4
    await worker.aclose()
    with pytest.raises(StoreUnavailable, match="closed"):
        await worker.run(kinds[0], 1)


async def test_an_error_for_one_is_nobody_else_s(database: PostgresDatabase) -> None:
    async def refuse_odd(connection: Connection, asked: Sequence[int]) -> Sequence[int | ClockSetBack]:
        await connection.fetch("SELECT 1")
        return [ClockSetBack(each) if each % 2 else each for each in asked]

    worker = Worker(database)
    kind = Batch(refuse_odd, True)
    said = await asyncio.gather(*(worker.run(kind, number) for number in range(4)), return_exceptions=True)
    assert [isinstance(each, ClockSetBack) for each in said] == [False, True, False, True]
    await worker.aclose()


@pytest.mark.holds("stores/postgres/worker", "safety")
async def test_nothing_is_asked_over_a_connection_that_is_not_safe__nor_when_it_is_no_more(
    database: PostgresDatabase, server: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, asked = Worker(database), Doubling()
    kind = Batch(asked.ask, True)
    assert await worker.run(kind, 1) == 2
    monkeypatch.setattr(module, "STORE_CHECK_SECONDS", 0.0)
    await asyncio.to_thread(server.run, "UPDATE accredit_schema SET version = 9", database=database.database)
    with pytest.raises(StoreUnavailable, match="another accredit"):
        await worker.run(kind, 2)
    assert asked.batches == [[1]]
    await asyncio.to_thread(server.run, f"UPDATE accredit_schema SET version = {VERSION}", database=database.database)
    assert await worker.run(kind, 3) == 6
    await worker.aclose()


@pytest.mark.holds("stores/postgres/worker", "failure")
@pytest.mark.parametrize("repeatable", [True, False])
async def test_what_was_lost_in_the_middle_is_repeated_once_or_refused__and_the_next_is_asked_over_another_connection(
    repeatable: bool, database: PostgresDatabase
) -> None:
    worker, asked = Worker(database), Doubling()
    kind = Batch(asked.ask, repeatable)
    assert await worker.run(kind, 1) == 2
    asked.before = ["SELECT pg_terminate_backend(pg_backend_pid())"]
    with pytest.raises(StoreUnavailable):
        await worker.run(kind, 2)
    assert asked.batches == [[1], [2], [2]] if repeatable else [[1], [2]]
    asked.before = []
    assert await worker.run(kind, 3) == 6
    await worker.aclose()


async def test_a_connection_that_was_lost_while_nobody_asked_costs_nobody_a_call(
    database: PostgresDatabase, server: Cluster
) -> None:
    worker, asked = Worker(database), Doubling()
    kind = Batch(asked.ask, True)
    await worker.run(kind, 1)
    mine = f"datname = '{database.database}' AND application_name = 'accredit' AND pid <> pg_backend_pid()"
    await asyncio.to_thread(server.run, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {mine}")
    assert await worker.run(kind, 2) == 4
    await worker.aclose()


@pytest.mark.holds("stores/postgres/worker", "pause")
async def test_a_database_that_is_gone_is_not_asked_again_for_each_call(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[PostgresDatabase] = []
    real = module.open_session

    async def counted(database: PostgresDatabase, latest: int) -> object:
        attempts.append(database)
        return await real(database, latest)

    monkeypatch.setattr(module, "open_session", counted)
    monkeypatch.setattr(module, "STORE_PAUSE_SECONDS", (0.0, 600.0))
    gone = PostgresDatabase((DatabaseHost("/nowhere", 5432),), "db")

    worker = Worker(gone)
    for _ in range(5):
        with pytest.raises(StoreUnavailable):
            await worker.run(Batch(Doubling().ask, True), 1)
    assert len(attempts) == 2
    await worker.aclose()


@pytest.mark.holds("stores/postgres/worker", "bounds")
async def test_no_call_waits_longer_than_it_may_nor_do_more_wait_than_may(
    database: PostgresDatabase, server: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, asked = Worker(database), Doubling()
    kind = Batch(asked.ask, True)
    await worker.run(kind, 1)
    monkeypatch.setattr(module, "STORE_WAIT_SECONDS", 0.2)
    monkeypatch.setattr(module, "MAX_STORE_JOBS", 3)
    asked.before = ["SELECT pg_sleep(600)"]
    said = await asyncio.gather(*(worker.run(kind, number) for number in range(9)), return_exceptions=True)
    assert all(isinstance(each, StoreUnavailable) for each in said)
    assert sum("questions are waiting" in str(each) for each in said) == 6
    asked.before = []
    monkeypatch.setattr(module, "STORE_WAIT_SECONDS", 40.0)
    while True:  # there may be a pause
        try:
            assert await worker.run(kind, 3) == 6
            break
        except StoreUnavailable:
            await asyncio.sleep(0.02)
    await worker.aclose()
    await asyncio.to_thread(
        server.run, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    )


async def test_two_event_loops_do_not_share_a_connection(database: PostgresDatabase) -> None:
    worker = Worker(database)

    async def ask() -> int:
        return await worker.run(Batch(Doubling().ask, True), 1)

    assert await ask() == 2
    with pytest.raises(StoreUnavailable, match="event loop"):
        await asyncio.to_thread(asyncio.run, ask())
    await worker.aclose()
