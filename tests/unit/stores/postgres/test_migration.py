"""Making the tables of a database, once, whoever tries."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.world.postgres import Cluster

from accredit.errors import ConfigurationError, StoreUnavailable
from accredit.limits import CHALLENGE_WINDOW_SECONDS
from accredit.stores.postgres.migration import RESTORED_SECONDS, hold_after_restore, migrate, status
from accredit.stores.postgres.schema import GRANTS, REVOKES, VERSION
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
    assert migrate(server.named(database.database, "stranger")).left_over == (*REVOKES, *GRANTS)
    with pytest.raises(StoreUnavailable, match="permission denied"):
        migrate(server.named(server.empty().database, "stranger"))


def test_a_restored_database_says_until_when_proofs_are_refused(server: Cluster) -> None:
    database = server.fresh()
    assert RESTORED_SECONDS >= CHALLENGE_WINDOW_SECONDS
    until = hold_after_restore(database)
    assert until >= time.time() + RESTORED_SECONDS - 60
    assert hold_after_restore(database) >= until
