"""`accredit connect`: the agent's side, for hosts that know nothing of proofs."""

# ruff: noqa: PLC0415 - what connects is loaded when it runs: `accredit --help` is quick without it

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from accredit.cli.options import (
    AgentKeyFileOption,
    DelegationFilesOption,
    GatewayIdOption,
    LogFormatOption,
    LogLevelOption,
)
from accredit.cli.reaching import (
    HeaderOption,
    ServerOption,
    TimeoutOption,
    TokenEnvOption,
    endpoint_of,
    id_at,
    read_reach,
)
from accredit.errors import ConfigurationError
from accredit.limits import HOLD_SECONDS, MAX_HOLD_SECONDS

if TYPE_CHECKING:
    from accredit.client.desk_start import DeskStarter

_ShowUncovered = Annotated[
    bool, typer.Option("--show-uncovered", help="List what no delegation covers too, with a note.")
]
_Ask = Annotated[
    Literal["auto", "off"] | None,
    typer.Option("--ask", help="Ask a person for what is refused, where `accredit desk` runs.", show_default="auto"),
]
_Hold = Annotated[
    float, typer.Option("--hold", metavar="SECONDS", help="How long a call waits while a person decides.")
]
_Modern = Annotated[
    bool, typer.Option("--modern", help="Speak revision 2026-07-28 to the gateway, also for an older host.")
]


def connect(
    url: Annotated[str, typer.Argument(metavar="URL", help="The gateway's endpoint.")],
    key: AgentKeyFileOption = None,
    delegation: DelegationFilesOption = None,
    server: ServerOption = None,
    token_env: TokenEnvOption = None,
    header: HeaderOption = None,
    timeout: TimeoutOption = None,
    gateway_id: GatewayIdOption = "",
    show_uncovered: _ShowUncovered = False,
    ask: _Ask = None,
    hold: _Hold = HOLD_SECONDS,
    modern: _Modern = False,
    log_level: LogLevelOption = "info",
    log_format: LogFormatOption = "json",
) -> int:
    """Attaches proofs and the token for a host, as a stdio server that the host starts.

    Tools that no delegation covers are hidden. A refused call says what would allow it. Where a desk runs, a person is
    asked for it.

    Examples:

    accredit connect http://127.0.0.1:8484/mcp --key agent.key --delegation delegation.json

    accredit connect http://127.0.0.1:8484/mcp --server mail --key agent.key --delegation delegation.json

    {"mcpServers": {"mail": {"command": "accredit", "args": ["connect", "http://127.0.0.1:8484/mcp",
    "--key", "agent.key", "--delegation", "delegation.json"]}}}
    """
    desk, starter = ((), None) if key is None else _desk(ask, hold)
    _check(url, key, delegation, ask, may_ask=bool(desk))
    url, gateway_id = endpoint_of(url, server), id_at(gateway_id, server)
    reach = read_reach(header, token_env, timeout)

    import uvloop

    from accredit.base.log_events import configure_logs
    from accredit.client import ProofPresenter
    from accredit.client.connect import Connecting, run
    from accredit.gateway.front.host import Host

    proves = None if key is None else ProofPresenter(key, delegation or (), gateway_id=gateway_id, may_ask=bool(desk))
    configure_logs(log_level, log_format)
    _quiet()
    _announce(url)
    connecting = Connecting(
        url=url,
        presenter=proves,
        token=reach.token,
        headers=reach.headers,
        timeout=reach.timeout,
        show_uncovered=show_uncovered or bool(desk),
        modern=modern,
        desk=desk,
        starter=starter,
        hold=hold,
    )
    return uvloop.run(run(connecting, Host))


def _desk(ask: str | None, hold: float) -> "tuple[tuple[Path, ...], DeskStarter | None]":
    """Return where the desk's socket may be, nowhere if nobody is to be asked, and what starts it if the person wants
    that. Raises `ConfigurationError`."""
    from accredit.client.desk_socket import desk_answers
    from accredit.client.desk_start import DeskStarter
    from accredit.console.settings import read_settings
    from accredit.keys.places import desk_sockets

    if not 0 < hold <= MAX_HOLD_SECONDS:
        raise ConfigurationError(f"--hold {hold:g}: no time to wait", f"name from 1 to {MAX_HOLD_SECONDS:g} seconds")

    if ask == "off":
        return (), None
    paths = desk_sockets(os.environ, os.geteuid())
    starter = DeskStarter(os.environ) if read_settings(os.environ).start else None
    return (paths if ask == "auto" or starter is not None or desk_answers(paths) else ()), starter


def _check(url: str, key: Path | None, delegation: list[Path] | None, ask: str | None, *, may_ask: bool) -> None:
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"{url} is not an http or https URL", "name the endpoint that `accredit serve` prints")
    if key and not delegation and not may_ask and ask != "off":
        raise ConfigurationError(
            "--key is of no use without --delegation, as no desk runs that could be asked for one",
            "name --delegation as well, or start `accredit desk` first; --ask auto waits for one that starts later",
        )
    if bool(key) != bool(delegation) and not (key and may_ask):
        have, lack = ("--key", "--delegation") if key else ("--delegation", "--key")
        raise ConfigurationError(f"{have} is of no use without {lack}", f"name {lack} as well, or leave out both")


def _quiet() -> None:
    """Silence the libraries' logs, which would hold proofs and results."""
    import logging

    for name in ("mcp", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _announce(url: str) -> None:
    """For a person at a terminal, who would see nothing at all."""
    from accredit.client.pins import shown_url

    if sys.stdin.isatty():
        text = f"accredit: for the gateway at {shown_url(url)}, waiting on stdin for a host that speaks MCP."
        typer.echo(f"{text}\nIt is a host that starts this command, from its configuration. Ctrl-C ends it.", err=True)
