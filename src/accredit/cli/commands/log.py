"""`accredit log list|show|verify|export|follow|checkpoint|prune`: the log of attestations."""

# ruff: noqa: PLC0415 - what verifies is loaded when it runs: `accredit --help` is quick without it

import re
from pathlib import Path
from typing import Annotated, Literal

import typer

from accredit.cli.candidates import server_names
from accredit.cli.options import ConfigOption, JsonAnywayOption, JsonOption, KeysOption
from accredit.cli.standard import reads, reads_secret, writes

log_app = typer.Typer(help="Shows, verifies and keeps the log of calls.", epilog="Example:  accredit log list -f")

_StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="The log: sqlite:///FILE, or postgresql://USER@HOST/DATABASE; else the configuration's.",
    ),
]
_KnownOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--known",
        metavar="PUB",
        callback=reads,
        help="A public key, by whose name its id is shown; repeatable.",
    ),
]
_OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", callback=writes, help="Write to a new file, not to stdout (-)."),
]
_RootOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--root",
        metavar="PUB",
        callback=reads,
        help="The public key of who may have allowed a call; repeatable.",
    ),
]
Ending = Literal[
    "ok", "tool_error", "error", "input_required", "task", "upstream_invalid", "timeout", "cancelled", "unknown", "open"
]
_CallFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE", callback=reads, help="A call that `log export --bundle` wrote, in place of a store."
    ),
]
_ServerOption = Annotated[
    str | None,
    typer.Option("--server", metavar="NAME", autocompletion=server_names, help="Of this one of [servers]."),
]
_PrincipalOption = Annotated[
    str | None, typer.Option("--principal", metavar="ID", help="Of this principal; the id or how it begins.")
]
_AgentOption = Annotated[
    str | None, typer.Option("--agent", metavar="ID", help="Of this agent; the id or how it begins.")
]
_DecisionOption = Annotated[
    Literal["allow", "deny", "challenge"] | None, typer.Option("--decision", help="Decided so.")
]
_SINK_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_Time = "2026-08-01T12:00:00Z, or 7d for so long ago"


