"""`accredit suggest`: the smallest catalog and grants that would have allowed recorded calls."""

from accredit.cli.declare import Command
from accredit.cli.options import CONFIG, JSON, KEYS, SINCE

suggest = Command(
    "suggest",
    """Prints the tables and grants that would have allowed the recorded calls, and what stays refused.

    Tables are TOML for the configuration. Grants are commands for the signer, with the key files of this machine;
    sensitive tools have a grant of their own. Each says which calls it would have allowed. What nobody used is left out
    (`accredit check --fix` writes the tables of all tools), and so are calls that nobody signed or that were refused.
    Only records that verify with the named keys, or the configuration's, count. Read it before you apply it: it shows
    what agents did, not what they should do.

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
