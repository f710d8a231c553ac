"""The tables of a database, and what the gateway's role may do to them: it adds to the log, and can't rewrite it."""

import asyncio
from collections.abc import Generator

import pytest
from tests.world.postgres import Cluster

from accredit.errors import StoreUnavailable
from accredit.stores.lasting import PostgresDatabase
from accredit.stores.postgres.driver import Connection, Row
from accredit.stores.postgres.migration import migrate
from accredit.stores.postgres.schema import LOG_DAYS_AHEAD
from accredit.stores.postgres.session import run_once

pytestmark = pytest.mark.slow

WRITER = (
    "INSERT INTO log_writers (name, gateway, host, records, head, checkpointed, turn, over, beat)"
    " VALUES ('w', 'g', 'h', 0, '', 0, 0, false, now())"
)
ENTRY = "INSERT INTO log_entries (day, writer, kind, number, key, payload, ed25519) VALUES ({}, 1, 0, 1, 1, 'p', 's')"
TODAY = "(now() AT TIME ZONE 'UTC')::date"


@pytest.fixture
def gateway(server: Cluster, database: PostgresDatabase) -> Generator[str]:
    """A user with the gateway's role."""
    server.run("CREATE ROLE a_gateway LOGIN IN ROLE accredit_gateway")
    yield "a_gateway"
    server.run("DROP ROLE a_gateway")


def entries(server: Cluster, database: PostgresDatabase) -> list[Row]:
    return server.run("SELECT payload FROM log_entries", database=database.database)


def days(server: Cluster, database: PostgresDatabase) -> list[str]:
    parts = "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'log_entries'::regclass"
    return sorted(name for (name,) in server.run(parts, database=database.database))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log_entries SET payload = 'x'",
        "DELETE FROM log_entries",
        "TRUNCATE log_entries",
        "DROP TABLE log_entries",
        "ALTER TABLE log_entries DISABLE TRIGGER ALL",
        "UPDATE {day} SET payload = 'x'",
        "DELETE FROM {day}",
        "TRUNCATE {day}",
        "DROP TABLE {day}",
        "ALTER TABLE log_entries DETACH PARTITION {day}",
        "INSERT INTO {day} SELECT * FROM log_entries",
        "CREATE RULE r AS ON INSERT TO log_entries DO INSTEAD NOTHING",
        "CREATE TABLE log_entries_mine PARTITION OF log_entries DEFAULT",
        "CREATE OR REPLACE FUNCTION log_make_days() RETURNS void LANGUAGE sql AS 'DELETE FROM log_entries'",
        "SELECT setval('log_entry', 1)",
        "UPDATE log_keys SET id = 'x'",
        "DELETE FROM log_keys",
        "DELETE FROM log_writers",
        "UPDATE log_writers SET name = 'x'",
        "UPDATE log_delegations SET certificates = 'x'",
        "DELETE FROM log_delegations",
        "INSERT INTO log_pruned VALUES (1, 1, 1, 'd')",
        "UPDATE log_open SET number = 2",
        "UPDATE accredit_schema SET version = 1",
        "INSERT INTO log_entries (entry, day, writer, kind, number, key, payload, ed25519)"
        " VALUES (-9223372036854775808, now(), 1, 0, 2, 1, 'p', 's')",
        "INSERT INTO log_keys (key, id) OVERRIDING SYSTEM VALUE VALUES (9, 'x')",
        "INSERT INTO log_writers OVERRIDING SYSTEM VALUE VALUES (9, 'x', 'g', 'h', 0, '', 0, 0, false, now())",
        "UPDATE log_writers SET gateway = 'x'",
        "UPDATE spent SET owner = 'x'",
        "UPDATE tasks SET key = 'x'",
        "UPDATE log_sinks SET name = 'x'",
    ],
)
def test_a_gateways_role_can_not_rewrite_history(
    server: Cluster, database: PostgresDatabase, gateway: str, statement: str
) -> None:
    server.run(WRITER, ENTRY.format(TODAY), database=database.database, user=gateway)
    with pytest.raises(StoreUnavailable, match=r"permission denied|must be owner"):
        server.run(statement.format(day=days(server, database)[0]), database=database.database, user=gateway)
    assert entries(server, database) == [(b"p",)]


@pytest.mark.parametrize(
    ("is_over", "change"),
    [
        (True, "over = false"),
        (True, "records = 9, head = 'x'"),
        (True, "beat = 'epoch'"),
        (False, "records = 4"),
        (False, "head = 'x'"),
    ],
)
def test_a_gateways_role_can_not_take_a_chain_back__nor_go_on_with_one_that_has_ended(
    server: Cluster, gateway: str, is_over: bool, change: str
) -> None:
    database = server.fresh()
    server.run(WRITER, database=database.database, user=gateway)
    server.run(f"UPDATE log_writers SET records = 5, over = {is_over}", database=database.database, user=gateway)
    with pytest.raises(StoreUnavailable, match="permission denied"):
        server.run(f"UPDATE log_writers SET {change}", database=database.database, user=gateway)
    server.run(f"UPDATE log_writers SET {change}", database=database.database)  # an administrator may


def test_a_role_that_had_more_rights_has_what_a_gateway_needs_once_the_tables_are_migrated(
    server: Cluster, gateway: str
) -> None:
    database = server.fresh()
    server.run("GRANT INSERT, UPDATE ON log_writers, log_entries TO accredit_gateway", database=database.database)
    server.run(WRITER, ENTRY.format(TODAY), database=database.database, user=gateway)
    rewriting = "UPDATE log_entries SET payload = 'x'"
    server.run(rewriting, database=database.database, user=gateway)
    assert migrate(database).left_over == ()
    with pytest.raises(StoreUnavailable, match="permission denied"):
        server.run(rewriting, database=database.database, user=gateway)


def test_only_those_with_a_role_of_ours_make_tables(server: Cluster, database: PostgresDatabase) -> None:
    server.run("CREATE ROLE somebody LOGIN")
    try:
        with pytest.raises(StoreUnavailable, match="permission denied for function"):
            server.run("SELECT log_make_days()", database=database.database, user="somebody")
    finally:
        server.run("DROP ROLE somebody")


def test_a_log_that_runs_for_a_year_does_not_run_out_of_days(server: Cluster, gateway: str) -> None:
    database = server.fresh()
    made = days(server, database)
    assert len(made) == LOG_DAYS_AHEAD + 1
    server.run(*(f"DROP TABLE {day}" for day in made), database=database.database)  # as if they were past
    with pytest.raises(StoreUnavailable, match="no partition"):
        server.run(ENTRY.format(TODAY), database=database.database, user=gateway)
    for _ in range(2):
        server.run("SELECT log_make_days()", database=database.database, user=gateway)
    assert days(server, database) == made
    server.run(ENTRY.format(TODAY), database=database.database, user=gateway)
    server.run(ENTRY.format(f"{TODAY} + {LOG_DAYS_AHEAD}"), database=database.database, user=gateway)
    assert len(entries(server, database)) == 2


def test_days_are_made_while_somebody_reads_the_whole_log(server: Cluster) -> None:
    """A verification may take minutes, and nobody who writes waits for it."""
    database = server.fresh()
    last = days(server, database)[-1]
    server.run(f"DROP TABLE {last}", database=database.database)

    async def read(connection: Connection) -> None:
        async with connection.transaction():
            await connection.fetch("SELECT count(*) FROM log_entries")
            await asyncio.to_thread(server.run, "SELECT log_make_days()", database=database.database)

    run_once(database, read)
    assert last in days(server, database)
