"""One SQLite file and several processes: what one has spent, none spends again."""

import os
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Barrier

import pytest
from tests.world.raw_server import PATIENCE
from tests.world.running import run
from tests.world.stores import NOW, ROOT, challenge, process, request

from accredit.ports import Spending
from accredit.stores import SqliteStore
from accredit.stores.sqlite.database import Database

pytestmark = [pytest.mark.slow, pytest.mark.holds("stores/sqlite/store"), pytest.mark.holds("stores/sqlite/database")]


async def spend(store: SqliteStore, number: int) -> Spending:
    return await store.spend(challenge(number), request(0), issued=False, keep_until=NOW + 60, now=NOW)


def test_what_a_process_has_spent_the_next_one_knows(tmp_path: Path) -> None:
    async def main() -> Spending:
        store = SqliteStore(tmp_path / "store.db")
        try:
            return await spend(store, 1)
        finally:
            await store.aclose()

    assert [run(main()), run(main())] == [Spending.FIRST, Spending.SPENT]


async def test_a_challenge_that_one_store_issued_another_spends(tmp_path: Path) -> None:
    one, other = SqliteStore(tmp_path / "store.db"), SqliteStore(tmp_path / "store.db")
    try:
        found = (await one.issue(request(1), expires_at=NOW + 60)).challenge
        verdicts = [
            await store.spend(found, request(1), issued=True, keep_until=NOW + 60, now=NOW) for store in (other, one)
        ]
    finally:
        await one.aclose()
        await other.aclose()
    assert verdicts == [Spending.FIRST, Spending.SPENT]


def test_of_four_processes_that_spend_the_same_challenges_at_once_one_is_the_first_for_each(tmp_path: Path) -> None:
    many = 500
    with ExitStack() as stack:
        processes = [stack.enter_context(process(tmp_path / "store.db")) for _ in range(4)]
        for each in processes:
            each.tell("ready 0")
            assert each.says() is True
        for each in processes:
            each.tell(f"spend {many}")
        said = [each.says() for each in processes]
    for verdicts in zip(*said, strict=True):
        assert Counter(verdicts) == {"first": 1, "spent": 3}


def test_those_who_make_a_file_at_once_make_one(tmp_path: Path) -> None:
    for number in range(20):
        path, together = tmp_path / f"{number}.db", Barrier(4)

        def first_use(path: Path = path, together: Barrier = together) -> bool:
            with closing(Database(path)) as database:
                together.wait()
                return database.transact_waiting(bool, writes=True)

        with ThreadPoolExecutor(4) as pool:
            assert all(each.result() for each in [pool.submit(first_use) for _ in range(4)])


def test_four_processes_together_stay_within_a_limit(tmp_path: Path) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(process(tmp_path / "store.db")) for _ in range(4)]
        for each in processes:
            each.tell("use 60")
        assert sum(each.says() for each in processes) == 100


@pytest.mark.parametrize("said", [1, 20, 100])
def test_a_process_that_is_killed_has_forgotten_nothing_that_it_said(said: int, tmp_path: Path) -> None:
    with process(tmp_path / "store.db") as killed:
        killed.tell("spend_on 0")
        for number in range(said):
            assert killed.says() == [number, "first"]
        killed.kill()
    with process(tmp_path / "store.db") as following:
        following.tell(f"spend {said}")
        assert following.says() == ["spent"] * said


FORKING = """
import asyncio, os, sys
from pathlib import Path
from tests.world.patience import be_patient
from tests.world.stores import NOW, challenge, request
from accredit.stores import SqliteStore

be_patient()
store = SqliteStore(Path(sys.argv[1]))

async def main():
    verdicts = [
        await store.spend(challenge(each), request(0), issued=False, keep_until=NOW, now=NOW) for each in range(100)
    ]
    await store.aclose()
    print(sum(verdict.value == "first" for verdict in verdicts), flush=True)

for _ in range(2):
    if os.fork() == 0:
        asyncio.run(main())
        os._exit(0)
for _ in range(2):
    os.wait()
"""


def test_workers_that_were_forked_with_a_store_share_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, str(tmp_path / "store.db")],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=PATIENCE,
    )
    assert sum(map(int, done.stdout.split())) == 100


def test_a_folder_or_file_that_can_not_be_written__no(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with process(folder / "store.db") as before:
        before.tell("spend 1")
        assert before.says() == ["first"]
    for path in (tmp_path, *tmp_path.parents):
        if path.owner() == folder.owner() and path.name.startswith("pytest"):
            path.chmod(0o755)
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    for name in ("store.db", "new.db"):
        with process(folder / name) as poor:
            if os.geteuid() == 0:
                poor.tell("become 65534")
                assert poor.says() == "done"
            poor.tell("ready 0")
            assert poor.says() is False
            poor.tell("spend 2")
            assert poor.says() == ["unavailable"] * 2


def test_a_full_disk__no_until_there_is_room_again_and_what_was_spent_stays_so(tmp_path: Path) -> None:
    with process(tmp_path / "store.db") as store:
        store.tell("spend 10")
        assert store.says() == ["first"] * 10
        wal = tmp_path / "store.db-wal"
        store.tell(f"disk {wal.stat().st_size + 20_000}")
        assert store.says() == "done"
        store.tell("spend 1000")
        said = store.says()
        assert said[:10] == ["spent"] * 10
        assert "unavailable" in said
        store.tell("disk 0")
        assert store.says() == "done"
        store.tell("spend 1000")
        again = store.says()
    for before, after in zip(said, again, strict=True):
        assert after == ("first" if before == "unavailable" else "spent")
