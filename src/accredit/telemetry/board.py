"""The counts of all workers, in shared memory. I/O: anonymous memory.

The memory is mapped before workers are forked. Each worker writes only its own slot and can read all, so any worker can
show the totals. When a worker is replaced, the new one continues in the same slot, so counters never fall, however a
worker died. Only gauges start again.

A slot has the names of its series in order of creation, each after its length, and the series' numbers in the same
order. The length of the valid names is written last, so a worker that is killed leaves no half entry.
"""

import mmap
import struct
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import json

from accredit.base.clock import unix_ns
from accredit.telemetry.families import FAMILIES, Family

MAX_SERIES = 4_096
"""The most series of one worker: each tool of the catalog has some for each method and error that occurs. Beyond this
number, values are counted in the series of `_other`."""
BOARD_NAMES_BYTES = 1_048_576
"""How many bytes the names of one worker's series may take: 256 each. Memory that is not used is never mapped."""


OTHER = "_other"

_WIDEST = max(family.width for family in FAMILIES)
_SPARE = len(FAMILIES)
"""Further series beyond the bound: one `_other` for each family."""
_NAMES_USED, _STARTED = 0, 1
_HEADER_BYTES = 16
_VALUES = (MAX_SERIES + _SPARE) * _WIDEST
_SLOT_BYTES = -(-(_HEADER_BYTES + BOARD_NAMES_BYTES + 8 * _VALUES) // mmap.PAGESIZE) * mmap.PAGESIZE
_LENGTH = struct.Struct("<I")

Labels = tuple[str, ...]


class _Part:
    """The memory of one slot."""

    def __init__(self, memory: mmap.mmap, start: int) -> None:
        whole = memoryview(memory)[start : start + _SLOT_BYTES]
        self.header = whole[:_HEADER_BYTES].cast("Q")
        self.names = whole[_HEADER_BYTES : _HEADER_BYTES + BOARD_NAMES_BYTES]
        self.values: Any = whole[_HEADER_BYTES + BOARD_NAMES_BYTES :][: 8 * _VALUES].cast("d")
        self._lock = threading.Lock()  # what is shown and what is sent are read by different threads
        self._read = 0
        self._next = 0
        self._known: list[tuple[Family, Labels, int]] = []

    def series(self) -> Sequence[tuple[Family, Labels, int]]:
        """Return the series that exist, each with the position of its first number."""
        with self._lock:
            used = self.header[_NAMES_USED]
            while self._read < used:
                (length,) = _LENGTH.unpack_from(self.names, self._read)
                start = self._read + _LENGTH.size
                index, labels = json.decode(self.names[start : start + length], type=tuple[int, Labels])
                family = FAMILIES[index]
                self._known.append((family, labels, self._next))
                self._read, self._next = start + length, self._next + family.width
            return tuple(self._known)


class Slot:
    """One worker's counters. `started` is when counting began in this slot, in unix nanoseconds."""

    def __init__(self, part: _Part) -> None:
        self._part = part
        self._lock = threading.Lock()  # the thread that exports counts, too
        self._places = {(family, labels): place for family, labels, place in part.series()}
        self._next = sum(family.width for family, _, _ in part.series())
        self.values: Any = part.values
        for family, _, place in part.series():
            if family.kind == "gauge":
                self.values[place] = 0.0
        part.header[_STARTED] = part.header[_STARTED] or unix_ns()
        self.started = int(part.header[_STARTED])

    def place(self, family: Family, labels: Labels) -> int:
        """Return the position of a series' first number, after creating the series if needed. If there is no room,
        return that of `OTHER`."""
        with self._lock:
            place = self._places.get((family, labels))
            if place is not None:
                return place
            name = json.encode((FAMILIES.index(family), labels))
            full = len(self._places) >= MAX_SERIES or not self._has_room(len(name), spare=4096)
            if full:
                labels = (OTHER,) * len(family.labels)
                name = json.encode((FAMILIES.index(family), labels))
                if (family, labels) in self._places:
                    return self._places[family, labels]
            return self._add(family, labels, name)

    def mine(self) -> Iterator[tuple[Family, Labels, list[float]]]:
        """Yield this worker's series and their numbers."""
        for family, labels, place in self._part.series():
            yield family, labels, self.values[place : place + family.width].tolist()

    def _has_room(self, size: int, spare: int) -> bool:
        return self._part.header[_NAMES_USED] + _LENGTH.size + size + spare <= BOARD_NAMES_BYTES

    def _add(self, family: Family, labels: Labels, name: bytes) -> int:
        part, used = self._part, self._part.header[_NAMES_USED]
        _LENGTH.pack_into(part.names, used, len(name))
        start = used + _LENGTH.size
        part.names[start : start + len(name)] = name
        place, self._next = self._next, self._next + family.width
        for each in range(place, self._next):
            self.values[each] = 0.0
        part.header[_NAMES_USED] = start + len(name)  # last: from now on it counts
        self._places[family, labels] = place
        return place


class Board:
    """The slots of all workers. It is made before workers are forked."""

    def __init__(self, workers: int = 1) -> None:
        self._memory = mmap.mmap(-1, workers * _SLOT_BYTES)
        self._parts = [_Part(self._memory, number * _SLOT_BYTES) for number in range(workers)]

    def slot(self, number: int = 0) -> Slot:
        """Return the slot of a worker. No other worker may use it."""
        return Slot(self._parts[number])

    def totals(self) -> dict[Family, dict[Labels, list[float]]]:
        """Return the totals of all workers, by family and labels."""
        found: dict[Family, dict[Labels, list[float]]] = {family: {} for family in FAMILIES}
        for part in self._parts:
            for family, labels, place in part.series():
                values = part.values[place : place + family.width].tolist()
                before = found[family].get(labels)
                if before is None:
                    found[family][labels] = values
                elif family.together == "max":
                    found[family][labels] = [max(before[0], values[0])]
                else:
                    found[family][labels] = [one + other for one, other in zip(before, values, strict=True)]
        return found
