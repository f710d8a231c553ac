"""An event loop whose time is made up: where all wait for a timer, it is that time at once.

So a test of what happens when takes none, and ends the same on a machine that stalls. For coroutines that wait for
nothing but timers and each other: whatever another thread or process does takes no time either. Also a clock that a
test sets.
"""

import asyncio
import math
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.world.running import run

T = TypeVar("T")

_ROUNDING = 1e-6


class Clock:
    """A clock that is set by hand, in seconds."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class _Selector(selectors.DefaultSelector):
    """Does not wait: it notes how long it would have."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(None if timeout is None else 0)
        if not found and timeout is not None:
            self.waited += timeout
        return found


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Begins at 0."""

    def __init__(self) -> None:
        self._timeless = _Selector()
        super().__init__(self._timeless)

    def time(self) -> float:
        """Seconds that have passed, as far as anybody in this loop can tell."""
        return self._timeless.waited

    def goes_by(self, seconds: float) -> None:
        """Has so much time pass during a step: what computes takes none otherwise."""
        self._timeless.waited += seconds


def run_virtually(main: Coroutine[Any, Any, T], *, within: float = math.inf) -> T:
    """Runs `main` as `run` does, in such a loop; fails where it ends later than `within` its first so many seconds."""

    async def timed() -> T:
        try:
            return await main
        finally:
            took = asyncio.get_running_loop().time()
            assert took <= within + _ROUNDING, f"took {took} s"

    return run(timed(), VirtualTimeLoop)
