"""`-` in the place of a file on a command line: stdin for what is read, stdout for what is written. I/O: stdin.

1. A command line that names `-` has said so to `standard_input`; without that, a file of this name is a file like any
   other. So nothing that serves, and no library, ever takes what comes on stdin for a file.
2. Only one option can have stdin: a second one would find nothing left.
3. Reading is bounded as for files. What was read is kept for whoever reads the same file again.
4. What is secret is not taken from a terminal, which would show what is typed.
5. A command whose streams are closed reads nothing and prints nowhere; no file or socket of its own gets their numbers,
   which its processes print to. `-` in such a place is an error all the same.
"""

import os
import stat
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO, cast

from accredit.errors import ConfigurationError

STDIN, STDOUT = Path("/dev/stdin"), Path("/dev/stdout")
"""What stands for the two streams where a path is asked for, also in messages."""

_PRIVATE = 0o600
_STDERR = 2


class StandardInput:
    """What comes on stdin, for the option that has named it."""

    def __init__(self, option: str) -> None:
        self.option = option
        self._kept = bytearray()
        self._ended = False

    def read(self, max_bytes: int) -> bytes:
        """Return all of it, or one byte more than `max_bytes`. Raises `ConfigurationError`."""
        while not self._ended and len(self._kept) <= max_bytes:
            try:
                part = _stream().read(max_bytes + 1 - len(self._kept))
            except OSError as error:
                raise ConfigurationError(f"can't read stdin: {error.strerror}", "name a file") from None
            self._ended = not part
            self._kept += part or b""
        return bytes(self._kept[: max_bytes + 1])

    def lines(self, max_bytes: int) -> Iterator[bytes]:
        """Yield its lines with their ends, each cut behind `max_bytes`. They are not kept, so they come once."""
        while line := _stream().readline(max_bytes):
            yield line

    @property
    def permissions(self) -> tuple[int, int]:
        """The permission bits and the owner of the file that stdin is; our own and nobody else's where it has no
        name."""
        found = os.fstat(_stream().fileno())
        return (stat.S_IMODE(found.st_mode), found.st_uid) if stat.S_ISREG(found.st_mode) else (_PRIVATE, os.geteuid())


_named: ContextVar[StandardInput | None] = ContextVar("accredit_standard_input", default=None)


@contextmanager
def standard_input(option: str, *, secret: bool = False) -> Generator[StandardInput]:
    """Have `STDIN` mean stdin within this, for an option. Raises `ConfigurationError` (rules 2 and 4)."""
    other = _named.get()
    if other is not None:
        raise ConfigurationError(
            f"{other.option} and {option} both name stdin", "name a file for one of them: what comes there comes once"
        )
    if secret and _stream().isatty():
        raise ConfigurationError(
            f"{option} -: stdin is a terminal, which shows what is typed", "name a file, or have a pipe hold it"
        )
    found = StandardInput(option)
    token = _named.set(found)
    try:
        yield found
    finally:
        _named.reset(token)


def standing_for(path: Path) -> StandardInput | None:
    """Return what comes on stdin, if the path stands for that here (rule 1)."""
    return _named.get() if path == STDIN else None


def open_closed_streams() -> None:
    """Apply rule 5, before anything else is opened."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # how Python begins where the descriptor is closed
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - until the process ends
            setattr(sys, f"__{name}__", getattr(sys, name))


def _stream() -> BinaryIO:
    if cast("object", sys.stdin) is None or getattr(sys.stdin, "name", "") == os.devnull:  # rule 5
        raise ConfigurationError("stdin is closed", "name a file, or send it there")
    return cast("BinaryIO", sys.stdin.buffer)
