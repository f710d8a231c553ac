"""The types of options and arguments that name a file. They say whether `-` is accepted, and what it means. No I/O.

- `READ`: `-` is stdin (`base.standard`);
- `READ_SECRET`: `-` is stdin, but not if that is a terminal;
- `WRITE`: `-` is stdout (`terminal.output.write_out`). The command's other output then goes to stderr;
- `OnlyFile(why)`: `-` is refused, with the reason;
- `READ_OR_URL`: as `READ`, but a text with `://` is a URL.

`/dev/stdin` and `/dev/stdout` mean the same as `-`. A file that is really called `-` is given by its whole path. The
file need not exist.

Also here: how a command ends if it can't print. It ends quietly if nobody reads its output any more, otherwise with an
error.
"""

import errno
import os
import signal
import sys
from pathlib import Path
from typing import Any

import click

from accredit.base.standard import STDIN, STDOUT, standard_input
from accredit.errors import ConfigurationError

_DASH = Path("-")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})

TWO_FILES = "a key is two files, and a private one is for a file that only you can read"
"""The reason why an option that names keys refuses `-`."""


class File(click.Path):
    """A file or folder, which need not exist."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)
        self.name = "file"


class Read(File):
    """A file that is read. `-` stands for stdin; it is a `ConfigurationError` if another option uses that already or,
    for a `secret`, if it is a terminal. With `urls`, a text with `://` is returned as it is."""

    def __init__(self, *, secret: bool = False, urls: bool = False) -> None:
        super().__init__()
        self._secret = secret
        self._urls = urls

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; for `-` that is `STDIN`."""
        if self._urls and "://" in str(value):
            return value
        path = super().convert(value, param, ctx)
        if path not in (_DASH, STDIN) or param is None or ctx is None:
            return path
        ctx.with_resource(standard_input(_name(param), secret=self._secret))
        return STDIN


class Write(File):
    """A file that is written. `-` stands for stdout."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; for `-` that is `STDOUT`."""
        path = super().convert(value, param, ctx)
        return STDOUT if path == _DASH else path


class OnlyFile(File):
    """A file or folder for which `-` is refused. In the error, `why` follows the option's name."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self._why = why

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises `ConfigurationError`."""
        path = super().convert(value, param, ctx)
        if param is not None and path in (_DASH, STDIN, STDOUT):
            raise ConfigurationError(f"{_name(param)} -: {self._why}", "name a file")
        return path


READ, READ_SECRET, READ_OR_URL, WRITE = Read(), Read(secret=True), Read(urls=True), Write()


def without_reader() -> int:
    """Return the exit code for a closed stdout: the one that shells report for a program ended by SIGPIPE."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())  # what is left in the buffer is not worth an error when Python ends
    os.close(nowhere)
    return 128 + signal.SIGPIPE


def is_full(error: OSError) -> bool:
    """Return whether an error says that the output could not be written, as when the disk is full."""
    return error.errno in _FULL and error.filename is None


def _name(param: click.Parameter) -> str:
    return param.opts[0] if param.param_type_name == "option" else str(param.metavar or param.name)
