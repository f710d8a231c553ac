"""Keeping the memory of this process from other programs of the same user, and off the disk. I/O: the system is told.

Not prevented: what the superuser does, and what was opened before the call (a program that waits for a command to
start, and opens its memory at once, can read in it what comes later).
"""

import contextlib
import ctypes
import resource
import sys

_PR_SET_DUMPABLE = 4
"""prctl(2). Where it is 0, the files of a process in /proc are root's, and only root may trace it."""


def keep_memory_private() -> None:
    """Have the system refuse core dumps of this process, and other programs of the same user a look into it."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
