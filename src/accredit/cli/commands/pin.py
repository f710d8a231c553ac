"""`accredit pin`: approves a server's tool definitions."""

# ruff: noqa: PLC0415 - what asks a server is loaded when it runs: `accredit --help` is quick without it

import os
from typing import Annotated

import typer

from accredit.cli.candidates import server_names
from accredit.cli.options import ConfigFileOption, HeaderOption, JsonOption, TimeoutOption, TokenEnvOption
from accredit.cli.reaching import read_reach


def pin(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=server_names,
            help="One of [servers]; else that of [upstream], `upstream`.",
        ),
    ] = None,
    config: ConfigFileOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve without being asked.")] = False,
    header: HeaderOption = None,
    token_env: TokenEnvOption = None,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
) -> int:
    """Shows how a server's tools differ from those in accredit.lock, and writes them there once you approve.

    It shows what a model would read: invisible characters appear as code points, and look-alike names are marked.
    Without approval nothing is written, and the exit code is 1. A gateway reads the lock when it starts or reloads. To
    remove the pins of a server that the configuration no longer has, give its name.

    Examples:

    accredit pin --config accredit.toml

    accredit pin --config accredit.toml --yes
    """
    from accredit.cli.actions.pin import Approval, drop_pins, pin_offer
    from accredit.cli.asking.server import ask_configured
    from accredit.config import load, lock_file
    from accredit.config.pins import lock_name, stale_pins
    from accredit.config.servers import view
    from accredit.errors import ConfigurationError

    loaded = load(config, os.environ, {})
    path = lock_file(loaded)
    if path is None:
        raise ConfigurationError("there is no configuration, beside which a lock would be", "name one with --config")
    if name is not None and name in stale_pins(loaded):
        return drop_pins(Approval(path, name, yes), as_json=as_json)
    servers = loaded.config.servers.by_name
    if servers and name is None:
        raise ConfigurationError("[servers] names several, and pin approves one", f"name one of {', '.join(servers)}")
    server = view(loaded, name) if servers and name is not None else loaded
    offer = ask_configured(server, read_reach(header, token_env, timeout))
    configured = frozenset(servers) or frozenset({lock_name(loaded)})
    return pin_offer(Approval(path, name or lock_name(server), yes, configured), offer, as_json=as_json)
