"""How much memory a process took meanwhile. Reads and resets Linux's own count (`/proc`)."""

import gc
from pathlib import Path
from typing import Self

_RESET_PEAK = "5"


class MemoryWatch:
    """`with MemoryWatch() as watch` (of this process, or the one with this id): then `peak_mib` is how far the resident
    memory rose above where it began, and `kept_mib` how far above that it stayed."""

    def __init__(self, pid: int | None = None) -> None:
        self._process = Path("/proc", "self" if pid is None else str(pid))

    def __enter__(self) -> Self:
        gc.collect()
        (self._process / "clear_refs").write_text(_RESET_PEAK)
        self._before = self._kib("VmRSS:")
        return self

    @property
    def now_mib(self) -> float:
        """How far it is above where it began."""
        return (self._kib("VmRSS:") - self._before) / 1024

    def _kib(self, name: str) -> int:
        lines = (self._process / "status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1])

    def __exit__(self, *_: object) -> None:
        self.peak_mib = (self._kib("VmHWM:") - self._before) / 1024
        gc.collect()
        self.kept_mib = self.now_mib
