"""What tests of child processes ask of Linux: which are there, and whether they are gone. Reads /proc."""

import sys
from pathlib import Path

from tests.world.warm import forker

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
    """The processes below one, but for the process that forks commands (`warm`); none where it has ended."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    except (FileNotFoundError, ProcessLookupError):
        return set()
    found = {int(child) for child in children} - {forker()}
    return found.union(*map(descendants, found))


def open_files() -> int:
    """How many file descriptors this process has."""
    return len(list(Path("/proc/self/fd").iterdir()))
