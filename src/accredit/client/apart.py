"""A connection in a task of its own. I/O: that of the connection.

When something fails inside an anyio context, anyio cancels the task that entered it. If the host's own task entered the
SDK's client, a failed connection would cancel whatever the host was doing, and would be closed only when the host left
the context. Here the task is ours. A host that waits for an answer learns that the connection is closed, and its other
work continues.
"""

import asyncio
import logging
from contextlib import AbstractAsyncContextManager
from typing import cast

import anyio

_log = logging.getLogger("accredit.client")


class OwnTask:
    """Enters and leaves `inner` in a task of its own."""

    def __init__(self, inner: AbstractAsyncContextManager[object]) -> None:
        self._inner = inner
        self._left = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def enter(self) -> None:
        """Enter `inner`. Raises what `inner` raises; an error in an exception group is taken out of the group."""
        entered = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._live(entered))
        try:
            await entered
        except BaseException:
            await _end(task)
            raise
        self._task = task

    async def leave(self) -> None:
        """Leave `inner`, and wait until it has ended. Errors meanwhile are logged."""
        if (task := self._task) is None:
            return
        self._left.set()
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            await _end(task)
            raise

    async def _live(self, entered: asyncio.Future[None]) -> None:
        try:
            async with self._inner:
                if not entered.done():  # the caller still waits
                    entered.set_result(None)
                    await self._left.wait()
        except Exception as error:  # a transport may be the caller's code, and raise anything
            if not entered.done():
                entered.set_exception(_ungroup(error))
            else:
                _log.warning("the connection failed (%s)", type(_ungroup(error)).__name__)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with anyio.CancelScope(shield=True):
        await asyncio.wait({task})


def _ungroup(error: Exception) -> Exception:
    if not isinstance(error, ExceptionGroup):
        return error
    group = cast("ExceptionGroup[Exception]", error)
    return _ungroup(group.exceptions[0]) if len(group.exceptions) == 1 else group
