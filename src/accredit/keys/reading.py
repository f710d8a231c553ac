"""Reads a configuration and all its files once, for any number of processes. I/O: the files.

Inside `reading(files)` every read goes through one `ReadFiles`. It reads each file from the disk the first time, and
from its memory after that. Its `encoded` form has everything that was read, private keys included. Another process that
decodes this form (`of`) sees the same contents and the same missing files, even if the files have changed.
"""

import os
import stat
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Self, cast

import msgspec

from accredit.base.deferred import Deferred
from accredit.errors import ConfigurationError

if TYPE_CHECKING:
    import tempfile
else:  # for systems without files in memory
    tempfile = Deferred("tempfile")

_OTHERS = 0o077


class FileContent(NamedTuple):
    """A file's bytes, its permission bits and its owner's user id, as they were when it was read."""

    data: bytes
    mode: int
    owner: int

    @classmethod
    def of(cls, data: bytes, found: os.stat_result) -> Self:
        """Combine a file's data with its status."""
        return cls(data, stat.S_IMODE(found.st_mode), found.st_uid)

    @property
    def open_to_others(self) -> bool:
        """Whether anybody but the file's owner has any permission.

        If this process is not root, root's files may be readable by their group: systemd (`LoadCredential`) and
        Kubernetes mount secrets that way. PostgreSQL has the same rule for its private key.
        """
        others = _OTHERS & ~stat.S_IRGRP if self.owner == 0 and os.geteuid() != 0 else _OTHERS
        return bool(self.mode & others)


def memory_file() -> BinaryIO:
    """Return an empty anonymous file, in memory if possible. Forked processes share it."""
    make = getattr(os, "memfd_create", None)
    if make is None:
        return cast(BinaryIO, tempfile.TemporaryFile(buffering=0))
    return os.fdopen(make("accredit"), "w+b", buffering=0)


class ReadFiles:
    """Files by path, as they were read; None for a missing one."""

    def __init__(self, known: dict[str, FileContent | None] | None = None) -> None:
        """If `known` is given, files that it lacks count as missing: nothing is read from the disk."""
        self._known = {} if known is None else known
        self._closed = known is not None

    @classmethod
    def of(cls, encoded: bytes) -> Self:
        """Decode what `encoded` returned."""
        return cls(msgspec.msgpack.decode(encoded, type=dict[str, FileContent | None]))

    def encoded(self) -> bytes:
        """Encode all that was read. Contains private keys."""
        return msgspec.msgpack.encode(self._known)

    def changed(self, before: "ReadFiles") -> Iterable[Path]:
        """Return the paths whose content differs from that in `before`, by digest."""
        here, there = self._digests(), before._digests()
        return (Path(name) for name in sorted(here.keys() | there.keys()) if here.get(name) != there.get(name))

    def content(self, path: Path, read: Callable[[], FileContent]) -> FileContent:
        """Return a file's content, using `read` the first time. Raises `ConfigurationError`."""
        name = os.path.abspath(path)
        known = self._known.get(name)
        if known is None:
            if self._closed:
                raise ConfigurationError(f"{path} was not there when the configuration was read", "reload again")
            known = self._known[name] = read()
        return known

    def exists(self, path: Path) -> bool:
        """Return whether the path was read before, or exists now. If `known` was given, the disk is not looked at."""
        name = os.path.abspath(path)
        if self._known.get(name) is not None:
            return True
        if not self._closed and os.path.lexists(path):
            return True  # what it is tells who reads it
        self._known.setdefault(name, None)
        return False

    def _digests(self) -> dict[str, bytes]:
        return {name: sha256(each.data).digest() for name, each in self._known.items() if each is not None}


_reading: ContextVar[ReadFiles | None] = ContextVar("accredit_reading", default=None)


@contextmanager
def reading(files: ReadFiles) -> Generator[None]:
    """Within this block, in this thread or task, read through `files`."""
    token = _reading.set(files)
    try:
        yield
    finally:
        _reading.reset(token)


@contextmanager
def reading_alike() -> Generator[None]:
    """Read each file only once within this block. Inside a `reading`, use the files of that one."""
    with reading(_reading.get() or ReadFiles()):
        yield


def read_once(path: Path, read: Callable[[], FileContent]) -> FileContent:
    """Return a file's content, through the current `reading` if there is one. Raises what `read` raises, and
    `ConfigurationError`."""
    files = _reading.get()
    return read() if files is None else files.content(path, read)


def is_there(path: Path) -> bool:
    """Return whether the path exists, as `os.path.lexists` does, through the current `reading` if there is one."""
    files = _reading.get()
    return os.path.lexists(path) if files is None else files.exists(path)
