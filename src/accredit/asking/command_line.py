"""Command-line arguments that set keys of the configuration.

This module is separate from `options`, as `--help` must not load the configuration.
"""

import os

from accredit.asking.reaching import Reach, add_headers
from accredit.config import Origin, Values, build_upstream, load_command_line
from accredit.errors import ConfigurationError
from accredit.gateway import HttpUpstream, StdioUpstream


def values_of(
    url: str | None,
    command: list[str] | None,
    host: str | None = None,
    port: int | None = None,
    timeout: float | None = None,
) -> Values:
    """Return the values that the command line sets, by key. Raises `ConfigurationError`."""
    if url is not None and command is not None:
        raise ConfigurationError(
            "a URL and a command are given", "keep the one that names your server; options go before --"
        )
    given = {
        ("upstream", "url"): ("URL", url),
        ("upstream", "command"): ("-- COMMAND", command),
        ("gateway", "host"): ("--host", host),
        ("gateway", "port"): ("--port", port),
        ("gateway", "upstream_timeout_seconds"): ("--timeout", timeout),
    }
    return {key: (Origin("command line", option), value) for key, (option, value) in given.items() if value is not None}


def upstream_of(url: str | None, command: list[str] | None, reach: Reach) -> HttpUpstream | StdioUpstream:
    """Return the server that a URL or a command names, with the options' headers. Raises `ConfigurationError`."""
    if url is None and not command:
        raise ConfigurationError("there is no server to ask", "give its URL, or its command after --")
    return add_headers(build_upstream(load_command_line(values_of(url, command)), os.environ), reach)
