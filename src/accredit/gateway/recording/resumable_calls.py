"""Calls whose event stream was cut off, and whose client may still get the answer. Waits in the event loop; no I/O.

If a stream ended after an event with an id, a legacy client may resume it in the same session (2025-11-25,
basic/transports, "Resumability and Redelivery"). Only the upstream knows which stream a client resumes. So:

- [stays-open] a call whose stream ends in this way, from either side, stays open;
- [resumed] answers on a resumed stream settle the calls of its session (`Recorder.in_session`);
- [own-outcome] a call that stays unanswered is settled with the outcome that its own stream had. This happens when its
  session has not resumed a stream for `RESUME_SECONDS`, when the session or the gateway ends, or at once if too many
  calls are waiting.

Such calls are kept only in this process. Where calls are recorded, a client may also reconnect to another process, and
gets its answer there. That process claims the call (`ResumedCalls`), which then counts as settled here.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from accredit.attest import Outcome
from accredit.gateway.recording.open_calls import OpenCall, OpenCalls

RESUME_SECONDS = 300.0
"""How long a client may take to resume a stream that was cut off. After that, the stream's calls count as unanswered.
Clients reconnect within seconds. Servers that make clients poll say when (`retry`)."""
MAX_CUT_OFF_CALLS = 1_000
"""How many calls of cut-off streams may wait to be resumed. Each keeps the data for the record of its outcome: some 2
KiB, whatever the size of its arguments."""


@dataclass(slots=True)
class _Session:
    left: list[tuple[OpenCall, Outcome]] = field(default_factory=list[tuple[OpenCall, Outcome]])
    streams: int = 0
    timer: asyncio.TimerHandle | None = None


class ResumableCalls:
    """The unanswered calls of one HTTP upstream, by session."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._kept = 0

    def keep(self, session_id: str, calls: OpenCalls, outcome: Outcome) -> None:
        """Take calls over. If they are not answered, they end with `outcome` ([stays-open])."""
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
        """Keep a session's calls waiting while a stream of the session is resumed. The session "" has no calls."""
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
        """Settle the remaining calls of a session."""
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        if session.timer is not None:
            session.timer.cancel()
        self._kept -= len(session.left)
        for call, outcome in session.left:
            call.abandon(outcome)

    def end_all(self) -> None:
        """Settle all remaining calls."""
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
        """Drop the answered calls, to free their memory."""
        waiting = [left for left in session.left if not left[0].settled]
        self._kept -= len(session.left) - len(waiting)
        session.left = waiting
