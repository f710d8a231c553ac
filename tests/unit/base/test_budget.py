"""Budgets of uses: what strangers may ask for, together and each of them."""

from tests.world.virtual_time import Clock

from accredit.base.budget import MAX_BUDGET_PEERS, Budget, PeerBudget


def test_a_budget_is_used_up__and_refilled_as_time_passes() -> None:
    clock = Clock(0.0)
    budget = Budget(2, 0.5, clock)
    assert [budget.take() for _ in range(3)] == [True, True, False]
    clock.now = 2.0
    assert [budget.take() for _ in range(2)] == [True, False]
    clock.now = 1_000.0
    assert [budget.take() for _ in range(3)] == [True, True, False]


def test_one_peer_uses_up_its_half__and_leaves_the_rest_to_others() -> None:
    clock = Clock(0.0)
    budget = PeerBudget(8, 2.0, clock)
    assert [budget.take("a") for _ in range(5)] == [True] * 4 + [False]
    assert [budget.take("b") for _ in range(5)] == [True] * 4 + [False]
    assert budget.take("c") is False
    clock.now = 1.0
    assert [budget.take(each) for each in ("a", "a", "b", "c")] == [True, False, True, False]


def test_who_comes_from_many_addresses_has_no_more_than_the_whole__nor_the_memory_for_all() -> None:
    budget = PeerBudget(8, 2.0, Clock(0.0))
    assert sum(budget.take(f"{number}") for number in range(2 * MAX_BUDGET_PEERS)) == 8
