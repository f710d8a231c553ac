"""Keeps this process's memory from other programs of the same user, and off the disk. I/O: system calls.

Not prevented: access by root, or by a program that opened the memory right after the start, before this took effect.
"""

import contextlib
import ctypes
import resource
import sys

_PR_SET_DUMPABLE = 4
"""The option of prctl(2) for whether a process can be dumped. At 0, this process's files in /proc belong to root, and
only root may trace it."""


def keep_memory_private() -> None:
    """Forbid core dumps of this process, and access to its memory by other programs of the same user."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
