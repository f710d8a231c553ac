"""What is known of the sessions that a client's session is made of, so that one can be begun anew (`renewing`). No I/O.

Of each session that was begun in this process: the client's `initialize`, the level of its log, its subscriptions; in
few bytes, of few sessions, and until the client ends its own.
"""

import asyncio
from collections.abc import Mapping

from msgspec import Raw, Struct

from accredit.base.caching import RecentlyUsed
from accredit.gateway.upstream.merged.sessions import MemberSession
from accredit.jsonrpc.frames import Request

MAX_RENEWABLE_SESSIONS = 1_000
"""Clients' sessions at a merged endpoint of which a process knows what it takes to begin one server's part anew."""
MAX_RENEWABLE_BYTES = 65_536
"""What of it is kept of each: the client's `initialize` (some 300 bytes), and the URIs that it has subscribed to."""


class SessionHistory(Struct, eq=False):
    """What one client's session has told its servers, and those that it has at some of them `now`. `subscribed` has a
    server's name and its own URI for each subscription."""

    initialize: Request
    now: dict[str, MemberSession]
    unproved: set[str]
    locks: dict[str, asyncio.Lock]
    subscribed: dict[tuple[str, str], None]
    size: int
    level: Raw | None = None


class Renewals:
    """What is known of clients' sessions, by what the gateway calls them."""

    def __init__(self) -> None:
        self._told = RecentlyUsed[bytes, SessionHistory](MAX_RENEWABLE_SESSIONS)

    def begun(self, own: bytes, initialize: Request) -> None:
        """Remember a session's beginning."""
        size = len(initialize.text)
        if size <= MAX_RENEWABLE_BYTES:
            bare = Request(initialize.id, initialize.method, initialize.params, initialize.text)
            self._told.put(own, SessionHistory(bare, {}, set(), {}, {}, size))

    def ended(self, own: bytes) -> None:
        """Forget a session."""
        self._told.forget(own)

    def of(self, own: bytes) -> SessionHistory | None:
        """Return what is known of a session."""
        return self._told.get(own) if own else None

    def now(self, own: bytes) -> Mapping[str, MemberSession]:
        """Return the sessions that have taken the place of those in the client's id."""
        told = self._told.peek(own)
        return told.now if told is not None else {}

    def level(self, own: bytes, request: Request) -> None:
        """Remember the level of a client's log."""
        told, level = self.of(own), request.members.get("level")
        if told is not None and level is not None and len(bytes(level)) <= MAX_RENEWABLE_BYTES:
            told.level = level.copy()  # it is a part of the request, and would hold all of that

    def subscribed(self, own: bytes, name: str, uri: str, *, ends: bool) -> None:
        """Remember a subscription, or that it has ended. The oldest give way."""
        told = self.of(own)
        if told is None:
            return
        if (name, uri) in told.subscribed:
            del told.subscribed[name, uri]
            told.size -= len(uri)
        if not ends:
            told.subscribed[name, uri] = None
            told.size += len(uri)
        while told.size > MAX_RENEWABLE_BYTES and told.subscribed:
            oldest = next(iter(told.subscribed))
            del told.subscribed[oldest]
            told.size -= len(oldest[1])

    def answered(self, own: bytes, name: str) -> None:
        """Note that a server has answered in a session: it may be begun anew once more."""
        told = self._told.peek(own)
        if told is not None:
            told.unproved.discard(name)
