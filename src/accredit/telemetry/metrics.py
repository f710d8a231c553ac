"""One worker's counters, at a few hundred nanoseconds a count. I/O: the memory of its slot (`board`); a clock.

Callers must pass values of labels from a bounded set (`labels`).
"""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from time import perf_counter
from types import SimpleNamespace
from typing import Any, Generic, TypeVar, cast

from accredit.ports import ProofStore
from accredit.telemetry import families
from accredit.telemetry.board import Labels, Slot
from accredit.telemetry.families import Family

_Key = TypeVar("_Key", bound=Hashable)
_TIMED = ("issue", "look", "spend", "uses", "use", "room_at")
"""The operations of a store that are timed."""


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

    __slots__ = ("_bounds", "_family", "_first", "_labels_of", "_places", "_slot", "_sum", "_values")

    def __init__(self, slot: Slot, family: Family, labels_of: Callable[[_Key], Labels]) -> None:
        self._slot = slot
        self._values = slot.values
        self._family = family
        self._labels_of = labels_of
        self._bounds = family.bounds
        self._first = family.bounds[0]
        self._sum = len(family.bounds) + 1
        self._places: dict[_Key, int] = {}

    def observe(self, key: _Key, seconds: float) -> None:
        """Count a duration."""
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = self._slot.place(self._family, self._labels_of(key))
        values = self._values
        # Most are below the first bound.
        values[place if seconds <= self._first else place + bisect_left(self._bounds, seconds)] += 1.0
        values[place + self._sum] += seconds


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


def time_store(store: ProofStore, seconds: Histogram[str]) -> ProofStore:
    """Return a store that does what `store` does. How long each operation takes, whatever its result, goes into
    `seconds`."""
    timed = {op: partial(_time, op, getattr(store, op), seconds) for op in _TIMED}
    others = {"ready": store.ready, "problem": store.problem, "aclose": store.aclose}
    return cast("ProofStore", SimpleNamespace(**timed, **others))


async def _time(
    op: str, ask: Callable[..., Awaitable[Any]], seconds: Histogram[str], *values: object, **named: object
) -> Any:
    began = perf_counter()
    try:
        return await ask(*values, **named)
    finally:
        seconds.observe(op, perf_counter() - began)
