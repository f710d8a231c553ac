"""Caches: of values by key, in a bounded memory; and of a value that is computed once per object. No I/O."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

MAX_REMEMBERED_VALUE_BYTES = 256
"""The longest header name or value, in bytes, whose meaning is cached; a few hundred are. A host's name has up to 253
bytes. A longer text, which may fill a whole head, is read each time."""


_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")
_More = ParamSpec("_More")
_Said = TypeVar("_Said", bound=bytes | str | None)
_Read = Callable[Concatenate[_Said, _More], _Value]


class RecentlyUsed(Generic[_Key, _Value]):
    """A cache of at most `max_entries` values, which evicts the least recently used one. No value is None.

    Threads may share it: each step is atomic in C, and the worst effect of a race is a forgotten entry.
    """

    __slots__ = ("_entries", "_max_entries")

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[_Key, _Value] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: _Key) -> bool:
        return key in self._entries

    def get(self, key: _Key) -> _Value | None:
        """Return the value of a key, and count that as a use."""
        try:
            self._entries.move_to_end(key)
            return self._entries[key]
        except KeyError:  # also where another thread has forgotten it between the two
            return None

    def peek(self, key: _Key) -> _Value | None:
        """Return the value of a key, without counting that as a use."""
        return self._entries.get(key)

    def values(self) -> Iterable[_Value]:
        """Return all values, the least recently used first."""
        return self._entries.values()

    def put(self, key: _Key, value: _Value) -> None:
        """Remember a value, as the most recently used."""
        self._entries.pop(key, None)
        self._entries[key] = value
        while len(self._entries) > self._max_entries:
            try:
                self._entries.popitem(last=False)
            except KeyError:  # another thread has emptied it
                return

    def forget(self, key: _Key) -> None:
        """Forget a key, if it is there."""
        self._entries.pop(key, None)


class RecentlyUsedInSize(RecentlyUsed[_Key, _Value]):
    """A `RecentlyUsed` that also bounds the total size of its values. It never evicts the newest entry. For one
    thread."""

    __slots__ = ("_max_size", "_size", "_sizes")

    def __init__(self, max_entries: int, max_size: int) -> None:
        super().__init__(max_entries)
        self._max_size = max_size
        self._sizes: dict[_Key, int] = {}
        self._size = 0

    def has_room(self, size: int) -> bool:
        """Return whether `size` more fits without evicting anything."""
        return self._size + size <= self._max_size

    def put(self, key: _Key, value: _Value, size: int = 0) -> None:
        """Remember a value of this size, as the most recently used."""
        self.forget(key)
        self._entries[key] = value
        self._sizes[key] = size
        self._size += size
        while len(self._entries) > self._max_entries or (self._size > self._max_size and len(self._entries) > 1):
            self.forget(next(iter(self._entries)))

    def forget(self, key: _Key) -> None:
        """Forget a key, if it is there."""
        super().forget(key)
        self._size -= self._sizes.pop(key, 0)


class CachedProperty(Generic[_Value]):
    """`functools.cached_property` without the lock that it has before Python 3.12. In a race between threads, a value
    is computed twice.

    The object needs a `__dict__`, which its copies and comparisons ignore.
    """

    __slots__ = ("_compute", "_name")

    def __init__(self, compute: Callable[[Any], _Value]) -> None:
        self._compute = compute
        self._name = compute.__name__

    def __get__(self, holder: Any, _owner: type | None = None) -> _Value:
        # Python looks into the object's own dictionary first, so this runs once.
        value = holder.__dict__[self._name] = self._compute(holder)
        return value


def cache_short_values(entries: int) -> Callable[[_Read[_Said, _More, _Value]], _Read[_Said, _More, _Value]]:
    """Return a decorator that caches a function of a peer's value, for short values only. For long values, the memory
    would cost far more than the saved time is worth."""

    def of_short(read: _Read[_Said, _More, _Value]) -> _Read[_Said, _More, _Value]:
        known: Any = lru_cache(entries)(read)

        @wraps(read)
        def look(value: _Said, *more: _More.args, **named: _More.kwargs) -> _Value:
            if value is not None and len(value) > MAX_REMEMBERED_VALUE_BYTES:
                return read(value, *more, **named)
            return known(value, *more, **named)

        look.cache_info = known.cache_info  # type: ignore[attr-defined]
        return look

    return of_short
