"""Keeps a thread on the CPU core that another thread runs on. Does nothing except on Linux."""

import contextlib
import os

_PROCESSOR = 36  # index among the fields after the name in /proc/PID/stat; proc(5) numbers it 39


class Follower:
    """Moves the thread that calls `follow` to the core of another thread, if possible. `leader` is the other one's
    native id."""

    def __init__(self, leader: int) -> None:
        self._core: int | None = None
        self._stat: int | None = None
        with contextlib.suppress(OSError):
            self._stat = os.open(f"/proc/self/task/{leader}/stat", os.O_RDONLY | os.O_CLOEXEC)

    def follow(self) -> None:
        """Move this thread to the leader's current core, and pin it there."""
        if self._stat is None:
            return
        with contextlib.suppress(OSError, ValueError, IndexError, AttributeError):
            core = int(os.pread(self._stat, 1024, 0).rpartition(b")")[2].split()[_PROCESSOR])
            if core != self._core:
                os.sched_setaffinity(0, {core})
                self._core = core

    def close(self) -> None:
        """Stop following."""
        stat, self._stat = self._stat, None
        if stat is not None:
            os.close(stat)
