"""Calls whose event stream was cut off: a client may yet have its answer. Waits in the event loop; no I/O.

A legacy client may resume a stream that ended after an event with an id, in the same session (2025-11-25,
basic/transports, "Resumability and Redelivery"). Which stream that was only the upstream can tell. So:

1. a call whose stream ends so, from whichever side, stays open;
2. what comes on a stream that is resumed settles the calls of its session that it answers (`Recorder.in_session`);
3. one that is not answered is settled as its own stream had left it: when nothing was resumed in its session for
   `RESUME_SECONDS`, when the session or the gateway ends, or at once where too many wait already.

Known in this process alone: of several workers, another one may be asked.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from accredit.attest import Outcome
from accredit.gateway.recording.open_calls import OpenCall, OpenCalls
from accredit.limits import MAX_CUT_OFF_CALLS, RESUME_SECONDS


@dataclass(slots=True)
class _Session:
    left: list[tuple[OpenCall, Outcome]] = field(default_factory=list[tuple[OpenCall, Outcome]])
    streams: int = 0
    timer: asyncio.TimerHandle | None = None


class ResumableCalls:
    """One per HTTP upstream."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._kept = 0

    def keep(self, session_id: str, calls: OpenCalls, outcome: Outcome) -> None:
        """Rule 1: takes calls over, which have this outcome if no other."""
        session = self._sessions.setdefault(session_id, _Session())
        self._sweep(session)
        for call in calls.take_all():
            if self._kept >= MAX_CUT_OFF_CALLS:
                call.settle_later(outcome)
            else:
                session.left.append((call, outcome))
                self._kept += 1
        self._rest(session_id, session)

    @contextmanager
    def resumed(self, session_id: str) -> Generator[None]:
        """While a stream of a session is resumed, its calls wait. None is resumed in the session ""."""
        if not session_id:
            yield
            return
        session = self._sessions.setdefault(session_id, _Session())
        session.streams += 1
        self._rest(session_id, session)
        try:
            yield
        finally:
            session.streams -= 1
            self._rest(session_id, session)

    def end(self, session_id: str) -> None:
        """Settles what is left of a session."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        if session.timer is not None:
            session.timer.cancel()
        self._kept -= len(session.left)
        for call, outcome in session.left:
            call.settle_later(outcome)

    def end_all(self) -> None:
        """Settles all that is left."""
        for session_id in list(self._sessions):
            self.end(session_id)

    def _rest(self, session_id: str, session: _Session) -> None:
        if session.timer is not None:
            session.timer.cancel()
            session.timer = None
        if self._sessions.get(session_id) is not session:
            return
        self._sweep(session)
        if session.streams:
            return
        if session.left:
            session.timer = asyncio.get_running_loop().call_later(RESUME_SECONDS, self.end, session_id)
        else:
            del self._sessions[session_id]

    def _sweep(self, session: _Session) -> None:
        """Calls that were answered take no room from others."""
        waiting = [left for left in session.left if not left[0].settled]
        self._kept -= len(session.left) - len(waiting)
        session.left = waiting
