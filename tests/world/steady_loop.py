"""An event loop whose clock does not see that the machine stalls: for what has to come in time, again and again.

Where both sides of a test are in one loop, a stall leaves neither any time, and yet would use up the patience of the
one that waits. Not uvloop, whose clock can't be replaced. No I/O of its own.
"""

import asyncio
import selectors
import time

_STEP = 0.01
"""Seconds: no wait is longer, and none counts for much more."""


class SteadyLoop(asyncio.SelectorEventLoop):
    """Its time goes on by two steps at the most, however long it got no time from the machine."""

    def __init__(self) -> None:
        self._now = self._looked_at = time.monotonic()
        super().__init__(_ShortWaits())

    def time(self) -> float:
        """Its own seconds."""
        looked_at, self._looked_at = self._looked_at, time.monotonic()
        self._now += min(self._looked_at - looked_at, 2 * _STEP)
        return self._now


class _ShortWaits(selectors.DefaultSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(_STEP if timeout is None else min(timeout, _STEP))
