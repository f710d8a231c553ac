"""Which server counts as the primary, and when what it commits is taken for kept."""

import socket
import time
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.world.postgres import Cluster

from accredit.errors import StoreUnavailable
from accredit.stores.lasting import PostgresDatabase
from accredit.stores.postgres import session
from accredit.stores.postgres.address import DatabaseHost
from accredit.stores.postgres.driver import Connection
from accredit.stores.postgres.schema import VERSION
from accredit.stores.postgres.session import SchemaUnknown, check, open_session, run_once

pytestmark = pytest.mark.holds("stores/postgres/session")


def checked(database: PostgresDatabase) -> None:
    async def main(connection: Connection) -> None:
        await check(database, connection)

    run_once(database, main)


@pytest.mark.holds("stores/postgres/session", "all-hosts")
def test_a_host_that_is_gone_and_one_that_says_nothing_are_not_waited_for(
    database: PostgresDatabase, tmp_path: Path
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        others = (DatabaseHost("127.0.0.1", silent.getsockname()[1]), DatabaseHost(str(tmp_path), 5432))
        checked(replace(database, hosts=(*others, *database.hosts)))
    with pytest.raises(StoreUnavailable, match=str(tmp_path)):
        checked(replace(database, hosts=others[1:]))


@pytest.mark.holds("stores/postgres/session", "primary")
def test_a_server_that_only_reads_does_not_count(database: PostgresDatabase, server: Cluster) -> None:
    name = database.database
    server.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    try:
        with pytest.raises(StoreUnavailable, match="standby, or read-only"):
            checked(database)
    finally:
        server.run(
            "SET default_transaction_read_only = off",
            f"ALTER DATABASE {name} SET default_transaction_read_only = off",
        )
    checked(database)


@pytest.mark.holds("stores/postgres/session", "timeline")
async def test_who_was_the_primary_on_an_earlier_timeline_does_not_count_any_more(database: PostgresDatabase) -> None:
    found = await open_session(database)
    assert found.timeline == 1
    await found.connection.aclose()
    with pytest.raises(StoreUnavailable, match="was the primary once"):
        await open_session(database, 2)


@pytest.mark.holds("stores/postgres/session", "schema")
def test_a_schema_that_is_not_known_is_refused(database: PostgresDatabase, server: Cluster) -> None:
    with pytest.raises(SchemaUnknown, match="no tables"):
        checked(server.named("postgres"))
    server.run(f"UPDATE accredit_schema SET version = {VERSION - 1}", database=database.database)
    checked(database)  # gateways are replaced before the tables are changed
    versions = [f"UPDATE accredit_schema SET version = {version}" for version in (VERSION + 1, VERSION - 2)]
    for change in (*versions, "DELETE FROM accredit_schema"):
        server.run(change, database=database.database)
        with pytest.raises(SchemaUnknown):
            checked(database)
    server.run(f"INSERT INTO accredit_schema VALUES ({VERSION})", database=database.database)
    checked(database)


@pytest.mark.slow
@pytest.mark.holds("stores/postgres/session", "durability")
def test_where_a_standby_is_required_a_server_alone_is_refused(
    database: PostgresDatabase, server: Cluster, no_standby: None
) -> None:
    required = replace(database, replicas="required")
    with pytest.raises(StoreUnavailable, match="fsync off"):  # as our server has it
        checked(required)
    server.set("full_page_writes", "on")
    server.set("fsync", "on")
    try:
        checked(required)
        server.set("synchronous_standby_names", "''")
        with pytest.raises(StoreUnavailable, match="synchronous_standby_names empty"):
            checked(required)
    finally:
        server.set("fsync", "off")
        server.set("full_page_writes", "off")


@pytest.mark.holds("stores/postgres/session", "durability")
@pytest.mark.parametrize(
    ("default", "used"),
    [("off", "on"), ("local", "on"), ("remote_write", "on"), ("on", "on"), ("remote_apply", "remote_apply")],
)
def test_no_setting_of_the_server_lets_a_commit_return_before_it_is_kept(
    default: str, used: str, database: PostgresDatabase, server: Cluster
) -> None:
    async def main(connection: Connection) -> None:
        await check(database, connection)
        assert await connection.fetch("SELECT current_setting('synchronous_commit')") == [(used,)]

    name = database.database
    server.run(f"ALTER DATABASE {name} SET synchronous_commit = {default}")
    try:
        run_once(database, main)
    finally:
        server.run(f"ALTER DATABASE {name} RESET synchronous_commit")


@pytest.mark.holds("stores/postgres/session", "clocks")
@pytest.mark.parametrize("ahead", [-60_000, 60_000])
def test_clocks_that_differ_refuse(ahead: int, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "unix_ms", lambda: int(time.time() * 1000) + ahead)
    with pytest.raises(StoreUnavailable, match="clock"):
        checked(database)


@pytest.mark.holds("stores/postgres/session", "restoration")
def test_a_database_that_was_restored_answers_nothing_until_no_proof_of_before_is_fresh(
    database: PostgresDatabase, server: Cluster
) -> None:
    now = int(time.time())
    server.run(f"INSERT INTO store_state VALUES ('not_before', {now + 300})", database=database.database)
    with pytest.raises(StoreUnavailable, match="restored"):
        checked(database)
    server.run(f"UPDATE store_state SET value = {now - 1}", database=database.database)
    checked(database)
