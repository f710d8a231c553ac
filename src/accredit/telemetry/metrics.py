"""What one worker counts with: a few hundred nanoseconds each. I/O: the memory of its slot (`board`).

Whoever counts brings values of labels that are bounded (`labels`).
"""

from bisect import bisect_left
from functools import partial

from accredit.telemetry import families
from accredit.telemetry.board import Labels, Slot
from accredit.telemetry.families import Family


class Number:
    """A counter or a gauge, by its labels."""

    __slots__ = ("_family", "_places", "_slot", "_values")

    def __init__(self, slot: Slot, family: Family) -> None:
        self._slot = slot
        self._values = slot.values
        self._family = family
        self._places: dict[Labels, int] = {}

    def add(self, labels: Labels = (), by: float = 1.0) -> None:
        """Count."""
        place = self._places.get(labels)
        self._values[self._place(labels) if place is None else place] += by

    def set(self, value: float, labels: Labels = ()) -> None:
        """Say what it is now."""
        place = self._places.get(labels)
        self._values[self._place(labels) if place is None else place] = value

    def _place(self, labels: Labels) -> int:
        place = self._places[labels] = self._slot.place(self._family, labels)
        return place


class Histogram:
    """How long something takes, by its labels."""

    __slots__ = ("_bounds", "_family", "_places", "_slot", "_sum", "_values")

    def __init__(self, slot: Slot, family: Family) -> None:
        self._slot = slot
        self._values = slot.values
        self._family = family
        self._bounds = family.bounds
        self._sum = len(family.bounds) + 1
        self._places: dict[Labels, int] = {}

    def observe(self, labels: Labels, seconds: float) -> None:
        """Count what has taken so long."""
        place = self._places.get(labels)
        if place is None:
            place = self._places[labels] = self._slot.place(self._family, labels)
        values = self._values
        values[place + bisect_left(self._bounds, seconds)] += 1.0
        values[place + self._sum] += seconds


class Metrics:
    """All of them, of one worker."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.server_seconds = Histogram(slot, families.SERVER_SECONDS)
        self.client_seconds = Histogram(slot, families.CLIENT_SECONDS)
        self.decisions = Number(slot, families.DECISIONS)
        self.invalid = Number(slot, families.INVALID)
        self.store_seconds = Histogram(slot, families.STORE_SECONDS)
        self.log_turn_seconds = partial(Histogram(slot, families.LOG_TURN_SECONDS).observe, ())
        self.log_queue = Number(slot, families.LOG_QUEUE)
        self.store_skew = Number(slot, families.STORE_SKEW)
        self.config_digest = Number(slot, families.CONFIG_DIGEST)
        self.breakers = Number(slot, families.BREAKERS)
        self.spans = Number(slot, families.SPANS)
        Number(slot, families.STARTS).add()
