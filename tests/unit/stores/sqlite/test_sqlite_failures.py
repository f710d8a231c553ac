"""A file that is locked, broken, gone or of another version: a refusal within a bounded time, never a yes."""

import asyncio
import contextlib
import os
import sqlite3
import stat
from collections.abc import Coroutine, Generator
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import pytest
from tests.world.stores import NOW, challenge, request

from accredit.errors import StoreUnavailable
from accredit.ports import RateLimit, Spending
from accredit.stores import SqliteStore
from accredit.stores.audit_log.reader import LogFile
from accredit.stores.sqlite.database import Database

pytestmark = pytest.mark.holds("stores/sqlite/database")

FIRST, SPENT = Spending.FIRST, Spending.SPENT
Opening = aclosing[SqliteStore]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def opening(file: Path) -> Opening:
    return aclosing(SqliteStore(file))


@contextlib.contextmanager
def impatient() -> Generator[None]:
    """Does not wait for locks for long: for no more than what is to be refused, as a busy machine is no lock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("accredit.stores.sqlite.store.STORE_LOCK_SECONDS", 0.05)
        yield


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Always looks whether the file is still the same."""
    monkeypatch.setattr("accredit.stores.sqlite.database.STORE_FILE_CHECK_SECONDS", 0.0)


def spend(store: SqliteStore, number: int) -> Coroutine[Any, Any, Spending]:
    return store.spend(challenge(number), request(0), issued=False, keep_until=NOW + 60, now=NOW)


async def refuses_all(store: SqliteStore, words: str) -> None:
    for asked in (
        spend(store, 1),
        store.look(challenge(1), request(0), issued=False, now=NOW),
        store.issue(request(0), expires_at=NOW),
        store.uses("one", 60, now=NOW),
        store.use([RateLimit("one", 60, 1)], now=NOW),
    ):
        with pytest.raises(StoreUnavailable, match=words):
            await asked
    assert not await store.ready()


def locked(file: Path, how: str = "EXCLUSIVE") -> sqlite3.Connection:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute(f"BEGIN {how}")
    return other


@pytest.mark.holds("stores/sqlite/database", "journal")
async def test_while_another_process_holds_the_file_nothing_is_spent__and_it_goes_on_afterwards(
    file: Path, opening: Opening
) -> None:
    async with opening as store:
        assert await spend(store, 1) is FIRST
        with closing(locked(file)):
            with impatient():
                with pytest.raises(StoreUnavailable, match="locked"):
                    await spend(store, 2)
                assert not await store.ready()
            # Who only reads does not wait for who writes.
            assert await store.look(challenge(1), request(0), issued=False, now=NOW) is SPENT
        assert [await spend(store, 1), await spend(store, 2)] == [SPENT, FIRST]


async def test_a_new_file_that_is_locked_is_waited_for_and_then_refused(file: Path, opening: Opening) -> None:
    async with opening as store:
        with closing(locked(file)), impatient():
            await refuses_all(store, "locked")
        assert await spend(store, 1) is FIRST


async def test_a_lock_that_is_held_shortly_is_waited_for(file: Path, opening: Opening) -> None:
    async with opening as store:
        assert await store.ready()
        with closing(locked(file)):
            waiting = asyncio.create_task(spend(store, 1))
            done, _ = await asyncio.wait([waiting], timeout=0.05)
            assert not done
        assert await waiting is FIRST


