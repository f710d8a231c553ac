"""`accredit drill`: tests that your own gateway refuses what it must."""

from accredit.cli.declare import FILE, Command, option
from accredit.cli.options import CONFIG, HEADER, JSON, NAMED_SERVER, PASSPHRASE_FILE, TIMEOUT, TOKEN_ENV
from accredit.cli.standard import reads_secret

drill = Command(
    "drill",
    """Makes the calls that your running gateway must refuse, and some that it must allow. Exit code 1: one was wrong.

    All call the tool accredit.drill, which the gateway answers itself: no server is called. The issuer signs
    delegations for that tool, which expire within minutes, to keys that are never stored. The log records each call.
    All servers are tried, or the one that --server names.

    Examples:

    accredit drill --issuer owner.key --config accredit.toml

    accredit drill --issuer owner.key --config accredit.toml --token-key issuer.key --json
    """,
    [
        option(
            "--issuer",
            metavar="KEY",
            type=FILE,
            required=True,
            callback=reads_secret,
            help="The private key of one of proofs.roots.",
        ),
        CONFIG,
        option("--url", metavar="URL", help="The gateway's endpoint, if FILE has another."),
        NAMED_SERVER,
        option(
            "--token-key",
            metavar="KEY",
            type=FILE,
            callback=reads_secret,
            help="If the gateway asks for tokens: the private key of one of its issuers, which signs the drill's.",
        ),
        TOKEN_ENV,
        HEADER,
        TIMEOUT,
        PASSPHRASE_FILE,
        JSON,
    ],
    run="accredit.ops.drill:run_drill",
)
