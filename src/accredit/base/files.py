"""Opens files that somebody else may have placed, takes locks, and makes private folders. I/O: all three.

- Only regular files are opened, so that no pipe blocks and no device is read without end.
- There is one exception: a path such as `/dev/fd/63`, for a descriptor inherited at the start, may be a pipe. Shells
  use it for `<(COMMAND)`. The standard streams are excluded: `base.standard` reads them, as `-`.
- Nobody else may write to a folder made here, or to parents made with it, whatever the umask is. (`Path.mkdir(mode=...,
  parents=True)` would leave the parents' mode to the umask.)

Not checked: how much there is to read. The callers set bounds.
"""

import errno
import fcntl
import os
import re
import stat
from pathlib import Path
from typing import BinaryIO

from accredit.errors import ConfigurationError

PRIVATE_FOLDER = 0o700
"""The mode of a private folder, as the XDG Base Directory Specification requires."""
SHARED_FOLDER = 0o755
"""The mode of a folder that others may read."""

_GIVEN_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/(?:[3-9]|[1-9][0-9]+)")


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading. Raises `OSError`, also if it is not a regular file."""
    _check_name(path)
    # Non-blocking: opening a pipe in the file's place would wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) and _GIVEN_DESCRIPTOR.fullmatch(str(path)):
            os.set_blocking(descriptor, True)
        elif stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        elif not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def open_locked(path: str | Path, *, waits: bool = False) -> int:
    """Lock a lock file, which is created if it is missing. Return its descriptor: closing that releases the lock.
    Raises `BlockingIOError` if another process has the lock, unless this `waits` for it, and `OSError`."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def beside(path: Path, name: str) -> Path:
    """Return the path of a file called `name` in the folder of `path`. Raises `ConfigurationError` if `path` names no
    file, such as `""`, `.`, `..` and `/`."""
    if path.name in ("", ".."):
        raise ConfigurationError(f"{str(path)!a} names no file", "name one")
    return path.with_name(name)


def make_folder(folder: Path, mode: int = PRIVATE_FOLDER) -> None:
    """Make a folder and its missing parents; an existing one is left as it is. Raises `ConfigurationError`."""
    try:
        _check_name(folder)
        missing = [folder]
        while not missing[-1].parent.exists() and missing[-1].parent != missing[-1]:
            missing.append(missing[-1].parent)
        for each in reversed(missing):
            _make(each, mode)
    except OSError as error:
        raise ConfigurationError(f"can't make {folder}: {error.strerror}", "make it first, or name another") from None


def _make(folder: Path, mode: int) -> None:
    try:
        folder.mkdir(mode)
    except OSError:
        if not folder.is_dir():  # as `Path.mkdir` does: some systems say something else than that it is there
            raise


def _check_name(path: Path) -> None:
    """Raise `OSError` for an impossible file name, instead of Python's `ValueError`."""
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "a name with a NUL", str(path))
