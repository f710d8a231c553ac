"""A store in the memory of one process. No I/O; threads may share it.

Each write removes a few expired entries, so that no single request pays for a flood of them. Until an expired entry is
removed, it still takes room. Issued challenges are not stored (`minted`), so requesting many takes no room.
"""

import heapq
import secrets
from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import ClassVar, Generic, TypeVar

from accredit.errors import ChallengesFull, StoreUnavailable
from accredit.limits import CLOCK_BACK_SECONDS, MAX_SPENT_CHALLENGES, MAX_USE_MARKS
from accredit.ports import RateLimit, Spending
from accredit.ratify.challenges import IssuedChallenge
from accredit.stores.minted import KEY_BYTES, RANDOM_BYTES, Issued, mint_challenge, read
from accredit.stores.rules import NEVER, Series, UseMark, certain, judge, made_before, mark, room_at, strictest

STORE_SWEEP_ENTRIES = 100
"""How many expired entries one request removes from memory, at most. That takes some microseconds, so no single request
pays for a flood of them."""


_Key = TypeVar("_Key", bound=Hashable)


class MemoryStore:
    """A `ProofStore` for one process. `draw(n)` returns n unpredictable bytes. Challenges that were spent before
    `since` are not known."""

    skew_seconds: ClassVar[None] = None

    def __init__(self, draw: Callable[[int], bytes] = secrets.token_bytes, *, since: int = NEVER) -> None:
        self._since = since
        self._draw = draw
        self._lock = Lock()
        self._key = draw(KEY_BYTES)
        self._spent: set[bytes] = set()
        self._uses: dict[Series, _Uses] = {}
        self._spent_ends = _Ends[bytes]()
        self._use_ends = _Ends[Series]()

    async def issue(self, request_hash: bytes, *, expires_at: int) -> IssuedChallenge:
        """Issue a fresh challenge for one request."""
        return IssuedChallenge(
            mint_challenge(self._key, self._draw(RANDOM_BYTES), request_hash, expires_at), expires_at
        )

    async def look(self, challenge: bytes, request_hash: bytes, *, issued: bool, now: int) -> Spending:
        """Return what `spend` would return now. Changes nothing."""
        ours = read(self._key, challenge, request_hash)
        with self._lock:
            return self._judge(challenge, ours, issued=issued, now=now)

    async def spend(
        self, challenge: bytes, request_hash: bytes, *, issued: bool, keep_until: int, now: int
    ) -> Spending:
        """Spend a challenge if it is valid. Raises `ChallengesFull`."""
        ours = read(self._key, challenge, request_hash)
        with self._lock:
            issued = issued or made_before(self._since, keep_until)
            verdict = self._judge(challenge, ours, issued=issued, now=now)
            if verdict is Spending.FIRST:
                keep_until = max(keep_until, ours.expires_at) if ours else keep_until
                certain(keep_until, self._spent_ends.forgotten)
                for passed in self._spent_ends.passed(now):
                    self._spent.discard(passed)
                if len(self._spent) >= MAX_SPENT_CHALLENGES:
                    raise ChallengesFull(f"{MAX_SPENT_CHALLENGES} challenges were spent of late")
                self._spent.add(challenge)
                self._spent_ends.add(keep_until, challenge)
        return verdict

    async def uses(self, cert_id: str, window_s: int, *, now: int) -> int:
        """Return how many uses of a certificate `use` recorded for a limit of this window, in the last `window_s`
        seconds."""
        with self._lock:
            return self._count(Series(cert_id, window_s), now)

    async def use(self, limits: Sequence[RateLimit], *, now: int) -> bool:
        """Record one use for each limit, unless that exceeds one of them. Return whether it was recorded. Raises
        `StoreUnavailable` if there is no room."""
        takings = strictest(limits)
        with self._lock:
            for series in self._use_ends.passed(now - CLOCK_BACK_SECONDS):
                if self._uses[series].forget_first():
                    del self._uses[series]
            if any(self._count(series, now) + amount > most for series, (amount, most, _) in takings.items()):
                return False
            if len(self._use_ends) + len(takings) > MAX_USE_MARKS:
                raise StoreUnavailable(f"no room to note one more use of a certificate: {MAX_USE_MARKS} are noted")
            for series, (amount, _, parts) in takings.items():
                at = self._uses.setdefault(series, _Uses()).note(mark(series.window_s, now, parts), amount)
                if at is not None:
                    self._use_ends.add(at + series.window_s, series)
        return True

    async def room_at(self, limit: RateLimit, *, now: int) -> int | None:
        """Return when (unix seconds) one more use will be within a limit; None if never."""
        with self._lock:
            certain(now + 1, self._use_ends.forgotten)
            uses = self._uses.get(Series(limit.cert_id, limit.window_s), _Uses())
            return room_at(uses.marks_after(now - limit.window_s), uses.total, limit, now)

    async def ready(self) -> bool:
        """Return True: this store always answers."""
        return True

    def problem(self) -> None:
        """Return None: this store has no problems to report."""

    async def aclose(self) -> None:
        """Do nothing: there is nothing to release."""

    def _judge(self, challenge: bytes, ours: Issued | None, *, issued: bool, now: int) -> Spending:
        return judge(spent=challenge in self._spent, ours=ours, issued=issued, now=now)

    def _count(self, series: Series, now: int) -> int:
        certain(now + 1, self._use_ends.forgotten)
        uses = self._uses.get(series)
        return uses.after(now - series.window_s) if uses else 0


class _Ends(Generic[_Key]):
    """Keys by the time after which each may be forgotten."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, _Key]] = []
        self.forgotten = NEVER
        """The latest end among all keys that were ever removed."""

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, keep_until: int, key: _Key) -> None:
        heapq.heappush(self._heap, (keep_until, key))

    def passed(self, now: int) -> list[_Key]:
        """Remove some of the keys that may be forgotten now, and return them."""
        keys: list[_Key] = []
        while self._heap and self._heap[0][0] < now and len(keys) < STORE_SWEEP_ENTRIES:
            ended, key = heapq.heappop(self._heap)
            self.forgotten = max(self.forgotten, ended)
            keys.append(key)
        return keys


class _Uses:
    """The uses of one series (the uses of one certificate that one limit counts): its marks (seconds) in order, each
    with the number of uses before it."""

    def __init__(self) -> None:
        self._marks: list[int] = []
        self._before: list[int] = []
        self.total = 0

    def after(self, second: int) -> int:
        """Return how many uses are recorded under marks later than this second."""
        first = bisect_right(self._marks, second)
        return self.total - self._before[first] if first < len(self._marks) else 0

    def marks_after(self, second: int) -> list[UseMark]:
        """Return the marks that are later than this second."""
        first = bisect_right(self._marks, second)
        return list(map(UseMark, self._marks[first:], self._before[first:]))

    def note(self, at: int, amount: int) -> int | None:
        """Add a use, under the latest mark if the clock went back. Return its mark if that is new, else None."""
        is_new = not self._marks or self._marks[-1] < at
        if is_new:
            self._marks.append(at)
            self._before.append(self.total)
        self.total += amount
        return at if is_new else None

    def forget_first(self) -> bool:
        """Remove the first mark; return whether it was the last one left."""
        del self._marks[0], self._before[0]
        return not self._marks
