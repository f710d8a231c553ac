"""`accredit check`: for continuous integration, whether every tool has a scope."""

# ruff: noqa: PLC0415 - what asks a server is loaded when it runs: `accredit --help` is quick without it

import os
import re
from typing import TYPE_CHECKING, Annotated

import typer

from accredit.cli.dashes import command_of
from accredit.cli.options import JsonOption, ServerConfigOption
from accredit.cli.reaching import HeaderOption, TimeoutOption, TokenEnvOption, reached, read_reach
from accredit.errors import ConfigurationError

if TYPE_CHECKING:
    from accredit.cli.asking.listing import Offer
    from accredit.cli.reaching import Reach
    from accredit.config import Loaded
    from accredit.pins import Definitions
    from accredit.policy import Catalog

_PYTHON = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")


def check(
    ctx: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(metavar="URL|MODULE:SERVER", help="An MCP server, or a server object that can be imported."),
    ] = None,
    config: ServerConfigOption = None,
    fix: Annotated[
        bool, typer.Option("--fix", help="Write the tables of tools that have none; nothing else is touched.")
    ] = False,
    header: HeaderOption = None,
    token_env: TokenEnvOption = None,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> int:
    """Whether every tool of a server has a scope; exit code 1 lists those that have not.

    With a configuration its upstream is asked, or each of its servers, and the tools have to be those of the catalog:
    each has an entry, no other scope than the server says, and no entry is left over. Where accredit.lock is beside it,
    each tool has to be as it is pinned there. A URL, a command or an object is asked for itself: each tool has to say
    which scope it needs.

    Examples:

    accredit check --config accredit.toml

    accredit check --config accredit.toml --fix

    accredit check http://127.0.0.1:8484/mcp

    accredit check mail_server:server
    """
    from accredit.cli.actions.check import check_offer
    from accredit.cli.actions.check_fix import add_tables
    from accredit.cli.asking.server import ask_object, ask_upstream
    from accredit.cli.command_line import values_of
    from accredit.config import build_catalog, build_upstream, load, load_command_line, read_pinned

    command = command_of(ctx)
    if config is not None and (target is not None or command is not None):
        raise ConfigurationError(
            "--config and a server are given", "name one: a configuration has its own server, in [upstream]"
        )
    if fix and (target is not None or command is not None):
        raise ConfigurationError("--fix has no configuration to write to", "name one with --config, without a server")
    reach = read_reach(header, token_env, timeout)
    if target is not None and command is None and _PYTHON.fullmatch(target):
        return check_offer(ask_object(target), None, as_json=as_json)
    if target is not None or command is not None:
        named = load_command_line(values_of(target, command, None, None))
        offer, _ = ask_upstream(reached(build_upstream(named, os.environ), reach), seconds=reach.timeout)
        return check_offer(offer, None, as_json=as_json)
    loaded = load(config, os.environ, {})
    if loaded.config.servers.by_name:
        return _check_all(loaded, reach, fix=fix, as_json=as_json)
    offer, _ = ask_upstream(reached(build_upstream(loaded, os.environ), reach), seconds=reach.timeout)
    if fix:
        add_tables(loaded, offer)
        loaded = load(config, os.environ, {})
    return check_offer(offer, build_catalog(loaded.config), read_pinned(loaded), as_json=as_json)


def _check_all(loaded: "Loaded", reach: "Reach", *, fix: bool, as_json: bool) -> int:
    """Check each of several servers; return the exit code. Raises `ConfigurationError`."""
    from accredit.cli.actions.check import check_offers
    from accredit.cli.asking.server import ask_upstream
    from accredit.config import build_catalog, build_upstream, read_pinned
    from accredit.config.servers import views

    if fix:
        raise ConfigurationError("--fix is for one server, and [servers] names several", "write the tables by hand")

    def asked(server: "Loaded") -> "tuple[Offer, Catalog, Definitions | None]":
        offer, _ = ask_upstream(reached(build_upstream(server, os.environ), reach), seconds=reach.timeout)
        return offer, build_catalog(server.config), read_pinned(server)

    return check_offers({each.server: asked(each) for each in views(loaded)}, as_json=as_json)
