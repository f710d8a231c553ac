"""Signed lists in force: what counts, what does not, and that changes are seen."""

import asyncio
import hashlib
import os
import resource
import shlex
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.world.delegations import NOW, World
from tests.world.raw_server import until
from tests.world.running import run

from accredit.errors import ConfigurationError, StoreUnavailable
from accredit.keys import PrivateKeyFile
from accredit.limits import MAX_STATEMENT_BYTES
from accredit.ratify import issue_revocation_list
from accredit.stores import RevocationLists
from accredit.stores.revocation import _Watched
from accredit.stores.rules import FoundList
from accredit.stores.sqlite.revocation_lists import change_list, list_versions, read_lists

pytestmark = [
    pytest.mark.holds("stores/revocation"),
    pytest.mark.holds("stores/list_sources"),
    pytest.mark.holds("stores/seen_lists"),
    pytest.mark.holds("stores/sqlite/revocation_lists"),
]

WORLD = World()
KEYS = {key.id: key.public_key for key in (WORLD.owner, WORLD.agent)}


def signed(*ids: str, by: PrivateKeyFile = WORLD.owner, at: int = NOW) -> bytes:
    return issue_revocation_list(by.signer(), ids, at).encode()


def put(path: Path, data: bytes) -> None:
    """In one step, as `accredit revoke` does it."""
    temporary = path.with_suffix(".new")
    temporary.write_bytes(data)
    temporary.rename(path)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def put_into_store(path: Path, data: bytes, issuer_id: str = WORLD.owner.id) -> None:
    change_list(path, issuer_id, lambda _: data)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "revoked.json"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture(autouse=True)
def always_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.stores.revocation.REVOCATION_CHECK_SECONDS", 0.0)


def loaded(*files: Path, store: Path | None = None, told: Callable[[str], None] | None = None) -> RevocationLists:
    lists = RevocationLists(files, KEYS, store=store, on_problem=told)
    lists.load()
    return lists


async def revoked(lists: RevocationLists, *ids: str) -> list[str]:
    return [each for each in ids if await lists.is_revoked(each)]


def test_what_is_listed_is_revoked_and_nothing_else(file: Path, tmp_path: Path, store: Path) -> None:
    file.write_bytes(signed("one", "two") + b"\n")
    other = tmp_path / "other.json"
    other.write_bytes(signed("three", by=WORLD.agent))
    put_into_store(store, signed("four"))
    put_into_store(store, signed("five", by=WORLD.agent), WORLD.agent.id)
    lists = loaded(file, other, store=store)
    ids = ("one", "two", "three", "four", "five", "One", "one ", "on", "", "six")
    assert run(revoked(lists, *ids)) == ["one", "two", "three", "four", "five"]
    assert lists.problem() is None


def test_without_lists_nothing_is_revoked(store: Path) -> None:
    assert run(revoked(loaded(), "one")) == []
    assert run(revoked(loaded(store=store), "one")) == []
    assert not store.exists()


UNTRUE = replace(issue_revocation_list(WORLD.owner.signer(), ["one"], NOW), revoked_certs=()).encode()
NO_LISTS: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "not a revocation list"),
    "no JSON": (lambda: b"\xff", "not a revocation list"),
    "cut off": (lambda: signed("one")[:-9], "not a revocation list"),
    "another thing": (lambda: b"{}", "not a revocation list"),
    "too long": (lambda: b" " * (MAX_STATEMENT_BYTES + 1), "not a revocation list"),
    "changed": (lambda: UNTRUE, "does not count"),
    "unknown": (lambda: signed("one", by=WORLD.sub), WORLD.sub.id),
    "another's": (
        lambda: replace(issue_revocation_list(WORLD.sub.signer(), ["one"], NOW), issuer_id=WORLD.owner.id).encode(),
        "does not count",
    ),
}


