"""A store whose answers to decisions are timed: `ports.ProofStore` around another one. Reads a clock."""

from collections.abc import Awaitable, Sequence
from time import perf_counter
from typing import TypeVar

from accredit.ports import ProofStore, RateLimit, Spending
from accredit.ratify.challenges import IssuedChallenge
from accredit.telemetry.metrics import Histogram

_T = TypeVar("_T")


class TimedStore:
    """Counts how long `store` takes for each operation, whatever comes of it, in `seconds`."""

    def __init__(self, store: ProofStore, seconds: Histogram) -> None:
        self._store = store
        self._seconds = seconds

    async def issue(self, request_hash: bytes, *, expires_at: int) -> IssuedChallenge:
        """Issue a challenge."""
        return await self._timed("issue", self._store.issue(request_hash, expires_at=expires_at))

    async def look(self, challenge: bytes, request_hash: bytes, *, issued: bool, now: int) -> Spending:
        """Look at a challenge."""
        return await self._timed("look", self._store.look(challenge, request_hash, issued=issued, now=now))

    async def spend(
        self, challenge: bytes, request_hash: bytes, *, issued: bool, keep_until: int, now: int
    ) -> Spending:
        """Spend a challenge."""
        spending = self._store.spend(challenge, request_hash, issued=issued, keep_until=keep_until, now=now)
        return await self._timed("spend", spending)

    async def uses(self, cert_id: str, window_s: int, *, now: int) -> int:
        """Return how often a certificate was used."""
        return await self._timed("uses", self._store.uses(cert_id, window_s, now=now))

    async def use(self, limits: Sequence[RateLimit], *, now: int) -> bool:
        """Record uses."""
        return await self._timed("use", self._store.use(limits, now=now))

    async def room_at(self, limit: RateLimit, *, now: int) -> int | None:
        """Return when there is room for one more use."""
        return await self._timed("room_at", self._store.room_at(limit, now=now))

    async def ready(self) -> bool:
        """Return whether the store answers."""
        return await self._store.ready()

    async def aclose(self) -> None:
        """Release all resources."""
        await self._store.aclose()

    async def _timed(self, op: str, work: Awaitable[_T]) -> _T:
        began = perf_counter()
        try:
            return await work
        finally:
            self._seconds.observe((op,), perf_counter() - began)
