"""`accredit.pid` beside the configuration: the process that serves it, and the result of its reloads. I/O: that file.

The first line is the process id. The second is JSON: the configuration, the machine and namespace in which that id is
valid, and the last reload's result. While the process lives, it alone holds the lock on the file: the id in an unlocked
file may be another process's. When the process ends, the file stays, but empty.

Others may be able to write to the folder. So a gateway uses a file only if it belongs to its own user and has a single
name: one with two names might be a hard link to another file, which would be overwritten. A reader trusts an id only if
that process belongs to the file's owner.
"""

import contextlib
import fcntl
import os
import socket
import stat
import sys
import time
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct

from accredit.base.values import decodable
from accredit.errors import ConfigurationError

MAX_PID_FILE_BYTES = 16_384
"""The most bytes of `accredit.pid`: an id, and the result of one reload."""
PID_FILE_TRIES = 10
"""How often a gateway tries to lock its file. A program that checks whether the file is locked holds the lock for a
moment."""
PID_FILE_PAUSE_SECONDS = 0.02
"""How many seconds the gateway waits between two tries."""


PID_FILE = "accredit.pid"
_SAFELY = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Flags with which no link is followed, and opening never blocks."""


@decodable
class Reloads(Struct, frozen=True):
    """A gateway's reloads: how many have `begun`, how many are `done`, and what the last one changed, or why it was
    refused."""

    configuration: str
    place: str
    begun: int = 0
    done: int = 0
    changed: str = ""
    problem: str = ""
    remedy: str = ""


class PidFileContent(Struct, frozen=True):
    """The file's content. `pid` is the process that holds the lock, `owner` the user id of the file's owner."""

    pid: int
    reloads: Reloads
    owner: int = -1

    @property
    def is_its_owners(self) -> bool:
        """Whether the process belongs to the file's owner."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return False
        return f"\nUid:\t{self.owner}\t{self.owner}\t" in status


class PidFile:
    """The locked file. Forked children must close it by `leave`."""

    def __init__(self, descriptor: int, configuration: str) -> None:
        self._descriptor = descriptor
        self.reloads = Reloads(configuration, place())
        self.tell(self.reloads)

    @classmethod
    def lock(cls, configuration: Path) -> Self:
        """Create and lock the file beside a configuration. Raises `ConfigurationError`."""
        path = configuration.parent / PID_FILE
        remedy = f"send SIGHUP to process {os.getpid()} instead, or see to {path} and start the gateway anew"
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _SAFELY, 0o600)
        except OSError as error:
            raise ConfigurationError(f"can't write {path}: {error.strerror}", remedy) from None
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
            os.close(descriptor)
            raise ConfigurationError(f"can't write {path}: it is another user's, or another file's", remedy)
        for _ in range(PID_FILE_TRIES):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(PID_FILE_PAUSE_SECONDS)  # somebody may just be looking whether it is locked
            except OSError as error:
                os.close(descriptor)
                raise ConfigurationError(f"can't lock {path}: {error.strerror}", remedy) from None
            else:
                return cls(descriptor, str(configuration))
        os.close(descriptor)
        raise ConfigurationError(f"another gateway has {path}, and `accredit reload` reaches that one", remedy)

    def tell(self, reloads: Reloads) -> None:
        """Write the state of reloads."""
        self.reloads = reloads
        text = b"%d\n%b\n" % (os.getpid(), msgspec.json.encode(reloads))
        with contextlib.suppress(OSError):  # a full disk keeps nobody from reloading
            os.pwrite(self._descriptor, text, 0)
            os.ftruncate(self._descriptor, len(text))

    def leave(self) -> None:
        """Close the file in a forked child, without unlocking it."""
        os.close(self._descriptor)

    def end(self) -> None:
        """Empty the file and unlock it."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


def find(folder: Path) -> PidFileContent | None:
    """Return the content of a folder's file, or None if no process has it locked. Raises `ConfigurationError`."""
    path = folder / PID_FILE
    try:
        with open(path, "rb", opener=_open) as file:
            for _ in range(PID_FILE_TRIES):
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    found = _read(os.pread(file.fileno(), MAX_PID_FILE_BYTES, 0), os.fstat(file.fileno()).st_uid)
                else:
                    return None
                if found is not None:
                    return found
                time.sleep(PID_FILE_PAUSE_SECONDS)  # it was just being written
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"can't read {path}: {error.strerror}", "run this as the gateway's own user") from None
    raise ConfigurationError(f"{path} is locked, and says nothing of a gateway", "start the gateway anew")


def serving(configuration: Path) -> PidFileContent | None:
    """Return the state of this user's gateway for a configuration; None if none runs. Raises `ConfigurationError`,
    also if the gateway serves another configuration in that folder, or can't be trusted."""
    for folder in dict.fromkeys((configuration.parent, Path(os.path.realpath(configuration)).parent)):
        found = find(folder)
        if found is None:
            continue
        path = folder / PID_FILE
        if found.reloads.place != place():
            raise ConfigurationError(f"{path} is of a gateway on another machine, or in a container", "end that first")
        if found.owner != os.geteuid() or (sys.platform == "linux" and not found.is_its_owners):
            raise ConfigurationError(f"{path} names process {found.pid}, which is not yours", "see who made the file")
        if not is_same(found.reloads.configuration, configuration):
            raise ConfigurationError(
                f"the gateway that runs here serves {found.reloads.configuration}, not {configuration}",
                "name that one, or keep each in a folder of its own",
            )
        return found
    return None


def is_served(configuration: Path) -> bool:
    """Return whether a gateway of this user serves a configuration now."""
    with contextlib.suppress(ConfigurationError):
        return serving(configuration) is not None
    return False


def is_same(configuration: str, file: Path) -> bool:
    """Return whether two paths lead to one file, by whatever links."""
    try:
        return configuration == str(file) or os.path.samefile(configuration, file)
    except (OSError, ValueError):
        return False


def place() -> str:
    """Return a text that identifies this boot of the machine, and the namespace in which this process's id is valid."""
    try:
        booted = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{booted} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:  # not Linux
        return socket.gethostname()


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | _SAFELY)


def _read(text: bytes, owner: int) -> PidFileContent | None:
    pid, _, told = text.partition(b"\n")
    with contextlib.suppress(ValueError, msgspec.MsgspecError, RecursionError):
        found = PidFileContent(int(pid), msgspec.json.decode(told, type=Reloads), owner)
        return found if found.pid > 1 else None
    return None
