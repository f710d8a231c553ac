"""Budgets of uses that are refilled as time passes. No I/O."""

import time
from collections.abc import Callable

from accredit.base.caching import RecentlyUsed

MAX_BUDGET_PEERS = 1_000
"""How many peers' shares of a budget are remembered, of some 300 bytes each. Who has more addresses gets the whole."""


class Budget:
    """At most `burst` uses at once, and `per_second` more with each second. `clock` returns seconds."""

    __slots__ = ("_burst", "_clock", "_filled_at", "_left", "_per_second")

    def __init__(self, burst: float, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst = self._left = burst
        self._per_second = per_second
        self._clock = clock
        self._filled_at = clock()

    def has_room(self) -> bool:
        """Return whether there is a use to take now."""
        now = self._clock()
        self._left = min(self._left + (now - self._filled_at) * self._per_second, self._burst)
        self._filled_at = now
        return self._left >= 1

    def take(self) -> bool:
        """Take one use, and return whether there was one."""
        if not self.has_room():
            return False
        self._left -= 1
        return True


class PeerBudget:
    """A budget in `shares`, of which each peer gets at most one. So nobody with a single address can use up the budget
    of all others. All clients behind an untrusted proxy have the proxy's address, so they have one share together."""

    __slots__ = ("_clock", "_peers", "_share", "_whole")

    def __init__(
        self, burst: float, per_second: float, clock: Callable[[], float] = time.monotonic, *, shares: int = 2
    ) -> None:
        self._whole = Budget(burst, per_second, clock)
        self._share = (burst / shares, per_second / shares)
        self._clock = clock
        self._peers = RecentlyUsed[str, Budget](MAX_BUDGET_PEERS)

    def take(self, peer: str) -> bool:
        """Take one use for a peer, and return whether there was one."""
        own = self._peers.get(peer)
        if own is None:
            own = Budget(*self._share, self._clock)
            self._peers.put(peer, own)
        return own.take() and self._whole.take()
