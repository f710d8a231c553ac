"""A task that starts at once, and resumes at once when what it waits for is done. Runs in the event loop.

`asyncio.Task` starts at the loop's next step, and each of its waits costs another step. Most calls wait only once, for
the upstream's answer, and can resume within the callback of its connection. So an `EagerTask` runs inside the code that
starts it until it has to wait. If it waits for a `Wakeup`, it resumes inside the code that wakes it. It awaits anything
else as an ordinary task does.

It is a custom task as "Extending asyncio" (Python's documentation) describes: `asyncio.current_task`, `asyncio.timeout`
and cancellation work in it. One step never runs within another.
"""

import asyncio
from asyncio import CancelledError
from asyncio.tasks import _enter_task, _leave_task  # pyright: ignore[reportPrivateUsage] - documented for this purpose
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any


class Wakeup(asyncio.Future[None]):
    """What one task waits for. `wake` and `fail` complete it, unless it is cancelled. Only the first of these
    counts."""

    sleeper: "EagerTask | None" = None

    def wake(self) -> None:
        """Resume the waiting task, at once unless another task's step is running."""
        if self.done():
            return
        self.set_result(None)
        sleeper, self.sleeper = self.sleeper, None
        if sleeper is None:
            return
        if asyncio.current_task(sleeper.loop) is None:
            sleeper.go_on()
        else:
            sleeper.loop.call_soon(sleeper.go_on)

    def fail(self, error: Exception) -> None:
        """Raise an error in the waiting task, at the loop's next step."""
        if not self.done():
            self.set_exception(error)
            self._later()

    def cancel(self, msg: object = None) -> bool:
        """Cancel the wait."""
        if not super().cancel(msg):
            return False
        self._later()
        return True

    def _later(self) -> None:
        sleeper, self.sleeper = self.sleeper, None
        if sleeper is not None:
            sleeper.loop.call_soon(sleeper.woken, self)


class EagerTask:
    """Runs `work` to its end in `context`, then calls `on_done` with this task and the exception that has ended the
    work, or None."""

    __slots__ = (
        "__weakref__", "_cancelling", "_context", "_done", "_message", "_must_cancel", "_on_done", "_waits", "_work",
        "loop",
    )  # fmt: skip

    def __init__(
        self,
        work: Coroutine[Any, Any, None],
        loop: asyncio.AbstractEventLoop,
        on_done: Callable[["EagerTask", BaseException | None], object],
        context: Context | None = None,
    ) -> None:
        self.loop = loop
        self._work = work
        self._on_done = on_done
        self._context = copy_context() if context is None else context
        self._waits: asyncio.Future[Any] | None = None
        self._cancelling = 0
        self._must_cancel = False
        self._message: object = None
        self._done = False

    def start(self) -> None:
        """Run until it has to wait. If another task's step is running, start at the loop's next step."""
        if asyncio.current_task(self.loop) is None:
            self.go_on()
        else:
            self.loop.call_soon(self.go_on)

    def done(self) -> bool:
        """Return whether it has ended."""
        return self._done

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop that it runs in."""
        return self.loop

    def cancel(self, msg: object = None) -> bool:
        """Raise `CancelledError` at its current wait, or at its next one."""
        if self._done:
            return False
        self._cancelling += 1
        if self._waits is not None and self._waits.cancel(msg):
            return True
        self._must_cancel = True
        self._message = msg
        return True

    def cancelling(self) -> int:
        """Return the number of cancellation requests not undone by `uncancel`."""
        return self._cancelling

    def uncancel(self) -> int:
        """Undo one cancellation request; return how many are left."""
        if self._cancelling:
            self._cancelling -= 1
            if self._cancelling == 0:
                self._must_cancel = False
        return self._cancelling

    def woken(self, waited: asyncio.Future[Any]) -> None:
        """Resume, as the awaited future is done."""
        try:
            waited.result()
        except BaseException as error:
            self.go_on(error)
        else:
            self.go_on()

    def go_on(self, error: BaseException | None = None) -> None:
        """Run one step: to the next wait, or to the end."""
        if self._must_cancel:
            if not isinstance(error, CancelledError):
                error = CancelledError() if self._message is None else CancelledError(self._message)
            self._must_cancel = False
        self._waits = None
        this: Any = self
        _enter_task(self.loop, this)
        try:
            if error is None:
                waits = self._context.run(self._work.send, None)
            else:
                waits = self._context.run(self._work.throw, error)
        except BaseException as raised:
            self._done = True
            self._on_done(self, None if isinstance(raised, StopIteration) else raised)
        else:
            self._wait(waits)
        finally:
            _leave_task(self.loop, this)

    def _wait(self, waits: Any) -> None:
        if waits is None:
            self.loop.call_soon(self.go_on)
            return
        if not isinstance(waits, asyncio.Future) or not waits._asyncio_future_blocking:
            self.loop.call_soon(self.go_on, RuntimeError(f"a task can't wait for {waits!a}"))
            return
        future: asyncio.Future[Any] = waits  # pyright: ignore[reportUnknownVariableType] - nobody asks for its result
        future._asyncio_future_blocking = False
        self._waits = future
        if isinstance(future, Wakeup):
            future.sleeper = self
        else:
            future.add_done_callback(self.woken)
        if self._must_cancel and future.cancel(self._message):
            self._must_cancel = False
