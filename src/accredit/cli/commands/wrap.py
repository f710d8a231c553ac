"""`accredit wrap`: the gateway as a stdio server around a stdio server."""

# ruff: noqa: PLC0415 - the gateway is loaded when it runs: `accredit --help` is quick without it

import typer

from accredit.cli.dashes import command_of
from accredit.cli.options import LogFormatOption, LogLevelOption, NamedServerOption, ServerConfigOption, TimeoutOption


def wrap(
    ctx: typer.Context,
    config: ServerConfigOption = None,
    server: NamedServerOption = None,
    timeout: TimeoutOption = None,
    log_level: LogLevelOption = "info",
    log_format: LogFormatOption = "json",
) -> int:
    """Runs the gateway as a stdio server, to be named in a host's `mcpServers`.

    Examples:

    accredit wrap -- python server.py

    accredit wrap --config accredit.toml --server files

    {"mcpServers": {"files": {"command": "accredit", "args": ["wrap", "--", "python", "server.py"]}}}
    """
    from accredit.cli.actions.serve import start_wrap

    return start_wrap(
        command_of(ctx), config=config, server=server, timeout=timeout, log_level=log_level, log_format=log_format
    )
