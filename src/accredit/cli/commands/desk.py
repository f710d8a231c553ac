"""The commands of the desk, which holds the person's key."""

from click import IntRange

from accredit.cli.declare import Command, Group, argument, flag, option
from accredit.cli.options import ASK_PASSPHRASE, AT, CONFIG, GATEWAY_ID, JSON, PASSPHRASE_FILE

_open = Command(
    "open",
    """Opens the running desk's page in the browser; else its link appears in the desk's terminal.

    With an ask's code, it opens the page of that ask.

    Examples:

    accredit desk open

    accredit desk open 7KQ4-M2
    """,
    [argument("code", metavar="CODE", required=False, help="The ask to open, such as 7KQ4-M2."), JSON],
    run="accredit.cli.actions.desk:open_desk",
)

_unlock = Command(
    "unlock",
    """Unlocks the running desk's key for a while; asks for its passphrase here.

    Example:

    accredit desk unlock
    """,
    [PASSPHRASE_FILE, JSON],
    run="accredit.cli.actions.desk:unlock_desk",
)

_lock = Command(
    "lock",
    """Makes the running desk forget the unlocked key and the passphrase.

    Example:

    accredit desk lock
    """,
    [JSON],
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

_CODE = argument(
    "code",
    metavar="CODE",
    required=True,
    help="The code of the ask, such as 7KQ4-M2.",
    remedy="`accredit asked` lists what agents ask you for, each with its code",
)

asked = Command(
    "asked",
    """Lists what agents ask you for, oldest first.

    Example:

    accredit asked
    """,
    [JSON],
    run="accredit.cli.actions.approve:list_asks",
)

approve = Command(
    "approve",
    """Shows what an agent asks you for, and signs it if you say so. Needs a terminal.

    It shows what the desk's page shows. The key is unlocked in this process, so it always asks for the passphrase; the
    desk only passes the certificate on.

    Example:

    accredit approve 7KQ4-M2
    """,
    [
        _CODE,
        flag("--once", help="Allow only this call: no menu."),
        flag("--like", help="Allow calls like it, as the page proposes: no menu."),
        ASK_PASSPHRASE,
        JSON,
    ],
    run="accredit.cli.actions.approve:run_approve",
)

deny = Command(
    "deny",
    """Says no to what an agent asks you for; the same call is denied for an hour.

    Example:

    accredit deny 7KQ4-M2
    """,
    [_CODE, JSON],
    run="accredit.cli.actions.approve:deny_ask",
)

connect_app = Command(
    "connect-app",
    """Lets an app that can only log in act for you, by the code that its page shows. Needs a terminal.

    The code is on the page of the gateway to which the app has sent your browser. The command shows the app, where your
    browser goes next, and the tools that it may call, and signs if you say so. Then type the six digits into that page.
    Never take a code from anybody else: whoever has begun with it would act for you.

    Example:

    accredit connect-app 7KQ4-M2 --at https://mcp.example.com
    """,
    [
        argument(
            "code",
            metavar="CODE",
            required=True,
            help="The code on the page, such as 7KQ4-M2.",
            remedy="the page to which the app has sent your browser shows it",
        ),
        AT,
        GATEWAY_ID,
        ASK_PASSPHRASE,
        JSON,
    ],
    run="accredit.cli.actions.connect_app:run_connect_app",
)

_list = Command(
    "list",
    """Lists the certificates that you have signed at the desk, newest first. The desk need not run.

    Example:

    accredit grants list
    """,
    [JSON],
    run="accredit.signing.grants:list_grants",
)

_show = Command(
    "show",
    """Shows one certificate that you have signed at the desk.

    Example:

    accredit grants show 3f9d959c
    """,
    [argument("cert_id", metavar="ID", required=True, help="The certificate's id, or its beginning."), JSON],
    run="accredit.signing.grants:show_grant",
)

_set = Command(
    "set",
    """Gives a key or a gateway a name of your own, which the desk then shows.

    Example:

    accredit names set 9f0c2d11 mail
    """,
    [
        argument("holder_id", metavar="ID", required=True, help="The id of a key or of a gateway."),
        argument("name", metavar="NAME", required=True, help="What you call it; an empty one takes the name away."),
        JSON,
    ],
    run="accredit.signing.grants:name_holder",
)

grants = Group("grants", "Shows what you have allowed at the desk.", [_list, _show], example="accredit grants list")

names = Group(
    "names", "Gives agents and gateways names of your own.", [_set], example="accredit names set b4a4c717 Assistant"
)
