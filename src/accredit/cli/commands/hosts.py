"""The commands that bring a gateway up, put it into hosts, and test it."""

from pathlib import Path

from click import IntRange

from accredit.cli.dashes import ProgramCommand
from accredit.cli.declare import Command, argument, flag, option
from accredit.cli.options import (
    ASK_PASSPHRASE,
    CONFIG,
    JSON,
    NAMED_SERVER,
    PASSPHRASE_FILE,
    REACH,
    host_names,
    server_names,
)
from accredit.cli.standard import READ_SECRET, OnlyFile

_PROJECT = flag("--project", help="The current folder's file, not the user's.")
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
        argument("host", metavar="HOST", shell_complete=host_names, help="Such as cursor; --list names all."),
        option("--name", metavar="N", show_default="the gateway's name", help="The entry's name."),
        option("--url", metavar="URL", help="The gateway's endpoint."),
        option(
            "--config",
            type=OnlyFile("the host goes on with what it names"),
            help="The gateway's configuration; else the one that is found.",
        ),
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
        argument("url", metavar="URL", help="The MCP server to protect."),
        option(
            "--config",
            type=OnlyFile("the gateway reads it again"),
            help="An existing configuration, in place of a server.",
        ),
        option(
            "--dir",
            "folder",
            metavar="D",
            default=Path(),
            type=OnlyFile("that is a folder"),
            help="Where the configuration is or goes.",
        ),
        option("--port", metavar="P", type=IntRange(1, 65_535), help="The port of a new configuration; else 8484."),
        REACH,
        PASSPHRASE_FILE,
        flag("--no-passphrase", help="Do not encrypt a new key."),
        flag("--no-browser", help="Open no browser for the desk."),
        flag("--yes", help="Put it into every host that is found, without asking."),
        flag("--dry-run", help="Print each step, and do nothing."),
        JSON,
    ],
    run="accredit.setup.up:run_up",
)

doctor = Command(
    "doctor",
    """Finds problems of keys, configuration, store, gateway, clock, desk, hosts and versions, and says what fixes
    them.

    It takes some seconds, and changes nothing. If a command fixes a problem, it prints the command. The exit code is 1
    if something is bad; a missing desk is not.

    With --production it goes through the checklist of docs/how-to/run-in-production.md, for one configuration. Each
    line is ok; or not, with the setting or command that fixes it; or unknown, which does not count as passed.

    Examples:

    accredit doctor

    accredit doctor --config accredit.toml --json

    accredit doctor --production --config accredit.toml --except production.quotas
    """,
    [
        option(
            "--config",
            type=OnlyFile("what is beside it is looked at, too"),
            help="The configuration; else $ACCREDIT_CONFIG, else ./accredit.toml.",
        ),
        flag("--production", help="Go through the checklist for production instead, line by line."),
        option(
            "--except",
            "left_out",
            metavar="ID",
            multiple=True,
            help="A line to leave out, because you decide so; may be repeated.",
        ),
        JSON,
    ],
    run="accredit.ops.doctor.examine:run_doctor",
)

drill = Command(
    "drill",
    """Makes the calls that your running gateway must refuse, and some that it must allow. Exit code 1: one was wrong.

    All call the tool accredit.drill, which the gateway answers itself: no server is called. The issuer signs
    delegations for that tool, which expire within minutes, to keys that are never stored. The log records each call.
    All servers are tried, or the one that --server names.

    Examples:

    accredit drill --issuer owner.key --config accredit.toml

    accredit drill --issuer owner.key --config accredit.toml --token-key issuer.key --json
    """,
    [
        option(
            "--issuer", metavar="KEY", required=True, type=READ_SECRET, help="The private key of one of proofs.roots."
        ),
        CONFIG,
        option("--url", metavar="URL", help="The gateway's endpoint, if FILE has another."),
        NAMED_SERVER,
        option(
            "--token-key",
            metavar="KEY",
            type=READ_SECRET,
            help="If the gateway asks for tokens: the private key of one of its issuers, which signs the drill's.",
        ),
        REACH,
        ASK_PASSPHRASE,
        JSON,
    ],
    run="accredit.ops.drill:drill",
    into="DrillOptions",
)
