"""Finds the configuration for `accredit up`, and checks that it is the person's own. I/O: files, the terminal.

A configuration decides what runs, which files are written and who is trusted, and the current folder may hold somebody
else's. So:

- a file named by --config (else $ACCREDIT_CONFIG) is trusted. If a server is named instead, the file is `accredit.toml`
  in the current folder, or in that of --dir: such a file is merely found;
- nobody else may be able to write the file or its folder (`own_files`);
- a file that was merely found is trusted if `accredit up` has made it, or if the user has agreed to it before: then it
  is in `configurations.json`, in the person's folder. Otherwise the user is asked at the terminal. Without a terminal,
  the file must be exactly what `accredit init` writes for this server;
- a file that was merely found must have the named server, alone or among others.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from accredit.asking.probe import probe_url, without_query
from accredit.base.text import one_line
from accredit.config.load import DEFAULT_FILE, Loaded, load
from accredit.config.schema import Upstream
from accredit.errors import ConfigurationError
from accredit.gateway import HttpUpstream
from accredit.keys import write_file
from accredit.keys.own_files import KNOWN, MAX_KNOWN_CONFIGURATIONS, check_own_file, check_own_folder, known_files
from accredit.limits import SERVER_LISTS_SECONDS
from accredit.setup.init import InitPlan, Prepared
from accredit.setup.own_keys import own_config_folder
from accredit.terminal.output import tell

_FOLDER_REMEDY = "take the right to write there from others, or name a folder of your own with --dir"


class UpPlace(NamedTuple):
    """The configuration's file, and the plan to make it if it does not exist. The plan is None if the user has named
    the file: then the file exists."""

    file: Path
    plan: InitPlan | None

    @property
    def is_there(self) -> bool:
        """Whether the file exists."""
        return os.path.lexists(self.file)


def named_place(config: Path) -> UpPlace:
    """Return the place of a file that the user has named. Raises `ConfigurationError`."""
    file = config.absolute()
    if not os.path.exists(file):
        raise ConfigurationError(f"there is no {file}", "accredit up URL makes one, for the server at this URL")
    check_own_file(file)
    return UpPlace(file, None)


def found_place(plan: InitPlan) -> UpPlace:
    """Return the place of the configuration in the plan's folder. The file need not exist. Raises
    `ConfigurationError`."""
    folder = plan.folder.absolute()
    check_own_folder(folder, _FOLDER_REMEDY)
    file = folder / DEFAULT_FILE
    if os.path.lexists(file):
        check_own_file(file)
    return UpPlace(file, plan._replace(folder=folder))


def is_known(file: Path, environ: Mapping[str, str]) -> bool:
    """Return whether `accredit up` has made this file, or the user has agreed to it. Raises `ConfigurationError`."""
    return os.path.realpath(file) in known_files(environ)


def remember(file: Path, environ: Mapping[str, str]) -> None:
    """Remember a file as this person's own. Raises `ConfigurationError`."""
    known, path = known_files(environ), os.path.realpath(file)
    try:
        path.encode()
    except UnicodeEncodeError:
        raise ConfigurationError("the folder's name is not UTF-8", "name another folder with --dir") from None
    if path not in known:
        text = msgspec.json.format(msgspec.json.encode([*known, path][-MAX_KNOWN_CONFIGURATIONS:]))
        write_file(own_config_folder(environ) / KNOWN, text + b"\n", private=True, replace=True)


def check_meant(place: UpPlace, environ: Mapping[str, str]) -> None:
    """Check that a file that was merely found is this person's, and has the named server. Raises
    `ConfigurationError`."""
    file, plan = place
    if plan is None:
        return
    loaded = load(file, environ, {})
    if not is_known(file, environ):
        if sys.stdin.isatty():
            tell(f"{file} is there already, and accredit up has not made it. Read it first.")
            click.confirm("Is it yours, and meant?", abort=True, err=True)
        elif Prepared.asked(plan).text != loaded.content:
            raise ConfigurationError(
                f"{one_line(str(file))} is there already, and accredit up has not made it",
                "read it; if it is yours and meant, name it: accredit up --config FILE",
            )
    if not _is_of(loaded, plan):
        raise ConfigurationError(
            f"{one_line(str(file))} is the configuration of another server",
            "`accredit add` puts this one beside it; or name a folder of its own with --dir",
        )


def _is_of(loaded: Loaded, plan: InitPlan) -> bool:
    """Return whether the configuration has the named server."""
    tables: list[Upstream] = [loaded.config.upstream, *loaded.config.servers.by_name.values()]
    wanted = plan.upstream
    if not isinstance(wanted, HttpUpstream):
        return any(each.command is not None and list(each.command) == list(wanted.command) for each in tables)
    urls = {url for each in tables for url in each.addresses}
    if wanted.url in urls:
        return True
    seconds = plan.reach.timeout or SERVER_LISTS_SECONDS
    door = asyncio.run(probe_url(replace(wanted, auth=None), follow=True, seconds=seconds))
    return isinstance(door.upstream, HttpUpstream) and door.upstream.url in urls


def server_of(plan: InitPlan) -> str:
    """Return a server's URL or command, for people."""
    upstream = plan.upstream
    return without_query(upstream.url) if isinstance(upstream, HttpUpstream) else one_line(" ".join(upstream.command))
