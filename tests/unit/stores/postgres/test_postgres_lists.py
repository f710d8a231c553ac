"""Revocation lists in a database: what is changed there counts, and while it can't be asked nothing is allowed."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.world.delegations import NOW, World
from tests.world.postgres import Cluster

from accredit.errors import ConfigurationError, StoreUnavailable
from accredit.ratify import RevocationList, issue_revocation_list
from accredit.stores import open_revocations
from accredit.stores.lasting import PostgresDatabase
from accredit.stores.postgres.address import DatabaseHost
from accredit.stores.postgres.revocation_lists import change_list

pytestmark = pytest.mark.holds("stores/postgres/revocation_lists")

WORLD = World()
KEYS = {WORLD.owner.id: WORLD.owner.public_key}


def signed(*ids: str, at: int = NOW) -> bytes:
    return issue_revocation_list(WORLD.owner.signer(), ids, at).encode()


def put(database: PostgresDatabase, data: bytes) -> None:
    change_list(database, WORLD.owner.id, lambda _: data)


async def test_a_list_counts_at_the_start_and_when_it_is_changed(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accredit.stores.revocation.REVOCATION_CHECK_SECONDS", 0.0)
    put(database, signed("one"))

    store = database.open()
    lists = open_revocations(database, store, [], KEYS, lambda _: None)
    assert [await lists.is_revoked(each) for each in ("one", "two")] == [True, False]
    put(database, signed("one", "two", at=NOW + 1))
    assert [await lists.is_revoked(each) for each in ("one", "two")] == [True, True]
    put(database, b"not a list")
    assert await lists.is_revoked("two")
    assert "not a revocation list" in (lists.problem() or "")
    await store.aclose()
    with pytest.raises(ConfigurationError, match="not a revocation list"):
        open_revocations(database, database.open(), [], KEYS, lambda _: None)


async def test_while_the_database_can_not_be_asked_it_is_not_known_what_was_revoked(tmp_path: Path) -> None:
    gone = PostgresDatabase((DatabaseHost(str(tmp_path), 5432),), "db")

    store = gone.open()
    lists = open_revocations(gone, store, [], KEYS, lambda _: None)
    with pytest.raises(StoreUnavailable):
        await lists.is_revoked("one")
    await store.aclose()


def test_of_several_who_revoke_at_once_nobody_s_entry_is_lost(database: PostgresDatabase, server: Cluster) -> None:
    def revoke(number: int) -> None:
        def extend(old: bytes | None) -> bytes:
            before = RevocationList.decode(old).revoked_certs if old is not None else ()
            return signed(*before, f"certificate {number}")

        change_list(database, WORLD.owner.id, extend)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(revoke, range(8)))
    ((version, data),) = server.run("SELECT version, list FROM revocations", database=database.database)
    assert version == 8
    assert len(RevocationList.decode(data).revoked_certs) == 8


def test_an_error_while_a_list_is_changed_leaves_it_as_it_was(database: PostgresDatabase, server: Cluster) -> None:
    def refuse(_: bytes | None) -> bytes:
        raise ConfigurationError("not yours", "leave it")

    with pytest.raises(ConfigurationError):
        change_list(database, WORLD.owner.id, refuse)
    assert server.run("SELECT * FROM revocations", database=database.database) == []