@log_app.command("list")
def list_calls(
    file: _CallFile = None,
    store: _StoreOption = None,
    config: ConfigOption = None,
    tool: Annotated[str | None, typer.Option("--tool", metavar="NAME", help="Calls of this target.")] = None,
    server: _ServerOption = None,
    principal: _PrincipalOption = None,
    agent: _AgentOption = None,
    decision: _DecisionOption = None,
    outcome: Annotated[Ending | None, typer.Option("--outcome", metavar="STATUS", help="Ended so; or open.")] = None,
    after: Annotated[str | None, typer.Option("--after", metavar="TIME", help=f"Since then: {_Time}.")] = None,
    before: Annotated[str | None, typer.Option("--before", metavar="TIME", help="Until then.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="At most so many.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes; Ctrl-C ends it.")] = False,
    key: KeysOption = None,
    known: _KnownOption = None,
    root: _RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Lists calls, newest first; with -f newest last, and then each call as it ends.

    Decisions: allow, deny; challenge if the client first had to prove itself over a challenge. Statuses: ok,
    tool_error, error, input_required, task, upstream_invalid, timeout, cancelled, unknown; open for a call without an
    outcome. With --json, each call is a JSON object on a line. A call is shown as BAD if one of its records does not
    verify with the named keys, or the configuration's; with --store and no --key nothing is verified. The person who
    allowed a call is found by the stored certificates and the roots; an unknown one is shown by the key's id. On a
    terminal ids are shortened: every command accepts a prefix of an id.

    Examples:

    accredit log list --tool send_email --decision deny

    accredit log list --server mail

    accredit log list -f --json
    """
    from accredit.base.clock import unix_ms
    from accredit.cli.actions.log_list import Filter, Listing, show_bundle, show_calls
    from accredit.cli.actions.log_names import known_names
    from accredit.cli.actions.log_place import keys_to_show_with, log_store, moment, people_to_show_with
    from accredit.policy.evidence import Auditor

    wanted = Filter(
        target=tool,
        server=server,
        principal_id=principal,
        agent_id=agent,
        verdict=decision,
        outcome=outcome,
        after=None if after is None else moment("--after", after),
        before=None if before is None else moment("--before", before),
    )
    where = (str(file) if file is not None and config is None else store, config)  # a file's log is nobody's here
    names, keys = known_names(known or (), *where), keys_to_show_with(key or (), *where)
    auditor = Auditor(people_to_show_with(root or (), *where), only_these=bool(root), now=unix_ms() // 1000)
    listing = Listing(limit=limit, follow=follow, as_json=as_json, names=names, auditor=auditor, keys=keys)
    if file is not None:
        return show_bundle(file, wanted, listing)
    return show_calls(log_store(store, config), wanted, listing)


@log_app.command()
def show(
    call_id: Annotated[
        str, typer.Argument(metavar="CALL_ID", help="The call's id, or how it begins; see `accredit log list`.")
    ],
    store: _StoreOption = None,
    config: ConfigOption = None,
    key: KeysOption = None,
    known: _KnownOption = None,
    root: _RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Shows all records of a call, and whether their signatures are good (exit code 1 if one is not).

    It says who allowed the call, by the stored certificates and the roots. Records are verified with the named keys,
    or the configuration's; with --store and no --key they are not.

    Example:

    accredit log show 0123456789ab --key gateway.key.pub
    """
    from accredit.cli.actions.log_names import known_names
    from accredit.cli.actions.log_place import keys_to_show_with, log_store, people_to_show_with
    from accredit.cli.actions.log_show import show_call
    from accredit.policy.evidence import Auditor

    names = known_names(known or (), store, config)
    keys, people = keys_to_show_with(key or (), store, config), people_to_show_with(root or (), store, config)
    auditor = Auditor(people, only_these=bool(root))
    return show_call(log_store(store, config), call_id, keys, auditor, names, as_json=as_json)


@log_app.command()
def verify(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", callback=reads, help="What `log export` wrote, in place of a store; - for stdin."
        ),
    ] = None,
    store: _StoreOption = None,
    config: ConfigOption = None,
    key: KeysOption = None,
    since: Annotated[
        list[Path] | None,
        typer.Option(
            "--since",
            metavar="CHECKPOINT",
            callback=reads,
            help="What `log checkpoint` wrote, or a gateway's own log; repeatable.",
        ),
    ] = None,
    root: _RootOption = None,
    require_proofs: Annotated[
        bool,
        typer.Option("--require-proofs", help="An allowed call without a proof that verifies is bad (exit code 1)."),
    ] = False,
    no_proofs: Annotated[
        bool, typer.Option("--no-proofs", help="Leave out who allowed calls and who signed them: it takes less time.")
    ] = False,
    known: _KnownOption = None,
    as_json: JsonOption = False,
) -> int:
    """Verifies signatures, sequence, chain and checkpoints: exit code 0 if all hold, 1 with the first bad record.

    For each allowed call it checks the stored evidence: that a person allowed it, by the certificates, and that the
    agent signed it, by the proof; for a single call (`log export --call ID --bundle`) it prints them. With --root,
    that person's key must be yours; with --require-proofs, no call is accepted on the gateway's word.

    Only a checkpoint that was kept elsewhere reveals that records are missing at the end. Without --key the
    configuration's keys are trusted: attest.key_file's, or that of gateway.key beside the configuration, and
    attest.signer's. With --store, ./accredit.toml is not read.

    Examples:

    accredit log verify --key gateway.key.pub --since yesterday.checkpoint

    accredit log verify export.jsonl --key gateway.key.pub

    accredit log verify call.json --key gateway.key.pub --root owner.key.pub
    """
    from accredit.cli.actions.log_place import names_in
    from accredit.cli.actions.log_verify import ProofRequirements, verify_file, verify_store
    from accredit.errors import ConfigurationError

    if no_proofs and (require_proofs or root):
        raise ConfigurationError("--no-proofs leaves out what --root and --require-proofs ask for", "say one of them")
    wanted = ProofRequirements(root or (), require_proofs, no_proofs)
    if file is not None:
        names = names_in(known or ())
        return verify_file(file, key or (), since or (), wanted, names=names, config=config, as_json=as_json)
    return verify_store(store, key or (), since or (), wanted, config=config, as_json=as_json)


@log_app.command()
def export(
    store: _StoreOption = None,
    config: ConfigOption = None,
    out: _OutOption = None,
    call: Annotated[
        str | None, typer.Option("--call", metavar="ID", help="Only this call's; the id or how it begins.")
    ] = None,
    bundle: Annotated[
        bool, typer.Option("--bundle", help="With --call: one object, with certificates and checkpoint.")
    ] = False,
    _json: JsonAnywayOption = False,
) -> int:
    """Writes the log as DSSE envelopes, one a line; or everything about one call as one object.

    Examples:

    accredit log export --out calls.jsonl

    accredit log export --call 0123456789abcdef0123456789abcdef --bundle --out call.json
    """
    from accredit.cli.actions.log_export import export_call, export_log
    from accredit.cli.actions.log_place import log_store
    from accredit.errors import ConfigurationError

    if bundle and call is None:
        raise ConfigurationError("--bundle is for one call", "name it with --call")
    place = log_store(store, config)
    return export_log(place, out) if call is None else export_call(place, call, out, bundle=bundle)


@log_app.command()
def follow(
    sink: Annotated[
        str, typer.Option("--sink", metavar="NAME", help="By this name the store remembers how far it came.")
    ],
    form: Annotated[
        Literal["jsonl", "otlp"], typer.Option("--format", help="One envelope a line, or OTLP log records.")
    ],
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="FILE|URL",
            help="A file to append to, else stdout; for otlp a collector's URL, else telemetry.endpoint.",
        ),
    ] = None,
    store: _StoreOption = None,
    config: ConfigOption = None,
    _json: JsonAnywayOption = False,
) -> int:
    """Sends the log to a sink: all existing records, then new ones, until SIGTERM or Ctrl-C.

    Delivers each entry at least once, in order within a chain; a restart resumes at the sink's position. A failed
    delivery is retried; calls never wait for it. jsonl lines are those of `log export`; otlp needs
    accredit[telemetry], and /v1/logs is appended to the URL.

    Examples:

    accredit log follow --sink siem --format jsonl --to /var/log/accredit/calls.jsonl

    accredit log follow --sink otel --format otlp --to http://127.0.0.1:4318
    """
    from accredit.cli.actions.log_follow import follow_log, target_of
    from accredit.cli.actions.log_place import log_store
    from accredit.errors import ConfigurationError

    if not _SINK_NAME.fullmatch(sink):
        raise ConfigurationError("--sink: not a name", "write letters, digits, - and _: 64 at most")
    return follow_log(log_store(store, config), sink, target_of(form, to, store, config))


