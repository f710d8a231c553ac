"""What pages are told while they are open: the whole state, again at every change. No I/O of its own.

A state has a number. A page that comes back with the last one that it saw (`Last-Event-ID`) is told at once if there
is a newer one, and else waits: so nothing is lost, and nothing is kept for pages that are gone.
"""

import asyncio


class Changes:
    """Counts changes, and wakes whoever waits for the next one."""

    def __init__(self, first: int) -> None:
        """Begin with a number that no earlier process had reached: the time in milliseconds."""
        self.number = first
        self.is_over = False
        self.watched = 0
        """How many pages are being told."""
        self._changed = asyncio.Event()

    def note(self) -> None:
        """Note a change."""
        self.number += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def end(self) -> None:
        """Let everybody who waits go home."""
        self.is_over = True
        self.note()

    async def after(self, seen: int, seconds: float) -> bool:
        """Wait for a state that is not the one that was seen. Return False if there was none for so long."""
        changed = self._changed
        if self.number != seen:
            return True
        try:
            async with asyncio.timeout(seconds):
                await changed.wait()
        except TimeoutError:
            return False
        return True
