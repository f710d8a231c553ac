"""How much memory this process took meanwhile. Reads and resets Linux's own count (`/proc/self`)."""

import gc
from pathlib import Path
from types import TracebackType
from typing import Self

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


def _kib(name: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1])


class MemoryWatch:
    """`with MemoryWatch() as watch`: then `peak_mib` is how far the resident memory rose above where it began, and
    `kept_mib` how far above that it stayed."""

    def __enter__(self) -> Self:
        gc.collect()
        _CLEAR.write_text(_RESET_PEAK)
        self._before = _kib("VmRSS:")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.peak_mib = (_kib("VmHWM:") - self._before) / 1024
        gc.collect()
        self.kept_mib = (_kib("VmRSS:") - self._before) / 1024
