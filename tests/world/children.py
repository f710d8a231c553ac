"""The processes that a process has started and not waited for, read from /proc (Linux; none elsewhere)."""

import contextlib
import os
from pathlib import Path

from tests.world.postgres import guards
from tests.world.warm import forker


def children(process: int | str = "self") -> list[int]:
    """Their ids, but for those of the processes that are there to stay: one forks commands (`warm`), one looks after a
    database (`postgres`)."""
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # not Linux; or it has just ended
        for thread in os.listdir(f"/proc/{process}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # one that has just ended
                found += map(int, Path(f"/proc/{process}/task/{thread}/children").read_text("ascii").split())
    return [child for child in found if child != forker() and child not in guards]
