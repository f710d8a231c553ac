"""Bounds how long a child may be silent about a request. A timer of the event loop."""

import asyncio
from collections.abc import Callable


class Deadline:
    """Calls `late` after `seconds` of silence; time in which `held` is true does not count.

    `touch` costs only a look at the clock: the timer is moved when it goes off too early.
    """

    __slots__ = ("_heard", "_held", "_late", "_loop", "_seconds", "_timer")

    def __init__(self, seconds: float, late: Callable[[], None], held: Callable[[], bool]) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._late = late
        self._held = held
        self._heard = self._loop.time()
        self._timer = self._loop.call_later(seconds, self._ring)

    def touch(self) -> None:
        """Restart the time: something came."""
        self._heard = self._loop.time()

    def cancel(self) -> None:
        """Stop the timer."""
        self._timer.cancel()

    def _ring(self) -> None:
        if self._held():
            self.touch()
        left = self._heard + self._seconds - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._ring)
        else:
            self._late()
