"""`accredit check`: tells, in continuous integration, whether every tool has a scope."""

import re

from accredit.cli.candidates import server_names
from accredit.cli.dashes import ProgramCommand
from accredit.cli.declare import argument, flag
from accredit.cli.options import AGENT_CARD, CHECKED_CONFIG, HEADER, JSON, OPENAPI, TIMEOUT, TOKEN_ENV

_PYTHON = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")
_NAME = re.compile(r"[a-z0-9-]+")

check = ProgramCommand(
    "check",
    """Says whether every tool of a server has a scope. Lists those that have none, with exit code 1.

    With a configuration, asks its server(s), or only NAME, and compares the tools with the catalog: each needs an
    entry, with the scope that the server advertises, if any, and no entry may be left over. If accredit.lock is beside
    the configuration, each tool must equal its pin there. With a URL, a command or an object, each tool must advertise
    its scope.

    With --openapi, compares the routes of an HTTP API with its document: each operation needs a route, and each route
    an operation. Nothing is asked of the API. With --agent-card, compares the skills of an agent with its card, and the
    URL.

    Examples:

    accredit check --config accredit.toml

    accredit check mail --config accredit.toml --fix

    accredit check http://127.0.0.1:8484/mcp

    accredit check mail_server:server

    accredit check pets --openapi openapi.json

    accredit check helper --agent-card agent-card.json
    """,
    [
        argument(
            "target",
            metavar="NAME|URL|MODULE:SERVER",
            shell_complete=server_names,
            help="One of [servers]; or an MCP server, or a server object that can be imported.",
        ),
        CHECKED_CONFIG,
        OPENAPI,
        AGENT_CARD,
        flag("--fix", help="Write the tables of tools, routes or skills that have none; nothing else is touched."),
        HEADER,
        TOKEN_ENV,
        TIMEOUT,
        JSON,
    ],
    run="accredit.setup.check:run_check",
)
