"""A store in one SQLite file, shared by all processes of a machine that open it. I/O in a thread of its own.

The file outlives the processes: a later process knows what an earlier one spent. A crash of the machine itself can lose
what was committed in the seconds before it, as SQLite's `synchronous` is NORMAL: FULL would make each call wait for the
disk. A proof spent in those seconds is valid again if the machine is back while the proof is fresh. A deployment that
records calls durably in the same file does not have that gap: each call waits until its record is on disk, and that
writes everything before it in the same write-ahead log.
"""

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from accredit.errors import ChallengesFull, StoreUnavailable
from accredit.ports import RateLimit, Spending
from accredit.ratify.challenges import IssuedChallenge
from accredit.stores.minted import KEY_BYTES, RANDOM_BYTES, mint_challenge
from accredit.stores.rules import NEVER, Series
from accredit.stores.sqlite.tables import Tables
from accredit.stores.sqlite.worker import MemoryWorker, Worker


class SqliteStore:
    """A `ProofStore` in the file at a path. `draw(n)` returns n unpredictable bytes. If the tables are new, they do not
    know challenges that were spent before `since`."""

    skew_seconds: ClassVar[None] = None

    def __init__(
        self, place: Path | MemoryWorker, draw: Callable[[int], bytes] = secrets.token_bytes, *, since: int = NEVER
    ) -> None:
        self._draw = draw
        self._tables = Tables(since)
        self._worker = Worker(place) if isinstance(place, Path) else place

    async def issue(self, request_hash: bytes, *, expires_at: int) -> IssuedChallenge:
        """Issue a fresh challenge for one request. The key is read from the file each time, so that no challenge is
        issued while the store does not answer."""
        key = await self._worker.run(self._tables.key, writes=False)
        if key is None:
            key = await self._worker.run(partial(self._tables.first_key, drawn=self._draw(KEY_BYTES)))
        return IssuedChallenge(mint_challenge(key, self._draw(RANDOM_BYTES), request_hash, expires_at), expires_at)

    async def look(self, challenge: bytes, request_hash: bytes, *, issued: bool, now: int) -> Spending:
        """Return what `spend` would return now. Changes nothing."""
        job = partial(self._tables.look, challenge=challenge, request_hash=request_hash, issued=issued, now=now)
        return await self._worker.look(job)

    async def spend(
        self, challenge: bytes, request_hash: bytes, *, issued: bool, keep_until: int, now: int
    ) -> Spending:
        """Spend a challenge if it is valid. Raises `ChallengesFull`."""
        verdict = await self._worker.run(
            partial(
                self._tables.spend,
                challenge=challenge,
                request_hash=request_hash,
                issued=issued,
                keep_until=keep_until,
                now=now,
            )
        )
        if verdict is None:
            raise ChallengesFull("too many challenges were spent of late")
        return verdict

    async def uses(self, cert_id: str, window_s: int, *, now: int) -> int:
        """Return how many uses of a certificate `use` recorded for a limit of this window, in the last `window_s`
        seconds."""
        job = partial(self._tables.count, series=Series(cert_id, window_s), now=now)
        return await self._worker.run(job, writes=False)

    async def use(self, limits: Sequence[RateLimit], *, now: int) -> bool:
        """Record one use for each limit, unless that exceeds one of them. Return whether it was recorded. Raises
        `StoreUnavailable` if there is no room."""
        recorded = await self._worker.run(partial(self._tables.use, limits=limits, now=now))
        if recorded is None:
            raise StoreUnavailable("no room to note one more use of a certificate")
        return recorded

    async def room_at(self, limit: RateLimit, *, now: int) -> int | None:
        """Return when (unix seconds) one more use will be within a limit; None if never."""
        return await self._worker.run(partial(self._tables.room_at, limit=limit, now=now), writes=False)

    async def ready(self) -> bool:
        """Return whether the file can be locked for writing."""
        try:
            await self._worker.run(bool)
        except StoreUnavailable:
            return False
        return True

    def problem(self) -> None:
        """Return None: this store has no problems to report."""

    async def aclose(self) -> None:
        """End the thread and close the file."""
        await self._worker.aclose()
