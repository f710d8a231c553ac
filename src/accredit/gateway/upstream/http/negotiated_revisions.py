"""Which revision a legacy session of an HTTP upstream negotiated: a bounded memory. No I/O.

The upstream owns its sessions; the gateway remembers only what it needs to know whether a batch is allowed where
a client sends no `MCP-Protocol-Version` (revisions before 2025-06-18).
"""

from collections import OrderedDict

from accredit.limits import MAX_REMEMBERED_SESSIONS


class Sessions:
    """The revision by session id; the one unused for longest is forgotten first."""

    def __init__(self) -> None:
        self._revisions: OrderedDict[str, str] = OrderedDict()

    def remember(self, session_id: str, revision: str) -> None:
        """Notes what a valid `initialize` answer announced."""
        self._revisions[session_id] = revision
        self._revisions.move_to_end(session_id)
        if len(self._revisions) > MAX_REMEMBERED_SESSIONS:
            self._revisions.popitem(last=False)

    def revision(self, session_id: str | None) -> str | None:
        """The negotiated revision, if it is still known."""
        if session_id is None or session_id not in self._revisions:
            return None
        self._revisions.move_to_end(session_id)
        return self._revisions[session_id]

    def forget(self, session_id: str) -> None:
        """Ends a session here; the upstream was told."""
        self._revisions.pop(session_id, None)
