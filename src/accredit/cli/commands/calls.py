"""The commands about single calls, and who allows them."""

from accredit.cli.declare import Command, OptionGroup, argument, flag, option
from accredit.cli.options import AGENT_KEY, ASK_PASSPHRASE, DELEGATIONS, GATEWAY_ID, JSON, REACH, SERVER
from accredit.cli.standard import READ, READ_SECRET, WRITE

call = Command(
    "call",
    """Calls a tool and prints its result. Exit code 1: the call was refused, or the tool reports an error.

    An argument is a text, a number, true or false, or JSON, as the tool's input schema says. Repeating a name makes a
    list. With --json the whole result is printed, including structured content.

    With --config, this process is the configuration's own gateway for the call: the same proofs, limits and records as
    with `accredit serve` and `accredit wrap`. If the server is a command, it is started for this one call.

    Examples:

    accredit call send_email --arg to=ada@example.org --arg subject=Hello --url http://127.0.0.1:8484/mcp --key
    agent.key --delegation delegation.json

    accredit call search --arg word=number --config accredit.toml --server mail --key agent.key --delegation
    delegation.json
    """,
    [
        argument("tool", metavar="TOOL", required=True, help="The tool's name."),
        option(
            "--arg", metavar="NAME=VALUE", multiple=True, help="An argument, typed as the tool says; may be repeated."
        ),
        option("--json-args", type=READ, help="Arguments as a JSON object; - for stdin."),
        option("--url", metavar="URL", help="The gateway's or server's endpoint."),
        option("--config", type=READ, help="A configuration, in place of a URL: this process is its gateway."),
        SERVER,
        AGENT_KEY,
        DELEGATIONS,
        GATEWAY_ID,
        REACH,
        JSON,
    ],
    run="accredit.cli.actions.call:call_tool",
    into="CallOptions",
)

_WANTED = OptionGroup(
    "wanted",
    "accredit.signing.grant_lookup:ScopeSelection",
    (
        option("--scope", metavar="S", multiple=True, help="What the agent may do; may be repeated."),
        option(
            "--tool", metavar="NAME", multiple=True, help="Allow this tool: its scope is looked up; may be repeated."
        ),
        flag("--all-read-only", help="The scopes of all tools that say that they only read."),
        option("--config", type=READ, help="The gateway's configuration: scopes are looked up."),
        option("--url", metavar="URL", help="The gateway: scopes are looked up in what it lists."),
        SERVER,
        REACH,
    ),
)
_CONSTRAINTS = OptionGroup(
    "constraints",
    "accredit.signing.grant:read_constraints",
    (
        option("--max-amount", metavar="500USD", multiple=True, help="At most this much money in one call."),
        option(
            "--between",
            metavar="09:00-17:00@ZONE",
            multiple=True,
            help="Only in this window of the day, on ZONE's clocks.",
        ),
        option(
            "--resource",
            metavar="ID[:/PREFIX]",
            multiple=True,
            help="Only this resource, or only what is below a path.",
        ),
        option("--rate", metavar="10/1h", multiple=True, help="At most so many calls."),
        option("--constraint", metavar="JSON", multiple=True, help="Any constraint, as on the wire."),
    ),
)

grant = Command(
    "grant",
    """Signs a delegation: what an agent may do, under which conditions, and until when.

    With --config or --url, it looks up the scope of each --tool (SERVER__TOOL if there are several servers), and
    refuses a --scope that nothing there needs. All constraints must hold. With identity:delegate, an agent can pass on
    a part (--parent).

    Examples:

    accredit grant --issuer owner.key --agent agent.key.pub --scope email:send --expires 7d --out delegation.json

    accredit grant --issuer owner.key --agent agent.key.pub --all-read-only --tool send_email --config accredit.toml
    --out delegation.json

    accredit grant --issuer agent.key --agent sub.key.pub --parent delegation.json --scope email:send --out sub.json
    --rate 10/1h --between 09:00-17:00@Europe/Berlin
    """,
    [
        option("--issuer", metavar="KEY", required=True, type=READ_SECRET, help="The private key that signs."),
        option("--agent", metavar="AGENT.pub", required=True, type=READ, help="The agent's public key."),
        option("--out", required=True, type=WRITE, help="Where the delegation is written; - for stdout."),
        _WANTED,
        _CONSTRAINTS,
        option("--expires", metavar="7d", default="7d", help="How long it holds: 30s, 15m, 12h, 7d, or until-revoked."),
        option("--parent", type=READ, help="The issuer's own delegation: the new one passes on a part."),
        flag("--force", help="Replace FILE if it exists; sign scopes that no catalog knows."),
        flag("--yes", help="Sign sensitive scopes without asking."),
        ASK_PASSPHRASE,
        JSON,
    ],
    run="accredit.signing.grant:run_grant",
    into="GrantOptions",
)

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
            required=True,
            type=READ,
            help="A delegation, proof, token, revocation list, attestation or key.",
        ),
        option(
            "--key",
            metavar="PUB",
            multiple=True,
            type=READ,
            help="A public key; repeatable. Shows its name with its id, and verifies what it signed. A person's key"
            " says who allowed a call.",
        ),
        JSON,
    ],
    run="accredit.ops.inspect:inspect_file",
)

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
        option("--issuer", metavar="KEY", required=True, type=READ_SECRET, help="The private key that signs the list."),
        argument("cert_id", metavar="CERT_ID", help="The certificate's id, which `accredit inspect` shows."),
        option(
            "--list",
            "list_file",
            type=READ,
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
        ASK_PASSPHRASE,
        JSON,
    ],
    run="accredit.signing.revoke:run_revoke",
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
            "bundle", metavar="BUNDLE", required=True, type=READ, help="A proof: a ProofBundle as JSON; - for stdin."
        ),
        option(
            "--root",
            metavar="PUB",
            multiple=True,
            required=True,
            type=READ,
            help="The public key of a trusted human; may be repeated.",
        ),
        option("--scope", metavar="S", default="", help="What the proof has to allow."),
        option(
            "--fact", metavar="NAME=VALUE", multiple=True, help="A fact of the call for constraints; may be repeated."
        ),
        option("--params", type=READ, help="The call's params as JSON, for dev.accredit.call."),
        option("--method", metavar="M", default="", help="The call's method; by default what its params look like."),
        option("--gateway-id", metavar="ID", default="", help="The id of the gateway at which the call was made."),
        option("--session-context", metavar="BASE64", default="", help="The 32 bytes to which a bound proof is bound."),
        option(
            "--revoked", metavar="LIST", multiple=True, type=READ, help="A signed revocation list; may be repeated."
        ),
        option("--now", metavar="TIME", help="Judge as of this time (RFC 3339 or unix seconds)."),
        JSON,
    ],
    run="accredit.signing.verify:run_verify",
)
