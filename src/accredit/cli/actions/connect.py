"""Implements `accredit connect`. Reads the environment, and serves until the host ends.

Hosts wait for it at startup, so it loads as little as possible.
"""

# ruff: noqa: PLC0415 - the packages are loaded in a certain way, and nothing is loaded for a command line that is refused

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from accredit.asking.reaching import endpoint_of, id_at
from accredit.base.deferred import leave_unopened, loading
from accredit.errors import ConfigurationError
from accredit.keys.places import entry_mark, state_folder
from accredit.limits import HOLD_SECONDS

if TYPE_CHECKING:
    from accredit.asking.reaching import Reach
    from accredit.base.log_events import LogFormat, LogLevel
    from accredit.client.desk_start import DeskStarter

MAX_HOLD_SECONDS = 3_600.0
"""The most seconds that a call can be held: longer than an ask lives."""


def start_connect(
    url: str,
    *,
    key: Path | None = None,
    delegation: list[Path] | None = None,
    server: str | None = None,
    reach: "Reach",
    gateway_id: str = "",
    show_uncovered: bool = False,
    ask: Literal["auto", "off"] | None = None,
    hold: float = HOLD_SECONDS,
    modern: bool = False,
    log_level: "LogLevel" = "info",
    log_format: "LogFormat" = "json",
) -> int:
    """Run `accredit connect` until the host ends; return the exit code. Raises `ConfigurationError`."""
    desk, starter = ((), None) if key is None else _desk(ask, hold)
    _check(key, delegation, ask, may_ask=bool(desk))
    url, gateway_id = endpoint_of(url, server), id_at(gateway_id, server)

    with loading():
        leave_unopened("mcp", "mcp.client")  # their own code imports the SDK's servers, which take as long as all else
        import uvloop

        from accredit.base.log_events import configure_logs
        from accredit.client import ProofPresenter
        from accredit.client.connect import Connecting, run
        from accredit.client.gateways import GatewayAddress

    gateway = GatewayAddress(url=url, token=reach.token, headers=reach.headers, timeout=reach.timeout)
    proves, faults = None, ()
    if key is not None:
        try:
            proves = ProofPresenter(key, delegation or (), gateway_id=gateway_id, may_ask=bool(desk), patient=True)
            faults = proves.faults
        except ConfigurationError as error:  # the host would show nothing but "Connection closed"
            faults = (ConfigurationError(error.what, f"{error.remedy}. Then restart the host"),)
    configure_logs(log_level, log_format)
    for each in faults:
        logging.getLogger("accredit.client").error("%s: %s", each.what, each.remedy)
    _quiet()
    _announce(url)
    with suppress(ConfigurationError, OSError):  # nobody could be told where it is
        entry_mark(state_folder(os.environ), sys.argv).unlink(missing_ok=True)
    connecting = Connecting(
        gateway=gateway,
        presenter=proves,
        key_fault=faults[0] if proves is None and faults else None,
        show_uncovered=show_uncovered or bool(desk) or bool(faults),
        modern=modern,
        desk=desk,
        starter=starter,
        hold=hold,
    )
    return uvloop.run(run(connecting))


def _desk(ask: str | None, hold: float) -> "tuple[tuple[Path, ...], DeskStarter | None]":
    """Return the possible sockets of the desk, and what starts a desk if the person's settings say so. There are no
    sockets if nobody is to be asked, or if no desk has run yet, the settings start none, and `--ask auto` is not given.
    Raises `ConfigurationError`."""
    from accredit.client.desk_start import DeskStarter
    from accredit.console.client import desk_runs
    from accredit.console.settings import read_settings
    from accredit.keys.places import desk_journal, desk_sockets

    if not 0 < hold <= MAX_HOLD_SECONDS:
        raise ConfigurationError(f"--hold {hold:g}: no time to wait", f"name from 1 to {MAX_HOLD_SECONDS:g} seconds")

    if ask == "off":
        return (), None
    paths = desk_sockets(os.environ, os.geteuid())
    starter = DeskStarter(os.environ) if read_settings(os.environ).start else None
    may_come = ask == "auto" or starter is not None or desk_journal(os.environ).exists()
    return (paths if may_come or desk_runs(paths) else ()), starter


def _check(key: Path | None, delegation: list[Path] | None, ask: str | None, *, may_ask: bool) -> None:
    if key and not delegation and not may_ask and ask != "off":
        raise ConfigurationError(
            "--key is of no use without --delegation, as no desk has run yet that could be asked for one",
            "name --delegation as well, or start `accredit desk` once; --ask auto waits for one that starts later",
        )
    if bool(key) != bool(delegation) and not (key and may_ask):
        have, lack = ("--key", "--delegation") if key else ("--delegation", "--key")
        raise ConfigurationError(f"{have} is of no use without {lack}", f"name {lack} as well, or leave out both")


def _quiet() -> None:
    """Silence the libraries' logs, which would contain proofs and results."""
    for name in ("mcp", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _announce(url: str) -> None:
    """Tell a person at a terminal what this command waits for. Otherwise nothing would be shown."""
    from accredit.client.pins import shown_url

    if sys.stdin.isatty():
        text = f"accredit: for the gateway at {shown_url(url)}, waiting on stdin for a host that speaks MCP."
        more = "It is a host that starts this command, from its configuration. Ctrl-C ends it."
        print(f"{text}\n{more}", file=sys.stderr)  # noqa: T201 - its stderr is the host's log
