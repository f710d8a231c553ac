"""A store's thread is moved to the event loop's core, and no other thread is."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest
from tests.world.running import run

from accredit.stores import cores
from accredit.stores.cores import current_core, move_to
from accredit.stores.worker import Worker

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system places threads")


def in_a_thread(work: Callable[[], None]) -> None:
    thread = Thread(target=work)
    thread.start()
    thread.join()


@linux_only
def test_a_thread_is_moved_alone() -> None:
    before, found = os.sched_getaffinity(0), list[set[int]]()

    def work() -> None:
        move_to(min(before))
        found.append(os.sched_getaffinity(0))

    in_a_thread(work)
    assert found == [{min(before)}]
    assert os.sched_getaffinity(0) == before
    assert current_core() in before


@linux_only
@pytest.mark.parametrize("core", [-1, 100_000])
def test_a_core_that_is_not_there_changes_nothing(core: int) -> None:
    before, found = os.sched_getaffinity(0), list[set[int]]()

    def work() -> None:
        move_to(core)
        found.append(os.sched_getaffinity(0))

    in_a_thread(work)
    assert found == [before]


def test_where_the_core_is_not_told_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "_ask", None)
    assert current_core() < 0


@linux_only
@pytest.mark.parametrize("awaited", [True, False])
def test_a_store_that_calls_wait_for_runs_on_the_loops_core(tmp_path: Path, awaited: bool) -> None:
    async def main() -> set[int]:
        worker = Worker(tmp_path / "some.db", awaited=awaited)
        try:
            return await worker.run(lambda _: os.sched_getaffinity(0))
        finally:
            await worker.aclose()

    found = run(main())
    assert found <= os.sched_getaffinity(0)
    assert (len(found) == 1) == (awaited or len(os.sched_getaffinity(0)) == 1)
