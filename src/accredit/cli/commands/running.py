"""The commands that run something until it ends: the demo, a gateway, the agent's side of one."""

from click import Choice, IntRange

from accredit.cli.dashes import ProgramCommand
from accredit.cli.declare import Command, argument, flag, option
from accredit.cli.options import (
    AGENT_KEY_FILE,
    CONFIG_FILE,
    DELEGATION_FILES,
    GATEWAY_ID,
    HOST,
    JSON,
    LOG_FORMAT,
    LOG_LEVEL,
    NAMED_SERVER,
    PORT,
    REACH,
    SERVER,
    SERVER_CONFIG,
    TIMEOUT,
    URL,
)
from accredit.limits import HOLD_SECONDS

demo = Command(
    "demo",
    """Tells the whole story on this machine, with real processes; then serves until Ctrl-C.

    Example:

    accredit demo --once
    """,
    [flag("--once", help="Stop at the end of the story.")],
    run="accredit.cli.actions.demo:run_demo",
)

MAX_WORKERS = 64
"""Processes of `--workers` that share a port: more than the cores of most machines, and few enough to be one's own."""


serve = ProgramCommand(
    "serve",
    """Runs the gateway in front of an MCP server: it stops malformed frames and, where proofs are required,
    calls without one.

    The server is a URL or, after --, a stdio server's command. Clients connect to the address that is printed, by
    default http://127.0.0.1:8484/mcp.

    Examples:

    accredit serve http://127.0.0.1:9000/mcp

    accredit serve --port 8000 -- python server.py

    accredit serve --config accredit.toml --workers 4
    """,
    [
        URL,
        SERVER_CONFIG,
        HOST,
        PORT,
        option(
            "--workers", metavar="N", type=IntRange(1, MAX_WORKERS), default=1, help="Processes that share the port."
        ),
        flag("--insecure", help="Listen outside loopback without TLS, because a proxy in front does TLS."),
        TIMEOUT,
        LOG_LEVEL,
        LOG_FORMAT,
    ],
    run="accredit.cli.actions.serve:start_server",
)

reload = Command(
    "reload",
    """Makes the gateway that serves a configuration read it again, with all files that it names, and prints what
    changed.

    The new configuration is checked first. If anything is wrong, the gateway keeps the old one, the reason is printed,
    and the exit code is 1. Calls in progress finish under the configuration that they began with. The gateway is found
    by accredit.pid beside the configuration; SIGHUP has the same effect.

    Examples:

    accredit reload

    accredit reload --config /etc/accredit/accredit.toml
    """,
    [CONFIG_FILE, JSON],
    run="accredit.ops.reload:reload_gateway",
)

wrap = ProgramCommand(
    "wrap",
    """Runs the gateway as a stdio server, to be named in a host's `mcpServers`.

    Examples:

    accredit wrap -- python server.py

    accredit wrap --config accredit.toml --server files

    {"mcpServers": {"files": {"command": "accredit", "args": ["wrap", "--", "python", "server.py"]}}}
    """,
    [SERVER_CONFIG, NAMED_SERVER, TIMEOUT, LOG_LEVEL, LOG_FORMAT],
    run="accredit.cli.actions.serve:start_wrap",
)

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
        REACH,
        GATEWAY_ID,
        flag("--show-uncovered", help="Also list what no delegation covers, with a note."),
        option(
            "--ask",
            type=Choice(("auto", "off")),
            show_default="auto",
            help="If a call is refused, ask a person at the desk, if one runs or has run.",
        ),
        option(
            "--hold",
            metavar="SECONDS",
            type=float,
            default=HOLD_SECONDS,
            help="How long a call waits while a person decides.",
        ),
        flag("--modern", help="Speak revision 2026-07-28 to the gateway, even for an older host."),
        LOG_LEVEL,
        LOG_FORMAT,
    ],
    run="accredit.cli.actions.connect:start_connect",
)
