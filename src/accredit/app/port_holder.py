"""Finds the `accredit` process of this user that listens on a port. I/O: reads `/proc`; on systems without it, nothing
is found.

Nothing is revealed about other programs. For ours, only the process id, the command's name and the configuration's path
are.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from accredit.base.text import one_line

MAX_HOLDERS = 65_536
"""The most processes whose open files are searched. A person's machine has some 500."""

_LISTENS = "0A"
"""The state of a listening socket in `/proc/net/tcp`."""
_TABLES = ("net/tcp", "net/tcp6")


class PortHolder(NamedTuple):
    """A process of `accredit`: its id, the command that it runs, and its configuration ("" if it names none)."""

    pid: int
    command: str
    configuration: str

    def __str__(self) -> str:
        """Return who it is, for people."""
        serves = f", which serves {self.configuration}" if self.configuration else ""
        return f"`accredit {self.command}` holds it (process {self.pid}{serves})"


def find_holder(port: int, proc: Path = Path("/proc")) -> PortHolder | None:
    """Return the process of `accredit` that listens on a port of this machine; None if none is found."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port, proc)}
    if not sockets:
        return None
    for pid in sorted(_own_processes(proc))[:MAX_HOLDERS]:  # workers hold it, too: their parent comes first
        folder = proc / str(pid)
        if _holds(folder / "fd", sockets):
            return _describe_process(pid, folder)
    return None


def _listening(port: int, proc: Path) -> Iterator[str]:
    """Yield the inodes of the sockets that listen on a port."""
    for table in _TABLES:
        with suppress(OSError, ValueError, IndexError):
            for line in (proc / table).read_text("ascii", "replace").splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTENS and int(words[1].rpartition(":")[2], 16) == port:
                    yield words[9]


def _own_processes(proc: Path) -> Iterator[int]:
    with suppress(OSError), os.scandir(proc) as found:
        for each in found:
            with suppress(OSError):
                if each.name.isdigit() and each.name != str(os.getpid()) and each.stat().st_uid == os.geteuid():
                    yield int(each.name)


def _holds(descriptors: Path, sockets: set[str]) -> bool:
    with suppress(OSError), os.scandir(descriptors) as found:
        for each in found:
            with suppress(OSError):
                if os.readlink(each.path) in sockets:
                    return True
    return False


def _describe_process(pid: int, folder: Path) -> PortHolder | None:
    """Return a process as a `PortHolder`; None if it is not `accredit`."""
    try:
        words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").rstrip("\0").split("\0")
        here = os.readlink(folder / "cwd")
    except OSError:  # it has just ended
        return None
    at = next((number for number, word in enumerate(words[:5]) if Path(word).name == "accredit"), None)
    if at is None or at + 1 >= len(words):
        return None
    command, configuration = words[at + 1], ""
    for number, word in enumerate(words):
        if word == "--config" and number + 1 < len(words):
            configuration = words[number + 1]
        elif word.startswith("--config="):
            configuration = word.removeprefix("--config=")
    path = os.path.normpath(os.path.join(here, configuration)) if configuration else ""
    return PortHolder(pid, command if command.isidentifier() else "serve", one_line(path))
