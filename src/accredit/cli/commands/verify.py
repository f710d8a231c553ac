"""`accredit verify`: judges a proof offline, step by step."""

from accredit.cli.declare import FILE, Command, argument, option
from accredit.cli.options import JSON
from accredit.cli.standard import reads

_ROOTS = option(
    "--root",
    metavar="PUB",
    type=FILE,
    multiple=True,
    required=True,
    callback=reads,
    help="The public key of a trusted human; may be repeated.",
)
_PARAMS = option(
    "--params", metavar="FILE", type=FILE, callback=reads, help="The call's params as JSON, for dev.accredit.call."
)
_REVOKED = option(
    "--revoked",
    metavar="LIST",
    type=FILE,
    multiple=True,
    callback=reads,
    help="A signed revocation list; may be repeated.",
)

verify = Command(
    "verify",
    """Takes each step of the verification and says where it failed: exit code 0 if all hold, 1 if one does not.

    Only the call's gateway knows whether a challenge was spent. Facts: amount, currency, resource_id, requested_path,
    lat, lon, alt_m, speed_mps. A constraint on certain calls (dev.accredit.call) is compared with --params and
    --gateway-id.

    Examples:

    accredit verify bundle.json --root owner.key.pub --revoked revoked.json --now 2026-08-01T12:00:00Z

    accredit verify bundle.json --root owner.key.pub --params params.json --gateway-id mail
    """,
    [
        argument(
            "bundle",
            metavar="BUNDLE",
            type=FILE,
            required=True,
            callback=reads,
            help="A proof: a ProofBundle as JSON; - for stdin.",
        ),
        _ROOTS,
        option("--scope", metavar="S", default="", help="What the proof has to allow."),
        option(
            "--fact", metavar="NAME=VALUE", multiple=True, help="A fact of the call for constraints; may be repeated."
        ),
        _PARAMS,
        option("--method", metavar="M", default="", help="The call's method; by default what its params look like."),
        option("--gateway-id", metavar="ID", default="", help="The id of the gateway at which the call was made."),
        option("--session-context", metavar="BASE64", default="", help="The 32 bytes to which a bound proof is bound."),
        _REVOKED,
        option("--now", metavar="TIME", help="Judge as of this time (RFC 3339 or unix seconds)."),
        JSON,
    ],
    run="accredit.signing.verify:run_verify",
)
