"""`accredit check`: tells, in continuous integration, whether every tool has a scope."""

# ruff: noqa: PLC0415 - what asks a server is loaded when it runs: `accredit --help` is quick without it

import os
import re
from typing import Annotated

import typer

from accredit.base.standard import STDIN
from accredit.cli.candidates import server_names
from accredit.cli.dashes import command_of
from accredit.cli.options import CheckedConfigOption, HeaderOption, JsonOption, TimeoutOption, TokenEnvOption
from accredit.cli.reaching import add_headers, read_reach
from accredit.errors import ConfigurationError

_PYTHON = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")
_NAME = re.compile(r"[a-z0-9-]+")


def check(
    ctx: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|URL|MODULE:SERVER",
            autocompletion=server_names,
            help="One of [servers]; or an MCP server, or a server object that can be imported.",
        ),
    ] = None,
    config: CheckedConfigOption = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Write the tables of tools that have none; nothing else is touched.")
    ] = False,
    header: HeaderOption = None,
    token_env: TokenEnvOption = None,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> int:
    """Tells whether every tool of a server has a scope; exit code 1 lists those that have not.

    With a configuration, asks its server(s), or only NAME, and compares the tools with the catalog: each needs an
    entry, with the scope that the server advertises, if any, and no entry may be left over. If accredit.lock is beside
    the configuration, each tool must equal its pin there. With a URL, a command or an object, each tool must advertise
    its scope.

    Examples:

    accredit check --config accredit.toml

    accredit check mail --config accredit.toml --fix

    accredit check http://127.0.0.1:8484/mcp

    accredit check mail_server:server
    """
    from accredit.cli.actions.check import check_configured, check_offer
    from accredit.cli.asking.server import ask_object, ask_upstream
    from accredit.cli.command_line import values_of
    from accredit.config import build_upstream, load, load_command_line

    command = command_of(ctx)
    reach = read_reach(header, token_env, timeout)
    if fix and config == STDIN:
        raise ConfigurationError("--fix can't write to stdin", "name the file that it has to change")
    name = target if command is None and target is not None and _NAME.fullmatch(target) else None
    if name is not None or (target is None and command is None):
        return check_configured(load(config, os.environ, {}), name, reach, fix=fix, as_json=as_json)
    if config is not None:
        raise ConfigurationError(
            "--config and a server are given", "name one: a configuration has its own, in [upstream] or [servers]"
        )
    if fix:
        raise ConfigurationError("--fix has no configuration to write to", "name one with --config, without a server")
    if target is not None and command is None and _PYTHON.fullmatch(target):
        return check_offer(ask_object(target), None, as_json=as_json)
    named = load_command_line(values_of(target, command, None, None))
    offer, _ = ask_upstream(add_headers(build_upstream(named, os.environ), reach), seconds=reach.timeout)
    return check_offer(offer, None, as_json=as_json)
