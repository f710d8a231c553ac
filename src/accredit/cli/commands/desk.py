"""`accredit desk`: the process that holds the person's key; and `accredit desk open|unlock|lock`."""

from click import IntRange

from accredit.cli.declare import Command, Group, argument, flag, option
from accredit.cli.options import AT, CONFIG, JSON, PASSPHRASE_FILE

_CODE = argument("code", metavar="CODE", required=False, help="The ask to open, such as 7KQ4-M2.")

_open = Command(
    "open",
    """Opens the running desk's page in the browser; else its link appears in the desk's terminal.

    With an ask's code, it opens the page of that ask.

    Examples:

    accredit desk open

    accredit desk open 7KQ4-M2
    """,
    [
        _CODE,
        JSON,
    ],
    run="accredit.cli.actions.desk:open_desk",
)

_unlock = Command(
    "unlock",
    """Unlocks the running desk's key for a while; asks for its passphrase here.

    Example:

    accredit desk unlock
    """,
    [
        PASSPHRASE_FILE,
        JSON,
    ],
    run="accredit.cli.actions.desk:unlock_desk",
)

_lock = Command(
    "lock",
    """Makes the running desk forget the unlocked key and the passphrase.

    Example:

    accredit desk lock
    """,
    [
        JSON,
    ],
    run="accredit.cli.actions.desk:lock_desk",
)

desk = Group(
    "desk",
    """Holds your key, shows what agents ask you for, and signs what you allow.

    It prints a link to its page on 127.0.0.1, which works once, within a minute. Your key stays in this process; it
    asks for the passphrase in this terminal, or by pinentry. With --passphrase-file it unlocks the key without asking,
    until `accredit desk lock`. It also shows the calls of your gateways on this machine, and can take back what
    you allowed there. These are the gateway of --config, those that `accredit up` has made, and one that runs with
    ./accredit.toml.

    Examples:

    accredit desk

    accredit desk --config accredit.toml

    accredit desk --port 8700 --no-browser

    accredit desk --at https://mcp.example.com

    accredit desk --read-only --config accredit.toml
    """,
    [_open, _unlock, _lock],
    params=[
        option(
            "--port",
            metavar="P",
            type=IntRange(0, 65_535),
            default=8686,
            help="The page's port, or the next free one; 0 picks any.",
        ),
        flag("--no-browser", help="Open no browser, only print the link."),
        PASSPHRASE_FILE,
        flag("--read-only", help="Only show a gateway's log, of --store or --config: no key, no asks."),
        option("--store", metavar="URL", help="The log to show, with --read-only."),
        CONFIG,
        AT,
    ],
    run="accredit.cli.actions.desk:run_desk",
)
