"""Reads files up to a bound, and writes them all or nothing.

A file is written under a temporary name in the same folder, synced to disk, and then renamed. So after a crash there is
the old file, the new one or none, but never half a file. An existing file is kept unless replacing is requested.
"""

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from accredit.base.deferred import Deferred
from accredit.base.files import beside, open_file
from accredit.base.standard import StandardInput, standing_for
from accredit.errors import ConfigurationError
from accredit.keys.reading import FileContent, read_once

if TYPE_CHECKING:
    import secrets
else:  # for who writes
    secrets = Deferred("secrets")


class MissingFile(ConfigurationError):
    """There is no such file."""


_PRIVATE = 0o600
_PUBLIC = 0o644
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_PIECE_BYTES = 1 << 20
"""How many bytes are read at once. Before it reads, Python allocates as many as are requested."""


def read_file(path: Path, max_bytes: int) -> FileContent:
    """Return a regular file's content; during `reading` it is cached. A path that was declared as stdin
    (`base.standard`) gives what stdin has. Raises `ConfigurationError`, also for more than `max_bytes`."""
    source = standing_for(path)
    content = read_once(path, lambda: _read(path, max_bytes)) if source is None else _read_input(source, max_bytes)
    if len(content.data) > max_bytes:
        raise _too_large(path, max_bytes)
    return content


def _read_input(source: StandardInput, max_bytes: int) -> FileContent:
    return FileContent(source.read(max_bytes), *source.permissions)


def _read(path: Path, max_bytes: int) -> FileContent:
    try:
        with open_file(path) as file:
            found = os.fstat(file.fileno())
            data = _read_all(file, max_bytes)
    except OSError as error:
        kind = MissingFile if isinstance(error, FileNotFoundError) else ConfigurationError
        raise kind(f"can't read {path}: {error.strerror}", "name a file that can be read") from None
    if len(data) > max_bytes:
        raise _too_large(path, max_bytes)
    return FileContent.of(data, found)


def _read_all(file: BinaryIO, max_bytes: int) -> bytes:
    """Return at most `max_bytes` + 1 bytes. Memory grows with the content, not with the bound."""
    pieces, left = list[bytes](), max_bytes + 1
    while left and (piece := file.read(min(_PIECE_BYTES, left))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _too_large(path: Path, max_bytes: int) -> ConfigurationError:
    return ConfigurationError(f"{path} has more than {max_bytes} bytes", "name another file")


def write_file(path: Path, data: bytes, *, private: bool = False, replace: bool = False) -> None:
    """Write a file with mode 0600 if it is private, else 0644 (less the umask).

    Raises `ConfigurationError`, also if the file exists and `replace` is not set. Replacing follows symbolic links.
    """
    write_lines(path, (data,), private=private, replace=replace)


def write_lines(path: Path, lines: Iterable[bytes], *, private: bool, replace: bool = False) -> int:
    """Write lines that may not fit into memory, as `write_file` writes bytes. Return how many there were. If there are
    no lines, no file is made. Raises `ConfigurationError`, and what `lines` raises."""
    path = Path(os.path.realpath(path)) if replace else path
    temporary = _temporary(path)
    try:
        try:
            written = _write_new(temporary, lines, _PRIVATE if private else _PUBLIC)
            if not written:
                return 0
            if replace:
                temporary.replace(path)
            else:
                path.hardlink_to(temporary)  # unlike a rename, this never replaces
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)
    except FileExistsError:
        raise exists_already(path) from None
    except OSError as error:
        raise _not_written(f"can't write {path}", error, "name a file that can be written") from None
    return written


def replace_file(path: Path, data: bytes, *, old: bytes) -> None:
    """Replace a file's content if it is still `old`. The file keeps its mode and owner; symbolic links are followed.

    Raises `ConfigurationError`, also if the new file could not have the same owner.
    """
    path = Path(os.path.realpath(path))
    temporary = _temporary(path)
    try:
        was = path.stat()
        try:
            _write_new(temporary, (data,), _PRIVATE, like=was)
            with open_file(path) as file:
                same = file.read(len(old) + 1) == old
            if not same:
                raise ConfigurationError(f"{path} was changed meanwhile", "run the command again")
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)
    except OSError as error:
        remedy = "run the command as the file's owner, in a folder of theirs"
        raise _not_written(f"can't replace {path}", error, remedy) from None


def _not_written(what: str, error: OSError, remedy: str) -> ConfigurationError:
    if error.errno in _NO_ROOM:
        remedy = "make room on that disk, and run the command again"
    return ConfigurationError(f"{what}: {error.strerror}", remedy)


def exists_already(path: Path, *, can_force: bool = False) -> ConfigurationError:
    """Return the error for a file that exists already, and may not be overwritten. `can_force` says whether the command
    has `--force`, which replaces it."""
    remedy = "name another file, or replace it with --force" if can_force else "name another file, or move it away"
    return ConfigurationError(f"{path} exists already", remedy)


def _temporary(path: Path) -> Path:
    return beside(path, f".{path.name}.{secrets.token_hex(8)}")


def _write_new(path: Path, parts: Iterable[bytes], mode: int, *, like: os.stat_result | None = None) -> int:
    written = 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(descriptor, "wb") as file:
        if like is not None:
            new = os.fstat(descriptor)
            if (new.st_uid, new.st_gid) != (like.st_uid, like.st_gid):
                os.fchown(descriptor, like.st_uid, like.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
        for part in parts:
            file.write(part)
            written += 1
        file.flush()
        os.fsync(descriptor)
    return written


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk: otherwise a crash could undo a new one, though not the file's bytes."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
