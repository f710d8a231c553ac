"""Returning the memory of large requests and answers to the system when they are over. Changes a setting of this
process."""

import contextlib
import ctypes

from accredit.limits import LARGE_BLOCK_BYTES

_M_MMAP_THRESHOLD = -3
"""From glibc's malloc.h."""


def give_large_blocks_back() -> None:
    """Have the C library map large blocks one by one, if it is glibc; others do so anyway.

    By default glibc stops that once it has freed one (its threshold follows, up to 32 MiB). It then takes such blocks
    from its heap, where any small block that comes to lie behind them keeps them from the system for good.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
