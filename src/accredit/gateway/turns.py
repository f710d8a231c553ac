"""Turns: long work is done in steps, and between two of them everybody else is served. Runs in the event loop, and
reads its clock.

1. A step takes some milliseconds. In one turn of the loop one step is done, whoever has long work: forty streams that
   flood keep nobody for longer than one does. Whoever has little to do waits for no turn.
2. Servers have their steps in rotation: one whose answers are all long does not keep the long ones of another waiting.
   Those about one server (`set_current_server`) have them in the order in which they asked. At the endpoint of several
   as one each server's work is about it; what is about all of them counts as one more.
3. After a step that took long the next one waits some turns more, and for as long as the step took: an ordinary call
   takes about as many of the loop's turns, some of them waits for other processes, and would meet such a step in each.
   So what takes long has half of the loop's time at most.
"""

import asyncio
from collections import deque
from contextvars import ContextVar
from weakref import WeakKeyDictionary

from accredit.base.steps import Found, Steps
from accredit.limits import SHORT_MESSAGE_BYTES

LONG_STEP_SECONDS = 0.002
"""The time of a step of long work after which others have more than one turn: the longest take 60 ms."""
TURNS_BETWEEN_LONG_STEPS = 8
"""Turns of the loop that others have then. A recorded call takes about ten, some of them waits for other processes."""
MOST_REST_SECONDS = 0.1
"""The most time that others have then: as much as the step took. A longer one is none of ours, but a machine that
stalls."""


_server: ContextVar[str] = ContextVar("accredit_server", default="")


def set_current_server(server: str) -> None:
    """Note which server the current task, and what it starts from now on, works for."""
    _server.set(server)


class Turns:
    """Those of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}
        """Who waits, by server. The one whose turn it is stands first."""
        self._comes = False
        self._began_at: float | None = None
        """When the turn began in which a step is done, or may be."""
        self._rests = 0
        """How many turns are left until the next step."""
        self._rests_until = 0.0

    def next(self) -> asyncio.Future[None]:
        """Return what to wait for before a step."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._lines.setdefault(_server.get(), deque()).append(waiter)
        self._come()
        return waiter

    def begun(self) -> None:
        """Note that a step begins which waits for no turn."""
        if self._began_at is None:
            self._began_at = self._loop.time()
            self._come()

    def _come(self) -> None:
        if not self._comes:
            self._comes = True
            self._loop.call_soon(self._give)

    def _give(self) -> None:
        """Let one go on, in the next turn of the loop, and come again in it, after that one's step."""
        now = self._loop.time()
        took, self._began_at = now - (now if self._began_at is None else self._began_at), None
        if took > LONG_STEP_SECONDS:
            self._rests = TURNS_BETWEEN_LONG_STEPS
            self._rests_until = now + min(took, MOST_REST_SECONDS)
        if self._rests:
            self._rests -= 1
            self._loop.call_soon(self._give)
            return
        if now < self._rests_until:
            self._loop.call_at(self._rests_until, self._give)
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
            self._come()  # to see how long it took


_known: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


def next_turn() -> asyncio.Future[None]:
    """Return what to wait for before a step of long work (rules 1 and 2)."""
    return _turns().next()


async def turn(size: int) -> None:
    """Wait for a turn before a piece of work whose time grows with a message of `size` bytes."""
    if size > SHORT_MESSAGE_BYTES:
        await next_turn()


async def in_turns(steps: Steps[Found]) -> Found:
    """Take the steps of long work, each in its turn, but for the first. Return what the work returns."""
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
        of_loop = _known[loop] = Turns(loop)
    return of_loop