@pytest.mark.parametrize("content", [b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
async def test_what_is_no_database_is_not_used_nor_overwritten(content: bytes, file: Path, opening: Opening) -> None:
    file.write_bytes(content)

    async with opening as store:
        await refuses_all(store, "can't be used")
        assert file.read_bytes() == content


@pytest.mark.usefixtures("watchful")
@pytest.mark.parametrize("content", [b"garbage" * 1000, b""])
async def test_a_file_that_was_replaced_is_not_used__what_was_spent_is_not_known_there(
    content: bytes, file: Path, tmp_path: Path, opening: Opening
) -> None:
    async with opening as store:
        assert await spend(store, 1) is FIRST
        (tmp_path / "another").write_bytes(content)
        (tmp_path / "another").rename(file)
        await refuses_all(store, "was replaced")
        assert file.read_bytes() == content


async def test_a_file_that_was_overwritten_with_garbage_is_not_used(file: Path, opening: Opening) -> None:
    async with opening as store:
        assert await spend(store, 1) is FIRST
        with closing(sqlite3.connect(file)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with file.open("r+b") as opened:
            opened.write(b"garbage" * 10_000)
        for number in (1, 2):
            with pytest.raises(StoreUnavailable):
                await spend(store, number)


@pytest.mark.usefixtures("watchful")
async def test_a_file_that_was_taken_away_is_not_made_anew__what_was_spent_would_be_good_again(
    file: Path, tmp_path: Path, opening: Opening
) -> None:
    async with opening as store:
        assert await spend(store, 1) is FIRST
        with closing(sqlite3.connect(file)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        file.rename(tmp_path / "elsewhere")
        await refuses_all(store, "taken away")
        assert not file.exists()
        (tmp_path / "elsewhere").rename(file)
        assert [await spend(store, 1), await spend(store, 2)] == [SPENT, FIRST]


@pytest.mark.holds("stores/sqlite/database", "schema")
async def test_a_file_of_a_newer_version_is_refused(file: Path, opening: Opening) -> None:
    with closing(sqlite3.connect(file)) as other:
        other.execute("PRAGMA user_version = 99")

    async with opening as store:
        await refuses_all(store, "newer accredit")


@pytest.mark.holds("stores/sqlite/database", "schema")
@pytest.mark.usefixtures("watchful")
async def test_a_file_that_a_newer_version_upgrades_while_it_is_used_is_refused(file: Path, opening: Opening) -> None:
    async with opening as store:
        assert await spend(store, 1) is FIRST
        assert await store.look(challenge(1), request(0), issued=False, now=NOW) is SPENT
        with closing(sqlite3.connect(file)) as other:
            other.execute("PRAGMA user_version = 99")
        await refuses_all(store, "newer accredit")


async def test_a_place_where_no_file_can_be(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere" / "store.db", Path("/proc/store.db")):
        store = SqliteStore(path)
        await refuses_all(store, "can't be used")
        await store.aclose()


async def test_nothing_is_opened_before_it_is_needed__a_process_forks_first(file: Path, opening: Opening) -> None:
    async with opening as store:
        assert not file.exists()
        assert await store.ready()
        assert file.exists()


@pytest.mark.holds("stores/sqlite/database", "creation")
async def test_a_new_file_is_its_owners_alone(file: Path, opening: Opening) -> None:
    async with opening as store:
        before = os.umask(0)
        try:
            assert await spend(store, 1) is FIRST
        finally:
            os.umask(before)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
        assert modes == dict.fromkeys(("store.db", "store.db-shm", "store.db-wal"), 0o600)


async def test_a_link_and_an_odd_name_are_followed_as_they_are(tmp_path: Path) -> None:
    odd = tmp_path / "o%41 d?&#.db"
    link = tmp_path / "link.db"
    store = SqliteStore(odd)
    assert await spend(store, 1) is FIRST
    await store.aclose()
    link.symlink_to(odd)
    linked = SqliteStore(link)
    assert await spend(linked, 1) is SPENT
    await linked.aclose()


async def test_a_closed_store_says_so(file: Path) -> None:
    store = SqliteStore(file)
    await store.aclose()
    with pytest.raises(StoreUnavailable, match="closed"):
        await spend(store, 1)


@pytest.mark.holds("stores/sqlite/database", "creation")
@pytest.mark.parametrize("what", ["pipe", "folder", "device"])
def test_what_is_no_file_is_opened_by_nobody__a_pipe_would_keep_them_waiting(what: str, file: Path) -> None:
    if what == "pipe":
        os.mkfifo(file)
    elif what == "folder":
        file.mkdir()
    else:
        file.symlink_to("/dev/zero")
    with pytest.raises(StoreUnavailable, match="no regular file"):
        Database(file).transact([lambda _: None], writes=False)
    with pytest.raises(StoreUnavailable, match="no regular file"):
        LogFile(file).renew()
