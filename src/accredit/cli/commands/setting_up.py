"""The commands that write a configuration from what servers say of themselves."""

from pathlib import Path

from accredit.cli.dashes import ProgramCommand
from accredit.cli.declare import Command, argument, flag, option
from accredit.cli.options import AGENT_CARD, CHECKED_CONFIG, CONFIG_FILE, JSON, OPENAPI, PROXY, REACH, server_names
from accredit.cli.standard import OnlyFile

init = ProgramCommand(
    "init",
    """Asks an MCP server what it offers, and writes a configuration in which each tool has a scope.

    With --openapi, does so for an HTTP API, from its OpenAPI document: each operation is a route with a scope. Reads
    share one; each other operation has its own, which is sensitive if it deletes, or by its name can't be taken back.
    With --agent-card, for an A2A agent: each of its skills has a scope.

    Writes accredit.toml, gateway.key, gateway.key.pub and accredit.lock, and never replaces a file (a gateway with
    upstream.identity = "jwt" makes identity.key later). Read-only tools share the scope mcp:tool; each other tool has
    its own, which is sensitive unless the tool says that it destroys nothing. `accredit add` adds more servers.

    Examples:

    accredit init http://127.0.0.1:9000/mcp

    accredit init https://mcp.example.org/mcp --token-env MAIL_TOKEN

    accredit init http://127.0.0.1:9000/mcp --server mail

    accredit init http://127.0.0.1:9000/mcp --oauth https://mcp.example.com

    accredit init --openapi https://petstore.example/openapi.json --server pets

    accredit init --agent-card https://helper.example/.well-known/agent-card.json --server helper

    accredit init --dir /etc/accredit -- python server.py
    """,
    [
        argument(
            "url",
            metavar="URL",
            help="The MCP server; or the HTTP API or agent, if its document does not say where it is.",
        ),
        option("--server", metavar="NAME", default="", help="Write it as the first of [servers], with this name."),
        option(
            "--dir",
            "folder",
            metavar="D",
            default=Path(),
            type=OnlyFile("that is a folder"),
            help="Where the files are written.",
        ),
        OPENAPI,
        AGENT_CARD,
        PROXY,
        option(
            "--oauth",
            metavar="URL",
            default="",
            help="Let hosts in that can only log in, such as claude.ai. URL: the gateway's origin, as they know it.",
        ),
        REACH,
        JSON,
    ],
    run="accredit.setup.init:run_init",
)

add = ProgramCommand(
    "add",
    """Adds a server to a configuration, with a scope for each of its tools, and pins their definitions.

    The text of accredit.toml is kept, comments and all: the new tables are appended. With --name-existing, its one
    server of [upstream] becomes [servers.NAME]. Scopes are proposed as by `accredit init`, for an HTTP API
    (--openapi) and an agent (--agent-card), too.

    Examples:

    accredit add calendar http://127.0.0.1:9001/mcp

    accredit add calendar http://127.0.0.1:9001/mcp --name-existing mail --token-env CALENDAR_TOKEN

    accredit add pets --openapi openapi.json --proxy nginx

    accredit add files --config /etc/accredit/accredit.toml -- python files_server.py
    """,
    [
        argument("name", metavar="NAME", required=True, help="The server's name: its [servers.NAME]."),
        argument(
            "url",
            metavar="URL",
            help="The MCP server; or the HTTP API or agent, if its document does not say where it is.",
        ),
        CONFIG_FILE,
        option("--name-existing", metavar="NAME", help="A new name for the server of [upstream]."),
        OPENAPI,
        AGENT_CARD,
        PROXY,
        REACH,
        JSON,
    ],
    run="accredit.setup.add:run_add",
    words_before=1,
)

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
        REACH,
        JSON,
    ],
    run="accredit.setup.check:run_check",
)

pin = Command(
    "pin",
    """Shows how a server's tools differ from those in accredit.lock, and writes them there once you approve.

    It shows what a model would read: invisible characters appear as code points, and look-alike names are marked.
    Without approval nothing is written, and the exit code is 1. A gateway reads the lock when it starts or reloads. To
    remove the pins of a server that the configuration no longer has, give its name.

    Examples:

    accredit pin --config accredit.toml

    accredit pin --config accredit.toml --yes
    """,
    [
        argument(
            "name",
            metavar="NAME",
            shell_complete=server_names,
            help="One of [servers] (the only one is meant without it); else that of [upstream], `upstream`.",
        ),
        CONFIG_FILE,
        flag("--yes", help="Approve without being asked."),
        REACH,
        JSON,
    ],
    run="accredit.setup.pin:run_pin",
)