@pytest.mark.holds("stores/revocation", "decoding", "trusted-issuer", "signature")
@pytest.mark.parametrize(("made", "word"), NO_LISTS.values(), ids=NO_LISTS)
def test_a_list_that_does_not_count_stops_the_start(
    made: Callable[[], bytes], word: str, file: Path, store: Path
) -> None:
    data = made()
    file.write_bytes(data)
    put_into_store(store, data)
    for lists in (RevocationLists([file], KEYS), RevocationLists([], KEYS, store=store)):
        with pytest.raises(ConfigurationError, match=word) as refused:
            lists.load()
        assert len(refused.value.what) < 500


def test_a_list_that_can_not_be_there_stops_the_start(file: Path, tmp_path: Path) -> None:
    file.symlink_to(tmp_path / "elsewhere.json")
    for path in (file, tmp_path, tmp_path / "nowhere" / "list.json"):
        with pytest.raises(ConfigurationError, match="can't be read"):
            loaded(path)


def test_a_list_that_is_named_and_not_there_stops_the_start__and_the_remedy_makes_an_empty_one(file: Path) -> None:
    for path in (file, file.parent / "not mounted" / file.name):
        with pytest.raises(ConfigurationError, match="can't be read") as refused:
            loaded(path)
        assert f"accredit revoke --list {shlex.quote(str(path))} --empty --issuer KEY" in refused.value.remedy
    put(file, signed())
    lists = loaded(file)
    assert run(revoked(lists, "one")) == []
    assert lists.problem() is None


def test_a_list_that_was_in_force_and_is_gone_stops_a_reload(file: Path) -> None:
    file.write_bytes(signed("one"))
    before = loaded(file)
    file.unlink()
    with pytest.raises(ConfigurationError, match="can't be read"):
        RevocationLists([file], KEYS, before=before).load()


def test_a_pipe_in_a_lists_place_does_not_hold_the_start_up(file: Path) -> None:
    os.mkfifo(file)
    with pytest.raises(ConfigurationError):
        loaded(file)


def test_a_store_that_is_broken_stops_the_start(store: Path) -> None:
    store.write_bytes(b"garbage" * 1000)
    with pytest.raises(ConfigurationError, match="can't be used"):
        loaded(store=store)


@pytest.mark.parametrize("where", ["file", "store"])
async def test_a_change_is_honoured(where: str, file: Path, store: Path) -> None:
    file.write_bytes(signed("one"))

    lists = loaded(file, store=store)
    assert await revoked(lists, "one", "two") == ["one"]
    if where == "file":
        put(file, signed("one", "two", at=NOW + 1))
    else:
        put_into_store(store, signed("two", at=NOW))
    assert await revoked(lists, "one", "two") == ["one", "two"]
    assert lists.problem() is None


@pytest.mark.parametrize("where", ["file", "store"])
@pytest.mark.parametrize(("made", "word"), NO_LISTS.values(), ids=NO_LISTS)
async def test_a_change_that_does_not_count_leaves_the_last_good_list_in_force_and_is_told_once(
    made: Callable[[], bytes], word: str, where: str, file: Path, store: Path
) -> None:
    told: list[str] = []

    def write(data: bytes) -> None:
        if where == "file":
            put(file, data)
        else:
            put_into_store(store, data)

    write(signed("one"))
    lists = loaded(*[file] * (where == "file"), store=store if where == "store" else None, told=told.append)
    write(made())
    for _ in range(3):
        assert await revoked(lists, "one", "two") == ["one"]
    problem = lists.problem()
    assert problem is not None
    assert word in problem
    assert told == [problem]
    write(signed("one", "two", at=NOW + 1))
    assert await revoked(lists, "one", "two") == ["one", "two"]
    assert lists.problem() is None


@pytest.mark.holds("stores/revocation", "age")
@pytest.mark.parametrize(
    ("ids", "at", "word"),
    [(("one",), NOW - 1, "older"), ((), NOW - 1, "older"), (("two",), NOW, "leaves out"), ((), NOW, "leaves out")],
)
async def test_an_old_list_that_is_put_back_takes_no_revocation_back(
    ids: tuple[str, ...], at: int, word: str, file: Path
) -> None:
    file.write_bytes(signed("one"))

    lists = loaded(file)
    put(file, signed(*ids, at=at))
    assert await revoked(lists, "one", "two") == ["one"]
    assert word in (lists.problem() or "")


