"""Counts and logs refusals and their reasons. I/O: the log."""

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from accredit.base.log_events import Pace, log_event
from accredit.base.text import excerpt
from accredit.errors import (
    AccreditError,
    AnswerError,
    KeysUnavailable,
    ProofRefused,
    RequestError,
    StoreUnavailable,
    TokenError,
    UpstreamError,
)
from accredit.refusals import KINDS
from accredit.telemetry.tracing import trace_field

UNASKED_LOG_SECONDS = 60.0
"""The least time between two log lines about one server's unneeded bodies (`unasked`). Such a server sends one for each
notification."""


_log = logging.getLogger("accredit.gateway")
_CHALLENGED = "call_challenged"


class Counters:
    """Counts of this process since it started, by kind. `/readyz` shows them to callers with a valid token."""

    def __init__(
        self,
        counts: Counter[str] | None = None,
        server: str = "",
        invalid: Callable[[str], None] | None = None,
        unasked: Callable[[str], None] | None = None,
        pace: Pace | None = None,
    ) -> None:
        """`server` is the name of the server that these counters are for, if there are several. `invalid` is called
        with a server's name each time it gives an invalid answer. `unasked` is called with it each time the server
        sends a body in answer to a message that needs none. `pace` admits what is logged; all is counted."""
        self.counts: Counter[str] = Counter() if counts is None else counts
        self._server = server
        self._invalid = invalid
        self._on_unasked = unasked
        self._pace = pace
        self._unasked_due = float("-inf")
        self.tool_list_changes = 0
        """How often the server has reported changed tools, on any stream."""

    def of_server(self, name: str) -> "Counters":
        """Return the counters of one of several servers. They add to the same counts, but count this server's tool
        changes separately, and log its name."""
        return Counters(self.counts, name, self._invalid, self._on_unasked, self._pace)

    def refused(
        self,
        error: AccreditError,
        *,
        method: str | None = None,
        observed: bool = False,
        logged: bool = True,
        server: str = "",
    ) -> None:
        """Count and log a refusal. `observed` says that the frame was forwarded nevertheless (observe mode). `server`
        overrides the server's name.

        Without `logged` the refusal is only counted, so that a peer can't fill a disk.
        """
        kind = _kind(error) + ("_observed" if observed else "")
        self.counts[kind] += 1
        server = server or error.server or self._server
        if self._invalid is not None and isinstance(error, AnswerError):
            self._invalid(server)
        if not logged:
            return
        detail = error.reason if isinstance(error, TokenError) else getattr(error, "detail", str(error))
        about: dict[str, Any] = {"server": server, "method": method, "at": getattr(error, "at", "")}
        facts = {name: value for name, value in about.items() if value}
        # A challenge begins each call of a sensitive tool: nothing was denied. Nor was an observed call, and until
        # delegations exist that is each call.
        is_normal = kind.startswith(_CHALLENGED) or (observed and isinstance(error, ProofRefused))
        level = logging.INFO if is_normal else logging.WARNING
        self._tell(level, kind, detail=detail, **facts)

    def notified(self, method: str) -> None:
        """Count an upstream's notification if it says that the tools have changed."""
        if method == "notifications/tools/list_changed":
            self.tool_list_changes += 1

    def dropped(self, method: str) -> None:
        """Count and log a client's notification of an unknown method, which is not forwarded."""
        self.counts["notification_refused"] += 1
        self._tell(logging.WARNING, "notification_refused", method=excerpt(method))

    def unasked(self, now: float, detail: str) -> None:
        """Count a body that a server sent in answer to a message that needs none. Log it only once in a while, as such
        a server sends one for each notification. `now` is in the event loop's seconds."""
        self.counts["answer_dropped"] += 1
        if self._on_unasked is not None:
            self._on_unasked(self._server)
        if now >= self._unasked_due:
            self._unasked_due = now + UNASKED_LOG_SECONDS
            about: dict[str, Any] = {"server": self._server} if self._server else {}
            log_event(_log, logging.WARNING, "answer_dropped", detail=detail, **about)

    def unrecorded(self, *, logged: bool) -> None:
        """Count a refusal that left no record, and log it if `logged`."""
        self.counts["denial_unrecorded"] += 1
        if logged:
            self._tell(logging.WARNING, "denial_unrecorded")

    def _tell(self, level: int, event: str, **facts: Any) -> None:
        """Log an event, with the number of events that were left out before it. If the pace does not admit the event,
        leave it out."""
        if self._pace is not None:
            if not self._pace.admits(time.monotonic()):
                return
            if left_out := self._pace.skipped():
                facts["left_out"] = left_out
        log_event(_log, level, event, **facts, **trace_field())


def report_fault(method: str, fault: Exception) -> None:
    """Log why a decision could not be made. A store's own words are logged whole: they name the store first, and end
    with what to do. Of any other fault only the beginning is."""
    detail = str(fault) if isinstance(fault, StoreUnavailable) else excerpt(f"{fault!r}")
    log_event(_log, logging.ERROR, "decision_failed", method=method, detail=detail, **trace_field())


def _kind(error: AccreditError) -> str:
    if isinstance(error, RequestError):
        return "request_refused"
    if isinstance(error, ProofRefused):
        return KINDS.get(error.code, "call_denied")
    if isinstance(error, TokenError):
        return KINDS[error.code]
    if isinstance(error, KeysUnavailable):
        return "keys_unavailable"
    if isinstance(error, AnswerError):
        return "answer_refused"
    return "upstream_failed" if isinstance(error, UpstreamError) else "refused"
