"""An operator's desk reads a gateway's PostgreSQL, as a user of the database who can write nothing."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.test_desk_log import ReadOnly
from tests.integration.test_postgres_gateways import url_of
from tests.world.browser import faults
from tests.world.command import accredit
from tests.world.copied_logs import copy_log
from tests.world.household import Household, Told
from tests.world.postgres import a_user, cluster, database_for

from accredit.base.clock import unix_seconds
from accredit.ratify import issue_revocation_list
from accredit.stores import PostgresDatabase
from accredit.stores.postgres.revocation_lists import change_list

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("console/log_pages"),
    pytest.mark.holds("console/lists"),
    pytest.mark.holds("stores/postgres/revocation_lists"),
]


LIST = "[aria-label=Calls] tbody"


@pytest.fixture
def database(home: Household) -> Iterator[PostgresDatabase]:
    """What a gateway's database holds after three calls, one of them by a helper of the agent's."""
    with home.gateway() as gateway:
        for who, delegation in (("agent", "parent"), ("agent", "parent"), ("helper", "helper")):
            home.calls(gateway, who, delegation)
        gateway.stop()
        gateway.wait()
    with database_for(home.folder) as found:
        cluster().renew(found)
        copy_log(home.config / "gateway.db", found)
        yield found


def reader(database: PostgresDatabase) -> PostgresDatabase:
    """The same database, for a user who may only read it."""
    user = a_user()
    cluster().run(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}", database=database.database)
    return cluster().named(database.database, user)


def test_calls_and_their_stories_are_read_from_a_database(
    home: Household, database: PostgresDatabase, browser: Any
) -> None:
    with ReadOnly(home.folder, url_of(reader(database))) as desk:
        page = browser.new_context().new_page()
        page.goto(desk.link)
        page.wait_for_selector(f"{LIST} tr")
        assert page.locator(f"{LIST} tr:has-text('allowed')").count() == 3
        page.click(f"{LIST} tr:has-text('allowed') a")
        page.wait_for_selector("text=Told by the log")
        story = page.inner_text("main")
        assert "allowed, ok" in story
        assert "email:read" in story  # the chain of certificates
        assert faults(page) == []
        page.goto(f"{desk.url}health")
        page.wait_for_selector("summary")
        assert faults(page) == []
        page.context.close()


def test_a_list_in_the_database_takes_delegations_back_on_the_page__and_one_that_somebody_forged_does_not(
    home: Household, database: PostgresDatabase, browser: Any
) -> None:
    owner = home.trust.owner
    by_owner = issue_revocation_list(owner.signer(), (home.parent[0].cert_id,), unix_seconds()).encode()
    forged = re.sub(rb'"updated_at":\d+', b'"updated_at":7', by_owner)
    with ReadOnly(home.folder, url_of(reader(database))) as desk:
        told = Told(desk.url.rstrip("/"), desk.port, desk.link)

        def states() -> tuple[set[str], list[str]]:
            found = told.get("/api/people?all=1")[1]
            return {each["state"] for each in found["rows"] if each["level"]}, found["lists"]

        assert states() == ({"now"}, [])
        change_list(database, owner.id, lambda _: forged)
    with ReadOnly(home.folder, url_of(reader(database))) as desk:
        told = Told(desk.url.rstrip("/"), desk.port, desk.link)
        held, faulty = states()
        assert (held, len(faulty)) == ({"now"}, 1)
        change_list(database, owner.id, lambda _: by_owner)
    with ReadOnly(home.folder, url_of(reader(database))) as desk:
        page = browser.new_context().new_page()
        page.goto(desk.link)
        page.wait_for_selector("#key:text-is('read-only')")  # it has signed in
        page.goto(f"{desk.url}people?all=1")
        page.wait_for_selector(".tag:has-text('taken back')")
        assert page.locator(".tag:has-text('taken back')").count() == 2  # with what the agent has passed on
        assert page.locator("text=Take back…").count() == 0
        assert faults(page) == []
        page.context.close()
        rows = cluster().run("SELECT version FROM revocations", database=database.database)
        assert rows == [(2,)]  # the desk has written nothing


def test_a_database_that_the_user_may_not_read_is_said_to_be(home: Household, database: PostgresDatabase) -> None:
    nobody = url_of(cluster().named(database.database, a_user()))
    done = accredit("desk", "--read-only", "--store", nobody, "--port", "0", "--no-browser", folder=home.folder)
    assert (done.returncode, "permission denied" in done.stderr, "accredit_gateway" in done.stderr) == (2, True, True)
