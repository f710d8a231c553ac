"""Which revision a legacy session of an HTTP upstream negotiated: a bounded memory. No I/O.

The upstream owns its sessions; the gateway remembers only what it needs to know whether a batch is allowed where
a client sends no `MCP-Protocol-Version` (revisions before 2025-06-18).
"""

from accredit.base.recently_used import RecentlyUsed
from accredit.limits import MAX_REMEMBERED_SESSIONS


class Sessions:
    """The revision by session id; the one unused for longest is forgotten first."""

    def __init__(self) -> None:
        self._revisions = RecentlyUsed[str, str](MAX_REMEMBERED_SESSIONS)

    def remember(self, session_id: str, revision: str) -> None:
        """Notes what a valid `initialize` answer announced."""
        self._revisions.put(session_id, revision)

    def revision(self, session_id: str | None) -> str | None:
        """The negotiated revision, if it is still known."""
        return self._revisions.get(session_id) if session_id is not None else None

    def forget(self, session_id: str) -> None:
        """Ends a session here; the upstream was told."""
        self._revisions.forget(session_id)
