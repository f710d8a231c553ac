"""`accredit wrap`: the gateway as a stdio server around a stdio server."""

from accredit.cli.dashes import ProgramCommand
from accredit.cli.options import LOG_FORMAT, LOG_LEVEL, NAMED_SERVER, SERVER_CONFIG, TIMEOUT

wrap = ProgramCommand(
    "wrap",
    """Runs the gateway as a stdio server, to be named in a host's `mcpServers`.

    Examples:

    accredit wrap -- python server.py

    accredit wrap --config accredit.toml --server files

    {"mcpServers": {"files": {"command": "accredit", "args": ["wrap", "--", "python", "server.py"]}}}
    """,
    [
        SERVER_CONFIG,
        NAMED_SERVER,
        TIMEOUT,
        LOG_LEVEL,
        LOG_FORMAT,
    ],
    run="accredit.cli.actions.serve:start_wrap",
)
