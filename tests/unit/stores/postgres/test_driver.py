"""One connection: what its failures mean, on a real server."""

import asyncio
import sys
from pathlib import Path

import pytest
from tests.world.postgres import Cluster

from accredit.errors import ClockSetBack, ConfigurationError
from accredit.stores import parse_store_url
from accredit.stores.lasting import PostgresDatabase
from accredit.stores.postgres.driver import Connection, DatabaseFailed, connect

pytestmark = pytest.mark.holds("stores/postgres/driver")


async def opened(database: PostgresDatabase) -> Connection:
    return await connect(database, database.hosts[0])


@pytest.mark.holds("stores/postgres/driver", "notices")
@pytest.mark.parametrize("level", ["NOTICE", "WARNING"])
async def test_a_notice_is_no_success__as_it_may_say_that_no_standby_has_it(
    level: str, database: PostgresDatabase
) -> None:
    connection = await opened(database)
    with pytest.raises(DatabaseFailed, match="not certain"):
        await connection.fetch(f"DO $$ BEGIN RAISE {level} 'canceling wait'; END $$")
    assert connection.lost


@pytest.mark.holds("stores/postgres/driver", "cancellation")
async def test_a_statement_whose_caller_gives_up_is_not_cancelled__its_connection_is_closed(
    database: PostgresDatabase, server: Cluster
) -> None:
    connection = await opened(database)
    ((pid,),) = await connection.fetch("SELECT pg_backend_pid()")
    asking = asyncio.create_task(connection.fetch("SELECT pg_sleep(600)"))
    asleep = f"pid = {pid} AND wait_event = 'PgSleep'"
    await asyncio.to_thread(server.wait_for, asleep)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert connection.lost
    with pytest.raises(DatabaseFailed):
        await connection.fetch("SELECT 1")
    assert server.run(f"SELECT count(*) FROM pg_stat_activity WHERE {asleep}") == [(1,)]
    server.run(f"SELECT pg_terminate_backend({pid})")


async def test_that_the_server_has_ended_a_connection_between_two_statements_is_said_plainly(
    database: PostgresDatabase, server: Cluster
) -> None:
    connection = await opened(database)
    ((pid,),) = await connection.fetch("SELECT pg_backend_pid()")
    await connection.fetch("SELECT 1")
    server.run(f"SELECT pg_terminate_backend({pid})")  # here, so that nothing of it is read before the next statement
    while server.run(f"SELECT pid FROM pg_stat_activity WHERE pid = {pid}"):
        pass
    with pytest.raises(DatabaseFailed) as failed:
        await connection.fetch("SELECT 1")
    assert "another operation" not in str(failed.value)
    assert connection.lost


@pytest.mark.holds("stores/postgres/driver", "secrecy")
async def test_no_failure_says_what_was_asked_with__nor_a_password(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = await opened(database)
    await connection.fetch("INSERT INTO forgotten VALUES ('hunter2', 1)")
    for statement, value in (
        ("INSERT INTO forgotten VALUES ($1, 1)", "hunter2"),
        ("SELECT $1::int", "hunter2"),
        ("SELECT nothing FROM nowhere WHERE x = $1", "hunter2"),
    ):
        with pytest.raises(DatabaseFailed) as failed:
            await connection.fetch(statement, value)
        assert "hunter2" not in str(failed.value)
        assert database.name in str(failed.value)
    await connection.aclose()
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    with pytest.raises(DatabaseFailed) as failed:
        await connect(PostgresDatabase(database.hosts, "no such database", "nobody at all"), database.hosts[0])
    assert "hunter2" not in str(failed.value)


async def refused_within(connection: Connection) -> None:
    async with connection.transaction():
        await connection.fetch("INSERT INTO forgotten VALUES ('spent', 1)")
        raise ClockSetBack(1)


async def test_a_transaction_that_is_refused_leaves_nothing(database: PostgresDatabase) -> None:
    connection = await opened(database)
    with pytest.raises(ClockSetBack):
        await refused_within(connection)
    assert await connection.fetch("SELECT * FROM forgotten") == []
    async with connection.transaction():
        await connection.fetch("INSERT INTO forgotten VALUES ('spent', 1)")
    assert len(await connection.fetch("SELECT * FROM forgotten")) == 1
    await connection.aclose()


def test_without_asyncpg_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(ConfigurationError) as refused:
        parse_store_url("postgresql://u@127.0.0.1/db", Path()).open()
    assert "accredit[postgres]" in refused.value.remedy
