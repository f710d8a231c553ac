"""`accredit serve`: the gateway as an HTTP server."""

# ruff: noqa: PLC0415 - the gateway is loaded when it runs: `accredit --help` is quick without it

from typing import Annotated

import typer

from accredit.cli.dashes import command_of
from accredit.cli.options import (
    HostOption,
    LogFormatOption,
    LogLevelOption,
    PortOption,
    ServerConfigOption,
    TimeoutOption,
    UrlArgument,
)
from accredit.limits import MAX_WORKERS


def serve(
    ctx: typer.Context,
    url: UrlArgument = None,
    config: ServerConfigOption = None,
    host: HostOption = None,
    port: PortOption = None,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", min=1, max=MAX_WORKERS, help="Processes that share the port.")
    ] = 1,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Listen outside loopback without TLS: something in front does it."),
    ] = False,
    timeout: TimeoutOption = None,
    log_level: LogLevelOption = "info",
    log_format: LogFormatOption = "json",
) -> int:
    """Stands in front of an MCP server: no malformed frame gets through and, if so configured, no call without a
    proof.

    The server is a URL or, after --, a stdio server's command. Clients connect to the address that is printed, by
    default http://127.0.0.1:8484/mcp.

    Examples:

    accredit serve http://127.0.0.1:9000/mcp

    accredit serve --port 8000 -- python server.py

    accredit serve --config accredit.toml --workers 4
    """
    from accredit.cli.actions.serve import start_server

    return start_server(
        command_of(ctx),
        url=url,
        config=config,
        host=host,
        port=port,
        workers=workers,
        insecure=insecure,
        timeout=timeout,
        log_level=log_level,
        log_format=log_format,
    )
