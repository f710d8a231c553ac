"""`accredit suggest`: the smallest catalog and grants that would have allowed recorded calls."""

from accredit.cli.declare import Command
from accredit.cli.options import CONFIG, JSON, KEYS, SINCE

suggest = Command(
    "suggest",
    """Prints the tables and grants that would have allowed the recorded calls, and what stays refused.

    Tables are TOML for the configuration; grants are commands for the signer, which name the key files that are on this
    machine. Each says which calls it would have allowed. Nothing unused is proposed (`accredit check --fix` writes the
    tables of all tools), nor anything for calls that nobody signed, or that were refused. Records that do not verify
    with the named keys, or the configuration's, are left out. Read it before you apply it: it shows what agents did,
    not what they should do.

    Examples:

    accredit suggest --since 7d

    accredit suggest --config accredit.toml --json
    """,
    [
        SINCE,
        CONFIG,
        KEYS,
        JSON,
    ],
    run="accredit.ops.suggest:run_suggest",
)
