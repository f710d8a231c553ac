"""What tests of child processes ask of Linux: which are there, and whether they are gone. Reads /proc."""

import sys
from pathlib import Path

from tests.world.children import children

RAW = Path(__file__).with_name("stdio_raw.py")


def raw_command(*options: str) -> tuple[str, ...]:
    """The command of the raw server."""
    return (sys.executable, "-I", "-S", str(RAW), *options)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent to notice does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def descendants(pid: int) -> set[int]:
    """The processes below one, but for those that are there to stay (`children`); none where it has ended."""
    found = set(children(pid))
    return found.union(*map(descendants, found))


def open_files() -> int:
    """How many file descriptors this process has."""
    return len(list(Path("/proc/self/fd").iterdir()))
