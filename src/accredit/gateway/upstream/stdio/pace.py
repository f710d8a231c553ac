"""A bound on events per second: a child must not fill a disk through the gateway's log. No I/O."""


class Pace:
    """Admits the first `per_second` events of each second. Times are the event loop's, in seconds."""

    __slots__ = ("_admitted", "_per_second", "_second", "_skipped")

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._second = 0
        self._admitted = 0
        self._skipped = 0

    def admits(self, now: float) -> bool:
        """Return whether an event is admitted now."""
        if int(now) != self._second:
            self._second, self._admitted = int(now), 0
        if self._admitted >= self._per_second:
            self._skipped += 1
            return False
        self._admitted += 1
        return True

    def skipped(self) -> int:
        """Return how many events were not admitted since the last call."""
        skipped, self._skipped = self._skipped, 0
        return skipped
