"""`accredit grant`: a principal signs what an agent may do."""

# ruff: noqa: PLC0415 - what signs is loaded when it runs: `accredit --help` is quick without it

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accredit.cli.options import HeaderOption, JsonOption, ServerOption, TimeoutOption, TokenEnvOption
from accredit.cli.passphrases import PassphraseFileOption, passphrase_source
from accredit.cli.reaching import read_reach
from accredit.cli.standard import reads, reads_secret, writes

if TYPE_CHECKING:
    from accredit.ratify import Constraint

_MaxAmount = Annotated[
    list[str] | None, typer.Option("--max-amount", metavar="500USD", help="At most this much money in one call.")
]
_Between = Annotated[
    list[str] | None,
    typer.Option("--between", metavar="09:00-17:00@ZONE", help="Only in this window of the day, on ZONE's clocks."),
]
_Resource = Annotated[
    list[str] | None,
    typer.Option("--resource", metavar="ID[:/PREFIX]", help="Only this resource, or only what is below a path."),
]
_Rate = Annotated[list[str] | None, typer.Option("--rate", metavar="10/1h", help="At most so many calls.")]
_Constraint = Annotated[
    list[str] | None, typer.Option("--constraint", metavar="JSON", help="Any constraint, as on the wire.")
]


_Issuer = Annotated[
    Path, typer.Option("--issuer", metavar="KEY", callback=reads_secret, help="The private key that signs.")
]
_Agent = Annotated[
    Path, typer.Option("--agent", metavar="AGENT.pub", callback=reads, help="The public key that it is for.")
]
_Out = Annotated[
    Path, typer.Option("--out", metavar="FILE", callback=writes, help="Where the delegation is written; - for stdout.")
]
_Scope = Annotated[
    list[str] | None, typer.Option("--scope", metavar="S", help="What the agent may do; may be repeated.")
]
_Tool = Annotated[
    list[str] | None,
    typer.Option("--tool", metavar="NAME", help="The scope that this tool needs, looked up; may be repeated."),
]
_AllReadOnly = Annotated[
    bool, typer.Option("--all-read-only", help="The scopes of all tools that say that they only read.")
]
_Config = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", callback=reads, help="The gateway's configuration: scopes are looked up."),
]
_Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="The gateway: scopes are looked up in what it lists.")
]
_Expires = Annotated[
    str, typer.Option("--expires", metavar="7d", help="How long it holds: 30s, 15m, 12h, 7d, or until-revoked.")
]
_Parent = Annotated[
    Path | None,
    typer.Option(
        "--parent",
        metavar="FILE",
        callback=reads,
        help="The issuer's own delegation, of which this passes on a part.",
    ),
]
_Force = Annotated[bool, typer.Option("--force", help="Replace FILE if it exists; sign scopes that no catalog knows.")]
_Yes = Annotated[bool, typer.Option("--yes", help="Sign sensitive scopes without asking.")]


def grant(
    issuer: _Issuer,
    agent: _Agent,
    out: _Out,
    scope: _Scope = None,
    tool: _Tool = None,
    all_read_only: _AllReadOnly = False,
    config: _Config = None,
    url: _Url = None,
    server: ServerOption = None,
    header: HeaderOption = None,
    token_env: TokenEnvOption = None,
    timeout: TimeoutOption = None,
    max_amount: _MaxAmount = None,
    between: _Between = None,
    resource: _Resource = None,
    rate: _Rate = None,
    constraint: _Constraint = None,
    expires: _Expires = "7d",
    parent: _Parent = None,
    force: _Force = False,
    yes: _Yes = False,
    passphrase_file: PassphraseFileOption = None,
    as_json: JsonOption = False,
) -> int:
    """Signs a delegation: what an agent may do, under which conditions, and until when.

    With --config or --url, each --tool's scope is looked up (of several SERVER__TOOL), and a --scope that nothing
    there needs is refused. All constraints must hold. With identity:delegate, an agent passes on a part (--parent).

    Examples:

    accredit grant --issuer owner.key --agent agent.key.pub --scope email:send --expires 7d --out delegation.json

    accredit grant --issuer owner.key --agent agent.key.pub --all-read-only --tool send_email --config accredit.toml
    --out delegation.json

    accredit grant --issuer agent.key --agent sub.key.pub --parent delegation.json --scope email:send --out sub.json
    --rate 10/1h --between 09:00-17:00@Europe/Berlin
    """
    from accredit.cli.actions.grant import GrantOptions, grant_delegation
    from accredit.cli.actions.grant_lookup import ScopeSelection, ScopeSource, look_up

    constraints = _constraints(max_amount, between, resource, rate, constraint)
    wanted = ScopeSelection(tuple(dict.fromkeys(scope or ())), tuple(tool or ()), all_read_only, force)
    lookup = look_up(wanted, constraints, ScopeSource(config, url, server, read_reach(header, token_env, timeout)))
    request = GrantOptions(
        issuer=issuer,
        agent=agent,
        scope=lookup.scopes,
        constraints=constraints,
        expires=expires,
        parent=parent,
        out=out,
        force=force,
        yes=yes,
        notes=lookup.notes,
        passphrase=passphrase_source(passphrase_file),
    )
    return grant_delegation(request, as_json=as_json)


def _constraints(
    max_amount: list[str] | None,
    between: list[str] | None,
    resource: list[str] | None,
    rate: list[str] | None,
    constraint: list[str] | None,
) -> "tuple[Constraint, ...]":
    from accredit.cli.actions import arguments as terms

    return (
        *map(terms.max_amount, max_amount or ()),
        *map(terms.between, between or ()),
        *map(terms.resource, resource or ()),
        *map(terms.rate, rate or ()),
        *map(terms.constraint, constraint or ()),
    )
