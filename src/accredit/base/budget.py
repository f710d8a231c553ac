"""A budget of uses that is refilled as time passes. No I/O."""

import time
from collections.abc import Callable


class Budget:
    """At most `burst` uses at once, and `per_second` more with each second. `clock` returns seconds."""

    __slots__ = ("_burst", "_clock", "_filled_at", "_left", "_per_second")

    def __init__(self, burst: float, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst = self._left = burst
        self._per_second = per_second
        self._clock = clock
        self._filled_at = clock()

    def take(self) -> bool:
        """Take one use, and return whether there was one."""
        now = self._clock()
        self._left = min(self._left + (now - self._filled_at) * self._per_second, self._burst)
        self._filled_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
