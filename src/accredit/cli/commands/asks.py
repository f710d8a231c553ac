"""`accredit asked`, `approve` and `deny`: answer agents' asks in a terminal."""

from accredit.cli.declare import Command, argument, flag
from accredit.cli.options import AT, GATEWAY_ID, JSON, PASSPHRASE_FILE

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
    [
        JSON,
    ],
    run="accredit.cli.actions.asks:list_asks",
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
        PASSPHRASE_FILE,
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
    [
        _CODE,
        JSON,
    ],
    run="accredit.cli.actions.asks:deny_ask",
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
        PASSPHRASE_FILE,
        JSON,
    ],
    run="accredit.cli.actions.connect_app:run_connect_app",
)
