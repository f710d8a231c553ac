"""The commands about recorded calls."""

from click import Choice, IntRange

from accredit.cli.declare import Command, Group, OptionGroup, argument, flag, option
from accredit.cli.options import CONFIG, JSON, JSON_ANYWAY, KEYS, SINCE, server_names
from accredit.cli.standard import READ, READ_SECRET, WRITE, OnlyFile

suggest = Command(
    "suggest",
    """Prints the tables and grants that would have allowed the recorded calls, and what stays refused.

    Tables are TOML for the configuration. Grants are commands for the signer, with the key files of this machine;
    sensitive tools have a grant of their own. Each says which calls it would have allowed. What nobody used is left out
    (`accredit check --fix` writes the tables of all tools), and so are calls that nobody signed or that were refused.
    Only records that verify with the named keys, or the configuration's, count. Read it before you apply it: it shows
    what agents did, not what they should do.

    Examples:

    accredit suggest --since 7d

    accredit suggest --config accredit.toml --json
    """,
    [SINCE, CONFIG, KEYS, JSON],
    run="accredit.ops.suggest:run_suggest",
)

replay = Command(
    "replay",
    """Decides recorded calls with another configuration. The exit code is 1 if it decides any differently.

    If the log lacks what a decision needs, the call is counted as undecided, with the reason: arguments, for example,
    are only digests unless recorded in full. Revocations, uses and the ages of challenges are ignored. Records that do
    not verify with the named keys, or the configuration's, are left out.

    Examples:

    accredit replay --config new.toml --since 7d

    accredit replay --config new.toml --json
    """,
    [
        option(
            "--config",
            metavar="NEW.toml",
            required=True,
            type=OnlyFile("files beside the configuration are read as well"),
            help="The configuration that decides; its store has the log.",
        ),
        SINCE,
        KEYS,
        JSON,
    ],
    run="accredit.ops.replay:run_replay",
)

_STORE = option(
    "--store",
    metavar="URL",
    help="The log: sqlite:///FILE, or postgresql://USER@HOST/DATABASE; else the configuration's.",
)
_SOURCE = OptionGroup("source", "accredit.ops.log_place:LogSource", (_STORE, CONFIG))
_KNOWN = option(
    "--known", metavar="PUB", multiple=True, type=READ, help="A public key; its name is shown with its id. Repeatable."
)
_OUT = option("--out", type=WRITE, help="Write to a new file, not to stdout (-).")
_ROOT = option(
    "--root",
    metavar="PUB",
    multiple=True,
    type=READ,
    help="The public key of a person who may allow calls; repeatable.",
)

ENDINGS = (
    "ok",
    "tool_error",
    "error",
    "input_required",
    "task",
    "upstream_invalid",
    "timeout",
    "cancelled",
    "unknown",
    "open",
)
_TIME = "2026-08-01T12:00:00Z, or 7d (seven days ago)"

_FILTER = OptionGroup(
    "wanted",
    "accredit.ops.log_list:read_filter",
    (
        option("--tool", "target", metavar="NAME", help="Calls of this target."),
        option("--server", metavar="NAME", shell_complete=server_names, help="Calls of this server of [servers]."),
        option("--principal", "principal_id", metavar="ID", help="Calls of this principal: the id, or its beginning."),
        option("--agent", "agent_id", metavar="ID", help="Calls of this agent: the id, or its beginning."),
        option("--decision", "verdict", type=Choice(("allow", "deny", "challenge")), help="Calls with this decision."),
        option("--outcome", metavar="STATUS", type=Choice(ENDINGS), help="Calls with this status; or open."),
        option("--after", metavar="TIME", help=f"Since then: {_TIME}."),
        option("--before", metavar="TIME", help="Until then."),
    ),
)

_list = Command(
    "list",
    """Lists calls, newest first; with -f newest last, and then each call as it ends.

    Decisions: allow, deny; challenge if the client was first asked for a proof over a challenge. In observe mode, a
    call that passed although it would be refused says so: passed (would be: deny unknown_tool). Statuses: ok,
    tool_error, error, input_required, task, upstream_invalid, timeout, cancelled, unknown; open for a call without an
    outcome.

    Records are verified with the named keys, or the configuration's: a call is BAD if one of its records does not
    verify. With --store and no --key nothing is verified. The person who allowed a call is named if their key is one of
    the roots, and else shown by the key's id. On a terminal ids are cut short; every command takes the beginning of an
    id. With --json, each call is a JSON object on a line.

    Examples:

    accredit log list --tool send_email --decision deny

    accredit log list --server mail

    accredit log list -f --json
    """,
    [
        argument(
            "file", metavar="FILE", type=READ, help="A call that `log export --bundle` wrote, in place of a store."
        ),
        _SOURCE,
        _FILTER,
        option("--limit", "-n", metavar="N", type=IntRange(1), default=50, help="At most so many."),
        flag("--follow", "-f", help="Also show each new call; Ctrl-C ends it."),
        KEYS,
        _KNOWN,
        _ROOT,
        JSON,
    ],
    run="accredit.ops.log_list:run_list",
)

