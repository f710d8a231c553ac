"""The log in a database: what is written is on the standby, by a writer that lives, in a chain that nobody moved."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.world.logs import place_in
from tests.world.postgres import Cluster
from tests.world.raw_server import until
from tests.world.records import NOW_MS, OK, POLICY, decided, gateway

from accredit.attest import CallDecision, Head
from accredit.errors import StoreUnavailable
from accredit.stores.audit_log.author import CHECKPOINT_RECORDS
from accredit.stores.audit_log.queue import encode_for_turn
from accredit.stores.audit_log.requests import (
    NOT_OPEN,
    AppendEvents,
    Begin,
    CheckWritable,
    CloseCalls,
    Closed,
    End,
    Event,
    Heartbeat,
    Sign,
    Signed,
)
from accredit.stores.audit_log.tables import ChainEnded
from accredit.stores.lasting import PostgresDatabase
from accredit.stores.postgres import worker as module
from accredit.stores.postgres.driver import Connection
from accredit.stores.postgres.log_writer import DatabaseWriter
from accredit.stores.postgres.session import run_once

pytestmark = [
    pytest.mark.holds("stores/postgres/log_tables"),
    pytest.mark.holds("stores/postgres/log_writer"),
]

ONE, OTHER = "ab" * 16, "cd" * 16
_WAITS = "wait_event = 'SyncRep'"


def writer(database: PostgresDatabase) -> DatabaseWriter:
    return DatabaseWriter(place_in(database), gateway()[0])


def turn(number: int, *events: Event, name: str = ONE) -> AppendEvents:
    return AppendEvents(name, number, [encode_for_turn(event) for event in events])


def begun(*calls: CallDecision) -> list[Event]:
    return [Event(call, NOW_MS) for call in calls]


def ended(*calls: CallDecision) -> list[Event]:
    return [Event(call, NOW_MS, OK) for call in calls]


def numbers(server: Cluster, database: PostgresDatabase) -> list[Any]:
    return server.run(
        "SELECT name, kind, number FROM log_entries JOIN log_writers USING (writer) ORDER BY entry",
        database=database.database,
    )


def opened(server: Cluster, database: PostgresDatabase) -> Sequence[Any]:
    return server.run("SELECT call FROM log_open", database=database.database)


@pytest.mark.holds("stores/postgres/driver", "notices")
@pytest.mark.holds("stores/postgres/log_writer", "failure")
async def test_a_wait_for_the_standby_that_somebody_cancels_is_no_record(
    database: PostgresDatabase, server: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STORE_WAIT_SECONDS", 60.0)

    each, call = writer(database), decided()
    await each.run(Begin(ONE))
    await each.run(turn(1, *begun(decided())))
    server.set("synchronous_standby_names", "'nobody'")
    try:
        writing = asyncio.create_task(each.run(turn(2, *begun(call))))
        pid = await asyncio.to_thread(server.wait_for, _WAITS)
        server.run(f"SELECT pg_cancel_backend({pid})")
        with pytest.raises(StoreUnavailable, match="not certain"):
            await writing
    finally:
        server.set("synchronous_standby_names", "''")
    # It was written here all the same: the next turn goes on behind it.
    assert await each.run(turn(3, *ended(call))) == [None]
    await each.aclose()
    assert numbers(server, database) == [(ONE, 0, 1), (ONE, 0, 2), (ONE, 0, 3)]


@pytest.mark.slow
def test_a_log_goes_on_while_somebody_holds_the_lock_under_which_days_are_made__any_user_can(
    database: PostgresDatabase,
) -> None:
    async def hold(connection: Connection) -> None:
        await connection.fetch("SELECT pg_advisory_lock(hashtext('accredit log_make_days'))")
        each = writer(database)
        await each.run(Begin(ONE))
        assert await each.run(turn(1, *begun(decided()))) == [None]
        await each.aclose()

    run_once(database, hold)


@pytest.mark.slow
async def test_a_turn_that_was_written_before_waits_for_the_standby_like_any_other(
    database: PostgresDatabase, server: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = writer(database)
    await each.run(Begin(ONE))
    asked = turn(1, *begun(decided()))
    await each.run(asked)
    monkeypatch.setattr(module, "STORE_WAIT_SECONDS", 0.3)
    server.set("synchronous_standby_names", "'nobody'")
    try:
        for again in (asked, CheckWritable(ONE)):
            with pytest.raises(StoreUnavailable):
                await each.run(again)
    finally:
        server.set("synchronous_standby_names", "''")
    monkeypatch.undo()
    await until_answered(each, asked)
    await each.aclose()
    assert numbers(server, database) == [(ONE, 0, 1)]


async def until_answered(each: DatabaseWriter, request: Any) -> Any:
    async with asyncio.timeout(60):
        while True:
            try:
                return await each.run(request)
            except StoreUnavailable:
                await asyncio.sleep(0.05)  # a pause, after failures


@pytest.mark.holds("stores/postgres/log_tables", "chain-end")
async def test_a_writer_that_was_ended_by_another_one_adds_nothing__also_not_on_what_it_has_read(
    database: PostgresDatabase, server: Cluster
) -> None:
    one, other, call = writer(database), writer(database), decided()
    for each, name in ((one, ONE), (other, OTHER)):
        await each.run(Begin(name))
    await one.run(turn(1, *begun(call)))
    assert await other.run(CloseCalls(OTHER, ONE, NOW_MS, POLICY)) == Closed(None)
    assert await other.run(Sign(OTHER, ONE, NOW_MS)) == Signed(Head(ONE, 1, (await head_of(server, database))))
    assert await other.run(End(OTHER, ONE))
    for late in (
        turn(2, *ended(call)),
        turn(2, *begun(decided())),
        CheckWritable(ONE),
        Heartbeat(ONE),
        Sign(ONE, ONE, NOW_MS),
    ):
        with pytest.raises(ChainEnded):
            await one.run(late)
    assert await other.run(turn(1, *ended(call), name=OTHER)) == [NOT_OPEN]
    await one.aclose()
    await other.aclose()
    assert numbers(server, database) == [(ONE, 0, 1), (OTHER, 0, 1), (ONE, 1, 1)]


async def head_of(server: Cluster, database: PostgresDatabase) -> str:
    return server.run(f"SELECT head FROM log_writers WHERE name = '{ONE}'", database=database.database)[0][0]


@pytest.mark.holds("stores/postgres/log_tables", "chain-end")
@pytest.mark.holds("stores/postgres/log_writer", "chain-moved")
async def test_an_outcome_of_a_call_that_was_closed_meanwhile_is_an_error__and_the_rest_of_its_turn_is_written(
    database: PostgresDatabase, server: Cluster
) -> None:
    one, other = writer(database), writer(database)
    calls = [decided() for _ in range(3)]
    await one.run(Begin(ONE))
    await other.run(Begin(OTHER))
    await one.run(turn(1, *begun(*calls)))
    server.run(f"DELETE FROM log_open WHERE call = '{calls[1].call.id}'", database=database.database)
    assert await one.run(turn(2, *ended(*calls))) == [None, NOT_OPEN, None]
    assert opened(server, database) == []
    await one.aclose()
    await other.aclose()
    assert numbers(server, database) == [(ONE, 0, number) for number in range(1, 6)]


@pytest.mark.holds("stores/postgres/log_tables", "atomicity", "cache")
async def test_two_processes_with_one_chain_do_not_fork_it(database: PostgresDatabase, server: Cluster) -> None:
    """A log process that hung was replaced, and what it was at comes later."""

    hung, next_one = writer(database), writer(database)
    await hung.run(Begin(ONE))
    await hung.run(turn(1, *begun(decided())))
    for number in range(2, 12):
        each = next_one if number % 2 else hung
        assert await each.run(turn(number, *begun(decided()))) == [None]
    await hung.aclose()
    await next_one.aclose()
    assert numbers(server, database) == [(ONE, 0, number) for number in range(1, 12)]


@pytest.mark.holds("stores/postgres/log_tables", "dead-writers")
async def test_a_writer_is_dead_that_is_silent_and_holds_no_lock__not_one_of_which_only_one_is_true(
    database: PostgresDatabase, server: Cluster
) -> None:
    silent = f"UPDATE log_writers SET beat = beat - interval '1 hour' WHERE name = '{ONE}'"
    one, other = writer(database), writer(database)
    await one.run(Begin(ONE))
    await other.run(Begin(OTHER))
    server.run(silent, database=database.database)
    await asyncio.sleep(place_in(database).silent_seconds)  # it has to be connected as long
    assert (await other.run(Heartbeat(OTHER))).found == []  # it is silent, and connected
    assert (await one.run(Heartbeat(ONE))).found == []
    await one.aclose()
    server.run(
        f"UPDATE log_writers SET beat = beat + interval '1 hour' WHERE name = '{ONE}'", database=database.database
    )
    assert (await other.run(Heartbeat(OTHER))).found == []  # it is not connected, and was a moment ago
    server.run(silent, silent, database=database.database)
    assert (await other.run(Heartbeat(OTHER))).found == [ONE]
    third = writer(database)
    await third.run(Begin("ef" * 16))
    await asyncio.sleep(place_in(database).silent_seconds)
    assert (await third.run(Heartbeat("ef" * 16))).found == []  # somebody is at it
    assert await other.run(End(OTHER, ONE))
    assert (await other.run(Heartbeat(OTHER))).found == []
    await other.aclose()
    await third.aclose()


@pytest.mark.holds("stores/postgres/log_writer", "lock")
async def test_a_writer_whose_connection_was_lost_has_its_lock_again_with_its_next_request(
    database: PostgresDatabase, server: Cluster
) -> None:
    each = writer(database)
    await each.run(Begin(ONE))
    ((before,),) = locks(server, database)
    server.run(f"SELECT pg_terminate_backend({before})")
    await until_answered(each, turn(1, *begun(decided())))
    ((after,),) = locks(server, database)
    assert after != before
    await each.aclose()
    await until(lambda: locks(server, database) == [])
    each = writer(database)  # the process that was in its place was killed
    await each.run(turn(2, *begun(decided())))
    assert len(locks(server, database)) == 1
    await each.aclose()
    await until(lambda: locks(server, database) == [])


def locks(server: Cluster, database: PostgresDatabase) -> list[Any]:
    return server.run(
        "SELECT pid FROM pg_locks JOIN pg_database d ON d.oid = database WHERE locktype = 'advisory'"
        f" AND datname = '{database.database}'"
    )


async def test_a_new_day_needs_nobody(database: PostgresDatabase, server: Cluster) -> None:
    """The tables of the days that were made are gone: a gateway makes others, within the turn that needs one."""

    each = writer(database)
    await each.run(Begin(ONE))
    parts = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'log_entries'::regclass"
    days = [name for (name,) in server.run(parts, database=database.database)]
    server.run(*(f"DROP TABLE {day}" for day in days), database=database.database)
    assert await each.run(turn(1, *begun(decided()))) == [None]
    await each.aclose()
    assert numbers(server, database) == [(ONE, 0, 1)]


async def test_a_certificate_chain_is_sent_once_and_kept_once(database: PostgresDatabase, server: Cluster) -> None:
    one, other = writer(database), writer(database)
    calls = [decided(certificates=b'["a"]'), decided(certificates=b'["b"]'), decided(certificates=b'["a"]')]
    await one.run(Begin(ONE))
    await other.run(Begin(OTHER))
    await asyncio.gather(
        *(one.run(turn(number, *begun(calls[number]))) for number in range(1, 3)),
        *(other.run(turn(number, *begun(decided(certificates=b'["a"]')), name=OTHER)) for number in range(1, 3)),
    )
    await one.aclose()
    await other.aclose()
    kept = server.run("SELECT certificates FROM log_delegations", database=database.database)
    assert sorted(row[0] for row in kept) == [b'["a"]', b'["b"]']


async def test_a_chain_has_its_checkpoint_after_so_many_records(database: PostgresDatabase, server: Cluster) -> None:
    each = writer(database)
    await each.run(Begin(ONE))
    for number in range(1, 6):
        await each.run(turn(number, *begun(*(decided() for _ in range(CHECKPOINT_RECORDS // 4)))))
    await each.aclose()
    checkpoints = [row for row in numbers(server, database) if row[1] == 1]
    assert checkpoints == [(ONE, 1, CHECKPOINT_RECORDS)]
