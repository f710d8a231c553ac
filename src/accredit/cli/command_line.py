"""Arguments that set keys of the configuration. No I/O.

Separate from `options`, as `--help` must not load the configuration.
"""

from accredit.config import Origin, Values
from accredit.errors import ConfigurationError


def values_of(
    url: str | None, command: list[str] | None, host: str | None, port: int | None, timeout: float | None = None
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
