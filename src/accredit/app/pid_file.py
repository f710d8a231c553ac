"""`accredit.pid` beside the configuration: which process serves it, and what came of its reloads. I/O: that file.

Its first line is the process's id; the second says, as JSON, which configuration is served, on which machine and in
which of its namespaces that id counts, and how the last reload went. It is locked while that process lives, and by it
alone: an id in a file that nobody has locked is anybody's. It stays when the process ends, with nothing in it.

Where others may write into the folder, they may have made the file. So a gateway takes only one that is its own user's,
under this one name: it may be a link to another file, which would be written over. And whoever is told an id believes
it only of a process that is the user's whose file it is.
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

from accredit.errors import ConfigurationError
from accredit.limits import MAX_PID_FILE_BYTES, PID_FILE_PAUSE_SECONDS, PID_FILE_TRIES

PID_FILE = "accredit.pid"
_SAFELY = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""No link that leads elsewhere, and nothing that waits."""


class Reloads(Struct, frozen=True):
    """What a gateway says of its reloads: how many have `begun` and are `done`, and of the last that is, what was
    changed, or why it was refused."""

    configuration: str
    place: str
    begun: int = 0
    done: int = 0
    changed: str = ""
    problem: str = ""
    remedy: str = ""


class Found(Struct, frozen=True):
    """What the file says: the id of the process that has it locked. `owner` is the id of the user whose file it is."""

    pid: int
    reloads: Reloads
    owner: int = -1

    @property
    def is_its_owners(self) -> bool:
        """Whether the process is of the user whose file it is."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return False
        return f"\nUid:\t{self.owner}\t{self.owner}\t" in status


class PidFile:
    """The file, locked. Processes that are forked from this one have to let it go (`leave`)."""

    def __init__(self, descriptor: int, configuration: str) -> None:
        self._descriptor = descriptor
        self.reloads = Reloads(configuration, place())
        self.tell(self.reloads)

    @classmethod
    def lock(cls, configuration: Path) -> Self:
        """Return the file beside a configuration, made and locked. Raises `ConfigurationError`."""
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
        """Write how the reloads go."""
        self.reloads = reloads
        text = b"%d\n%b\n" % (os.getpid(), msgspec.json.encode(reloads))
        with contextlib.suppress(OSError):  # a full disk keeps nobody from reloading
            os.pwrite(self._descriptor, text, 0)
            os.ftruncate(self._descriptor, len(text))

    def leave(self) -> None:
        """Be none who holds the lock: another process does."""
        os.close(self._descriptor)

    def end(self) -> None:
        """Empty the file and unlock it."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


def find(folder: Path) -> Found | None:
    """Return what the file of a folder says, or None where no process has it locked. Raises `ConfigurationError`."""
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


def serving(configuration: Path) -> Found | None:
    """Return what the gateway of this user says that serves a configuration; None where none does. Raises
    `ConfigurationError`, also where another configuration of that folder is served, or whoever says so may be somebody
    else."""
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


def is_same(configuration: str, file: Path) -> bool:
    """Return whether two paths lead to one file, by whatever links."""
    try:
        return configuration == str(file) or os.path.samefile(configuration, file)
    except (OSError, ValueError):
        return False


def place() -> str:
    """Return what names the machine, since its last start, and the namespace in which this process has its id."""
    try:
        booted = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{booted} {os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:  # not Linux
        return socket.gethostname()


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | _SAFELY)


def _read(text: bytes, owner: int) -> Found | None:
    pid, _, told = text.partition(b"\n")
    with contextlib.suppress(ValueError, msgspec.MsgspecError):
        found = Found(int(pid), msgspec.json.decode(told, type=Reloads), owner)
        return found if found.pid > 1 else None
    return None
