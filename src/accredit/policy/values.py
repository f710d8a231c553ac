"""Check that Python values, such as the SDK makes of a message, are JSON and not too many. No I/O."""

import math
from collections.abc import Collection, Mapping
from typing import cast

from accredit.errors import FrameError
from accredit.limits import MAX_SAFE_INTEGER, MAX_VALUES

# Types whose every value is JSON: the common case, decided without a call.
_PLAIN = frozenset({str, bool, type(None)})
NO_FORM = "params hold what has no canonical form (an integer beyond 2^53-1)"


def check_values(value: object) -> None:
    """Refuse a value that is not JSON, an integer beyond 2^53-1, and more than `MAX_VALUES` values in all.

    Iterative, so that depth can't exhaust the stack. Raises `FrameError`.
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
    """Return the items of an array or the member values of an object; nothing for a scalar. Raises `FrameError`."""
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
