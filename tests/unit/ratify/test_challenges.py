"""The memory store: a challenge is good once, for what it was issued for, and not for ever."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.unit.ratify.world import CONTEXT, NOW

from accredit.errors import ChallengesFull
from accredit.ratify import CertificateCache, MemoryChallengeStore


def store(max_size: int = 10) -> MemoryChallengeStore:
    numbers = itertools.count()
    return MemoryChallengeStore(lambda size: next(numbers).to_bytes(size, "big"), max_size)


def test_is_good_once() -> None:
    found = store()
    issued = found.issue(CONTEXT, 60, NOW)
    assert (len(issued.challenge), issued.expires_at) == (32, NOW + 60)
    assert found.validate(issued.challenge, CONTEXT, NOW) is None
    assert found.validate(issued.challenge, CONTEXT, NOW) is None
    assert found.consume(issued.challenge, CONTEXT, NOW) is None
    assert found.validate(issued.challenge, CONTEXT, NOW) is not None
    assert found.consume(issued.challenge, CONTEXT, NOW) is not None


@pytest.mark.parametrize(("at", "good"), [(0, True), (60, True), (61, False)])
def test_the_last_second_is_included(at: int, good: bool) -> None:
    found = store()
    issued = found.issue(b"", 60, NOW)
    assert (found.validate(issued.challenge, b"", NOW + at) is None) is good
    assert (found.consume(issued.challenge, b"", NOW + at) is None) is good


def test_another_binding_is_refused_and_spends_nothing() -> None:
    found = store()
    issued = found.issue(CONTEXT, 60, NOW)
    for other in (b"", bytes(32)):
        assert found.validate(issued.challenge, other, NOW) is not None
        assert found.consume(issued.challenge, other, NOW) is not None
    assert found.consume(issued.challenge, CONTEXT, NOW) is None


def test_a_full_store_issues_nothing_until_something_is_used_or_expires() -> None:
    found = store(2)
    first, second = found.issue(b"", 60, NOW), found.issue(b"", 120, NOW)
    with pytest.raises(ChallengesFull):
        found.issue(b"", 60, NOW)
    found.consume(second.challenge, b"", NOW)
    third = found.issue(b"", 120, NOW)
    with pytest.raises(ChallengesFull):
        found.issue(b"", 60, NOW + 60)
    fourth = found.issue(b"", 60, NOW + 61)
    assert found.validate(first.challenge, b"", NOW) is not None
    assert found.validate(third.challenge, b"", NOW + 61) is found.validate(fourth.challenge, b"", NOW + 61)
    assert len(found) == 2


@pytest.mark.parametrize(("binding", "ttl"), [(b"x", 60), (bytes(33), 60), (b"", 0), (b"", -1)])
def test_what_is_not_issued(binding: bytes, ttl: int) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - which of the two is wrong is the point
        store().issue(binding, ttl, NOW)


@pytest.mark.parametrize("size", [0, -1])
def test_bounds_are_at_least_one(size: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        store(size)
    with pytest.raises(ValueError, match="at least 1"):
        CertificateCache(size)


def test_of_many_at_once_exactly_one_consumes_it() -> None:
    found = store(100)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(50):
            challenge = found.issue(b"", 60, NOW).challenge
            calls = [pool.submit(found.consume, challenge, b"", NOW) for _ in range(8)]
            answers = [call.result() for call in calls]
            assert answers.count(None) == 1
