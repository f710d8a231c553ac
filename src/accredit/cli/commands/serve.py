"""`accredit serve`: the gateway as an HTTP server."""

from click import IntRange

from accredit.cli.dashes import ProgramCommand
from accredit.cli.declare import flag, option
from accredit.cli.options import HOST, LOG_FORMAT, LOG_LEVEL, PORT, SERVER_CONFIG, TIMEOUT, URL

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
