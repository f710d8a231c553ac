"""A thread that runs on the core of the machine that another one runs on. Elsewhere than on Linux the system alone says
where a thread runs."""

import contextlib
import os

_PROCESSOR = 36  # of the fields after the name in /proc/PID/stat, see proc(5): number 39 of all


class Follower:
    """Moves the thread that calls `follow` to the core of the thread with the native id `leader`. Where that can't be
    done nothing happens."""

    def __init__(self, leader: int) -> None:
        self._core: int | None = None
        self._stat: int | None = None
        with contextlib.suppress(OSError):
            self._stat = os.open(f"/proc/self/task/{leader}/stat", os.O_RDONLY | os.O_CLOEXEC)

    def follow(self) -> None:
        """Moves this thread to where the leader runs now, and nowhere else."""
        if self._stat is None:
            return
        with contextlib.suppress(OSError, ValueError, IndexError, AttributeError):
            core = int(os.pread(self._stat, 1024, 0).rpartition(b")")[2].split()[_PROCESSOR])
            if core != self._core:
                os.sched_setaffinity(0, {core})
                self._core = core

    def close(self) -> None:
        """Follows no more."""
        stat, self._stat = self._stat, None
        if stat is not None:
            os.close(stat)
