"""Whether an option that names a file accepts `-`. Each option says so by its callback. No I/O.

- `reads`: `-` is stdin (`base.standard`);
- `reads_secret`: `-` is stdin, but not if that is a terminal;
- `writes`: `-` is stdout (`terminal.output.write_out`). The command's other output then goes to stderr;
- `only_file(why)`: `-` is refused, with the reason.

`/dev/stdin` and `/dev/stdout` mean the same as `-`. A file that is really called `-` is given by its whole path.

Also here: how a command ends that can't print. If nobody reads its output any more it ends quietly, else with an error.
"""

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import click

from accredit.base.standard import STDIN, STDOUT, standard_input
from accredit.errors import ConfigurationError

_DASH = Path("-")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})

TWO_FILES = "a key is two files, and a private one is for a file that only you can read"
"""The reason why an option that names keys refuses `-`."""


def reads(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Let `-` stand for stdin. Raises `ConfigurationError` if another option uses it already."""
    return _input(ctx, param, value, secret=False)


def reads_secret(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """Let `-` stand for stdin, from which a secret is read. Raises `ConfigurationError`, also if stdin is a
    terminal."""
    return _input(ctx, param, value, secret=True)


def writes(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
    """Let `-` stand for stdout."""
    return STDOUT if value == _DASH else value


def only_file(why: str) -> Callable[..., Any]:
    """Return a callback that refuses `-`. In the error, `why` follows the option's name."""

    def check(_ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if any(each in (_DASH, STDIN, STDOUT) for each in _several(value)):
            raise ConfigurationError(f"{_name(param)} -: {why}", "name a file")
        return value

    return check


def without_reader() -> int:
    """Return the exit code for a closed stdout: the one that shells report for a program ended by SIGPIPE."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())  # what is left in the buffer is not worth an error when Python ends
    os.close(nowhere)
    return 128 + signal.SIGPIPE


def is_full(error: OSError) -> bool:
    """Return whether an error says that the output could not be written, as when the disk is full."""
    return error.errno in _FULL and error.filename is None


def _input(ctx: click.Context, param: click.Parameter, value: Any, *, secret: bool) -> Any:
    found: list[Any] = []
    for each in _several(value):
        if each in (_DASH, STDIN):
            ctx.with_resource(standard_input(_name(param), secret=secret))
            each = STDIN
        found.append(each)
    return found if isinstance(value, list | tuple) else found[0] if found else value


def _several(value: Any) -> Iterable[Any]:
    if isinstance(value, list | tuple):
        return cast("Iterable[Any]", value)
    return () if value is None else (value,)


def _name(param: click.Parameter) -> str:
    return param.opts[0] if param.param_type_name == "option" else str(param.metavar or param.name)
