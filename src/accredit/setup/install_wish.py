"""The options of `accredit install` and `uninstall`, and the user's consent. I/O: the terminal."""

import os
import sys
from pathlib import Path
from typing import NamedTuple

import click

from accredit.errors import ConfigurationError
from accredit.hosts.table import Host, Places, find_host, project_file


class InstallOptions(NamedTuple):
    """What the user wants: the host, the entry's name, and the options that both commands have."""

    host: str
    name: str | None
    project: bool
    dry_run: bool
    yes: bool
    as_json: bool


def place_of(wish: InstallOptions) -> tuple[Host, Path]:
    """Return the host and its file. Raises `ConfigurationError`."""
    host = find_host(wish.host)
    return host, project_file(host, Path.cwd()) if wish.project else host.file(Places(os.environ))


def confirm_write(wish: InstallOptions) -> bool:
    """Return whether the user agrees to write, at the terminal or with `--yes`. Raises `ConfigurationError` if there
    is no terminal."""
    if wish.yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigurationError("there is nobody to ask whether this is wanted", "say --yes, or run it in a terminal")
    return click.confirm("Write this?", default=False, err=True)
