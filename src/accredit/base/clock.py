"""What is read from this machine: its clock, and random ids. The clock is read only here: other modules are passed the
time."""

import secrets
import time

_ID_BYTES = 16
_IDS_AT_ONCE = 64


def unix_seconds() -> int:
    """Return the time in whole unix seconds."""
    return time.time_ns() // 1_000_000_000


def unix_ms() -> int:
    """Return the time in unix milliseconds."""
    return time.time_ns() // 1_000_000


def unix_ns() -> int:
    """Return the time in unix nanoseconds."""
    return time.time_ns()


class RandomIds:
    """Makes ids of 128 random bits. They are drawn in batches, as each system call for randomness lets other threads
    take the interpreter. Processes must not share a batch: create this object, or first draw from it, after
    forking."""

    __slots__ = ("_stock",)

    def __init__(self) -> None:
        self._stock = b""

    def draw(self) -> str:
        """Return a new unique id, in hex."""
        if len(self._stock) < _ID_BYTES:
            self._stock = secrets.token_bytes(_ID_BYTES * _IDS_AT_ONCE)
        drawn, self._stock = self._stock[:_ID_BYTES], self._stock[_ID_BYTES:]
        return drawn.hex()
