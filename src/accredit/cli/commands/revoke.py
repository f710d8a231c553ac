"""`accredit revoke`: an issuer revokes a certificate."""

from accredit.cli.declare import FILE, Command, argument, flag, option
from accredit.cli.options import JSON, PASSPHRASE_FILE
from accredit.cli.standard import reads, reads_secret

revoke = Command(
    "revoke",
    """Adds a certificate to its issuer's signed revocation list.

    It takes effect where a gateway reads the list: in its store, or in a file that its configuration names in
    proofs.revocation.files. With --store, the first 8 characters of the id are enough if a call has used the
    certificate: it is shown, and you are asked.

    A gateway does not start if a list that it names is missing: --empty makes a first one.

    Example:

    accredit revoke 0123456789abcdef0123456789abcdef --issuer owner.key --list revoked.json

    accredit revoke 0123456789abcdef0123456789abcdef --issuer owner.key --store sqlite:///accredit.db

    accredit revoke --list revoked.json --empty --issuer owner.key
    """,
    [
        option(
            "--issuer",
            metavar="KEY",
            type=FILE,
            required=True,
            callback=reads_secret,
            help="The private key that signs the list.",
        ),
        argument(
            "cert_id",
            metavar="CERT_ID",
            help="The certificate's id, which `accredit inspect` shows.",
        ),
        option(
            "--list",
            "list_file",
            metavar="FILE",
            type=FILE,
            callback=reads,
            help="The issuer's revocation list; made if missing. -: read from stdin, written to stdout.",
        ),
        option("--store", metavar="URL", help="The gateway's store, in place of a file: sqlite:///FILE."),
        option(
            "--at",
            metavar="URL",
            help="A gateway on another machine: it ends what you signed for its clients. No list is written.",
        ),
        flag("--empty", help="Name no certificate: make a signed list without entries, if there is none."),
        flag("--yes", help="Do not ask if only the beginning of the id is given."),
        PASSPHRASE_FILE,
        JSON,
    ],
    run="accredit.signing.revoke:run_revoke",
)
