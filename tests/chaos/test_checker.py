"""The checker says of every short history what a plain search through all orders says."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.chaos.checker import (
    COUNTED,
    FIRST,
    REFUSED,
    SPENT,
    UNKNOWN,
    Limited,
    Model,
    OneShot,
    Operation,
    is_sound,
    most_within,
    unsound,
)


def told(answer: str | None, begun: float, ended: float, at: int = 0) -> Operation:
    return Operation("c", begun, ended, answer, at=at)


def found_by_trying_all(operations: Sequence[Operation], model: Model) -> bool:
    unknown = [each for each in operations if each.answer is UNKNOWN]
    sure = [each for each in operations if each.answer is not UNKNOWN]
    for count in range(len(unknown) + 1):
        for some in itertools.combinations(unknown, count):
            if any(is_good(order, model) for order in itertools.permutations([*sure, *some])):
                return True
    return False


def is_good(order: Sequence[Operation], model: Model) -> bool:
    state = model.initial
    for place, each in enumerate(order):
        if any(later.last < each.begun for later in order[place:]):
            return False
        after = model.after(state, each)
        if after is None:
            return False
        state = after
    return True


def _told(answer: str | None, times: tuple[int, int], at: int) -> Operation:
    return told(answer, *times, at)


def _interval(pair: tuple[int, int]) -> tuple[int, int]:
    return pair[0], sum(pair)


TIMES = st.tuples(st.integers(0, 6), st.integers(0, 4)).map(_interval)


def histories(*answers: str | None, at: int = 0) -> st.SearchStrategy[list[Operation]]:
    one = st.builds(_told, st.sampled_from(answers), TIMES, st.integers(0, at))
    return st.lists(one, max_size=5)


@given(histories(FIRST, SPENT, UNKNOWN))
@example([told(FIRST, 0, 1), told(FIRST, 2, 3)])
@example([told(FIRST, 0, 1), told(UNKNOWN, 2, 3), told(SPENT, 2, 3), told(FIRST, 4, 5)])
def test_of_a_challenge_it_says_what_trying_all_orders_says(operations: list[Operation]) -> None:
    assert is_sound(operations, OneShot()) == found_by_trying_all(operations, OneShot())


@given(histories(COUNTED, REFUSED, UNKNOWN, at=3), st.integers(1, 3), st.integers(1, 4), st.integers(0, 1))
def test_of_uses_it_says_what_trying_all_orders_says(
    operations: list[Operation], count: int, window: int, slack: int
) -> None:
    model = Limited(count, window, slack)
    assert is_sound(operations, model) == found_by_trying_all(operations, model)


@pytest.mark.parametrize(
    "operations",
    [
        [told(FIRST, 0, 5), told(FIRST, 1, 2)],
        [told(FIRST, 0, 1), told(FIRST, 9, 10)],
        [told(SPENT, 0, 1), told(FIRST, 2, 3)],
        [told(SPENT, 0, 1)],
        [told(SPENT, 0, 1), told(UNKNOWN, 2, 3)],
    ],
    ids=["twice at once", "twice", "spent before it was", "spent by nobody", "spent by who came later"],
)
def test_a_challenge_that_was_good_twice__or_spent_by_nobody__is_seen(operations: list[Operation]) -> None:
    assert len(unsound(operations)) == 1
    assert unsound(operations)[0].startswith("c: ")


@pytest.mark.parametrize(
    "operations",
    [
        [told(SPENT, 0, 5), told(FIRST, 1, 2)],
        [told(UNKNOWN, 0, 1), told(SPENT, 8, 9)],
        [told(UNKNOWN, 0, 1), told(FIRST, 8, 9)],
        [told(UNKNOWN, 0, 1), told(FIRST, 8, 9), told(SPENT, 9.5, 10)],
        [told(UNKNOWN, 0, 1), told(SPENT, 2, 3), told(FIRST, 8, 9)],
        [],
    ],
    ids=[
        "the loser was told first",
        "it took effect",
        "it did not",
        "it did in the end",
        "it was lost again",
        "nothing",
    ],
)
def test_what_can_have_been_is_no_fault(operations: list[Operation]) -> None:
    assert unsound(operations) == []


def test_one_use_too_many_is_seen__also_among_hundreds_at_once() -> None:
    good = [*(told(COUNTED, 0, 9) for _ in range(10)), *(told(REFUSED, 0, 9) for _ in range(190))]
    unknown = [told(UNKNOWN, 0, 9) for _ in range(50)]
    assert unsound([*good, *unknown], lambda _: Limited(10, 60)) == []
    assert len(unsound([*good, *unknown, told(COUNTED, 0, 9)], lambda _: Limited(10, 60))) == 1
    refused_for_what_was_lost = [told(UNKNOWN, 0, 1), told(REFUSED, 2, 3), told(COUNTED, 4, 5)]
    assert unsound(refused_for_what_was_lost, lambda _: Limited(1, 60)) == []
    refused_for_nothing = [told(COUNTED, 0, 1), told(REFUSED, 2, 3)]
    assert len(unsound(refused_for_nothing, lambda _: Limited(2, 60))) == 1


def test_uses_of_the_window_before_do_not_count() -> None:
    twice = [told(COUNTED, 0, 1, at=0), told(COUNTED, 60, 61, at=60)]
    assert unsound(twice, lambda _: Limited(1, 60)) == []
    assert len(unsound([*twice, told(COUNTED, 70, 71, at=70)], lambda _: Limited(1, 60))) == 1


def test_keys_are_told_apart() -> None:
    operations = [Operation(key, 0, 1, FIRST, "agent") for key in ("a", "b", "b")]
    assert [each.split(":")[0] for each in unsound(operations)] == ["b"]


def test_the_busiest_window_is_found() -> None:
    assert most_within([], 5) == 0
    assert most_within([0, 1, 2, 10, 11, 12, 13, 30], 5) == 4
    assert most_within([0, 5, 10], 5) == 1
