"""Reading a configuration once, with all files that it names, however many processes are to go by it. I/O: the files.

Inside `reading(files)` whatever is asked of a path comes from one `ReadFiles`: from the disk the first time, from there
ever after. Its `encoded` form has all that was read, keys included; another process that reads from that (`of`) finds
the same, or nothing, whatever the files hold by then.
"""

import os
import stat
import tempfile
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self, cast

import msgspec

from accredit.errors import ConfigurationError

_OTHERS = 0o077


class FileContent(NamedTuple):
    """A file's bytes, and its permission bits and its owner's user id when it was read."""

    data: bytes
    mode: int
    owner: int

    @classmethod
    def of(cls, data: bytes, found: os.stat_result) -> Self:
        """Return what was read of a file of which `found` is the status."""
        return cls(data, stat.S_IMODE(found.st_mode), found.st_uid)

    @property
    def open_to_others(self) -> bool:
        """Whether anybody but the file's owner has any permission.

        A file of root's may be read by its group, if this process is not root: so does a secret reach it that systemd
        (`LoadCredential`) or Kubernetes mounts. PostgreSQL takes its private key under the same rule.
        """
        others = _OTHERS & ~stat.S_IRGRP if self.owner == 0 and os.geteuid() != 0 else _OTHERS
        return bool(self.mode & others)


def memory_file() -> BinaryIO:
    """Return an empty file without a name, in memory where the system has such files. Processes that are forked share
    it."""
    make = getattr(os, "memfd_create", None)
    if make is None:
        return cast(BinaryIO, tempfile.TemporaryFile(buffering=0))
    return os.fdopen(make("accredit"), "w+b", buffering=0)


class ReadFiles:
    """Files by their paths, as they were read; None is one that was not there."""

    def __init__(self, known: dict[str, FileContent | None] | None = None) -> None:
        """With `known` files there are no others."""
        self._known = {} if known is None else known
        self._closed = known is not None

    @classmethod
    def of(cls, encoded: bytes) -> Self:
        """Return what `encoded` has returned."""
        return cls(msgspec.msgpack.decode(encoded, type=dict[str, FileContent | None]))

    def encoded(self) -> bytes:
        """Return all that was read. It holds private keys."""
        return msgspec.msgpack.encode(self._known)

    def changed(self, before: "ReadFiles") -> Iterable[Path]:
        """Return the files that are not as they were in `before`, by their digests."""
        here, there = self._digests(), before._digests()
        return (Path(name) for name in sorted(here.keys() | there.keys()) if here.get(name) != there.get(name))

    def content(self, path: Path, read: Callable[[], FileContent]) -> FileContent:
        """Return a file's content, which `read` gets. Raises `ConfigurationError`."""
        name = os.path.abspath(path)
        known = self._known.get(name)
        if known is None:
            if self._closed:
                raise ConfigurationError(f"{path} was not there when the configuration was read", "reload again")
            known = self._known[name] = read()
        return known

    def exists(self, path: Path) -> bool:
        """Return whether there is something under a path's name."""
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
    """Read from `files` in this thread or task."""
    token = _reading.set(files)
    try:
        yield
    finally:
        _reading.reset(token)


@contextmanager
def reading_alike() -> Generator[None]:
    """Read each file once within this, unless a `reading` is going on, which does so anyway."""
    with reading(_reading.get() or ReadFiles()):
        yield


def read_once(path: Path, read: Callable[[], FileContent]) -> FileContent:
    """Return a file's content, as it was read before where there is a `reading`. Raises what `read` raises, and
    `ConfigurationError`."""
    files = _reading.get()
    return read() if files is None else files.content(path, read)


def is_there(path: Path) -> bool:
    """Return whether there is something under a path's name, as it was found before where there is a `reading`."""
    files = _reading.get()
    return os.path.lexists(path) if files is None else files.exists(path)
