"""`accredit keys new|show|rotate`: key files."""

from click import Choice

from accredit.cli.declare import FILE, Command, Group, argument, flag, option
from accredit.cli.options import JSON, PASSPHRASE_FILE, REPLACE_KEY
from accredit.cli.standard import TWO_FILES, only_file, reads, reads_secret

_new = Command(
    "new",
    """Makes a key: PATH, the secret half, which only you can read, and PATH.pub, which is for everybody.

    A human's key is encrypted with a passphrase, typed in the terminal or read from --passphrase-file. Without both it
    is not encrypted, and a warning says so.

    Example:

    accredit keys new owner.key --kind human --name Owner
    """,
    [
        argument(
            "path",
            metavar="PATH",
            type=FILE,
            required=True,
            callback=only_file(TWO_FILES),
            help="The private key; the public one is PATH.pub.",
        ),
        option("--kind", type=Choice(("human", "agent", "gateway")), required=True, help="Whose key it is."),
        option("--name", metavar="N", help="A name for people to read; else PATH's own."),
        option(
            "--passphrase-file",
            metavar="F",
            type=FILE,
            callback=reads_secret,
            help="Encrypt a human's key with the passphrase in F; - for stdin.",
        ),
        flag("--no-passphrase", help="Do not encrypt a human's key."),
        REPLACE_KEY,
        JSON,
    ],
    run="accredit.signing.keys:run_new",
)

_show = Command(
    "show",
    """Shows whose key it is, and its id; never its secret.

    Examples:

    accredit keys show owner.key.pub

    accredit keys show owner.key --public > owner.key.pub
    """,
    [
        argument("path", metavar="PATH", type=FILE, required=True, callback=reads, help="A private or a public key."),
        flag("--public", help="Print the public half, as its file has it."),
        JSON,
    ],
    run="accredit.signing.keys:show_file",
)

_rotate = Command(
    "rotate",
    """Makes the statement that a new key of yours replaces the old one, signed with both.

    Every delegation of the old key ends where the statement counts: at gateways that ask a registry which publishes it.
    Elsewhere, put the new key in place of the old one in proofs.roots. Those that the desk's journal here knows are
    named: sign them again with the new key.

    Example:

    accredit keys rotate owner.key --to new-owner.key --out rotation.json
    """,
    [
        argument(
            "old", metavar="OLD", type=FILE, required=True, callback=reads_secret, help="The private key that ends."
        ),
        option(
            "--to",
            metavar="NEW",
            type=FILE,
            required=True,
            callback=reads_secret,
            help="The private key that replaces it.",
        ),
        option(
            "--out",
            metavar="STATEMENT",
            type=FILE,
            required=True,
            callback=only_file("it is kept, and published"),
            help="The file to write.",
        ),
        option(
            "--reason",
            type=Choice(("routine", "compromise_suspected", "device_lost", "recovery", "other")),
            default="routine",
            help="Why.",
        ),
        PASSPHRASE_FILE,
        JSON,
    ],
    run="accredit.signing.rotate:run_rotate",
)

keys = Group(
    "keys",
    "Makes, shows and rotates keys.",
    [_new, _show, _rotate],
    example="accredit keys new owner.key --kind human --name Owner",
)
