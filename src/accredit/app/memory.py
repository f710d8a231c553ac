"""Memory that large requests and answers took is given back when they are over. Changes a setting of this process."""

import contextlib
import ctypes

from accredit.limits import LARGE_BLOCK_BYTES

_M_MMAP_THRESHOLD = -3
"""Of glibc's malloc.h."""


def give_large_blocks_back() -> None:
    """Has the C library map large blocks one by one, where it is glibc; others do so anyway.

    By itself glibc stops that once it has freed one (its threshold follows, up to 32 MiB), and takes them from its
    heap, where whatever small thing comes to lie behind them keeps them from the system for good.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
