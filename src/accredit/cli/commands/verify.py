"""`accredit verify`: judges a proof offline, step by step."""

# ruff: noqa: PLC0415 - cryptography is loaded when it runs: `accredit --help` is quick without it

from pathlib import Path
from typing import Annotated

import typer

from accredit.cli.options import JsonOption
from accredit.cli.standard import reads

_Roots = Annotated[
    list[Path],
    typer.Option("--root", metavar="PUB", callback=reads, help="The public key of a trusted human; may be repeated."),
]
_Params = Annotated[
    Path | None,
    typer.Option("--params", metavar="FILE", callback=reads, help="The call's params as JSON, for dev.accredit.call."),
]
_Revoked = Annotated[
    list[Path] | None,
    typer.Option("--revoked", metavar="LIST", callback=reads, help="A signed revocation list; may be repeated."),
]


def verify(
    bundle: Annotated[
        Path,
        typer.Argument(metavar="BUNDLE", callback=reads, help="A proof: a ProofBundle as JSON; - for stdin."),
    ],
    root: _Roots,
    scope: Annotated[str, typer.Option("--scope", metavar="S", help="What the proof has to allow.")] = "",
    fact: Annotated[
        list[str] | None,
        typer.Option("--fact", metavar="NAME=VALUE", help="A fact of the call for constraints; may be repeated."),
    ] = None,
    params: _Params = None,
    method: Annotated[
        str, typer.Option("--method", metavar="M", help="The call's method; by default what its params look like.")
    ] = "",
    gateway_id: Annotated[
        str, typer.Option("--gateway-id", metavar="ID", help="The gateway that the call was made at.")
    ] = "",
    session_context: Annotated[
        str, typer.Option("--session-context", metavar="BASE64", help="What a bound proof has to be bound to.")
    ] = "",
    revoked: _Revoked = None,
    now: Annotated[
        str | None,
        typer.Option("--now", metavar="TIME", help="Judge as of this time (RFC 3339 or unix seconds)."),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Takes each step of the verification and says where it failed: exit code 0 if all hold, 1 if one does not.

    Whether a challenge was spent only its gateway can know. Facts: amount, currency, resource_id, requested_path, lat,
    lon, alt_m, speed_mps. A constraint on certain calls (dev.accredit.call) is compared with --params and
    --gateway-id.

    Examples:

    accredit verify bundle.json --root owner.key.pub --revoked revoked.json --now 2026-08-01T12:00:00Z

    accredit verify bundle.json --root owner.key.pub --params params.json --gateway-id mail
    """
    from msgspec.structs import replace

    from accredit.cli.actions import arguments as terms
    from accredit.cli.actions.verify import VerifyOptions, verify_file

    question = VerifyOptions(
        bundle=bundle,
        roots=tuple(root),
        required_scope=scope,
        facts=replace(terms.facts(fact or ()), call=terms.call_facts(params, method, gateway_id)),
        session_context=terms.session_context(session_context),
        revoked=tuple(revoked or ()),
        now=None if now is None else terms.moment(now),
    )
    return verify_file(question, as_json=as_json)
