"""`accredit install` and `uninstall`: entries in hosts' configuration files."""

from accredit.cli.candidates import host_names, server_names
from accredit.cli.declare import FILE, Command, argument, flag, option
from accredit.cli.options import JSON, PASSPHRASE_FILE
from accredit.cli.standard import only_file

_HOST = argument("host", metavar="HOST", shell_complete=host_names, help="Such as cursor; --list names all.")
_NAME = option("--name", metavar="N", show_default="the gateway's name", help="The entry's name.")
_PROJECT = flag("--project", help="The current folder's file, not the user's.")
_CONFIG = option(
    "--config",
    metavar="FILE",
    type=FILE,
    callback=only_file("the host goes on with what it names"),
    help="The gateway's configuration; else the one that is found.",
)
_DRY_RUN = flag("--dry-run", help="Show what would be written, and write nothing.")
_YES = flag("--yes", help="Don't ask first.")

install = Command(
    "install",
    """Puts `accredit connect` into a host's configuration, as a server that it starts.

    Only that entry changes; a backup of the file is kept beside it. The entry names the agent's key and delegation, if
    they are in `~/.config/accredit`; it holds no secret.

    With --adopt, the host's own servers are moved into the configuration, which is made if it doesn't exist, and the
    gateway stands between: at first it refuses nothing, but records everything. Credentials go into files that only
    you can read.

    Examples:

    accredit install --list

    accredit install cursor --url http://127.0.0.1:8484/mcp --name mail

    accredit install vscode --config accredit.toml --project --dry-run

    accredit install cursor --adopt --config ~/gateway/accredit.toml
    """,
    [
        _HOST,
        _NAME,
        option("--url", metavar="URL", help="The gateway's endpoint."),
        _CONFIG,
        option("--server", metavar="NAME", shell_complete=server_names, help="One of the gateway's [servers]."),
        flag("--adopt", help="Put the host's own servers behind the gateway of --config."),
        PASSPHRASE_FILE,
        _PROJECT,
        _DRY_RUN,
        _YES,
        flag("--list", "list_all", help="Show the hosts, and what is installed in each."),
        JSON,
    ],
    run="accredit.setup.install:run_install",
)

uninstall = Command(
    "uninstall",
    """Removes an entry of `accredit install` from a host's configuration.

    The rest of the file stays; a file that was made for the entry is deleted. With --restore, the whole file is
    restored as it was before, and later changes by others are lost.

    Examples:

    accredit uninstall cursor

    accredit uninstall vscode --name mail --project --yes
    """,
    [
        argument("host", metavar="HOST", required=True, shell_complete=host_names, help="Such as cursor."),
        option("--name", metavar="N", help="The entry; else the only one of accredit."),
        _PROJECT,
        flag("--restore", help="Put the whole file back as it was before the entry."),
        _DRY_RUN,
        _YES,
        JSON,
    ],
    run="accredit.setup.install:run_uninstall",
)
