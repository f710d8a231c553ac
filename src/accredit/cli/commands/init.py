"""`accredit init`: makes a configuration from a running server."""

# ruff: noqa: PLC0415 - what asks a server is loaded when it runs: `accredit --help` is quick without it

import os
from pathlib import Path
from typing import Annotated

import typer

from accredit.cli.dashes import command_of
from accredit.cli.options import HeaderOption, JsonOption, TimeoutOption, TokenEnvOption
from accredit.cli.reaching import add_headers, as_configured, read_reach
from accredit.cli.standard import only_file


def init(
    ctx: typer.Context,
    url: Annotated[str | None, typer.Argument(metavar="URL", help="The MCP server.")] = None,
    server: Annotated[
        str, typer.Option("--server", metavar="NAME", help="Make it the first of [servers], of this name.")
    ] = "",
    folder: Annotated[
        Path,
        typer.Option("--dir", metavar="D", callback=only_file("that is a folder"), help="Where the files are written."),
    ] = Path(),
    header: HeaderOption = None,
    token_env: TokenEnvOption = None,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> int:
    """Asks an MCP server what it offers, and writes a configuration in which each tool has a scope.

    Writes accredit.toml, gateway.key, gateway.key.pub and accredit.lock, and never replaces a file (a gateway with
    upstream.identity = "jwt" makes identity.key later). Read-only tools share the scope mcp:tool; each other tool has
    its own, which is sensitive unless the tool says that it destroys nothing. `accredit add` adds more servers.

    Examples:

    accredit init http://127.0.0.1:9000/mcp

    accredit init https://mcp.example.org/mcp --token-env MAIL_TOKEN

    accredit init http://127.0.0.1:9000/mcp --server mail

    accredit init --dir /etc/accredit -- python server.py
    """
    from accredit.cli.actions.init import InitPlan, set_up
    from accredit.cli.command_line import values_of
    from accredit.config import build_upstream, load_command_line
    from accredit.config.servers import check_server_name
    from accredit.errors import ConfigurationError

    if url is None and not command_of(ctx):
        raise ConfigurationError("there is no server to ask", "give its URL, or its command after --")
    if server:
        check_server_name(server, "--server")
    named = load_command_line(values_of(url, command_of(ctx), None, None))
    reach = read_reach(header, token_env, timeout)
    upstream = add_headers(build_upstream(named, os.environ), reach)
    plan = InitPlan(upstream, folder, as_configured(header, token_env), reach.timeout, server)
    return set_up(plan, as_json=as_json)
