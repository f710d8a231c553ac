"""Postpones work to the end of the event loop's current step. Runs in the event loop.

If several calls write in one step, their bytes are sent in one write. A write is a system call, and most of its cost is
to wake the reader.
"""

import asyncio
from collections.abc import Callable
from weakref import WeakKeyDictionary


class EndOfStep:
    """The work that one loop has postponed."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._due: list[Callable[[], None]] = []

    def add(self, work: Callable[[], None]) -> None:
        """Do `work` at the end of this step."""
        if not self._due:
            self._loop.call_soon(self._run)
        self._due.append(work)

    def _run(self) -> None:
        due, self._due = self._due, []
        for work in due:
            try:
                work()
            except Exception as error:
                self._loop.call_exception_handler({"message": "an exception at the end of a step", "exception": error})


_known: WeakKeyDictionary[asyncio.AbstractEventLoop, EndOfStep] = WeakKeyDictionary()


def end_of_step(loop: asyncio.AbstractEventLoop) -> EndOfStep:
    """Return the `EndOfStep` of this loop."""
    of_loop = _known.get(loop)
    if of_loop is None:
        of_loop = _known[loop] = EndOfStep(loop)
    return of_loop
