"""One worker's counters, at a few hundred nanoseconds a count. I/O: the memory of its slot (`board`).

Callers must pass values of labels from a bounded set (`labels`).
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

from accredit.telemetry import families
from accredit.telemetry.board import Labels, Slot
from accredit.telemetry.families import Family

_Key = TypeVar("_Key", bound=Hashable)


class Number:
    """A counter or a gauge: one number for each set of labels."""

    __slots__ = ("_family", "_places", "_slot", "_values")

    def __init__(self, slot: Slot, family: Family) -> None:
        self._slot = slot
        self._values = slot.values
        self._family = family
        self._places: dict[Labels, int] = {}

    def add(self, labels: Labels = (), by: float = 1.0) -> None:
        """Add to a counter."""
        place = self._places.get(labels)
        self._values[self._place(labels) if place is None else place] += by

    def set(self, value: float, labels: Labels = ()) -> None:
        """Set a gauge."""
        place = self._places.get(labels)
        self._values[self._place(labels) if place is None else place] = value

    def _place(self, labels: Labels) -> int:
        place = self._places[labels] = self._slot.place(self._family, labels)
        return place


class Histogram(Generic[_Key]):
    """A histogram of durations for each key. `labels_of` returns the labels of a key."""

    __slots__ = ("_family", "_first", "_labels_of", "_places", "_slot", "_sum", "bounds", "values")

    def __init__(self, slot: Slot, family: Family, labels_of: Callable[[_Key], Labels]) -> None:
        self._slot = slot
        self.values = slot.values
        self._family = family
        self._labels_of = labels_of
        self.bounds = family.bounds
        self._first = family.bounds[0]
        self._sum = len(family.bounds) + 1
        self._places: dict[_Key, int] = {}

    def observe(self, key: _Key, seconds: float) -> None:
        """Count a duration."""
        place = self._places.get(key)
        if place is None:
            place = self.place(key)
        values = self.values
        # Most are below the first bound.
        values[place if seconds <= self._first else place + bisect_left(self.bounds, seconds)] += 1.0
        values[place + self._sum] += seconds

    def place(self, key: _Key) -> int:
        """Return the position of a series' first number."""
        place = self._places[key] = self._slot.place(self._family, self._labels_of(key))
        return place


class HistogramPair(Generic[_Key]):
    """Two histograms with the same bounds and keys, which are updated together."""

    __slots__ = ("_bounds", "_first", "_one", "_other", "_places", "_sum", "_values")

    def __init__(self, one: Histogram[_Key], other: Histogram[_Key]) -> None:
        self._one = one
        self._other = other
        self._values = one.values
        self._bounds = one.bounds
        self._first = one.bounds[0]
        self._sum = len(one.bounds) + 1
        self._places: dict[_Key, tuple[int, int]] = {}

    def observe(self, key: _Key, seconds: float, other_seconds: float) -> None:
        """Count `seconds` in the first histogram, and `other_seconds` in the second."""
        places = self._places.get(key)
        if places is None:
            places = self._places[key] = self._one.place(key), self._other.place(key)
        place, other = places
        values, first, at = self._values, self._first, self._sum
        values[place + at] += seconds
        values[other + at] += other_seconds
        # Most are below the first bound.
        values[place if seconds <= first else place + bisect_left(self._bounds, seconds)] += 1.0
        values[other if other_seconds <= first else other + bisect_left(self._bounds, other_seconds)] += 1.0


Ended = tuple[tuple[str, str], str]
"""How an operation ended: its method and tool, and the error that ended it ("" if none)."""


class Metrics:
    """All metrics of one worker."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.decisions = Number(slot, families.DECISIONS)
        self.invalid = Number(slot, families.INVALID)
        self.unasked = Number(slot, families.UNASKED)
        self.store_seconds = Histogram[str](slot, families.STORE_SECONDS, lambda op: (op,))
        self.log_turn_seconds = partial(Histogram[Labels](slot, families.LOG_TURN_SECONDS, tuple).observe, ())
        self.connections = Number(slot, families.CONNECTIONS)
        self.log_queue = Number(slot, families.LOG_QUEUE)
        self.log_left = Number(slot, families.LOG_LEFT)
        self.store_skew = Number(slot, families.STORE_SKEW)
        self.config_digest = Number(slot, families.CONFIG_DIGEST)
        self.breakers = Number(slot, families.BREAKERS)
        self.sink_lag = Number(slot, families.SINK_LAG)
        self.spans = Number(slot, families.SPANS)
        Number(slot, families.STARTS).add()

    def durations(self, family: Family, server: str) -> Histogram[Ended]:
        """Return the histogram of one server's operations."""
        return Histogram(self.slot, family, lambda ended: (*ended[0], ended[1], server))
