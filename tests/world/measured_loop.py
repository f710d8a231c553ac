"""An event loop that knows its longest step: in processor time of its thread, so that what else the machine does counts
nothing; or in calls of functions, which are as many on any machine. No I/O of its own."""

import asyncio
import sys
import time
from collections.abc import Callable
from contextvars import Context
from typing import Any


class MeasuredLoop(asyncio.SelectorEventLoop):
    """`longest` is that of its longest step since it was last set, in seconds."""

    def __init__(self) -> None:
        self.longest = 0.0
        super().__init__()

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.Handle:
        """As in every loop; a task's steps come this way, too."""
        return super().call_soon(self._measured, callback, args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As in every loop."""
        return super().call_at(when, self._measured, callback, args, context=context)

    def _add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> Any:
        """What the loop's own transports do about bytes that have come."""
        made: Any = super()
        return made._add_reader(fd, self._measured, callback, args)

    def _measured(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        began = self.taken()
        try:
            callback(*args)
        finally:
            self.longest = max(self.longest, self.taken() - began)

    def taken(self) -> float:
        """Return what all steps so far have taken."""
        return time.thread_time()


class CountingLoop(MeasuredLoop):
    """Of one: `longest` counts calls of functions, Python's and C's; what one of C does by itself counts as one."""

    def __init__(self) -> None:
        self._calls = 0
        super().__init__()

    def run_forever(self) -> None:
        """As in every loop."""
        sys.setprofile(self._note)
        try:
            super().run_forever()
        finally:
            sys.setprofile(None)

    def taken(self) -> float:
        """Return how many calls there were."""
        return self._calls

    def _note(self, _frame: object, event: str, _argument: object) -> None:
        self._calls += event in ("call", "c_call")
