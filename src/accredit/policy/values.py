"""Python values that are to be JSON, and not too much of it: what the SDK made of a message. No I/O."""

import math
from collections.abc import Collection, Mapping
from typing import cast

from accredit.errors import FrameError
from accredit.limits import MAX_SAFE_INTEGER, MAX_VALUES

# Nearly all that is no array or object, and good whatever it says.
_PLAIN = frozenset({str, bool, type(None)})
NO_FORM = "params hold what has no canonical form (an integer beyond 2^53-1)"


def check_values(value: object) -> None:
    """Refuses what no JSON text says, an integer beyond 2^53-1, and more than `MAX_VALUES` values. Raises `FrameError`.

    It goes no deeper than there are values, and without recursion.
    """
    left = MAX_VALUES
    waiting = [value]
    while waiting:
        inner = _inner(waiting.pop())
        left -= len(inner)
        if left < 0:
            raise FrameError(f"params hold more than {MAX_VALUES} values", bound=True)
        waiting += [item for item in inner if type(item) not in _PLAIN and not _is_scalar(item)]


def _inner(item: object) -> Collection[object]:
    """What a value holds. Raises `FrameError`."""
    if isinstance(item, list | tuple):
        return cast("Collection[object]", item)
    if isinstance(item, Mapping):
        members = cast("Mapping[object, object]", item)
        if all(isinstance(name, str) for name in members):
            return members.values()
    elif _is_scalar(item):
        return ()
    raise FrameError(NO_FORM)


def _is_scalar(item: object) -> bool:
    if isinstance(item, float):
        return math.isfinite(item)
    if isinstance(item, int):
        return -MAX_SAFE_INTEGER <= item <= MAX_SAFE_INTEGER
    return item is None or isinstance(item, str)
