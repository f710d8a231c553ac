"""What is remembered of a client's merged session, so that one server's part can be restarted (`renewing`). No I/O.

For sessions that began in this process: the client's `initialize`, its log level, its subscriptions; in few bytes, of
few sessions, and until the client ends its own.
"""

import asyncio
from collections.abc import Mapping

from msgspec import Raw, Struct

from accredit.base.caching import RecentlyUsed
from accredit.gateway.upstream.merged.sessions import MemberSession
from accredit.jsonrpc.frames import Request

MAX_RENEWABLE_SESSIONS = 1_000
"""Merged sessions for which a process remembers what restarting one server's part needs."""
MAX_RENEWABLE_BYTES = 65_536
"""Bytes remembered of each: the client's `initialize` (some 300 bytes), and the URIs that it has subscribed to."""


class SessionHistory(Struct, eq=False):
    """What a client has told its servers in one session, and its restarted sessions (`now`). `subscribed` has a
    server's name and its own URI for each subscription."""

    initialize: Request
    now: dict[str, MemberSession]
    unproved: set[str]
    locks: dict[str, asyncio.Lock]
    subscribed: dict[tuple[str, str], None]
    size: int
    level: Raw | None = None


class Renewals:
    """The histories of clients' sessions, by the gateway's own id."""

    def __init__(self) -> None:
        self._told = RecentlyUsed[bytes, SessionHistory](MAX_RENEWABLE_SESSIONS)

    def begun(self, own: bytes, initialize: Request) -> None:
        """Remember the start of a session."""
        size = len(initialize.text)
        if size <= MAX_RENEWABLE_BYTES:
            bare = Request(initialize.id, initialize.method, initialize.params, initialize.text)
            self._told.put(own, SessionHistory(bare, {}, set(), {}, {}, size))

    def ended(self, own: bytes) -> None:
        """Forget a session."""
        self._told.forget(own)

    def of(self, own: bytes) -> SessionHistory | None:
        """Return a session's history."""
        return self._told.get(own) if own else None

    def now(self, own: bytes) -> Mapping[str, MemberSession]:
        """Return the sessions that replace those in the client's id."""
        told = self._told.peek(own)
        return told.now if told is not None else {}

    def level(self, own: bytes, request: Request) -> None:
        """Remember a client's log level."""
        told, level = self.of(own), request.members.get("level")
        if told is not None and level is not None and len(bytes(level)) <= MAX_RENEWABLE_BYTES:
            told.level = level.copy()  # a view of it would keep the whole request

    def subscribed(self, own: bytes, name: str, uri: str, *, ends: bool) -> None:
        """Remember a subscription, or forget one that ends. Beyond the bound the oldest are forgotten."""
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
        """Note that a server has answered in a session: it may be restarted once more."""
        told = self._told.peek(own)
        if told is not None:
            told.unproved.discard(name)
