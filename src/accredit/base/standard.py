"""The standard streams of a command: `-` for a file, and `--json`. I/O: stdin.

- `-` for a file is stdin when reading, stdout when writing. A command line declares by `standard_input` that `-` is
  stdin; otherwise a file of this name is an ordinary file. So servers and libraries never read stdin by accident.
- Only one option can use stdin: a second one would find nothing left.
- Reading is bounded as for files. What was read is kept for later reads of the same file.
- Secrets are not read from a terminal, which would echo them.
- With `--json`, stdout is for programs. Words for people that are printed on the way go to stderr.
- Closed standard streams are replaced by the null device. Otherwise our files or sockets would get their descriptor
  numbers, and child processes would print into them. `-` for a closed stream is still an error.
"""

import os
import stat
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from pathlib import Path
from typing import BinaryIO, cast

from accredit.errors import ConfigurationError

STDIN, STDOUT = Path("/dev/stdin"), Path("/dev/stdout")
"""The paths that stand for stdin and stdout, also in messages."""

_PRIVATE = 0o600
_STDERR = 2


class StandardInput:
    """The content of stdin, for the option whose value is `-`."""

    def __init__(self, option: str) -> None:
        self.option = option
        self._kept = bytearray()
        self._ended = False

    def read(self, max_bytes: int) -> bytes:
        """Return all that is on stdin; if it is longer than `max_bytes`, return one byte more than that. Raises
        `ConfigurationError`."""
        while not self._ended and len(self._kept) <= max_bytes:
            try:
                part = _stream().read(max_bytes + 1 - len(self._kept))
            except OSError as error:
                raise ConfigurationError(f"can't read stdin: {error.strerror}", "name a file") from None
            self._ended = not part
            self._kept += part or b""
        return bytes(self._kept[: max_bytes + 1])

    def lines(self, max_bytes: int) -> Iterator[bytes]:
        """Yield lines with their ends. A line longer than `max_bytes` comes in several parts. They are not kept, so
        this works once."""
        while line := _stream().readline(max_bytes):
            yield line

    @property
    def permissions(self) -> tuple[int, int]:
        """The permission bits and owner of the file behind stdin. If stdin is no file, it counts as private and our
        own."""
        found = os.fstat(_stream().fileno())
        return (stat.S_IMODE(found.st_mode), found.st_uid) if stat.S_ISREG(found.st_mode) else (_PRIVATE, os.geteuid())


_named: ContextVar[StandardInput | None] = ContextVar("accredit_standard_input", default=None)


@contextmanager
def standard_input(option: str, *, secret: bool = False) -> Generator[StandardInput]:
    """Within this block, let `STDIN` mean stdin, for one option. Raises `ConfigurationError`."""
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
    """Return stdin if the path stands for it within the current `standard_input`; else None."""
    return _named.get() if path == STDIN else None


_for_programs: ContextVar[bool] = ContextVar("accredit_for_programs", default=False)


@contextmanager
def printing_json(*, wanted: bool = True) -> Generator[None]:
    """Declare that the running command prints JSON, within this block; or that it prints words, if not `wanted`."""
    token = _for_programs.set(wanted)
    try:
        yield
    finally:
        _for_programs.reset(token)


def is_for_programs() -> bool:
    """Return whether the running command prints JSON."""
    return _for_programs.get()


@contextmanager
def words_before_result() -> Generator[None]:
    """Within this block, steps of a command print words. They go to stderr if the command's result is JSON."""
    with redirect_stdout(sys.stderr if is_for_programs() else sys.stdout), printing_json(wanted=False):
        yield


def open_closed_streams() -> None:
    """Replace closed standard streams, before anything else is opened."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # how Python begins where the descriptor is closed
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - until the process ends
            setattr(sys, f"__{name}__", getattr(sys, name))


def _stream() -> BinaryIO:
    if cast("object", sys.stdin) is None or getattr(sys.stdin, "name", "") == os.devnull:
        raise ConfigurationError("stdin is closed", "name a file, or send it there")
    return cast("BinaryIO", sys.stdin.buffer)
