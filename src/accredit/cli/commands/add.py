"""`accredit add`: adds a server to a configuration."""

# ruff: noqa: PLC0415 - what asks a server is loaded when it runs: `accredit --help` is quick without it

import os
from typing import Annotated

import typer

from accredit.cli.dashes import command_of
from accredit.cli.options import ConfigFileOption, HeaderOption, JsonOption, TimeoutOption, TokenEnvOption
from accredit.cli.reaching import add_headers, as_configured, read_reach


def add(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the server is called: its [servers.NAME].")],
    url: Annotated[str | None, typer.Argument(metavar="URL", help="The MCP server.")] = None,
    config: ConfigFileOption = None,
    name_existing: Annotated[
        str | None,
        typer.Option("--name-existing", metavar="NAME", help="What the server of [upstream] is called from now on."),
    ] = None,
    header: HeaderOption = None,
    token_env: TokenEnvOption = None,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> int:
    """Adds a server to a configuration, with a scope for each of its tools, and pins their definitions.

    The text of accredit.toml is kept, comments and all: the new tables are appended. With --name-existing, its one
    server of [upstream] becomes [servers.NAME]. Scopes are proposed as by `accredit init`.

    Examples:

    accredit add calendar http://127.0.0.1:9001/mcp

    accredit add calendar http://127.0.0.1:9001/mcp --name-existing mail --token-env CALENDAR_TOKEN

    accredit add files --config /etc/accredit/accredit.toml -- python files_server.py
    """
    from accredit.cli.actions.add import Addition, add_server
    from accredit.cli.command_line import values_of
    from accredit.config import build_upstream, load_command_line
    from accredit.config.servers import check_server_name
    from accredit.errors import ConfigurationError

    check_server_name(name, "NAME")
    if name_existing is not None:
        check_server_name(name_existing, "--name-existing")
    if url is None and not command_of(ctx):
        raise ConfigurationError("there is no server to ask", "give its URL, or its command after --")
    named = load_command_line(values_of(url, command_of(ctx), None, None))
    reach = read_reach(header, token_env, timeout)
    upstream = add_headers(build_upstream(named, os.environ), reach)
    headers = as_configured(header, token_env)
    return add_server(Addition(name, upstream, config, name_existing, headers, reach.timeout), as_json=as_json)