async def test_two_entries_of_one_second_both_count(file: Path) -> None:
    file.write_bytes(signed("one"))

    lists = loaded(file)
    put(file, signed("one", "two"))
    assert await revoked(lists, "one", "two") == ["one", "two"]


async def test_a_list_that_is_gone_stays_in_force(file: Path, store: Path) -> None:
    file.write_bytes(signed("one"))
    put_into_store(store, signed("two"))

    lists = loaded(file, store=store)
    file.rename(file.with_suffix(".away"))
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("DELETE FROM revocations")
    assert await revoked(lists, "one", "two") == ["one", "two"]
    problem = lists.problem() or ""
    assert "can't be read" in problem
    assert "gone" in problem
    file.with_suffix(".away").rename(file)
    put_into_store(store, signed("two"))
    assert await revoked(lists, "one", "two") == ["one", "two"]
    assert lists.problem() is None


async def test_another_issuers_list_in_a_files_place_leaves_the_first_in_force(file: Path) -> None:
    file.write_bytes(signed("one"))

    lists = loaded(file)
    put(file, signed("two", by=WORLD.agent))
    assert await revoked(lists, "one", "two") == ["one", "two"]
    assert "gone" in (lists.problem() or "")


async def test_one_faulty_list_in_a_store_keeps_no_other_out(store: Path) -> None:
    put_into_store(store, signed("one"))

    lists = loaded(store=store)
    put_into_store(store, b"garbage", "00")
    put_into_store(store, signed("two", by=WORLD.agent), WORLD.agent.id)
    assert await revoked(lists, "one", "two") == ["one", "two"]
    assert "not a revocation list" in (lists.problem() or "")


@pytest.mark.parametrize("value", ["5", "1.5", "'text'", "x''"])
async def test_what_is_no_list_in_a_store_stops_the_start__and_keeps_no_revocation_from_being_seen(
    value: str, store: Path
) -> None:
    """SQLite keeps anything in any column: a number raised past all that expects a bad list."""
    put_into_store(store, signed("one"))

    lists = loaded(store=store)
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute(f"INSERT INTO revocations VALUES ('00', 1, {value})")
        other.execute(f"INSERT INTO known_lists VALUES ('00', {value})")  # of an issuer that is unknown here
    put_into_store(store, signed("one", "two", at=NOW + 1))
    assert await revoked(lists, "one", "two") == ["one", "two"]
    assert "not a revocation list" in (lists.problem() or "")
    with pytest.raises(ConfigurationError, match="not a revocation list"):
        loaded(store=store)


async def test_problems_are_known_without_calls(file: Path) -> None:
    file.write_bytes(signed("one"))
    told: list[str] = []

    lists = loaded(file, told=told.append)
    watching = asyncio.create_task(lists.watch())
    put(file, b"garbage")
    await until(lambda: lists.problem() is not None)
    put(file, signed("one", at=NOW + 1))
    await until(lambda: lists.problem() is None)
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
    assert len(told) == 1


async def test_many_who_ask_at_once_look_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.stores.revocation.REVOCATION_CHECK_SECONDS", 3600.0)
    file.write_bytes(signed("one"))

    lists = loaded(file)
    looks = 0

    def look(watched: _Watched, keys: Any) -> None:
        nonlocal looks
        looks += 1
        real(watched, keys)

    real = _Watched.look
    monkeypatch.setattr(_Watched, "look", look)
    put(file, signed("one", "two", at=NOW + 1))
    assert all(await asyncio.gather(*(lists.is_revoked("two") for _ in range(64))))
    assert looks == 1
    put(file, signed("one", "two", "three", at=NOW + 2))
    assert not await lists.is_revoked("three")


