"""This machine's clock, in the one place that reads it: everybody else is told the time."""

import time


def unix_seconds() -> int:
    """The time in whole unix seconds."""
    return time.time_ns() // 1_000_000_000


def unix_ms() -> int:
    """The time in unix milliseconds."""
    return time.time_ns() // 1_000_000
