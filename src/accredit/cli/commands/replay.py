"""`accredit replay`: finds recorded calls that another configuration would decide differently."""

from accredit.cli.declare import FILE, Command, option
from accredit.cli.options import JSON, KEYS, SINCE
from accredit.cli.standard import only_file

_CONFIG = option(
    "--config",
    metavar="NEW.toml",
    type=FILE,
    required=True,
    callback=only_file("files beside the configuration are read as well"),
    help="The configuration that decides; its store has the log.",
)

replay = Command(
    "replay",
    """Decides recorded calls with another configuration. The exit code is 1 if it decides any differently.

    If the log lacks what a decision needs, the call is counted as undecided, with the reason: arguments, for example,
    are only digests unless recorded in full. Revocations, uses and the ages of challenges are ignored. Records that do
    not verify with the named keys, or the configuration's, are left out.

    Examples:

    accredit replay --config new.toml --since 7d

    accredit replay --config new.toml --json
    """,
    [
        _CONFIG,
        SINCE,
        KEYS,
        JSON,
    ],
    run="accredit.ops.replay:run_replay",
)
