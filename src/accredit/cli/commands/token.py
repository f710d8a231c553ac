"""`accredit token keygen|issue|verify`: session tokens."""

from accredit.cli.declare import FILE, Command, Group, argument, flag, option
from accredit.cli.options import JSON, REPLACE_KEY
from accredit.cli.standard import TWO_FILES, only_file, reads, reads_secret, writes

_ISSUER = option("--issuer", metavar="NAME", default="accredit", help="Who issues it: `iss`.")
_POLICY = option(
    "--policy",
    metavar="FILE",
    type=FILE,
    callback=reads,
    help="The configuration under which it is good: accredit.toml.",
)

_keygen = Command(
    "keygen",
    """Makes a key that signs session tokens (P-256, PEM): PATH, which only you can read, and PATH.pub, for gateways.

    Example:

    accredit token keygen tokens.key
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
        REPLACE_KEY,
        JSON,
    ],
    run="accredit.signing.token_issue:make",
)

_issue = Command(
    "issue",
    """Signs a session token and prints it. With --policy it is worthless as soon as that file changes.

    Examples:

    accredit token issue --key tokens.key --agent 92cb0a15572d7a71ed72bbc8dcdfb6b6 --audience mail-gateway

    accredit token issue --key tokens.key --agent 92cb0a15572d7a71ed72bbc8dcdfb6b6 --audience mail-gateway --ttl 1h
    --allow list_inbox --allow send_email --policy accredit.toml --out session.token
    """,
    [
        option(
            "--key", metavar="K", type=FILE, required=True, callback=reads_secret, help="The private key that signs."
        ),
        option("--agent", metavar="ID", required=True, help="The agent's id, for which the token is."),
        option("--audience", metavar="A", required=True, help="The audience that the gateway expects."),
        option("--ttl", metavar="15m", default="15m", help="How long it lives: 30s, 15m, 12h, 7d."),
        option(
            "--allow", metavar="TOOL", multiple=True, help="Only this tool; may be repeated. Without it: all tools."
        ),
        option("--deny", metavar="TOOL", multiple=True, help="Not this tool; may be repeated."),
        _POLICY,
        option("--session", metavar="ID", help="The one MCP session in which it is good, by the client's id of it."),
        _ISSUER,
        option(
            "--out",
            metavar="FILE",
            type=FILE,
            callback=writes,
            help="Write it there, for you alone, and do not print it.",
        ),
        flag("--force", help="Replace FILE if it exists."),
        JSON,
    ],
    run="accredit.signing.token_issue:run_issue",
)

_verify = Command(
    "verify",
    """Verifies a token as a gateway would, and describes it: exit code 0 if it is valid, else 1.

    Examples:

    accredit token verify session.token --key tokens.key.pub --audience mail-gateway --policy accredit.toml

    accredit token verify --key jwks.json --issuer https://issuer.example --audience mail-gateway --tool send_email
    """,
    [
        option(
            "--key",
            metavar="PUB",
            type=FILE,
            required=True,
            callback=reads,
            help="The issuer's public key (PEM), or its JWK set.",
        ),
        option("--audience", metavar="A", required=True, help="The audience that it must have."),
        argument(
            "file",
            metavar="FILE",
            type=FILE,
            callback=reads,
            help="Holds the token (- for stdin); else it is in $ACCREDIT_TOKEN.",
        ),
        _ISSUER,
        _POLICY,
        option("--session", metavar="ID", help="The MCP session in which it has to be good."),
        option("--tool", metavar="TOOL", help="A tool that it must allow."),
        JSON,
    ],
    run="accredit.signing.token_verify:run_verify",
)

token = Group(
    "token",
    "Issues and verifies session tokens.",
    [_keygen, _issue, _verify],
    example="accredit token keygen tokens.key",
)
