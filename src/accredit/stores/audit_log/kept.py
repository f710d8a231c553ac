"""Keeps outcomes while the log can't be written. No I/O.

Each outcome belongs to a call that was open when the log failed: until the log works again, no call can begin. Beyond
`MAX_KEPT_OUTCOMES` or `MAX_KEPT_OUTCOME_BYTES` an outcome is dropped: its call stays open in the log, and is closed as
`unknown` when its writer ends.
"""

from collections import deque
from itertools import islice

from msgspec import Raw

MAX_KEPT_OUTCOMES = 10_000
"""The most outcomes that wait until a durable log can be written again: more than there can be open calls."""
MAX_KEPT_OUTCOME_BYTES = 16_777_216
"""The most bytes of such outcomes. Each has some 1 KiB: outcomes hold no arguments."""


class KeptOutcomes:
    """Outcomes that wait, in the order in which they came. They are written in that order."""

    def __init__(self) -> None:
        self._events: deque[Raw] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._events)

    def add(self, event: Raw) -> bool:
        """Keep an outcome; return False if there is no room for it."""
        if len(self._events) >= MAX_KEPT_OUTCOMES or self._bytes + len(event) > MAX_KEPT_OUTCOME_BYTES:
            return False
        self._events.append(event)
        self._bytes += len(event)
        return True

    def first(self, number: int) -> list[Raw]:
        """Return the first outcomes, at most `number`, without removing them."""
        return list(islice(self._events, number))

    def drop(self, number: int) -> None:
        """Remove the first `number` outcomes: they were written."""
        for _ in range(number):
            self._bytes -= len(self._events.popleft())
