"""The counts of all workers: one slot each, which a worker that takes another's place goes on with."""

import os
import signal
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.telemetry.board import MAX_SERIES, OTHER, Board
from accredit.telemetry.families import BREAKERS, CLIENT_SECONDS, DECISIONS, FAMILIES, LOG_QUEUE, SERVER_SECONDS, STARTS
from accredit.telemetry.metrics import Metrics

pytestmark = [pytest.mark.slow, pytest.mark.holds("telemetry/board"), pytest.mark.holds("telemetry/families")]


def in_child(work: Callable[[], None]) -> int:
    """Runs `work` in a fork, which is killed as soon as it has done it; gives how it ended."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_what_a_killed_worker_has_counted_counts__and_who_takes_its_place_goes_on_from_there() -> None:
    board = Board(2)

    def work() -> None:
        metrics = Metrics(board.slot(1))
        seconds = metrics.durations(SERVER_SECONDS, "")
        for _ in range(1000):
            metrics.decisions.add(("allow", ""))
            seconds.observe((("tools/call", "pay"), ""), 0.015)
        metrics.log_queue.set(5)

    metrics = Metrics(board.slot(0))
    metrics.decisions.add(("allow", ""))
    for life in (1, 2, 3):
        assert in_child(work) == -signal.SIGKILL
        totals = board.totals()
        assert totals[DECISIONS] == {("allow", ""): [1 + 1000 * life]}
        (numbers,) = totals[SERVER_SECONDS].values()
        assert numbers[1] == sum(numbers[:-1]) == 1000 * life
        assert numbers[-1] == pytest.approx(15.0 * life)
        assert totals[STARTS] == {(): [1 + life]}
    Metrics(board.slot(1))
    assert board.totals()[LOG_QUEUE] == {(): [0]}  # what a dead worker's queue had is nobody's any more


def test_a_worker_that_is_killed_at_any_moment_leaves_nothing_half() -> None:
    board = Board()
    for life in range(20):
        ready, told = os.pipe()
        pid = os.fork()
        if pid == 0:
            metrics = Metrics(board.slot())
            os.write(told, b".")
            for number in range(10**9):
                metrics.decisions.add(("allow", f"{life}-{number % 150}"))
        os.read(ready, 1)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ready)
        os.close(told)
        for labels, (number,) in board.totals()[DECISIONS].items():
            assert labels[0] == "allow"
            assert number >= 0
    assert board.totals()[STARTS] == {(): [20]}


def test_gauges_of_several_workers_are_a_sum_or_the_most__as_each_is_meant() -> None:
    board = Board(3)
    for number in range(3):
        metrics = Metrics(board.slot(number))
        metrics.log_queue.set(10)
        metrics.breakers.set(number, ("mail",))
    assert board.totals()[LOG_QUEUE] == {(): [30]}
    assert board.totals()[BREAKERS] == {("mail",): [2]}


@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), max_size=30))
def test_names_of_any_text_come_back_as_they_were(names: list[tuple[str, str]]) -> None:
    names = [(a.encode("utf-8", "replace").decode(), b.encode("utf-8", "replace").decode()) for a, b in names]
    board = Board()
    metrics = Metrics(board.slot())
    for each in names:
        metrics.decisions.add(each)
    again = Metrics(board.slot())
    for each in names:
        again.decisions.add(each)
    assert {labels: number for labels, (number,) in board.totals()[DECISIONS].items()} == {
        each: 2 * names.count(each) for each in names
    }


@pytest.mark.parametrize("long", [1, 1000])
def test_what_there_is_no_room_for_is_counted_as_that_of_some_other(long: int) -> None:
    board = Board()
    metrics = Metrics(board.slot())
    for number in range(MAX_SERIES * 2):
        metrics.decisions.add(("allow", f"{number}" * long))
    totals = board.totals()[DECISIONS]
    assert sum(number for (number,) in totals.values()) == MAX_SERIES * 2
    assert len(totals) <= MAX_SERIES + len(FAMILIES)
    assert totals[OTHER, OTHER][0] >= MAX_SERIES
    metrics.invalid.add(("mail",))  # each family has a place of its own for that
    assert sum(number for (number,) in board.totals()[FAMILIES[3]].values()) == 1


def test_two_threads_make_no_series_twice() -> None:
    board = Board()
    metrics = Metrics(board.slot())

    def count(by: int) -> None:
        for number in range(500):
            metrics.slot.place(DECISIONS, ("allow", f"{number * by}"))
            board.totals()

    threads = [threading.Thread(target=count, args=(by,)) for by in (1, 2, 3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    names = [(family, labels) for family, labels, _ in metrics.slot.mine()]
    assert len(names) == len(set(names))


def test_a_bound_belongs_to_the_bucket_that_it_ends() -> None:
    board = Board()
    metrics = Metrics(board.slot())
    served, asked = metrics.durations(SERVER_SECONDS, ""), metrics.durations(CLIENT_SECONDS, "")
    ping = (("ping", ""), "")
    for seconds, other in ((0.0, 301), (0.01, 300), (0.010001, 0.010001), (300, 0.01), (301, 0.0)):
        served.observe(ping, seconds)
        asked.observe(ping, other)
    for family in (SERVER_SECONDS, CLIENT_SECONDS):
        ((*buckets, total),) = board.totals()[family].values()
        assert (buckets[0], buckets[1], buckets[-2], buckets[-1]) == (2, 1, 1, 1)
        assert total == pytest.approx(0.01 + 0.010001 + 300 + 301)
