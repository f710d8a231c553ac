"""This machine's clock."""

import time

from accredit.base.clock import unix_ms, unix_seconds


def test_seconds_and_milliseconds_are_of_the_same_clock() -> None:
    before = time.time()
    seconds, ms = unix_seconds(), unix_ms()
    after = time.time()
    assert int(before) <= seconds <= after
    assert int(before * 1_000) <= ms <= after * 1_000
