"""Python values that are to be JSON, and not too much of it: what the SDK made of a message. No I/O."""

import math
from collections.abc import Mapping
from typing import cast

from accredit.errors import FrameError
from accredit.limits import MAX_SAFE_INTEGER, MAX_VALUES

NO_FORM = "params hold what has no canonical form (an integer beyond 2^53-1)"


def check_values(value: object) -> None:
    """Refuses what no JSON text says, an integer beyond 2^53-1, and more than `MAX_VALUES` values. Raises `FrameError`.

    It goes no deeper than there are values, and without recursion.
    """
    left = MAX_VALUES
    waiting = [value]
    while waiting:
        item = waiting.pop()
        inner: list[object] = []
        if isinstance(item, Mapping):
            members = cast("Mapping[object, object]", item)
            if not all(isinstance(name, str) for name in members):
                raise FrameError(NO_FORM)
            inner = list(members.values())
        elif isinstance(item, list | tuple):
            inner = list(cast("list[object]", item))
        elif not _is_scalar(item):
            raise FrameError(NO_FORM)
        left -= len(inner)
        if left < 0:
            raise FrameError(f"params hold more than {MAX_VALUES} values", bound=True)
        waiting += inner


def _is_scalar(item: object) -> bool:
    if isinstance(item, int):
        return abs(item) <= MAX_SAFE_INTEGER
    return item is None or isinstance(item, str) or (isinstance(item, float) and math.isfinite(item))
