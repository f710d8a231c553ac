"""`accredit connect`: the agent's side, for hosts that don't support proofs."""

from click import Choice

from accredit.cli.declare import Command, argument, flag, option
from accredit.cli.options import (
    AGENT_KEY_FILE,
    DELEGATION_FILES,
    GATEWAY_ID,
    HEADER,
    LOG_FORMAT,
    LOG_LEVEL,
    SERVER,
    TIMEOUT,
    TOKEN_ENV,
)
from accredit.limits import HOLD_SECONDS

_SHOW_UNCOVERED = flag("--show-uncovered", help="Also list what no delegation covers, with a note.")
_ASK = option(
    "--ask",
    type=Choice(("auto", "off")),
    show_default="auto",
    help="If a call is refused, ask a person at the desk, if one runs or has run.",
)
_HOLD = option(
    "--hold", metavar="SECONDS", type=float, default=HOLD_SECONDS, help="How long a call waits while a person decides."
)
_MODERN = flag("--modern", help="Speak revision 2026-07-28 to the gateway, even for an older host.")

connect = Command(
    "connect",
    """Adds proofs and the token to a host's calls, as a stdio server that the host starts.

    Tools that no delegation covers are hidden. The error of a refused call says what would allow it. If a desk
    runs, the person is asked to allow it.

    Examples:

    accredit connect http://127.0.0.1:8484/mcp --key agent.key --delegation delegation.json

    accredit connect http://127.0.0.1:8484/mcp --server mail --key agent.key --delegation delegation.json

    {"mcpServers": {"mail": {"command": "accredit", "args": ["connect", "http://127.0.0.1:8484/mcp", "--key",
    "agent.key", "--delegation", "delegation.json"]}}}
    """,
    [
        argument("url", metavar="URL", required=True, help="The gateway's endpoint."),
        AGENT_KEY_FILE,
        DELEGATION_FILES,
        SERVER,
        TOKEN_ENV,
        HEADER,
        TIMEOUT,
        GATEWAY_ID,
        _SHOW_UNCOVERED,
        _ASK,
        _HOLD,
        _MODERN,
        LOG_LEVEL,
        LOG_FORMAT,
    ],
    run="accredit.cli.actions.connect:start_connect",
)