async def test_lists_that_can_not_be_read_in_time_are_no_yes(
    file: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_bytes(signed("one"))
    put_into_store(store, signed("two"))

    lists = loaded(file, store=store)
    monkeypatch.setattr("accredit.stores.revocation.STORE_WAIT_SECONDS", 0.05)
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        watching = asyncio.create_task(lists.watch())
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await lists.is_revoked("one")
        assert "in time" in (lists.problem() or "")
    monkeypatch.undo()
    assert await revoked(lists, "one", "two") == ["one", "two"]
    await until(lambda: lists.problem() is None)
    assert not watching.done()
    watching.cancel()


@pytest.mark.parametrize("where", ["file", "store"])
async def test_who_takes_all_descriptors_keeps_no_revocation_from_being_seen__there_is_no_answer_meanwhile(
    where: str, file: Path, store: Path
) -> None:
    file.write_bytes(signed("one"))
    put_into_store(store, signed("one"))

    lists = loaded(*[file] * (where == "file"), store=store if where == "store" else None)
    assert await revoked(lists, "one", "two") == ["one"]
    if where == "file":
        put(file, signed("one", "two", at=NOW + 1))
    else:
        put_into_store(store, signed("one", "two", at=NOW + 1))
    await asyncio.to_thread(int)  # the thread that looks is there
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="Too many open files"):
                await revoked(lists, "two")
        assert "Too many open files" in (lists.problem() or "")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert await revoked(lists, "one", "two") == ["one", "two"]
    assert lists.problem() is None


class Source:
    """Lists that are held in memory; knows how often they were read."""

    name = "a source"

    def __init__(self) -> None:
        self.version, self.looks, self.reads = 1, 0, 0

    def stamp(self) -> object:
        self.looks += 1
        return self.version

    def read(self) -> list[FoundList]:
        self.reads += 1
        return [FoundList(signed(*map(str, range(self.version)), at=NOW + self.version))]


def test_lists_are_read_when_they_change_only() -> None:
    source = Source()
    watched = _Watched(source)
    for _ in range(3):
        watched.look(KEYS)
    assert (source.looks, source.reads, watched.revoked) == (3, 1, {"0"})
    source.version = 2
    watched.look(KEYS)
    assert (source.reads, watched.revoked) == (2, {"0", "1"})


def test_a_list_that_gets_no_new_entry_does_not_change(store: Path) -> None:
    put_into_store(store, signed("one"))
    before = list_versions(store)
    assert change_list(store, WORLD.owner.id, lambda old: old or b"").before == read_lists(store)[0].text
    assert list_versions(store) == before


def test_a_reload_takes_no_list_back_to_an_older_one__and_reads_a_newer_one_at_once(file: Path) -> None:
    put(file, signed("one"))
    before = loaded(file)

    def after(keys: dict[str, Any]) -> RevocationLists:
        lists = RevocationLists([file], keys, before=before)
        lists.load()
        return lists

    put(file, signed(at=NOW - 1))
    with pytest.raises(ConfigurationError, match="it is older than the one in force"):
        after(KEYS)
    file.unlink()
    with pytest.raises(ConfigurationError, match="can't be read"):
        after(KEYS)
    put(file, signed("one", "two", at=NOW + 1))
    assert run(revoked(after(KEYS), "one", "two")) == ["one", "two"]
    with pytest.raises(ConfigurationError, match="is not known here"):
        after({})


def succeeded(before: RevocationLists, *files: Path, store: Path | None = None, keys: Any = KEYS) -> RevocationLists:
    """Who takes its place after a reload."""
    lists = RevocationLists(files, keys, store=store, before=before)
    lists.load()
    return lists


@pytest.mark.parametrize("ids", [(), ("two",), ("one", "two")])
@pytest.mark.parametrize("at", [NOW - 1, NOW])
def test_a_reload_that_names_the_list_anew_takes_no_revocation_back(ids: tuple[str, ...], at: int, file: Path) -> None:
    put(file, signed("one"))
    before = loaded(file)
    other = file.with_name("other.json")
    put(other, signed(*ids, at=at))
    if at == NOW and "one" in ids:
        assert run(revoked(succeeded(before, other), "one", "two")) == ["one", "two"]
        return
    with pytest.raises(ConfigurationError, match=f"the list of {WORLD.owner.id} does not count: it "):
        succeeded(before, other)


