"""The commands that look after a configuration, a store and a shell."""

from click import Choice

from accredit.cli.dashes import ProgramCommand
from accredit.cli.declare import Command, Group, argument, flag, option
from accredit.cli.options import CHECKED_CONFIG, CONFIG, HOST, JSON, JSON_ANYWAY, PORT, URL

_STORE = option("--store", metavar="URL", help="postgresql://USER@HOST/DATABASE; else the configuration's.")

_migrate = Command(
    "migrate",
    """Creates missing tables, and the roles accredit_gateway and accredit_admin; safe to repeat.

    If this user may not create roles or grant rights, the SQL for an administrator is printed.

    Example:

    accredit store migrate --store postgresql://admin@db.example/accredit
    """,
    [_STORE, CONFIG, JSON],
    run="accredit.ops.store:migrate_store",
)

_status = Command(
    "status",
    """Says whether the tables fit this version: exit code 0, else 1.

    Example:

    accredit store status --config accredit.toml
    """,
    [_STORE, CONFIG, JSON],
    run="accredit.ops.store:show_status",
)

_restored = Command(
    "restored",
    """Refuses proofs for five minutes. Run it after you have restored a backup: proofs that were used since would be
    valid again.

    Example:

    accredit store restored --store postgresql://admin@db.example/accredit
    """,
    [_STORE, CONFIG, JSON],
    run="accredit.ops.store:mark_restored",
)

store = Group(
    "store",
    "Looks after a store in PostgreSQL.",
    [_migrate, _status, _restored],
    example="accredit store migrate --store postgresql://admin@db.example/accredit",
)

_check = Command(
    "check",
    """Validates the configuration and the files that it names; starts nothing. Lets attest.signer sign a trial.

    Example:

    accredit config check --config accredit.toml
    """,
    [CONFIG, JSON],
    run="accredit.ops.config:check_configuration",
)

_show = ProgramCommand(
    "show",
    """Prints the values that `accredit serve` would use with the same arguments, and their origin.

    Secrets are masked.

    Examples:

    accredit config show

    accredit config show --json --port 9000 -- python server.py
    """,
    [URL, CHECKED_CONFIG, HOST, PORT, JSON],
    run="accredit.ops.config:show_configuration",
)

_schema = Command(
    "schema",
    """Prints the JSON Schema of accredit.toml, for editors and other tools.

    Example:

    accredit config schema > accredit.schema.json
    """,
    [JSON_ANYWAY],
    run="accredit.ops.config:print_schema",
)

config = Group(
    "config", "Checks and prints the configuration.", [_check, _show, _schema], example="accredit config show"
)

completion = ProgramCommand(
    "completion",
    """Installs or prints a shell's script for completing accredit's command lines with the tab key.

    It completes commands, options, files, hosts, and the configuration's servers. With --install, your shell reads the
    script from now on. The script calls it with the words typed so far after --; it prints what may stand there next.

    Examples:

    accredit completion bash --install

    accredit completion zsh > ~/.zfunc/_accredit
    """,
    [
        argument(
            "shell", metavar="SHELL", type=Choice(("bash", "zsh", "fish")), required=True, help="bash, zsh or fish."
        ),
        flag("--install", help="Write the script to a file of yours, and make SHELL read it when it starts."),
    ],
    run="accredit.cli.actions.completion:start_completion",
    words_before=1,
)