@log_app.command()
def checkpoint(
    store: _StoreOption = None, config: ConfigOption = None, out: _OutOption = None, _json: JsonAnywayOption = False
) -> int:
    """Writes each writer's latest checkpoint, one a line. Keep it where nobody who can change the log can change it.

    Example:

    accredit log checkpoint --out yesterday.checkpoint
    """
    from accredit.cli.actions.log_export import export_checkpoints
    from accredit.cli.actions.log_place import log_store

    return export_checkpoints(log_store(store, config), out)


@log_app.command()
def prune(
    before: Annotated[str, typer.Option("--before", metavar="DATE", help=f"What was recorded before: {_Time}.")],
    key: Annotated[
        Path,
        typer.Option(
            "--key", metavar="KEY", callback=reads_secret, help="The gateway's private key, which signs the note."
        ),
    ],
    store: _StoreOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> int:
    """Replaces old records by their digests and a signed note: the log still verifies, but their content is gone.

    Exit code 1 if the content is still in the file's write-ahead log, because somebody is reading it: prune again
    later.

    Example:

    accredit log prune --before 90d --key gateway.key
    """
    from accredit.cli.actions.log_place import keys_to_show_with, log_store, moment
    from accredit.cli.actions.log_prune import prune_log

    trusted = keys_to_show_with((), store if config is None else None, config)
    return prune_log(log_store(store, config), key, trusted, moment("--before", before), as_json=as_json)
