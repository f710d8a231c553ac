"""Values that are computed once and kept with their object. No I/O."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class Once(Generic[Value]):
    """`functools.cached_property` without the lock that it has before Python 3.12: a race computes a value twice.

    The object has a `__dict__`, which copies and comparisons leave out.
    """

    __slots__ = ("_compute", "_name")

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self._name = compute.__name__

    def __get__(self, holder: Any, _owner: type | None = None) -> Value:
        # Python looks into the object's own dictionary first, so this runs once.
        value = holder.__dict__[self._name] = self._compute(holder)
        return value
