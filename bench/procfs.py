"""What a process and its children have used: CPU time and memory, read from /proc (Linux)."""

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_RESET_PEAK = "5"


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes, summed over a process and its children: resident, its proportional share, the highest so far."""

    rss: int
    pss: int
    peak: int


def cpu_seconds(root: int) -> float:
    """User and system time of a process and its children, with those that have ended and were waited for."""
    return sum(cpu_seconds_apart(root))


def cpu_seconds_apart(root: int) -> tuple[float, float]:
    """User and system time of a process, and of its children."""
    user, system, *ended = (int(field) for field in _stat(root)[11:15])  # utime, stime, cutime, cstime
    others = sum(ended)
    for pid in tree(root)[1:]:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended since it was found
            others += sum(int(field) for field in _stat(pid)[11:15])
    return (user + system) / _TICK, others / _TICK


def own_cpu_seconds(pid: int) -> float:
    """User and system time of a process alone."""
    return sum(int(field) for field in _stat(pid)[11:13]) / _TICK


def machine_cpu_seconds() -> float:
    """What all processes and the kernel have used, since the machine was started."""
    fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:]
    idle, waiting = (int(field) for field in fields[3:5])
    return (sum(map(int, fields[:8])) - idle - waiting) / _TICK


def memory(root: int) -> Memory:
    rss = pss = peak = 0
    for pid in tree(root):
        rss += _kibibytes(pid, "status", "VmRSS:")
        peak += _kibibytes(pid, "status", "VmHWM:")
        pss += _kibibytes(pid, "smaps_rollup", "Pss:")
    return Memory(rss, pss, peak)


def reset_peak(root: int) -> None:
    """From now on `Memory.peak` tells of what comes, not of what was."""
    for pid in tree(root):
        Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)


def tree(root: int) -> list[int]:
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    parents = {pid: _parent(pid) for pid in pids}
    found = [root]
    for pid in found:
        found.extend(child for child, parent in parents.items() if parent == pid)
    return found


def _parent(pid: int) -> int:
    try:
        return int(_stat(pid)[1])
    except OSError:
        return 0  # it has ended since the folder was listed


def _stat(pid: int) -> list[str]:
    # The second field is the name in parentheses, which may hold anything: what follows it is counted from 0.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _kibibytes(pid: int, file: str, label: str) -> int:
    for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(label):
            return int(line.split()[1]) * 1024
    return 0
