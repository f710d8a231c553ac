"""`accredit` in odd surroundings: `python -m tests.world.odd_place NAME ARGUMENTS`. I/O: the process's own.

`gone`: the current folder was removed. `little memory`: hardly more than it has. `closed`: none of its streams is open.
`few descriptors`: some dozen.
"""

import gc
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

_FREE_BYTES = 8 << 20
_FEW = 24


def _gone() -> None:
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


def _little_memory() -> None:
    gc.collect()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _FREE_BYTES, used + _FREE_BYTES))


def _closed() -> None:
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        getattr(sys, name).detach()
        os.close(number)
        setattr(sys, name, None)
        setattr(sys, f"__{name}__", None)


def _few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FEW, _FEW))


ODD: Mapping[str, Callable[[], None]] = {
    "gone": _gone,
    "little memory": _little_memory,
    "closed": _closed,
    "few descriptors": _few_descriptors,
}


def main() -> int:
    """Runs the command."""
    ODD[sys.argv.pop(1)]()
    from accredit.__main__ import main as accredit  # noqa: PLC0415 - as late as a command's own imports

    return accredit()


if __name__ == "__main__":
    sys.exit(main())
