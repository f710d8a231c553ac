"""A task that begins at once, and goes on at once when what it waits for has come. Runs in the event loop.

`asyncio.Task` begins at the loop's next step, and each of its waits costs another one. Most calls wait once, for the
upstream's answer, in a callback of whose connection they can just as well go on. So an `EagerTask` runs in whoever
starts it until it has to wait, and, where it waits for a `Wakeup`, in whoever wakes it up; anything else that can be
awaited it awaits as a task does. It is a task of its own make as "Extending asyncio" (Python's documentation) has them:
`asyncio.current_task`, `asyncio.timeout` and cancellation work in it. One step never runs within another.
"""

import asyncio
from asyncio import CancelledError
from asyncio.tasks import _enter_task, _leave_task  # pyright: ignore[reportPrivateUsage] - documented for this purpose
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any


class Wakeup(asyncio.Future[None]):
    """What one task waits for. `wake` and `fail` are how it ends, unless it is cancelled; a second end is none."""

    sleeper: "EagerTask | None" = None

    def wake(self) -> None:
        """Let the task that waits go on, at once where nobody else is in the middle of a step."""
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
        """Raise an error where the task waits, at the loop's next step."""
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
    """Runs `work` to its end in `context`, and calls `on_done` then. What `work` raises is for the loop's exception
    handler."""

    __slots__ = (
        "__weakref__", "_cancelling", "_context", "_done", "_message", "_must_cancel", "_on_done", "_waits", "_work",
        "loop",
    )  # fmt: skip

    def __init__(
        self,
        work: Coroutine[Any, Any, None],
        loop: asyncio.AbstractEventLoop,
        on_done: Callable[["EagerTask"], object],
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
        """Run until it has to wait; at the loop's next step where somebody else is in the middle of one."""
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
        """Raise `CancelledError` where it waits, or where it waits next."""
        if self._done:
            return False
        self._cancelling += 1
        if self._waits is not None and self._waits.cancel(msg):
            return True
        self._must_cancel = True
        self._message = msg
        return True

    def cancelling(self) -> int:
        """Return how many cancellations nobody has taken back."""
        return self._cancelling

    def uncancel(self) -> int:
        """Take one cancellation back; return how many are left."""
        if self._cancelling:
            self._cancelling -= 1
            if self._cancelling == 0:
                self._must_cancel = False
        return self._cancelling

    def woken(self, waited: asyncio.Future[Any]) -> None:
        """Go on: what it has waited for is done."""
        try:
            waited.result()
        except BaseException as error:
            self.go_on(error)
        else:
            self.go_on()

    def go_on(self, error: BaseException | None = None) -> None:
        """Take one step: to the next wait, or to the end."""
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
        except (StopIteration, CancelledError):
            self._end()
        except Exception as raised:
            self._end()
            self.loop.call_exception_handler({"message": "an exception that nobody caught", "exception": raised})
        except BaseException:
            self._end()
            raise
        else:
            self._wait(waits)
        finally:
            _leave_task(self.loop, this)

    def _end(self) -> None:
        self._done = True
        self._on_done(self)

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
