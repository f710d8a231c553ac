"""`accredit inspect`: describes a file."""

from accredit.cli.declare import FILE, Command, argument, option
from accredit.cli.options import JSON
from accredit.cli.standard import reads

inspect = Command(
    "inspect",
    """Describes what a file holds, and verifies its signatures (exit code 1 if one is bad).

    Use `accredit verify` to check that the root is trusted, and that nothing was revoked.

    Examples:

    accredit inspect delegation.json

    accredit inspect revoked.json --key owner.key.pub

    accredit inspect call.json --key gateway.key.pub --key owner.key.pub

    accredit inspect token.jwt --key token.pem.pub
    """,
    [
        argument(
            "file",
            metavar="FILE",
            type=FILE,
            required=True,
            callback=reads,
            help="A delegation, proof, token, revocation list, attestation or key.",
        ),
        option(
            "--key",
            metavar="PUB",
            type=FILE,
            multiple=True,
            callback=reads,
            help="A public key; repeatable. Shows its name with its id, and verifies what it signed. A person's key"
            " says who allowed a call.",
        ),
        JSON,
    ],
    run="accredit.ops.inspect:inspect_file",
)
