"""Values that are computed once and kept with their object. No I/O."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class Once(Generic[Value]):
    """`functools.cached_property` without its lock, which Python drops in 3.12: in a race a value is computed twice.

    The object needs a `__dict__`; copies and comparisons ignore what is kept there.
    """

    __slots__ = ("_compute", "_name")

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self._name = compute.__name__

    def __get__(self, holder: Any, _owner: type | None = None) -> Value:
        # A non-data descriptor: from now on Python finds the value in the object's own dictionary.
        value = holder.__dict__[self._name] = self._compute(holder)
        return value
