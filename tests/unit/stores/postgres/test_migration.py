"""Making the tables of a database, once, whoever tries."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.world.postgres import Cluster, a_user

from accredit.errors import ConfigurationError, StoreUnavailable
from accredit.limits import CHALLENGE_WINDOW_SECONDS
from accredit.stores.postgres import driver, migration
from accredit.stores.postgres.migration import RESTORED_SECONDS, hold_after_restore, migrate, status
from accredit.stores.postgres.schema import ADMIN, GATEWAY, RIGHTS, VERSION
from accredit.stores.postgres.session import SchemaUnknown

pytestmark = pytest.mark.holds("stores/postgres/migration")


@pytest.mark.holds("stores/postgres/migration", "transaction")
def test_two_that_migrate_at_once_make_one_set_of_tables_and_one_key(server: Cluster) -> None:
    database = server.empty()
    assert status(database)[:2] == (None, VERSION)
    with ThreadPoolExecutor(3) as threads:
        done = list(threads.map(migrate, [database] * 3))
    assert sorted((each.before or 0) for each in done) == [0, VERSION, VERSION]
    assert status(database)[:2] == (VERSION, VERSION)
    key = server.run("SELECT key FROM challenge_key", database=database.database)
    assert len(key) == 1
    assert migrate(database).before == VERSION
    assert server.run("SELECT key FROM challenge_key", database=database.database) == key


@pytest.mark.holds("stores/postgres/migration", "newer-version")
def test_the_tables_of_a_newer_version_are_left_as_they_are(server: Cluster) -> None:
    database = server.fresh()
    server.run(f"UPDATE accredit_schema SET version = {VERSION + 1}", database=database.database)
    done = migrate(database)
    assert (done.before, done.left_over) == (VERSION + 1, ())
    assert status(database)[:2] == (VERSION + 1, VERSION)
    with pytest.raises(SchemaUnknown):
        hold_after_restore(database)


def test_what_was_restored_into_tables_that_were_there_is_named__and_not_sent_to_a_migration(server: Cluster) -> None:
    database = server.fresh()
    server.run(f"INSERT INTO accredit_schema VALUES ({VERSION})", database=database.database)
    for command in (status, migrate, hold_after_restore):
        with pytest.raises(SchemaUnknown, match="2 rows instead of one"):
            command(database)
    with pytest.raises(ConfigurationError, match="into an empty database"):
        database.check_tables()


@pytest.mark.holds("stores/postgres/migration", "roles")
def test_what_this_user_may_not_do_is_said_in_sql(server: Cluster) -> None:
    database = server.fresh()
    server.run("CREATE ROLE stranger LOGIN", "GRANT SELECT ON accredit_schema TO stranger", database=database.database)
    assert migrate(server.named(database.database, "stranger")).left_over == RIGHTS
    with pytest.raises(StoreUnavailable, match="permission denied"):
        migrate(server.named(server.empty().database, "stranger"))


@pytest.mark.holds("stores/postgres/migration", "roles")
@pytest.mark.parametrize("of", [GATEWAY, ADMIN, "pg_read_all_data"])
def test_a_user_who_may_not_pass_rights_on_is_told_the_same(server: Cluster, of: str) -> None:
    database = server.fresh()
    user = a_user(f"IN ROLE {of}")
    assert migrate(server.named(database.database, user)).left_over == RIGHTS


@pytest.mark.holds("stores/postgres/migration", "transaction")
def test_there_are_no_new_tables_without_their_rights(server: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    database = server.before()
    with monkeypatch.context() as patch:
        patch.setattr(migration, "RIGHTS", (*RIGHTS, "SELECT 1 / 0"))
        with pytest.raises(StoreUnavailable, match="division by zero"):
            migrate(database)
    assert status(database).found == VERSION - 1
    assert migrate(database).before == VERSION - 1
    asked = f"SELECT has_table_privilege('{GATEWAY}', 'asks', 'SELECT')"
    assert server.run(asked, database=database.database) == [(True,)]


@pytest.mark.holds("stores/postgres/migration", "transaction")
def test_one_that_is_begun_meanwhile_waits_for_longer_than_a_statement_may(
    server: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = server.fresh()
    lock = "SELECT pg_advisory_lock(hashtext('accredit store migrate')), pg_sleep(600)"
    of_this = f"datname = '{database.database}'"
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(server.run, lock, database=database.database)
        holder = server.wait_for(f"{of_this} AND wait_event = 'PgSleep'")
        settings = driver._settings()
        monkeypatch.setattr(driver, "_settings", lambda: {**settings, "lock_timeout": "20ms"})
        second = threads.submit(migrate, database)
        late = f"{of_this} AND wait_event = 'advisory' AND query_start < now() - interval '100 ms'"
        while not second.done() and not server.run(f"SELECT FROM pg_stat_activity WHERE {late}"):
            time.sleep(0.01)
        server.run(f"SELECT pg_terminate_backend({holder})")
        assert second.result().before == VERSION
        assert isinstance(first.exception(), StoreUnavailable)


def test_a_restored_database_says_until_when_proofs_are_refused(server: Cluster) -> None:
    database = server.fresh()
    assert RESTORED_SECONDS >= CHALLENGE_WINDOW_SECONDS
    until = hold_after_restore(database)
    assert until >= time.time() + RESTORED_SECONDS - 60
    assert hold_after_restore(database) >= until
