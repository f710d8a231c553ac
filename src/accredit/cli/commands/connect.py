"""`accredit connect`: the agent's side, for hosts that don't support proofs."""

# ruff: noqa: PLC0415 - what connects is loaded when it runs: `accredit --help` is quick without it

from typing import Annotated, Literal

import typer

from accredit.cli.options import (
    AgentKeyFileOption,
    DelegationFilesOption,
    GatewayIdOption,
    HeaderOption,
    LogFormatOption,
    LogLevelOption,
    ServerOption,
    TimeoutOption,
    TokenEnvOption,
)
from accredit.limits import HOLD_SECONDS

_ShowUncovered = Annotated[
    bool, typer.Option("--show-uncovered", help="List what no delegation covers too, with a note.")
]
_Ask = Annotated[
    Literal["auto", "off"] | None,
    typer.Option("--ask", help="Ask a person for what is refused, where a desk runs or has run.", show_default="auto"),
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

    Tools that no delegation covers are hidden. The error of a refused call says what would allow it. Where a desk
    runs, the person is asked to allow it.

    Examples:

    accredit connect http://127.0.0.1:8484/mcp --key agent.key --delegation delegation.json

    accredit connect http://127.0.0.1:8484/mcp --server mail --key agent.key --delegation delegation.json

    {"mcpServers": {"mail": {"command": "accredit", "args": ["connect", "http://127.0.0.1:8484/mcp", "--key",
    "agent.key", "--delegation", "delegation.json"]}}}
    """
    from accredit.cli.actions.connect import start_connect

    return start_connect(
        url,
        key=key,
        delegation=delegation,
        server=server,
        token_env=token_env,
        header=header,
        timeout=timeout,
        gateway_id=gateway_id,
        show_uncovered=show_uncovered,
        ask=ask,
        hold=hold,
        modern=modern,
        log_level=log_level,
        log_format=log_format,
    )
