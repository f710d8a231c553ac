"""The commands that make keys and tokens."""

from click import Choice

from accredit.cli.declare import Command, Group, argument, flag, option
from accredit.cli.options import ASK_PASSPHRASE, JSON, REPLACE_KEY
from accredit.cli.standard import READ, READ_SECRET, TWO_FILES, WRITE, OnlyFile

_new = Command(
    "new",
    """Makes a key: PATH, the secret half, which only you can read, and PATH.pub, which is for everybody.

    A human's key is encrypted with a passphrase, typed in the terminal or read from --passphrase-file. Without a
    terminal, one of --passphrase-file and --no-passphrase is needed.

    Example:

    accredit keys new owner.key --kind human --name Owner
    """,
    [
        argument(
            "path",
            metavar="PATH",
            required=True,
            type=OnlyFile(TWO_FILES),
            help="The private key; the public one is PATH.pub.",
        ),
        option("--kind", type=Choice(("human", "agent", "gateway")), required=True, help="Whose key it is."),
        option("--name", metavar="N", help="A name for people to read; else PATH's own."),
        option(
            "--passphrase-file",
            metavar="F",
            type=READ_SECRET,
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
        argument("path", metavar="PATH", required=True, type=READ, help="A private or a public key."),
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
        argument("old", metavar="OLD", required=True, type=READ_SECRET, help="The private key that ends."),
        option("--to", metavar="NEW", required=True, type=READ_SECRET, help="The private key that replaces it."),
        option(
            "--out",
            metavar="STATEMENT",
            required=True,
            type=WRITE,
            help="Where the statement is written; - for stdout.",
        ),
        option(
            "--reason",
            type=Choice(("routine", "compromise_suspected", "device_lost", "recovery", "other")),
            default="routine",
            help="Why.",
        ),
        ASK_PASSPHRASE,
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

_ISSUER = option("--issuer", metavar="NAME", default="accredit", help="Who issues it: `iss`.")
_POLICY = option("--policy", type=READ, help="The configuration under which it is good: accredit.toml.")

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
            required=True,
            type=OnlyFile(TWO_FILES),
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
        option("--key", metavar="K", required=True, type=READ_SECRET, help="The private key that signs."),
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
        option("--out", type=WRITE, help="Write it there, for you alone, and do not print it."),
        flag("--force", help="Replace FILE if it exists."),
        JSON,
    ],
    run="accredit.signing.token_issue:issue_token",
)

_verify = Command(
    "verify",
    """Verifies a token as a gateway would, and describes it: exit code 0 if it is valid, else 1.

    Examples:

    accredit token verify session.token --key tokens.key.pub --audience mail-gateway --policy accredit.toml

    accredit token verify --key jwks.json --issuer https://issuer.example --audience mail-gateway --tool send_email
    """,
    [
        option("--key", metavar="PUB", required=True, type=READ, help="The issuer's public key (PEM), or its JWK set."),
        option("--audience", metavar="A", required=True, help="The audience that it must have."),
        argument(
            "file", metavar="FILE", type=READ, help="Holds the token (- for stdin); else it is in $ACCREDIT_TOKEN."
        ),
        _ISSUER,
        _POLICY,
        option("--session", metavar="ID", help="The MCP session in which it has to be good."),
        option("--tool", metavar="TOOL", help="A tool that it must allow."),
        JSON,
    ],
    run="accredit.signing.token_verify:verify_token",
)

token = Group(
    "token",
    "Issues and verifies session tokens.",
    [_keygen, _issue, _verify],
    example="accredit token keygen tokens.key",
)
