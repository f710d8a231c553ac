"""`accredit add`: adds a server to a configuration."""

from accredit.cli.dashes import ProgramCommand
from accredit.cli.declare import argument, option
from accredit.cli.options import AGENT_CARD, CONFIG_FILE, HEADER, JSON, OPENAPI, PROXY, TIMEOUT, TOKEN_ENV

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
        HEADER,
        TOKEN_ENV,
        TIMEOUT,
        JSON,
    ],
    run="accredit.setup.add:run_add",
    words_before=1,
)
