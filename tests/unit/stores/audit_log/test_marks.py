"""Marks of a long log are in a temporary file, in the same order as in memory; where there is no room for it, nobody
says that a log is good."""

import random
import tracemalloc
from collections.abc import Iterator

import pytest
from tests.world.records import NOW_MS, Chained, decided, gateway

from accredit.attest import Mark, Stored, timestamp, verify_log
from accredit.attest.calls import GOES_ON, OUTCOME, MarksInMemory
from accredit.errors import StoreUnavailable
from accredit.stores.audit_log import marks as marks_file
from accredit.stores.audit_log.marks import MarksInFile

pytestmark = [pytest.mark.slow, pytest.mark.holds("stores/audit_log/marks")]


def made(calls: int) -> Iterator[Mark]:
    """Marks of as many calls, each with a decision and an outcome, in the order of the log."""
    ids = random.Random(7)
    for number in range(calls):
        call = f"{ids.getrandbits(128):032x}"
        for each, says in enumerate((GOES_ON, OUTCOME)):
            place = 2 * number + each
            yield Mark(call, place, number % 4, place + 1, says, timestamp(NOW_MS + number))


@pytest.mark.parametrize("at_once", [1, 7, 10_000])
def test_they_come_in_the_order_in_which_the_memory_has_them(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks_file, "MARKS_AT_ONCE", at_once)
    in_memory = MarksInMemory()
    with MarksInFile() as in_file:
        for each in made(500):
            in_memory.add(each)
            in_file.add(each)
        assert list(in_file.by_call()) == list(in_memory.by_call())


def test_a_log_has_the_same_verdict_with_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks_file, "MARKS_AT_ONCE", 3)
    chain = Chained(writer="0a" * 16)
    good = [*map(Stored, chain.calls(9))]
    chain.outcome(decided())
    for entries in (good, [*map(Stored, chain.envelopes)]):
        with MarksInFile() as marks:
            report = verify_log(entries, [gateway()[1]], marks=marks)
        assert report == verify_log(entries, [gateway()[1]])
        assert report.valid is (entries is good)


def test_memory_does_not_grow_with_them() -> None:
    """What SQLite has of them is bounded by its cache, and is none of Python's."""
    with MarksInFile() as marks:
        tracemalloc.start()
        try:
            for each in made(10_000):
                marks.add(each)
            assert sum(1 for _ in marks.by_call()) == 20_000
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 2_000_000


def test_without_room_for_them_there_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks_file, "MARKS_AT_ONCE", 64)
    chain = Chained(writer="0a" * 16)
    entries = [*map(Stored, chain.calls(100))]
    with MarksInFile() as marks:
        marks._connection.execute("PRAGMA cache_size = 1")
        marks._connection.execute("PRAGMA max_page_count = 4")  # as a full disk
        with pytest.raises(StoreUnavailable, match="full"):
            verify_log(entries, [gateway()[1]], marks=marks)