def test_a_reload_that_names_no_list_any_more_takes_no_revocation_back(file: Path, store: Path) -> None:
    put(file, signed("one"))
    before = loaded(file, store=store)
    with pytest.raises(ConfigurationError, match="in none of the places"):
        succeeded(before, store=store)
    assert run(revoked(succeeded(before, keys={}), "one")) == []  # nor is its issuer anybody's any more


@pytest.mark.parametrize("direction", ["file to store", "store to file"])
def test_a_list_may_move_by_a_reload__and_is_compared_with_what_it_was(direction: str, file: Path, store: Path) -> None:
    put_into_store(store, signed(by=WORLD.agent), WORLD.agent.id)
    if direction == "file to store":
        put(file, signed("one"))
        before = loaded(file, store=store)
        put_into_store(store, signed("one", "two", at=NOW + 1))
        lists = succeeded(before, store=store)
        file.unlink()
    else:
        put_into_store(store, signed("one"))
        before = loaded(store=store)
        put(file, signed("one", "two", at=NOW + 1))
        with closing(sqlite3.connect(store, isolation_level=None)) as other:
            other.execute("DELETE FROM revocations WHERE issuer_id = ?", (WORLD.owner.id,))
        lists = succeeded(before, file, store=store)
    assert run(revoked(lists, "one", "two")) == ["one", "two"]
    assert lists.problem() is None


def test_of_two_places_the_older_list_is_no_fault__and_neither_is_forgotten(file: Path, store: Path) -> None:
    put(file, signed("one", at=NOW - 5))
    put_into_store(store, signed("two"))
    lists = loaded(file, store=store)
    assert run(revoked(lists, "one", "two")) == ["one", "two"]
    assert lists.problem() is None
    assert run(revoked(succeeded(lists, file, store=store), "one", "two")) == ["one", "two"]


@pytest.mark.parametrize("left", ["older", "deleted", "empty"])
async def test_a_start_takes_no_revocation_back_that_its_store_remembers(left: str, file: Path, store: Path) -> None:
    put(file, signed(at=NOW - 10))
    if left == "deleted":
        put_into_store(store, signed("one"))
    else:
        put(file, signed("one"))

    first = loaded(file, store=store)
    assert await revoked(first, "one", "two") == ["one"]
    if left == "deleted":
        with closing(sqlite3.connect(store, isolation_level=None)) as other:
            other.execute("DELETE FROM revocations")
    else:
        put(file, signed(at=NOW - 10) if left == "older" else signed(at=0))
    started = loaded(file, store=store)
    assert await revoked(started, "one", "two") == ["one"]
    put(file, signed("one", "two", at=NOW + 1))
    assert await revoked(started, "one", "two") == ["one", "two"]
    put(file, signed("two", at=NOW + 2))  # the issuer's own word, and newer
    assert await revoked(started, "one", "two") == ["two"]
    assert await revoked(loaded(file, store=store), "one", "two") == ["two"]


async def test_what_a_store_remembers_and_its_issuer_did_not_sign_counts_for_nothing(file: Path, store: Path) -> None:
    put(file, signed("one"))

    await revoked(loaded(file, store=store), "one")
    later = replace(issue_revocation_list(WORLD.owner.signer(), ["x"], NOW + 9), revoked_certs=("two",)).encode()
    for text in (later, b"garbage", signed("two", by=WORLD.sub)):
        with closing(sqlite3.connect(store, isolation_level=None)) as other:
            other.execute("UPDATE known_lists SET list = ?", (text,))
        told: list[str] = []
        lists = loaded(file, store=store, told=told.append)
        assert ["would not be noticed" in each for each in told] == [True]
        assert await revoked(lists, "one", "two") == ["one"]
        assert lists.problem() is None
        loaded(file, store=store, told=told.append)
        assert len(told) == 1  # by then it was put right
    put(file, signed(at=NOW - 1))
    assert await revoked(loaded(file, store=store), "one") == ["one"]  # it was put right


