"""Many connections that spend and count at once, and a server that fails in the middle: one yes, or none.

What a store promises by itself is in `tests/contract`.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest
from tests.world.postgres import Cluster, tell_clock
from tests.world.stores import NOW, challenge, request

from accredit.errors import ClockSetBack, StoreUnavailable
from accredit.limits import STORE_SWEEP_ROWS
from accredit.ports import ProofStore, RateLimit, Spending
from accredit.stores.lasting import PostgresDatabase
from accredit.stores.postgres import forgetting, worker
from accredit.stores.postgres.forgetting import DATABASE_KEEP_SECONDS, DATABASE_LATE_SECONDS, RowCount
from accredit.stores.postgres.session import run_once
from accredit.stores.postgres.store import PostgresStore

pytestmark = pytest.mark.holds("stores/postgres/store")

FIRST, SPENT = Spending.FIRST, Spending.SPENT
GATEWAYS = 6
IN_SYNC_WAIT = "wait_event = 'SyncRep'"


@contextlib.asynccontextmanager
async def gateways(database: PostgresDatabase, number: int = GATEWAYS) -> AsyncGenerator[list[PostgresStore]]:
    """So many stores, each with a connection of its own."""
    clock = str(NOW)
    stores = [PostgresStore(database, clock=clock) for _ in range(number)]
    await asyncio.gather(*(store.ready() for store in stores))
    try:
        yield stores
    finally:
        for store in stores:
            await store.aclose()


async def spend(store: ProofStore, number: int, hash_: bytes = b"", *, keep_until: int = NOW + 300) -> Spending:
    return await store.spend(challenge(number), hash_ or request(1), issued=False, keep_until=keep_until, now=NOW)


@pytest.mark.holds("stores/postgres/challenges", "batch", "order")
async def test_of_all_who_spend_a_challenge_at_all_gateways_at_once_one_is_the_first(
    database: PostgresDatabase,
) -> None:
    async with gateways(database) as stores:
        for batch in range(10):  # many challenges at once, in another order at each gateway
            numbers = [10 * batch + number for number in range(10)]
            asked = [
                (number, spend(store, number))
                for place, store in enumerate(stores)
                for number in (numbers if place % 2 else reversed(numbers)) for _ in range(2)
            ]  # fmt: skip
            said = await asyncio.gather(*(each for _, each in asked))
            firsts = [number for (number, _), verdict in zip(asked, said, strict=True) if verdict is FIRST]
            assert sorted(firsts) == numbers
            assert set(said) == {FIRST, SPENT}


@pytest.mark.holds("stores/postgres/challenges", "batch")
async def test_who_may_not_spend_a_challenge_takes_it_from_nobody_in_the_same_batch(database: PostgresDatabase) -> None:
    async with gateways(database, 1) as (store,):
        issued = (await store.issue(request(1), expires_at=NOW + 60)).challenge
        verdicts = await asyncio.gather(
            *(
                store.spend(issued, request(number), issued=True, keep_until=NOW + 300, now=NOW)
                for number in (2, 1, 2, 1)
            )
        )
        assert verdicts == [Spending.NOT_ISSUED, FIRST, SPENT, SPENT]


@pytest.mark.holds("stores/postgres/uses", "locks", "snapshot")
async def test_of_all_uses_at_all_gateways_at_once_no_more_are_counted_than_may_be(database: PostgresDatabase) -> None:
    limits = [[RateLimit(name, 60, 10) for name in names] for names in ("ab", "ba", "b")]

    async with gateways(database) as stores:
        said = await asyncio.gather(
            *(store.use(limits[number % 3], now=NOW) for number in range(30) for store in stores)
        )
        used = [limits[place // GATEWAYS % 3] for place, verdict in enumerate(said) if verdict]
        assert sum(len(each) == 2 for each in used) <= len(used) == 10
        assert await stores[0].uses("b", 60, now=NOW) == 10
        assert await stores[0].uses("a", 60, now=NOW) == sum(len(each) == 2 for each in used)


@pytest.mark.holds("stores/postgres/uses", "clock")
async def test_gateways_whose_clocks_differ_count_in_one_window__or_each_would_allow_as_many_at_the_same_moment(
    database: PostgresDatabase,
) -> None:
    limit = RateLimit("one", 6, 3)

    async with gateways(database, 2) as (behind, ahead):
        assert [await behind.use([limit], now=NOW - 5) for _ in range(4)] == [True, True, True, False]
        assert not await ahead.use([limit], now=NOW + 5)
        assert await ahead.uses("one", 6, now=NOW + 5) == 3
        assert await ahead.room_at(limit, now=NOW + 5) == NOW + 5 + 6  # by its own clock


@pytest.mark.holds("stores/postgres/challenges", "repetition")
@pytest.mark.holds("stores/postgres/driver", "notices")
async def test_a_commit_that_no_standby_has_is_no_yes__nor_is_its_repetition(
    database: PostgresDatabase, server: Cluster, no_standby: None
) -> None:
    store = PostgresStore(database, clock=str(NOW))
    spending = asyncio.create_task(spend(store, 1))
    first = await asyncio.to_thread(server.wait_for, IN_SYNC_WAIT)
    await asyncio.to_thread(server.run, f"SELECT pg_cancel_backend({first})")
    # It is committed on this server by now. The repetition writes it again, so it waits for the standby as well.
    second = await asyncio.to_thread(server.wait_for, f"{IN_SYNC_WAIT} AND pid <> {first}")
    assert not spending.done()
    await asyncio.to_thread(server.run, f"SELECT pg_cancel_backend({second})")
    with pytest.raises(StoreUnavailable):
        await spending
    assert not (await asyncio.gather(store.ready(), _cancelled(server, (first, second))))[0]
    await asyncio.to_thread(server.set, "synchronous_standby_names", "''")
    assert await spend(store, 1) is SPENT
    assert await spend(store, 2) is FIRST
    assert await store.ready()
    await store.aclose()


async def _cancelled(server: Cluster, known: tuple[int, ...]) -> None:
    """Cancels the next two waits for a standby."""
    for _ in range(2):
        others = ", ".join(map(str, known))
        pid = await asyncio.to_thread(server.wait_for, f"{IN_SYNC_WAIT} AND pid NOT IN ({others})")
        known = (*known, pid)
        await asyncio.to_thread(server.run, f"SELECT pg_cancel_backend({pid})")


@pytest.mark.holds("stores/postgres/uses", "repetition")
async def test_a_use_whose_answer_is_lost_is_refused_and_counted_at_most_once(
    database: PostgresDatabase, server: Cluster, no_standby: None
) -> None:
    store = PostgresStore(database, clock=str(NOW))
    await asyncio.to_thread(server.set, "synchronous_standby_names", "''")
    assert await store.uses("one", 60, now=NOW) == 0  # since when it knows what was spent is written by then
    await asyncio.to_thread(server.set, "synchronous_standby_names", "'nobody'")
    using = asyncio.create_task(store.use([RateLimit("one", 60, 2)], now=NOW))
    pid = await asyncio.to_thread(server.wait_for, IN_SYNC_WAIT)
    await asyncio.to_thread(server.run, f"SELECT pg_terminate_backend({pid})")
    with pytest.raises(StoreUnavailable):
        await using
    await asyncio.to_thread(server.set, "synchronous_standby_names", "''")
    assert await store.uses("one", 60, now=NOW) == 1
    assert [await store.use([RateLimit("one", 60, 2)], now=NOW) for _ in range(2)] == [True, False]
    await store.aclose()


@pytest.mark.slow
async def test_a_standby_that_does_not_answer_refuses_calls_in_time__and_they_go_on_once_it_is_back(
    database: PostgresDatabase, server: Cluster, no_standby: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = PostgresStore(database, clock=str(NOW))
    monkeypatch.setattr(worker, "STORE_WAIT_SECONDS", 0.3)
    for number in range(3):
        with pytest.raises(StoreUnavailable):
            await spend(store, number)
    assert not await store.ready()
    monkeypatch.setattr(worker, "STORE_WAIT_SECONDS", 40.0)
    await asyncio.to_thread(server.set, "synchronous_standby_names", "''")
    while not await store.ready():  # there may be a pause
        await asyncio.sleep(0.02)
    assert await spend(store, 9) is FIRST
    await store.aclose()


@pytest.mark.holds("stores/postgres/forgetting", "expiry", "late-rows", "latest-end")
async def test_what_has_ended_is_kept_for_clocks_that_differ__and_what_may_be_forgotten_is_never_added(
    database: PostgresDatabase, server: Cluster
) -> None:
    def tell(now: int) -> None:
        run_once(database, lambda connection: tell_clock(connection, now))

    async def swept(store: PostgresStore) -> None:
        worker_ = store.worker
        worker_._tended_at = float("-inf")
        assert await store.ready()

    store = PostgresStore(database, clock="(SELECT at FROM told_clock)")
    tell(NOW)
    assert await spend(store, 1) is FIRST
    tell(NOW + 300 + DATABASE_LATE_SECONDS)
    with pytest.raises(ClockSetBack):
        await spend(store, 2)
    assert await spend(store, 1) is SPENT
    tell(NOW + 300 + DATABASE_KEEP_SECONDS)
    await swept(store)
    assert await spend(store, 1) is SPENT
    tell(NOW + 300 + DATABASE_KEEP_SECONDS + 1)
    await swept(store)
    assert server.run("SELECT count(*) FROM spent", database=database.database) == [(0,)]
    tell(NOW)  # the database's own clock is set back
    with pytest.raises(ClockSetBack):
        await spend(store, 1)
    assert await spend(store, 1, keep_until=NOW + 301) is FIRST
    await store.aclose()


@pytest.mark.holds("stores/postgres/forgetting", "backlog")
async def test_a_table_does_not_grow_though_more_ends_in_a_second_than_is_deleted_at_a_time(
    database: PostgresDatabase, server: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "STORE_TEND_SECONDS", 600.0)
    monkeypatch.setattr(worker, "STORE_TEND_AGAIN_SECONDS", 0.0)
    fill = "INSERT INTO spent SELECT sha256(n::text::bytea), '', 9 FROM generate_series(1, {}) AS n"

    server.run(fill.format(2 * STORE_SWEEP_ROWS + 1), database=database.database)
    store = PostgresStore(database)
    for _ in range(3):
        assert await store.ready()
    assert server.run("SELECT count(*) FROM spent", database=database.database) == [(0,)]
    await store.aclose()


def test_over_some_thousand_rows_their_number_is_the_database_s_estimate(
    database: PostgresDatabase, server: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = RowCount("spent", 100)
    server.run(
        "INSERT INTO spent SELECT sha256(n::text::bytea), '', 9 FROM generate_series(1, 40) AS n",
        database=database.database,
    )
    run_once(database, room.count)
    assert room.left == 60
    monkeypatch.setattr(forgetting, "_FEW", 9)
    server.run("ANALYZE spent", database=database.database)
    run_once(database, room.count)
    assert room.left == 60
    room.add(99)
    assert room.left == 0


async def test_the_gateway_s_role_can_spend__and_can_change_nothing_that_it_only_reads(
    database: PostgresDatabase, server: Cluster
) -> None:
    with contextlib.suppress(StoreUnavailable):
        server.run("CREATE ROLE some_gateway LOGIN IN ROLE accredit_gateway")
    mine = server.named(database.database, "some_gateway")

    async with gateways(mine, 1) as (store,):
        assert await spend(store, 1) is FIRST
        assert await store.use([RateLimit("one", 60, 2)], now=NOW)
        assert (await store.issue(request(1), expires_at=NOW + 60)).challenge
    for forbidden in (
        "UPDATE challenge_key SET key = ''",
        "UPDATE accredit_schema SET version = 2",
        "DELETE FROM revocations",
        "INSERT INTO revocations VALUES ('x', 1, '')",
        "INSERT INTO store_state VALUES ('not_before', 0)",
        "DELETE FROM forgotten",
        "TRUNCATE spent",
        "CREATE TABLE spent2 (x int)",
        "DROP TABLE spent",
    ):
        with pytest.raises(StoreUnavailable, match="42501"):
            server.run(forbidden, database=database.database, user="some_gateway")
