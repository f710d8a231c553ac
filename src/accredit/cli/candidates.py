"""Completes the values of some options and arguments. Reads the configuration.

The configuration may be somebody else's file, so only valid names are offered.
"""

# ruff: noqa: PLC0415 - what these need is loaded when somebody presses the tab key

import os
import re
from pathlib import Path
from typing import Any, cast

import click

MAX_COMPLETED_FILE_BYTES = 131_072
"""The most bytes of a configuration that is read when a person presses the tab key. Of a longer one no names are
offered."""


PLAIN_WORD = re.compile(r"[A-Za-z0-9@%_+=:,./-]+")
"""Matches a word that every shell takes literally."""
_SERVER = re.compile(r"[a-z0-9][a-z0-9-]*")
"""Matches a server's name that has no special meaning to a shell or to `accredit`."""


def server_names(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Return the names in `[servers]` of the configuration that `--config` names, or else of the one that is found.
    Return none if it can't be read."""
    named = ctx.params.get("config") or os.environ.get("ACCREDIT_CONFIG") or "accredit.toml"
    return [name for name in _servers(Path(named)) if name.startswith(begun) and _SERVER.fullmatch(name)]


def host_names(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    """Return the names of the hosts that `accredit install` knows."""
    from accredit.hosts.table import HOSTS

    return [name for name in HOSTS if name.startswith(begun)]


def _servers(file: Path) -> list[str]:
    from accredit.base.files import open_file
    from accredit.base.toml import read_toml

    try:
        with open_file(file) as opened:
            if os.fstat(opened.fileno()).st_size > MAX_COMPLETED_FILE_BYTES:
                return []
            found: Any = read_toml(opened.read(MAX_COMPLETED_FILE_BYTES))
    except (OSError, ValueError):
        return []
    servers = found.get("servers")
    return list(cast("dict[str, Any]", servers)) if isinstance(servers, dict) else []