@pytest.mark.holds("stores/revocation", "own-row")
async def test_an_issuers_list_in_the_row_of_another_one_counts_for_neither(file: Path, store: Path) -> None:
    """Whoever may write the store would have the one remembered, and the other forgotten without a word."""
    put(file, signed("one", by=WORLD.agent))
    before = await revoked(loaded(file, store=store), "one", "two")  # which is remembered
    own = signed("two", by=WORLD.agent, at=NOW + 9)
    with closing(sqlite3.connect(store, isolation_level=None)) as other:
        other.execute("INSERT INTO known_lists VALUES (?, ?)", (WORLD.owner.id, own))
    told: list[str] = []
    lists = loaded(file, store=store, told=told.append)
    assert await revoked(lists, "one", "two") == before == ["one"]
    assert ["in another issuer's row" in each for each in told] == [True]
    put_into_store(store, own, WORLD.owner.id)
    assert await revoked(lists, "one", "two") == before
    assert "in another issuer's row" in (lists.problem() or "")
    with pytest.raises(ConfigurationError, match="in another issuer's row"):
        loaded(file, store=store)
    put_into_store(store, own, WORLD.agent.id)
    assert await revoked(lists, "one", "two") == ["one", "two"]


def test_nobody_remembers_a_list_in_a_store_that_only_looked(file: Path, store: Path) -> None:
    put(file, signed("one"))
    loaded(file, store=store)
    assert not store.exists()


async def test_who_has_a_list_learns_whether_it_is_in_force__and_not_from_one_that_does_not_count(
    file: Path, store: Path
) -> None:
    first, second, third = signed("a"), signed("a", "b", at=NOW + 1), signed("a", at=NOW - 1)
    put(file, first)
    put_into_store(store, second)
    lists = RevocationLists([file], KEYS, store=store)
    lists.load()
    assert lists.has_list(sha256(first))
    assert lists.has_list(sha256(second))
    for other in (third, first.replace(b'"a"', b'"c"'), b""):  # an older one, a forged one, nothing
        put(file, other)
        await lists.check()
        assert not lists.has_list(sha256(other))
        assert lists.has_list(sha256(first))  # which stays in force
    put(file, signed("a", "c", at=NOW + 2))
    await lists.check()
    assert not lists.has_list(sha256(first))
    followed = RevocationLists([file], KEYS, store=store, before=lists)
    followed.load()
    assert followed.has_list(sha256(second))


@pytest.mark.slow
@pytest.mark.holds("stores/revocation", "newest")
@pytest.mark.parametrize("renamed", [False, True])
@pytest.mark.parametrize("left", [None, signed("old", at=NOW - 9), signed(at=NOW)], ids=["gone", "older", "shorter"])
def test_a_worker_that_takes_a_dead_ones_place_takes_no_revocation_back_that_the_others_know(
    left: bytes | None, renamed: bool, file: Path
) -> None:
    put(file, signed(at=NOW - 10))
    parent = loaded(file)
    watched = file.with_name("other.json") if renamed else file

    def forked() -> int:
        """Ask in a process that is forked from the parent: 0 is that one is revoked, 1 none, 2 that nobody knows."""
        pid = os.fork()
        if pid:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        code = 9
        try:
            lists = succeeded(parent, watched) if renamed else parent
            code = 0 if run(revoked(lists, "one")) else 1
        except (StoreUnavailable, ConfigurationError):
            code = 2
        finally:
            os._exit(code)

    put(watched, signed(at=NOW - 10))
    assert forked() == 1
    put(watched, signed("one"))
    assert forked() == 0
    watched.unlink()
    if left is not None:
        put(watched, left)
    assert forked() == 2
    put(watched, signed("one"))
    assert forked() == 0
