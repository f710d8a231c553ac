"""`accredit grant`: a principal signs what an agent may do."""

from accredit.cli.declare import FILE, Command, flag, option
from accredit.cli.options import HEADER, JSON, PASSPHRASE_FILE, SERVER, TIMEOUT, TOKEN_ENV
from accredit.cli.standard import reads, reads_secret, writes

_MAX_AMOUNT = option("--max-amount", metavar="500USD", multiple=True, help="At most this much money in one call.")
_BETWEEN = option(
    "--between", metavar="09:00-17:00@ZONE", multiple=True, help="Only in this window of the day, on ZONE's clocks."
)
_RESOURCE = option(
    "--resource", metavar="ID[:/PREFIX]", multiple=True, help="Only this resource, or only what is below a path."
)
_RATE = option("--rate", metavar="10/1h", multiple=True, help="At most so many calls.")
_CONSTRAINT = option("--constraint", metavar="JSON", multiple=True, help="Any constraint, as on the wire.")
_ISSUER = option(
    "--issuer", metavar="KEY", type=FILE, required=True, callback=reads_secret, help="The private key that signs."
)
_AGENT = option(
    "--agent", metavar="AGENT.pub", type=FILE, required=True, callback=reads, help="The agent's public key."
)
_OUT = option(
    "--out",
    metavar="FILE",
    type=FILE,
    required=True,
    callback=writes,
    help="Where the delegation is written; - for stdout.",
)
_SCOPE = option("--scope", metavar="S", multiple=True, help="What the agent may do; may be repeated.")
_TOOL = option(
    "--tool", metavar="NAME", multiple=True, help="Allow this tool: its scope is looked up; may be repeated."
)
_ALL_READ_ONLY = flag("--all-read-only", help="The scopes of all tools that say that they only read.")
_CONFIG = option(
    "--config", metavar="FILE", type=FILE, callback=reads, help="The gateway's configuration: scopes are looked up."
)
_URL = option("--url", metavar="URL", help="The gateway: scopes are looked up in what it lists.")
_EXPIRES = option(
    "--expires", metavar="7d", default="7d", help="How long it holds: 30s, 15m, 12h, 7d, or until-revoked."
)
_PARENT = option(
    "--parent",
    metavar="FILE",
    type=FILE,
    callback=reads,
    help="The issuer's own delegation: the new one passes on a part.",
)
_FORCE = flag("--force", help="Replace FILE if it exists; sign scopes that no catalog knows.")
_YES = flag("--yes", help="Sign sensitive scopes without asking.")

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
        _ISSUER,
        _AGENT,
        _OUT,
        _SCOPE,
        _TOOL,
        _ALL_READ_ONLY,
        _CONFIG,
        _URL,
        SERVER,
        HEADER,
        TOKEN_ENV,
        TIMEOUT,
        _MAX_AMOUNT,
        _BETWEEN,
        _RESOURCE,
        _RATE,
        _CONSTRAINT,
        _EXPIRES,
        _PARENT,
        _FORCE,
        _YES,
        PASSPHRASE_FILE,
        JSON,
    ],
    run="accredit.signing.grant:run_grant",
)
