"""Turns: long work is done in steps, and other work runs between them. Runs in the event loop, and reads its clock.

- [one-step] A step takes some milliseconds. In each turn of the loop only one step is done, for all long work together.
  So forty flooding streams delay others no more than one does. Short work does not wait for a turn.
- [servers] Servers take turns, so a server whose answers are all long does not delay the long answers of another. Steps
  for one server run in the order in which they were requested. At the merged endpoint each member's work counts as
  its own. Work for all members together is treated as the work of one more server.
- [rest] After a long step, the next one waits for `TURNS_BETWEEN_LONG_STEPS` turns, and for as long as the step took.
  An ordinary call takes about that many turns. Without the pause, it could be delayed by a long step in each of them.
  So long work takes half of the loop's time at most.
"""

import asyncio
from collections import deque
from contextvars import ContextVar
from weakref import WeakKeyDictionary

from accredit.base.steps import Found, Steps
from accredit.limits import SHORT_MESSAGE_BYTES

LONG_STEP_SECONDS = 0.002
"""If a step takes longer than this, others get more than one turn before the next step. The longest steps take 60
ms."""
TURNS_BETWEEN_LONG_STEPS = 8
"""How many turns others get after a long step. A recorded call takes about ten; in some of them it waits for other
processes."""
MOST_REST_SECONDS = 0.1
"""The longest rest after a step. Up to this a rest is as long as the step. A step that takes longer is slow because the
machine stalls, not because of our work."""


current_server: ContextVar[str] = ContextVar("accredit_server", default="")
"""The server for which the current task works, and so the tasks that it starts from now on."""


class Turns:
    """The turns of one event loop. It has no reference to the loop, which could then never be freed (`_known`)."""

    def __init__(self) -> None:
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}
        """The waiting steps, by server; the next server is first."""
        self._comes = False
        self._began_at: float | None = None
        """When the current turn of the loop began, if a step is running in it, or may be."""
        self._rests = 0
        """How many turns are left until the next step."""
        self._rests_until = 0.0

    def next(self) -> asyncio.Future[None]:
        """Return a future to await before doing a step."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(current_server.get(), deque()).append(waiter)
        self._come()
        return waiter

    def begun(self) -> None:
        """Note that a step starts without waiting for a turn."""
        if self._began_at is None:
            self._began_at = asyncio.get_running_loop().time()
            self._come()

    def _come(self) -> None:
        if not self._comes:
            self._comes = True
            asyncio.get_running_loop().call_soon(self._give)

    def _give(self) -> None:
        """Resume one waiting step in the loop's next turn, and run this again after it."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        took, self._began_at = now - (now if self._began_at is None else self._began_at), None
        if took > LONG_STEP_SECONDS:
            self._rests = TURNS_BETWEEN_LONG_STEPS
            self._rests_until = now + min(took, MOST_REST_SECONDS)
        if self._rests:
            self._rests -= 1
            loop.call_soon(self._give)
            return
        if now < self._rests_until:
            loop.call_at(self._rests_until, self._give)
            return
        given = False
        while self._lines and not given:
            server = next(iter(self._lines))
            line = self._lines.pop(server)
            waiter = line.popleft()
            if line:
                self._lines[server] = line
            if not waiter.done():
                waiter.set_result(None)
                given = True
                self._began_at = now
        self._comes = False
        if given:
            self._come()  # to measure it


_known: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


def next_turn() -> asyncio.Future[None]:
    """Return a future to await before a step of long work ([one-step] and [servers])."""
    return _turns().next()


async def turn(size: int) -> None:
    """Wait for a turn before work whose time grows with a message of `size` bytes."""
    if size > SHORT_MESSAGE_BYTES:
        await next_turn()


async def in_turns(steps: Steps[Found]) -> Found:
    """Run the steps of long work. The first runs at once, each other one in a turn of its own. Return the result."""
    turns = _turns()
    turns.begun()
    while True:
        try:
            next(steps)
        except StopIteration as last:
            return last.value
        await turns.next()


def _turns() -> Turns:
    loop = asyncio.get_running_loop()
    of_loop = _known.get(loop)
    if of_loop is None:
        of_loop = _known[loop] = Turns()
    return of_loop