_show = Command(
    "show",
    """Shows all records of a call, and whether their signatures are good (exit code 1 if one is not).

    It says who allowed the call, by the stored certificates and the roots. Records are verified with the named keys,
    or the configuration's; with --store and no --key they are not.

    Example:

    accredit log show 0123456789ab --key gateway.key.pub
    """,
    [
        argument(
            "call_id",
            metavar="CALL_ID",
            required=True,
            help="The call's id, or its beginning; see `accredit log list`.",
        ),
        _SOURCE,
        KEYS,
        _KNOWN,
        _ROOT,
        JSON,
    ],
    run="accredit.ops.log_show:run_show",
)

_verify = Command(
    "verify",
    """Verifies signatures, sequence, chain and checkpoints: exit code 0 if all hold, 1 with the first bad record.

    For each allowed call it checks the stored evidence: that a person allowed it, by the certificates, and that the
    agent signed it, by the proof; for a single call (`log export --call ID --bundle`) it prints them. With --root,
    that person's key must be yours; with --require-proofs, no call is accepted on the gateway's word.

    Only a checkpoint that was kept elsewhere reveals that records are missing at the end. Without --key,
    these keys are trusted: the configuration's attest.key_file (else gateway.key beside it), and attest.signer's. With
    --store, ./accredit.toml is not read.

    Examples:

    accredit log verify --key gateway.key.pub --since yesterday.checkpoint

    accredit log verify export.jsonl --key gateway.key.pub

    accredit log verify call.json --key gateway.key.pub --root owner.key.pub
    """,
    [
        argument("file", metavar="FILE", type=READ, help="What `log export` wrote, in place of a store; - for stdin."),
        _SOURCE,
        KEYS,
        option(
            "--since",
            metavar="CHECKPOINT",
            multiple=True,
            type=READ,
            help="What `log checkpoint` wrote, or a gateway's own log; repeatable.",
        ),
        _ROOT,
        flag("--require-proofs", help="An allowed call without a proof that verifies is bad (exit code 1)."),
        flag("--no-proofs", help="Leave out who allowed calls and who signed them: it takes less time."),
        option("--target", metavar="TARGET", help="What a request to an HTTP API asked for: its path and query."),
        _KNOWN,
        JSON,
    ],
    run="accredit.ops.log_verify:run_verify",
)

_export = Command(
    "export",
    """Writes the log as DSSE envelopes, one a line; or everything about one call as one object.

    Examples:

    accredit log export --out calls.jsonl

    accredit log export --call 0123456789abcdef0123456789abcdef --bundle --out call.json
    """,
    [
        _SOURCE,
        _OUT,
        option("--call", metavar="ID", help="Only this call's: the id, or its beginning."),
        flag("--bundle", help="With --call: one object, with certificates and checkpoint."),
        flag(
            "--wait", help="With --bundle: wait until the agent's signature can be in it: a minute at most, as a rule."
        ),
        JSON_ANYWAY,
    ],
    run="accredit.ops.log_export:run_export",
)

_follow = Command(
    "follow",
    """Sends the log to a sink: all existing records, then new ones, until SIGTERM or Ctrl-C.

    Delivers each entry at least once, in order within a chain; a restart resumes at the sink's position. A failed
    delivery is retried; calls never wait for it. jsonl lines are those of `log export`; otlp needs
    accredit[telemetry], and /v1/logs is appended to the URL.

    Examples:

    accredit log follow --sink siem --format jsonl --to /var/log/accredit/calls.jsonl

    accredit log follow --sink otel --format otlp --to http://127.0.0.1:4318
    """,
    [
        option(
            "--sink", metavar="NAME", required=True, help="The sink's name, under which the store keeps its position."
        ),
        option(
            "--format",
            "form",
            type=Choice(("jsonl", "otlp")),
            required=True,
            help="One envelope a line, or OTLP log records.",
        ),
        option(
            "--to",
            metavar="FILE|URL",
            help="A file to append to, else stdout; for otlp a collector's URL, else telemetry.endpoint.",
        ),
        _SOURCE,
        JSON_ANYWAY,
    ],
    run="accredit.ops.log_follow:run_follow",
)

_checkpoint = Command(
    "checkpoint",
    """Writes each writer's latest checkpoint, one a line. Keep it out of reach of all who can change the log.

    Example:

    accredit log checkpoint --out yesterday.checkpoint
    """,
    [_SOURCE, _OUT, JSON_ANYWAY],
    run="accredit.ops.log_export:run_checkpoint",
)

_prune = Command(
    "prune",
    """Replaces old records by their digests and a signed note: the log still verifies, but their content is gone.

    Exit code 1 if the content is still in the file's write-ahead log, because somebody is reading it: prune again
    later.

    Example:

    accredit log prune --before 90d --key gateway.key
    """,
    [
        option("--before", metavar="DATE", required=True, help=f"What was recorded before: {_TIME}."),
        option(
            "--key",
            metavar="KEY",
            required=True,
            type=READ_SECRET,
            help="The gateway's private key, which signs the note.",
        ),
        _SOURCE,
        JSON,
    ],
    run="accredit.ops.log_prune:run_prune",
)

log = Group(
    "log",
    "Shows, verifies and keeps the log of calls.",
    [_list, _show, _verify, _export, _follow, _checkpoint, _prune],
    example="accredit log list -f",
)
