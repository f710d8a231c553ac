"""A bounded memory that threads may share."""

from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

from hypothesis import given
from hypothesis import strategies as st

from accredit.base.caching import RecentlyUsed, RecentlyUsedInSize

STEPS = st.lists(st.tuples(st.sampled_from(["get", "peek", "put", "forget"]), st.integers(0, 5)), max_size=30)


@given(st.integers(0, 4), STEPS)
def test_it_holds_the_last_used_ones_and_no_more(most: int, steps: list[tuple[str, int]]) -> None:
    memory, used = RecentlyUsed[int, int](most), list[int]()
    for step, key in steps:
        if step == "forget":
            memory.forget(key)
        elif step == "put":
            memory.put(key, key)
        else:
            found = memory.get(key) if step == "get" else memory.peek(key)
            assert found == (key if key in used else None)
        if step != "peek" and (step == "put" or key in used):
            used = [each for each in used if each != key] + ([key] if step != "forget" else [])
            used = used[-most:] if most else []
        assert (list(memory.values()), len(memory)) == (used, len(used))
        assert [each in memory for each in range(6)] == [each in used for each in range(6)]


def test_a_value_is_replaced() -> None:
    memory = RecentlyUsed[str, str](2)
    memory.put("a", "old")
    memory.put("a", "new")
    assert (memory.get("a"), len(memory)) == ("new", 1)


@given(st.integers(1, 4), st.integers(0, 9), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=30))
def test_all_that_is_held_is_of_a_bounded_size_but_for_the_newest(
    most: int, size: int, steps: list[tuple[int, int]]
) -> None:
    memory = RecentlyUsedInSize[int, int](most, size)
    for key, of_value in steps:
        if of_value == 6:
            memory.forget(key)
            continue
        memory.put(key, of_value, of_value)
        held = list(memory.values())
        assert held[-1] == of_value
        assert len(held) <= most
        assert len(held) == 1 or sum(held) <= size
        assert memory.has_room(0) == (sum(held) <= size)


def test_a_race_only_makes_it_forget() -> None:
    class Racing(OrderedDict[str, int]):
        """Another thread empties it between any two steps."""

        def move_to_end(self, key: str, last: bool = True) -> None:
            super().move_to_end(key, last)
            self.clear()

        def popitem(self, last: bool = True) -> tuple[str, int]:
            self.clear()
            return super().popitem(last)

    memory = RecentlyUsed[str, int](1)
    memory._entries = Racing()
    memory.put("a", 1)
    assert memory.get("a") is None
    memory.put("a", 1)
    memory.put("b", 2)
    assert len(memory) == 0


def test_threads_may_share_it() -> None:
    memory = RecentlyUsed[int, int](16)

    def work(start: int) -> None:
        for number in range(start, start + 3_000):
            memory.get(number % 40)
            memory.put(number % 40, number)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, start) for start in range(4)]:
            done.result()
    memory.put(99, 99)
    assert len(memory) == 16
