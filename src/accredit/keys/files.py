"""Files of `accredit`: reading is bounded, and a file is written whole or not at all.

A file is written under a temporary name in the same folder, synced to disk, and then given its name in one step: a
reader finds the old file, the new one or none, whenever the writer dies. An existing file stays, unless it is to be
replaced.
"""

import os
import secrets
import stat
from pathlib import Path

from accredit.base.files import open_file
from accredit.base.standard import StandardInput, standing_for
from accredit.errors import ConfigurationError
from accredit.keys.reading import FileContent, read_once

_PRIVATE = 0o600
_PUBLIC = 0o644


def read_file(path: Path, max_bytes: int) -> FileContent:
    """Return a regular file's content, read once where the configuration is (`reading`); or what comes on stdin, where
    that is named (`base.standard`). Raises `ConfigurationError`, also for more than `max_bytes`."""
    source = standing_for(path)
    content = read_once(path, lambda: _read(path, max_bytes)) if source is None else _sent(source, max_bytes)
    if len(content.data) > max_bytes:
        raise _too_large(path, max_bytes)
    return content


def _sent(source: StandardInput, max_bytes: int) -> FileContent:
    return FileContent(source.read(max_bytes), *source.permissions)


def _read(path: Path, max_bytes: int) -> FileContent:
    try:
        with open_file(path) as file:
            found = os.fstat(file.fileno())
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise ConfigurationError(f"can't read {path}: {error.strerror}", "name a file that can be read") from None
    if len(data) > max_bytes:
        raise _too_large(path, max_bytes)
    return FileContent.of(data, found)


def _too_large(path: Path, max_bytes: int) -> ConfigurationError:
    return ConfigurationError(f"{path} has more than {max_bytes} bytes", "name another file")


def write_file(path: Path, data: bytes, *, private: bool = False, replace: bool = False) -> None:
    """Write a file with mode 0600 if it is private, else 0644 (less the umask).

    Raises `ConfigurationError`, also if the file exists and is not to be replaced. Replacing follows a symbolic link:
    the file that it leads to is meant.
    """
    path = Path(os.path.realpath(path)) if replace else path
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        try:
            _write_new(temporary, data, _PRIVATE if private else _PUBLIC)
            if replace:
                temporary.replace(path)
            else:
                path.hardlink_to(temporary)  # unlike a rename, this never replaces
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)
    except FileExistsError:
        raise exists_already(path) from None
    except OSError as error:
        raise ConfigurationError(f"can't write {path}: {error.strerror}", "name a file that can be written") from None


def replace_file(path: Path, data: bytes, *, old: bytes) -> None:
    """Give a file other bytes, if it still has the `old` ones. Its mode and owner stay; links are followed.

    Raises `ConfigurationError`, also if the new file could not have the same owner.
    """
    path = Path(os.path.realpath(path))
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        was = path.stat()
        try:
            _write_new(temporary, data, _PRIVATE, like=was)
            with open_file(path) as file:
                same = file.read(len(old) + 1) == old
            if not same:
                raise ConfigurationError(f"{path} was changed meanwhile", "run the command again")
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)
    except OSError as error:
        raise ConfigurationError(
            f"can't replace {path}: {error.strerror}", "run the command as the file's owner, in a folder of theirs"
        ) from None


def exists_already(path: Path) -> ConfigurationError:
    """Return the refusal to overwrite a file."""
    return ConfigurationError(f"{path} exists already", "name another file, or say --force to replace it")


def _write_new(path: Path, data: bytes, mode: int, *, like: os.stat_result | None = None) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(descriptor, "wb") as file:
        if like is not None:
            new = os.fstat(descriptor)
            if (new.st_uid, new.st_gid) != (like.st_uid, like.st_gid):
                os.fchown(descriptor, like.st_uid, like.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    # Without this a crash could undo the new name, though not the bytes.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
