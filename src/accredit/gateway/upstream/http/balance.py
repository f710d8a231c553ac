"""Which replica of a server gets a request, and which are ejected for a while. No I/O: time and randomness are given.

- [fewest] The next request goes to the replica with the fewest requests in progress, at random if several have as few.
  Ejected replicas get none.
- [ejection] A replica is ejected once `BREAKER_FAILURES` of its requests in a row have failed: no connection, none in
  time, no answer in time, or an end before the head of an answer. Any answer that begins ends the row, even an error. A
  failure does not count if the replica has begun another answer since that request began: one slow tool does not speak
  for the whole replica. Nor does it count if the gateway itself had no connection to spare.
- [trial] A replica is ejected for `BREAKER_SECONDS`, plus or minus `BREAKER_JITTER`. Then one trial request is let
  through. If its answer begins, the replica is back. If it fails, the time starts again. If it is abandoned, the next
  request is the trial.
"""

from collections.abc import Callable, Collection, Iterable

BREAKER_FAILURES = 5
"""After how many failed requests in a row a replica is ejected. Fewer failures could be chance; if more were needed,
more callers would wait for nothing."""
BREAKER_SECONDS = 30.0
"""How long a replica is ejected. A restart takes seconds, and one caller may have to wait for the trial that
follows."""
BREAKER_JITTER = 0.1
"""The share of `BREAKER_SECONDS` by which that time varies, so that workers and gateways do not all try a replica at
once."""


class Replica:
    """The state of one replica. `name` is never shown to clients."""

    __slots__ = ("failures", "last_answer", "left_out_until", "name", "tried", "under_way")

    def __init__(self, name: str) -> None:
        self.name = name
        self.under_way = 0
        self.failures = 0
        self.last_answer = float("-inf")
        self.left_out_until: float | None = None
        self.tried = False
        """Whether the trial request of [trial] is in progress."""

    def takes(self, now: float) -> bool:
        """Return whether the replica may get a request."""
        return self.left_out_until is None or (now >= self.left_out_until and not self.tried)


class Turn:
    """One request at one replica. Whether it was answered or failed is reported at most once, and it ends once."""

    __slots__ = ("_balance", "_began", "_ended", "_is_trial", "replica")

    def __init__(self, balance: "Balance", replica: Replica, now: float) -> None:
        self._balance = balance
        self._began = now
        self._ended = False
        self._is_trial = replica.left_out_until is not None
        self.replica = replica
        replica.under_way += 1
        replica.tried = replica.tried or self._is_trial

    def answered(self, now: float) -> None:
        """Report that an answer has begun."""
        replica = self.replica
        replica.last_answer = now
        if self._is_trial:
            self._is_trial = replica.tried = False
            replica.left_out_until = None
        if replica.left_out_until is None:
            replica.failures = 0

    def failed(self, now: float) -> None:
        """Report that the request has failed, and end it."""
        replica = self.replica
        if self._is_trial:
            self._balance.leave_out(replica, now)
        elif replica.left_out_until is None and replica.last_answer <= self._began:
            replica.failures += 1
            if replica.failures >= BREAKER_FAILURES:
                self._balance.leave_out(replica, now)
        self.end()

    def end(self) -> None:
        """End the request. A second time does nothing."""
        if self._ended:
            return
        self._ended = True
        self.replica.under_way -= 1
        if self._is_trial:
            self.replica.tried = False


class Balance:
    """The replicas of one server, by name. `lot` returns a random number in [0, 1)."""

    def __init__(self, names: Iterable[str], lot: Callable[[], float]) -> None:
        self._replicas = {name: Replica(name) for name in names}
        self._lot = lot

    def begin(self, now: float, *, at: str | None = None, besides: Collection[str] = ()) -> Turn | None:
        """Begin a request: at the replica `at` if given, otherwise at any but `besides` ([fewest]). Return None if none
        is available."""
        if at is not None:
            replica = self._replicas[at]
            return Turn(self, replica, now) if replica.takes(now) else None
        able = [each for each in self._replicas.values() if each.takes(now) and each.name not in besides]
        if not able:
            return None
        if len(able) > 1:
            fewest = min(each.under_way for each in able)
            able = [each for each in able if each.under_way == fewest]
        return Turn(self, able[int(self._lot() * len(able))] if len(able) > 1 else able[0], now)

    def takes_any(self, now: float) -> bool:
        """Return whether any replica is available."""
        return any(replica.takes(now) for replica in self._replicas.values())

    def left_out(self, now: float) -> int:
        """Return how many replicas are unavailable."""
        return sum(not replica.takes(now) for replica in self._replicas.values())

    def leave_out(self, replica: Replica, now: float) -> None:
        """Eject a replica for a while ([trial])."""
        jitter = (2 * self._lot() - 1) * BREAKER_JITTER
        replica.left_out_until = now + BREAKER_SECONDS * (1 + jitter)
