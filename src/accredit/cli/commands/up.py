"""`accredit up`: from nothing to a protected server."""

# ruff: noqa: PLC0415 - what asks and signs is loaded when it runs: `accredit --help` is quick without it

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accredit.cli.dashes import command_of
from accredit.cli.options import HeaderOption, JsonOption, TimeoutOption, TokenEnvOption
from accredit.cli.passphrases import PassphraseFileOption
from accredit.cli.reaching import Reach, add_headers, as_configured, read_reach
from accredit.cli.standard import only_file
from accredit.errors import ConfigurationError

if TYPE_CHECKING:
    from accredit.cli.actions.up_place import UpPlace

_Url = Annotated[str | None, typer.Argument(metavar="URL", help="The MCP server to protect.")]
_Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        callback=only_file("the gateway reads it again"),
        help="A configuration that is there, in place of a server.",
    ),
]
_Dir = Annotated[
    Path,
    typer.Option(
        "--dir", metavar="D", callback=only_file("that is a folder"), help="Where the configuration is or goes."
    ),
]
_Port = Annotated[
    int | None,
    typer.Option("--port", metavar="P", min=1, max=65_535, help="The port of a configuration that is made; else 8484."),
]
_NoPassphrase = Annotated[bool, typer.Option("--no-passphrase", help="Do not encrypt a key that is made.")]
_NoBrowser = Annotated[bool, typer.Option("--no-browser", help="Open no browser for the desk.")]
_Yes = Annotated[bool, typer.Option("--yes", help="Put it into every host that is found, without asking.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Print each step, and do nothing.")]


def up(
    ctx: typer.Context,
    url: _Url = None,
    config: _Config = None,
    folder: _Dir = Path(),
    port: _Port = None,
    header: HeaderOption = None,
    token_env: TokenEnvOption = None,
    timeout: TimeoutOption = None,
    passphrase_file: PassphraseFileOption = None,
    no_passphrase: _NoPassphrase = False,
    no_browser: _NoBrowser = False,
    yes: _Yes = False,
    dry_run: _DryRun = False,
    as_json: JsonOption = False,
) -> int:
    """Protects an MCP server: a configuration, keys, a first delegation, then gateway and desk until Ctrl-C.

    It takes the steps of `init`, `keys new`, `grant` (for 30 days, read-only tools), `serve` and `desk`, and offers an
    entry to the hosts that it finds (`install`). Existing files are kept, so it can be run again at any time, and
    resumes where an earlier run ended. The configuration is ./accredit.toml; keys and delegation are in
    ~/.config/accredit.

    Examples:

    accredit up http://127.0.0.1:9000/mcp

    accredit up --dry-run -- python server.py

    accredit up --config accredit.toml
    """
    from accredit.cli.actions.own_keys import Passphrases
    from accredit.cli.actions.up import UpOptions, bring_up
    from accredit.cli.actions.up_plan import print_plan

    reach = read_reach(header, token_env, timeout)
    passphrases = Passphrases(passphrase_file, declined=no_passphrase)
    server = (url, command_of(ctx))
    if server == (None, None):
        place = _place_of_file(config)
    elif config is not None:
        raise ConfigurationError("--config and a server are given", "name one: a configuration has its own")
    else:
        place = _place_in_folder(server, folder, port, reach, as_configured(header, token_env))
    if port is not None and place.is_there:
        raise ConfigurationError(
            f"--port is for a configuration that is made, and {place.file} is there", "change it there"
        )
    if dry_run:
        return print_plan(place, as_json=as_json)
    return bring_up(UpOptions(place, reach, passphrases, not no_browser, yes, as_json))


def _place_of_file(config: Path | None) -> "UpPlace":
    from accredit.cli.actions.up_place import named_place

    named = config if config is not None else Path(os.environ.get("ACCREDIT_CONFIG") or "")
    if named == Path():
        raise ConfigurationError(
            "there is no server to protect", "give its URL, its command after --, or --config FILE"
        )
    return named_place(named)


def _place_in_folder(
    server: tuple[str | None, list[str] | None],
    folder: Path,
    port: int | None,
    reach: Reach,
    headers: dict[str, str | dict[str, str]],
) -> "UpPlace":
    from accredit.cli.actions.init import InitPlan
    from accredit.cli.actions.up_place import found_place
    from accredit.cli.command_line import values_of
    from accredit.config import build_upstream, load_command_line

    upstream = add_headers(build_upstream(load_command_line(values_of(*server, None, None)), os.environ), reach)
    plan = InitPlan(upstream, folder, headers, reach.timeout)
    return found_place(plan if port is None else plan._replace(port=port))
