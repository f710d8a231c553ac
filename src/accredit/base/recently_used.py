"""A bounded memory: what was used least recently is forgotten first. No I/O."""

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class RecentlyUsed(Generic[Key, Value]):
    """At most `max_entries` values by their keys; with 0 nothing is remembered. No value is None.

    Threads may share it: each step is one of C code, and the worst that a race can do is to forget something.
    """

    __slots__ = ("_entries", "_max_entries")

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[Key, Value] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def get(self, key: Key) -> Value | None:
        """The value of a key, which is used by that."""
        try:
            self._entries.move_to_end(key)
            return self._entries[key]
        except KeyError:  # also where another thread has forgotten it between the two
            return None

    def peek(self, key: Key) -> Value | None:
        """The value of a key, without using it."""
        return self._entries.get(key)

    def values(self) -> Iterable[Value]:
        """All values, the least recently used first."""
        return self._entries.values()

    def put(self, key: Key, value: Value) -> None:
        """Remember a value, as the one used last."""
        self._entries.pop(key, None)
        self._entries[key] = value
        while len(self._entries) > self._max_entries:
            try:
                self._entries.popitem(last=False)
            except KeyError:  # another thread has emptied it
                return

    def forget(self, key: Key) -> None:
        """Forget a key, if it is there."""
        self._entries.pop(key, None)
