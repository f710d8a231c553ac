"""A store's thread follows the event loop's to its core, and no other thread is moved."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread, get_native_id

import pytest
from tests.world.running import run

from accredit.stores.cpu_affinity import Follower
from accredit.stores.sqlite.store import Worker

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system places threads")


NO_THREAD = 2**31 - 1
"""Above any thread's id (proc(5), pid_max)."""


def in_a_thread(work: Callable[[], None]) -> None:
    thread = Thread(target=work)
    thread.start()
    thread.join()


@linux_only
def test_a_thread_follows_another_to_its_core_alone() -> None:
    before, found = os.sched_getaffinity(0), list[set[int]]()
    follower = Follower(get_native_id())

    def work() -> None:
        os.sched_setaffinity(0, before)  # a thread starts with its parent's, which would be the answer already
        follower.follow()
        found.append(os.sched_getaffinity(0))

    for core in before:
        os.sched_setaffinity(0, {core})
        in_a_thread(work)
    os.sched_setaffinity(0, before)
    follower.close()
    assert found == [{core} for core in before]
    assert os.sched_getaffinity(0) == before


@linux_only
def test_one_that_follows_nobody_stays_where_it_is() -> None:
    before, found = os.sched_getaffinity(0), list[set[int]]()
    closed = Follower(get_native_id())
    closed.close()
    closed.close()
    nobody = Follower(NO_THREAD)

    def work() -> None:
        nobody.follow()
        closed.follow()
        found.append(os.sched_getaffinity(0))

    in_a_thread(work)
    assert found == [before]


@linux_only
def test_one_whose_leader_has_gone_stays_where_it_is() -> None:
    before, leaders = os.sched_getaffinity(0), list[tuple[int, Follower]]()
    in_a_thread(lambda: leaders.append((get_native_id(), Follower(get_native_id()))))
    (leader, follower) = leaders[0]
    while Path(f"/proc/self/task/{leader}").exists():  # a thread that was joined may still be on its way out
        os.sched_yield()
    follower.follow()
    follower.close()
    assert os.sched_getaffinity(0) == before


@linux_only
def test_a_store_that_calls_wait_for_runs_on_the_loops_core(tmp_path: Path) -> None:
    async def main() -> set[int]:
        worker = Worker(tmp_path / "some.db")
        try:
            return await worker.run(lambda _: os.sched_getaffinity(0))
        finally:
            await worker.aclose()

    found = run(main())
    assert found <= os.sched_getaffinity(0)
    assert len(found) == 1
