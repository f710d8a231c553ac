"""`accredit pin`: approves a server's tool definitions."""

from accredit.cli.candidates import server_names
from accredit.cli.declare import Command, argument, flag
from accredit.cli.options import CONFIG_FILE, HEADER, JSON, TIMEOUT, TOKEN_ENV

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
            help="One of [servers]; else that of [upstream], `upstream`.",
        ),
        CONFIG_FILE,
        flag("--yes", help="Approve without being asked."),
        HEADER,
        TOKEN_ENV,
        TIMEOUT,
        JSON,
    ],
    run="accredit.setup.pin:run_pin",
)
