"""Pushes the whole state to open pages, again at every change. No I/O of its own.

Each state has a number. A page that reconnects names the last one that it saw (`Last-Event-ID`). If there is a newer
state, it gets that at once; otherwise it waits for one. So no change is missed, and nothing is stored for pages that
have gone.
"""

import asyncio


class Changes:
    """Counts changes, and wakes all tasks that wait for the next one."""

    def __init__(self, first: int) -> None:
        """Start at `first`, the time in milliseconds: no earlier process has reached that number."""
        self.number = first
        self.is_over = False
        self.watched = 0
        """How many pages listen for changes."""
        self._changed = asyncio.Event()

    def note(self) -> None:
        """Count a change, and wake all that wait."""
        self.number += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def end(self) -> None:
        """Wake all waiting tasks. From now on, none waits any more."""
        self.is_over = True
        self.note()

    async def after(self, seen: int, seconds: float) -> bool:
        """Wait for a state other than `seen`. Return False if there was none within `seconds`."""
        changed = self._changed
        if self.number != seen:
            return True
        try:
            async with asyncio.timeout(seconds):
                await changed.wait()
        except TimeoutError:
            return False
        return True
