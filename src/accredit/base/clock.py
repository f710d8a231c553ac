"""This machine's clock. It is read only here: other modules are passed the time."""

import time


def unix_seconds() -> int:
    """Return the time in whole unix seconds."""
    return time.time_ns() // 1_000_000_000


def unix_ms() -> int:
    """Return the time in unix milliseconds."""
    return time.time_ns() // 1_000_000


def unix_ns() -> int:
    """Return the time in unix nanoseconds."""
    return time.time_ns()
