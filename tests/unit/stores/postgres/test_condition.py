"""What a database says of itself, and of the user that asks."""

import pytest
from msgspec.structs import replace
from tests.world.postgres import Cluster, a_user

from accredit.errors import StoreUnavailable
from accredit.stores.postgres.condition import read_condition
from accredit.stores.postgres.schema import VERSION

pytestmark = [pytest.mark.slow, pytest.mark.holds("stores/postgres/condition")]


def test_a_gateway_s_user_can_add_to_the_log_alone__and_who_can_do_more_is_told(server: Cluster) -> None:
    database = server.fresh()
    server.run("SELECT log_make_days()", database=database.database)
    own = a_user("IN ROLE accredit_gateway")
    found = read_condition(replace(database, user=own))
    assert (found.schema.found, found.is_synced, found.powers) == (VERSION, False, ())  # as our server has it
    assert found.clock_off < 2
    assert read_condition(replace(database, user=a_user("IN ROLE accredit_admin"))).powers == (
        "it is of accredit_admin",
        "it may change accredit_schema, challenge_key, log_delegations, log_entries, log_keys, log_pruned, revocations,"
        " store_state",
    )
    assert read_condition(database).powers[0] == "it is a superuser, or may become one"


def test_a_right_to_one_day_of_the_log_is_seen(server: Cluster) -> None:
    database = server.fresh()
    server.run("SELECT log_make_days()", database=database.database)
    ((part,),) = server.run(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'log_entries'::regclass LIMIT 1",
        database=database.database,
    )
    own = a_user("IN ROLE accredit_gateway")
    server.run(f"GRANT DELETE ON {part} TO {own}", database=database.database)
    assert read_condition(replace(database, user=own)).powers == ("it may change log_entries",)


@pytest.mark.parametrize(
    ("right", "told"),
    [
        ("GRANT UPDATE (payload) ON log_entries TO {}", "it may change log_entries"),
        ("GRANT DELETE ON revocations TO {}", "it may change revocations"),
        ("ALTER ROLE {} CREATEROLE", "it may make roles"),
        ("GRANT accredit_admin TO [OTHER]; GRANT [OTHER] TO {}", "it is of accredit_admin"),
        ("GRANT [SUPER] TO [OTHER]; GRANT [OTHER] TO {}", "it is a superuser, or may become one"),
    ],
)
def test_what_a_user_may_do_by_a_column__or_as_somebody_else_whom_it_may_become__is_told(
    right: str, told: str, server: Cluster
) -> None:
    database = server.fresh()
    own, other = a_user("IN ROLE accredit_gateway"), a_user("NOINHERIT")
    ((owner,),) = server.run("SELECT quote_ident(current_user)", database=database.database)
    for statement in right.split("; "):
        server.run(
            statement.replace("{}", own).replace("[SUPER]", owner).replace("[OTHER]", other), database=database.database
        )
    assert read_condition(replace(database, user=own)).powers[0] == told


def test_a_database_to_which_every_user_of_the_server_may_connect_is_told__as_is_one_that_was_closed(
    server: Cluster,
) -> None:
    """They could take all its connections, and the locks that gateways wait for."""
    database = server.fresh()
    own, name = a_user("IN ROLE accredit_gateway"), database.database
    assert read_condition(replace(database, user=own)).is_open  # as PostgreSQL makes one
    server.run(f"REVOKE CONNECT ON DATABASE {name} FROM PUBLIC")
    with pytest.raises(StoreUnavailable, match="42501"):
        read_condition(replace(database, user=own))
    server.run(f"GRANT CONNECT ON DATABASE {name} TO accredit_gateway, accredit_admin")
    assert not read_condition(replace(database, user=own)).is_open


def test_a_database_without_our_tables_says_so__and_one_that_is_gone_does_too(server: Cluster) -> None:
    empty = server.empty()
    assert (read_condition(empty).schema.found, read_condition(empty).powers) == (
        None,
        ("it is a superuser, or may become one",),
    )
    with pytest.raises(StoreUnavailable):
        read_condition(replace(empty, database="nowhere"))
