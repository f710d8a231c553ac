"""Wraps a store to time its operations: a `ports.ProofStore` around another. Reads a clock."""

from collections.abc import Coroutine, Sequence
from time import perf_counter
from types import CoroutineType
from typing import Any, TypeVar

from accredit.ports import ProofStore, RateLimit, Spending
from accredit.ratify.challenges import IssuedChallenge
from accredit.telemetry.metrics import Histogram

_T = TypeVar("_T")


class TimedStore:
    """Measures how long each operation of `store` takes, whatever its result. The durations go into `seconds`."""

    def __init__(self, store: ProofStore, seconds: Histogram[str]) -> None:
        self._store = store
        self._seconds = seconds

    def issue(self, request_hash: bytes, *, expires_at: int) -> "CoroutineType[Any, Any, IssuedChallenge]":
        """Issue a challenge."""
        return self._timed("issue", self._store.issue(request_hash, expires_at=expires_at))

    def look(
        self, challenge: bytes, request_hash: bytes, *, issued: bool, now: int
    ) -> "CoroutineType[Any, Any, Spending]":
        """Return what `spend` would return now, without spending the challenge."""
        return self._timed("look", self._store.look(challenge, request_hash, issued=issued, now=now))

    def spend(
        self, challenge: bytes, request_hash: bytes, *, issued: bool, keep_until: int, now: int
    ) -> "CoroutineType[Any, Any, Spending]":
        """Spend a challenge."""
        spending = self._store.spend(challenge, request_hash, issued=issued, keep_until=keep_until, now=now)
        return self._timed("spend", spending)

    def uses(self, cert_id: str, window_s: int, *, now: int) -> "CoroutineType[Any, Any, int]":
        """Return how often a certificate was used."""
        return self._timed("uses", self._store.uses(cert_id, window_s, now=now))

    def use(self, limits: Sequence[RateLimit], *, now: int) -> "CoroutineType[Any, Any, bool]":
        """Record uses."""
        return self._timed("use", self._store.use(limits, now=now))

    def room_at(self, limit: RateLimit, *, now: int) -> "CoroutineType[Any, Any, int | None]":
        """Return when there is room for one more use."""
        return self._timed("room_at", self._store.room_at(limit, now=now))

    async def ready(self) -> bool:
        """Return whether the store answers."""
        return await self._store.ready()

    def problem(self) -> str | None:
        """Return why the store needs attention, or None."""
        return self._store.problem()

    async def aclose(self) -> None:
        """Release all resources."""
        await self._store.aclose()

    async def _timed(self, op: str, work: Coroutine[Any, Any, _T]) -> _T:
        began = perf_counter()
        try:
            return await work
        finally:
            self._seconds.observe(op, perf_counter() - began)
