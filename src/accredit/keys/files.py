"""Files of `accredit` are read bounded, and written whole or not at all.

A file is written under another name in the same folder, forced to the disk, and then given its name in one step: who
reads it finds the old one, the new one or none. What is there already stays, unless it is to be replaced.
"""

import os
import secrets
import stat
from pathlib import Path
from typing import NamedTuple

from accredit.errors import ConfigurationError

_PRIVATE = 0o600
_PUBLIC = 0o644
_OTHERS = 0o077


class FileContent(NamedTuple):
    """The bytes of a file, and its permission bits at the time."""

    data: bytes
    mode: int

    @property
    def open_to_others(self) -> bool:
        """Whether anybody but the file's owner has a right to it."""
        return bool(self.mode & _OTHERS)


def read_file(path: Path, max_bytes: int) -> FileContent:
    """A regular file's content. Raises `ConfigurationError`, also for more than `max_bytes`."""
    try:
        # Not blocking: a pipe in the file's place would hold the caller for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise ConfigurationError(f"{path} is not a regular file", "name a file")
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise ConfigurationError(f"can't read {path}: {error.strerror}", "name a file that can be read") from None
    if len(data) > max_bytes:
        raise ConfigurationError(f"{path} has more than {max_bytes} bytes", "name another file")
    return FileContent(data, stat.S_IMODE(mode))


def write_file(path: Path, data: bytes, *, private: bool = False, replace: bool = False) -> None:
    """Writes a file, mode 0600 where it is private, else 0644 (less what the umask takes away).

    Raises `ConfigurationError`, also where the file exists and is not to be replaced. A symbolic link is followed
    when it is replaced, as the file that it leads to is meant.
    """
    path = Path(os.path.realpath(path)) if replace else path
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        try:
            _write_new(temporary, data, _PRIVATE if private else _PUBLIC)
            if replace:
                temporary.replace(path)
            else:
                path.hardlink_to(temporary)  # other than a rename, this never replaces
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)
    except FileExistsError:
        raise exists_already(path) from None
    except OSError as error:
        raise ConfigurationError(f"can't write {path}: {error.strerror}", "name a file that can be written") from None


def exists_already(path: Path) -> ConfigurationError:
    """The refusal to write over a file."""
    return ConfigurationError(f"{path} exists already", "name another file, or say --force to replace it")


def _write_new(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    # Without it a crash could take the name away again, though not the bytes.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
