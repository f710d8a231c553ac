"""`accredit check`: for continuous integration, whether every tool has a scope."""

# ruff: noqa: PLC0415 - what asks a server is loaded when it runs: `accredit --help` is quick without it

import os
import re
from typing import Annotated

import typer

from accredit.cli.dashes import command_of
from accredit.cli.options import JsonOption, ServerConfigOption
from accredit.errors import ConfigurationError

_PYTHON = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")


def check(
    ctx: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(metavar="URL|MODULE:SERVER", help="An MCP server, or a server object that can be imported."),
    ] = None,
    config: ServerConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Whether every tool of a server has a scope; exit code 1 lists those that have not.

    With a configuration its upstream is asked, and its tools have to be those of the catalog: each has an entry, no
    other scope than the server says, and no entry is left over. A URL, a command or an object is asked for itself:
    each tool has to say which scope it needs.

    Examples:

    accredit check --config accredit.toml

    accredit check http://127.0.0.1:8484/mcp

    accredit check mail_server:server
    """
    from accredit.cli.command_line import values_of
    from accredit.cli.setup.asking import ask_object, ask_upstream
    from accredit.cli.setup.checking import check_offer
    from accredit.config import build_catalog, build_upstream, load, load_command_line

    command = command_of(ctx)
    if config is not None and (target is not None or command is not None):
        raise ConfigurationError(
            "--config and a server are given", "name one: a configuration has its own server, in [upstream]"
        )
    if target is not None and command is None and _PYTHON.fullmatch(target):
        return check_offer(ask_object(target), None, as_json=as_json)
    if target is not None or command is not None:
        named = load_command_line(values_of(target, command, None, None))
        return check_offer(ask_upstream(build_upstream(named, os.environ)), None, as_json=as_json)
    loaded = load(config, os.environ, {})
    offer = ask_upstream(build_upstream(loaded, os.environ))
    return check_offer(offer, build_catalog(loaded.config), as_json=as_json)
