"""`accredit reload`: makes a running gateway read its configuration again."""

from accredit.cli.declare import Command
from accredit.cli.options import CONFIG_FILE, JSON

reload = Command(
    "reload",
    """Makes the gateway that serves a configuration read it again, with all files that it names, and prints what
    changed.

    The new configuration is checked first. If anything is wrong, the gateway keeps the old one, the reason is printed,
    and the exit code is 1. Calls in progress finish under the configuration that they began with. The gateway is found
    by accredit.pid beside the configuration; SIGHUP has the same effect.

    Examples:

    accredit reload

    accredit reload --config /etc/accredit/accredit.toml
    """,
    [
        CONFIG_FILE,
        JSON,
    ],
    run="accredit.ops.reload:reload_gateway",
)
