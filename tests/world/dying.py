"""`python dying.py FOLDER NUMBER ARGUMENTS...`: the `accredit` command, killed before it changes a folder for the
NUMBERth time: before it makes, names or removes a file in it, or below
it."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

_CHANGES = {"os.rename", "os.remove", "os.link", "os.truncate"}


def _kill_at(folder: Path, number: int) -> None:
    seen = 0

    def watch(event: str, args: tuple[Any, ...]) -> None:
        nonlocal seen
        makes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR)
        if not (makes or event in _CHANGES) or not isinstance(args[0], str | os.PathLike):
            return
        if Path(os.fspath(args[0])).parent.is_relative_to(folder):
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


if __name__ == "__main__":
    from accredit.__main__ import main

    _kill_at(Path(sys.argv[1]), int(sys.argv[2]))
    sys.argv = ["accredit", *sys.argv[3:]]
    raise SystemExit(main())
