"""`accredit init`: makes a configuration from a running server."""

from pathlib import Path

from accredit.cli.dashes import ProgramCommand
from accredit.cli.declare import FILE, argument, option
from accredit.cli.options import AGENT_CARD, HEADER, JSON, OPENAPI, PROXY, TIMEOUT, TOKEN_ENV
from accredit.cli.standard import only_file

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
            type=FILE,
            default=Path(),
            callback=only_file("that is a folder"),
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
        HEADER,
        TOKEN_ENV,
        TIMEOUT,
        JSON,
    ],
    run="accredit.setup.init:run_init",
)
