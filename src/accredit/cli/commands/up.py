"""`accredit up`: from nothing to a protected server."""

from pathlib import Path

from click import IntRange

from accredit.cli.dashes import ProgramCommand
from accredit.cli.declare import FILE, argument, flag, option
from accredit.cli.options import HEADER, JSON, PASSPHRASE_FILE, TIMEOUT, TOKEN_ENV
from accredit.cli.standard import only_file

_URL = argument("url", metavar="URL", help="The MCP server to protect.")
_CONFIG = option(
    "--config",
    metavar="FILE",
    type=FILE,
    callback=only_file("the gateway reads it again"),
    help="An existing configuration, in place of a server.",
)
_DIR = option(
    "--dir",
    "folder",
    metavar="D",
    type=FILE,
    default=Path(),
    callback=only_file("that is a folder"),
    help="Where the configuration is or goes.",
)
_PORT = option("--port", metavar="P", type=IntRange(1, 65_535), help="The port of a new configuration; else 8484.")
_NO_PASSPHRASE = flag("--no-passphrase", help="Do not encrypt a new key.")
_NO_BROWSER = flag("--no-browser", help="Open no browser for the desk.")
_YES = flag("--yes", help="Put it into every host that is found, without asking.")
_DRY_RUN = flag("--dry-run", help="Print each step, and do nothing.")

up = ProgramCommand(
    "up",
    """Protects an MCP server: a configuration, keys, a first delegation, then gateway and desk until Ctrl-C.

    It takes the steps of `init`, `keys new`, `grant` (for 30 days, read-only tools), `serve` and `desk`, and offers an
    entry to the hosts that it finds (`install`). Existing files are kept, so it can be run again at any time, and
    resumes where an earlier run ended. The configuration is ./accredit.toml; keys and delegation are in
    ~/.config/accredit.

    Examples:

    accredit up http://127.0.0.1:9000/mcp

    accredit up --dry-run -- python server.py

    accredit up --config accredit.toml
    """,
    [
        _URL,
        _CONFIG,
        _DIR,
        _PORT,
        HEADER,
        TOKEN_ENV,
        TIMEOUT,
        PASSPHRASE_FILE,
        _NO_PASSPHRASE,
        _NO_BROWSER,
        _YES,
        _DRY_RUN,
        JSON,
    ],
    run="accredit.setup.up:run_up",
)
