"""`accredit grant`: a principal signs what an agent may do."""

# ruff: noqa: PLC0415 - what signs is loaded when it runs: `accredit --help` is quick without it

from pathlib import Path
from typing import Annotated

import typer

from accredit.cli.options import JsonOption

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


def grant(
    issuer: Annotated[Path, typer.Option("--issuer", metavar="KEY", help="The private key that signs.")],
    agent: Annotated[Path, typer.Option("--agent", metavar="AGENT.pub", help="The public key that it is for.")],
    scope: Annotated[list[str], typer.Option("--scope", metavar="S", help="What the agent may do; may be repeated.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the delegation is written.")],
    max_amount: _MaxAmount = None,
    between: _Between = None,
    resource: _Resource = None,
    rate: _Rate = None,
    constraint: _Constraint = None,
    expires: Annotated[
        str, typer.Option("--expires", metavar="7d", help="How long it holds: 30s, 15m, 12h, 7d, or until-revoked.")
    ] = "7d",
    parent: Annotated[
        Path | None,
        typer.Option("--parent", metavar="FILE", help="The issuer's own delegation, of which this passes on a part."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Sign sensitive scopes without asking.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Signs a delegation: what an agent may do, under which conditions, and until when.

    All constraints must hold. An agent whose delegation holds identity:delegate passes a part of it on with --parent.

    Examples:

    accredit grant --issuer owner.key --agent agent.key.pub --scope email:send --expires 7d --out delegation.json

    accredit grant --issuer agent.key --agent sub.key.pub --parent delegation.json --scope email:send
    --rate 10/1h --between 09:00-17:00@Europe/Berlin --out sub.json
    """
    from accredit.cli.delegations import terms
    from accredit.cli.delegations.granting import Request, grant_delegation

    constraints = (
        *map(terms.max_amount, max_amount or ()),
        *map(terms.between, between or ()),
        *map(terms.resource, resource or ()),
        *map(terms.rate, rate or ()),
        *map(terms.constraint, constraint or ()),
    )
    request = Request(
        issuer=issuer,
        agent=agent,
        scope=tuple(dict.fromkeys(scope)),
        constraints=constraints,
        expires=expires,
        parent=parent,
        out=out,
        force=force,
        yes=yes,
    )
    return grant_delegation(request, as_json=as_json)
