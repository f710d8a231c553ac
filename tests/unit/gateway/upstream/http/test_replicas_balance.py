"""Which replica gets a request, and which are left out: told time, told lots."""

from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from accredit.gateway.upstream.http.replicas import (
    BREAKER_FAILURES,
    BREAKER_JITTER,
    BREAKER_SECONDS,
    Balance,
    ReplicaAttempt,
)

pytestmark = pytest.mark.holds("gateway/upstream/http/replicas")
LONGEST = BREAKER_SECONDS * (1 + BREAKER_JITTER)
SHORTEST = BREAKER_SECONDS * (1 - BREAKER_JITTER)


def middle() -> float:
    """A lot that leaves out for exactly `BREAKER_SECONDS`."""
    return 0.5


def of(*names: str, lot: Callable[[], float] = middle) -> Balance:
    return Balance(names, lot)


def begun(balance: Balance, now: float = 0.0, at: str | None = None) -> ReplicaAttempt:
    turn = balance.begin(now, at=at)
    assert turn is not None
    return turn


def fail(balance: Balance, times: int, now: float = 0.0, at: str = "a") -> None:
    for _ in range(times):
        begun(balance, now, at).failed(now)


@pytest.mark.holds("gateway/upstream/http/replicas", "fewest")
def test_the_replica_with_the_fewest_requests_under_way_is_next__a_lot_decides_between_equals() -> None:
    balance = of("a", "b", "c", lot=lambda: 0.99)
    assert [begun(balance).replica.name for _ in range(3)] == ["c", "b", "a"]
    first = begun(balance, at="a")
    assert begun(balance).replica.name == "c"
    first.end()
    first.end()  # a second end must not make it look idle
    assert {begun(balance).replica.name for _ in range(2)} == {"a", "b"}


@pytest.mark.holds("gateway/upstream/http/replicas", "ejection")
def test_a_replica_is_left_out_by_five_failures_in_a_row_and_not_by_four() -> None:
    balance = of("a", "b")
    fail(balance, BREAKER_FAILURES - 1)
    turn = begun(balance, 0, "a")
    turn.answered(1)
    turn.end()
    fail(balance, BREAKER_FAILURES - 1, now=2)
    assert balance.begin(2, at="a") is not None
    fail(balance, 1, now=2)
    assert balance.begin(2, at="a") is None
    assert [begun(balance, 2).replica.name for _ in range(3)] == ["b", "b", "b"]
    assert balance.begin(2, besides={"b"}) is None


@pytest.mark.holds("gateway/upstream/http/replicas", "ejection")
def test_calls_of_one_slow_tool_do_not_leave_out_a_replica_that_answers_others() -> None:
    balance = of("a")
    slow = [begun(balance, 0) for _ in range(3 * BREAKER_FAILURES)]
    begun(balance, 10).answered(11)
    for turn in slow:
        turn.failed(60)
    assert balance.takes_any(60)


@pytest.mark.holds("gateway/upstream/http/replicas", "trial")
def test_after_its_time_one_request_tries_it__and_no_second_one_meanwhile() -> None:
    balance = of("a")
    fail(balance, BREAKER_FAILURES)
    assert balance.begin(BREAKER_SECONDS - 1) is None
    trial = begun(balance, BREAKER_SECONDS)
    assert balance.begin(BREAKER_SECONDS) is None
    trial.failed(BREAKER_SECONDS + 1)
    assert not balance.takes_any(2 * BREAKER_SECONDS)
    trial = begun(balance, 2 * BREAKER_SECONDS + 1)
    trial.end()  # its client has gone: it has told nothing
    trial = begun(balance, 2 * BREAKER_SECONDS + 2)
    trial.answered(2 * BREAKER_SECONDS + 3)
    fail(balance, BREAKER_FAILURES - 1, now=2 * BREAKER_SECONDS + 4)
    assert balance.takes_any(2 * BREAKER_SECONDS + 4)


@pytest.mark.holds("gateway/upstream/http/replicas", "trial")
def test_an_answer_of_before_does_not_bring_a_replica_back_early() -> None:
    balance = of("a")
    old = begun(balance)
    fail(balance, BREAKER_FAILURES)
    old.answered(1)
    old.end()
    assert balance.begin(2) is None


@pytest.mark.holds("gateway/upstream/http/replicas", "trial")
@pytest.mark.parametrize(("lot", "seconds"), [(0.0, SHORTEST), (0.5, BREAKER_SECONDS), (1.0, LONGEST)])
def test_the_time_varies__or_all_workers_would_try_at_once(lot: float, seconds: float) -> None:
    balance = of("a", lot=lambda: lot)
    fail(balance, BREAKER_FAILURES)
    assert not balance.takes_any(seconds - 0.001)
    assert balance.takes_any(seconds + 0.001)


class AnyHistory(RuleBasedStateMachine):
    """Whatever comes of requests, in whatever order: no replica is lost, and none gets two trials at once."""

    def __init__(self) -> None:
        super().__init__()
        self.balance = of("a", "b", lot=lambda: self.lot)
        self.lot = 0.5
        self.now = 0.0
        self.turns: list[ReplicaAttempt] = []

    @rule(at=st.sampled_from([None, "a", "b"]), lot=st.floats(0, 0.999))
    def begins(self, at: str | None, lot: float) -> None:
        self.lot = lot
        turn = self.balance.begin(self.now, at=at)
        if turn is not None:
            self.turns.append(turn)

    @precondition(lambda self: self.turns)
    @rule(data=st.data(), what=st.sampled_from(["answered", "failed", "end"]))
    def ends(self, data: st.DataObject, what: str) -> None:
        turn = self.turns.pop(data.draw(st.integers(0, len(self.turns) - 1)))
        if what == "failed":
            turn.failed(self.now)
        elif what == "answered":
            turn.answered(self.now)
        turn.end()

    @rule(seconds=st.floats(0, 2 * LONGEST))
    def passes(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def counts_are_true(self) -> None:
        for name, replica in self.balance._replicas.items():
            mine = [turn for turn in self.turns if turn.replica.name == name]
            assert replica.under_way == len(mine)
            trials = [turn for turn in mine if turn._is_trial]
            assert len(trials) <= 1
            assert replica.tried == bool(trials)

    def teardown(self) -> None:
        for turn in self.turns:
            turn.end()
        assert self.balance.begin(self.now + LONGEST, at="a") is not None
        assert self.balance.begin(self.now + LONGEST, at="b") is not None


TestAnyHistory = AnyHistory.TestCase
