"""On which core of the machine a thread runs. Elsewhere than on Linux that is for the system alone to say."""

import contextlib
import ctypes
import os
from collections.abc import Callable

_UNKNOWN = -1


def _asker() -> Callable[[], int] | None:
    try:
        return ctypes.CDLL(None).sched_getcpu
    except (AttributeError, OSError, TypeError):
        return None


_ask = _asker()


def current_core() -> int:
    """The core that this thread runs on just now, or a negative number."""
    return _UNKNOWN if _ask is None else _ask()


def move_to(core: int) -> None:
    """Lets this thread run on one core alone, if that can be done."""
    if core >= 0 and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {core})
