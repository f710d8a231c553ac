"""`accredit config check|show|schema`: examines the configuration without starting anything."""

from accredit.cli.dashes import ProgramCommand
from accredit.cli.declare import Command, Group
from accredit.cli.options import CHECKED_CONFIG, CONFIG, HOST, JSON, JSON_ANYWAY, PORT, URL

_check = Command(
    "check",
    """Validates the configuration and the files that it names; starts nothing. Lets attest.signer sign a trial.

    Example:

    accredit config check --config accredit.toml
    """,
    [
        CONFIG,
        JSON,
    ],
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
    [
        URL,
        CHECKED_CONFIG,
        HOST,
        PORT,
        JSON,
    ],
    run="accredit.ops.config:show_configuration",
)

_schema = Command(
    "schema",
    """Prints the JSON Schema of accredit.toml, for editors and other tools.

    Example:

    accredit config schema > accredit.schema.json
    """,
    [
        JSON_ANYWAY,
    ],
    run="accredit.ops.config:print_schema",
)

config = Group(
    "config",
    "Checks and prints the configuration.",
    [_check, _show, _schema],
    example="accredit config show",
)
