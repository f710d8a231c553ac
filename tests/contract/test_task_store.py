"""What all memories of tasks promise (`ports.TaskStore`), and that they promise the same."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.world.stores import NOW, SHARED_URLS, URLS, opened_tasks
from tests.world.thief import Thief

from accredit import limits
from accredit.errors import ClockSetBack, StoreUnavailable
from accredit.limits import CLOCK_BACK_SECONDS
from accredit.ports import Task, TaskStore
from accredit.stores import tasks
from accredit.stores.postgres.forgetting import DATABASE_KEEP_SECONDS

pytestmark = pytest.mark.holds("stores/tasks")

Opening = AbstractAsyncContextManager[TaskStore]


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def task(owner: int = 1, target: str = "pay", flow: str = "f") -> Task:
    return Task(key(owner), "tools/call", target, b'{"amount":5}', flow)


@pytest.fixture(params=URLS)
def url(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def opening(url: str, tmp_path: Path) -> Opening:
    return opened_tasks(url, tmp_path)


async def test_a_task_is_known_as_long_as_it_was_told_to_and_no_longer(opening: Opening) -> None:
    async with opening as store:
        assert await store.find(key(1), now=NOW) is None
        odd = task(target="p\ud800y\0")
        assert await store.keep(key(1), odd, keep_until=NOW + 60, now=NOW) == odd
        assert await store.find(key(1), now=NOW + 60) == odd
        assert await store.find(key(1), now=NOW + 61) is None
        assert await store.find(key(2), now=NOW) is None


@pytest.mark.parametrize("url", SHARED_URLS)
async def test_a_row_whose_names_are_no_text_is_no_task__and_ends_no_connection_of_others(
    url: str, tmp_path: Path
) -> None:
    async with opened_tasks(url, tmp_path) as store:
        await store.keep(key(1), task(), keep_until=NOW + 60, now=NOW)
        Thief(tmp_path / "store.db").run("UPDATE tasks SET method = ?", b"\xff")
        assert await store.find(key(1), now=NOW) is None
        assert await store.keep(key(1), task(2), keep_until=NOW + 60, now=NOW) == task(2)


async def test_a_key_that_is_known_keeps_its_task__whoever_comes_next(opening: Opening) -> None:
    async with opening as store:
        first = await store.keep(key(1), task(1), keep_until=NOW + 60, now=NOW)
        assert await store.keep(key(1), task(2, "list_inbox"), keep_until=NOW + 90, now=NOW) == first
        assert await store.find(key(1), now=NOW) == first
        assert await store.find(key(1), now=NOW + 61) is None
        later = task(2, "list_inbox")
        assert await store.keep(key(1), later, keep_until=NOW + 90, now=NOW + 61) == later
        assert await store.owned(key(1), now=NOW + 61) == frozenset()
        assert await store.owned(key(2), now=NOW + 61) == {key(1)}


async def test_a_task_that_is_renewed_is_kept_longer__unless_another_has_changed_it(opening: Opening) -> None:
    async with opening as store:
        known = await store.keep(key(1), task(1), keep_until=NOW + 60, now=NOW)
        changed = replace(known, facts=b"{}")
        assert await store.renew(key(1), known, changed, keep_until=NOW + 90, now=NOW)
        assert not await store.renew(key(1), known, known, keep_until=NOW + 99, now=NOW)
        assert not await store.renew(key(2), known, known, keep_until=NOW + 99, now=NOW)
        of_another = replace(changed, owner=key(2))
        assert not await store.renew(key(1), of_another, of_another, keep_until=NOW + 99, now=NOW)
        assert await store.renew(key(1), changed, changed, keep_until=NOW + 30, now=NOW)
        assert await store.find(key(1), now=NOW + 90) == changed
        assert await store.owned(key(1), now=NOW + 90) == {key(1)}
        assert not await store.renew(key(1), changed, changed, keep_until=NOW + 99, now=NOW + 91)


async def test_each_owner_s_tasks_are_listed_for_that_owner_alone(opening: Opening) -> None:
    async with opening as store:
        for number in range(6):
            await store.keep(key(number), task(number % 2), keep_until=NOW + number, now=NOW)
        assert await store.owned(key(0), now=NOW) == {key(0), key(2), key(4)}
        assert await store.owned(key(1), now=NOW + 3) == {key(3), key(5)}
        assert await store.owned(key(7), now=NOW) == frozenset()


async def test_one_owner_can_t_take_the_room_of_others__and_what_has_expired_takes_none(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert limits.MAX_TASKS_PER_OWNER * 10 <= tasks.MAX_TASKS
    monkeypatch.setattr(tasks, "MAX_TASKS_PER_OWNER", 2)
    monkeypatch.setattr(tasks, "MAX_TASKS", 3)
    later = NOW + 60 + DATABASE_KEEP_SECONDS + 1

    async with opening as store:
        for number in range(2):
            await store.keep(key(number), task(1), keep_until=NOW + 60, now=NOW)
        with pytest.raises(StoreUnavailable):
            await store.keep(key(2), task(1), keep_until=NOW + 60, now=NOW)
        await store.keep(key(2), task(2), keep_until=NOW + 60, now=NOW)
        with pytest.raises(StoreUnavailable):
            await store.keep(key(3), task(3), keep_until=NOW + 60, now=NOW)
        for number in range(3, 6):
            await store.keep(key(number), task(number), keep_until=later + 30, now=later)
        assert await store.owned(key(1), now=later) == frozenset()


async def test_the_id_of_a_task_that_a_clock_ahead_had_forgotten_becomes_no_other_task_s(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "MAX_TASKS", 1)
    ahead, cheap = NOW + 4_000, task(2, "list_inbox")

    async with opening as store:
        await store.keep(key(1), task(1), keep_until=NOW + 60, now=NOW)
        await store.keep(key(2), task(1), keep_until=ahead + 60, now=ahead)
        assert await store.find(key(1), now=NOW) is None
        for now in (NOW, NOW + 60):
            with pytest.raises(ClockSetBack):
                await store.keep(key(1), cheap, keep_until=now + 60, now=now)
        assert await store.find(key(2), now=NOW) == task(1)


async def test_a_task_is_known_again_where_a_clock_was_ahead_for_a_moment(opening: Opening) -> None:
    async with opening as store:
        await store.keep(key(1), task(1), keep_until=NOW + 60, now=NOW)
        late = NOW + 60 + CLOCK_BACK_SECONDS
        assert await store.find(key(1), now=late) is None
        await store.keep(key(2), task(1), keep_until=late, now=late)
        assert await store.find(key(1), now=NOW) == task(1)
        assert await store.owned(key(1), now=NOW) == {key(1), key(2)}
        await store.keep(key(3), task(1), keep_until=NOW, now=NOW)


@pytest.mark.parametrize("url", SHARED_URLS)
async def test_what_is_remembered_is_shared_by_all_who_open_it__and_survives_them(url: str, tmp_path: Path) -> None:
    async with opened_tasks(url, tmp_path) as one, opened_tasks(url, tmp_path) as two:
        await one.keep(key(1), task(), keep_until=NOW + 60, now=NOW)
        assert await two.find(key(1), now=NOW) == task()
    async with opened_tasks(url, tmp_path) as again:
        assert await again.find(key(1), now=NOW) == task()
