"""`accredit token keygen|issue|verify`: session tokens."""

# ruff: noqa: PLC0415 - cryptography is loaded when it runs: `accredit --help` is quick without it

from pathlib import Path
from typing import Annotated

import typer

from accredit.cli.options import JsonOption, ReplaceKeyOption
from accredit.cli.standard import TWO_FILES, only_file, reads, reads_secret, writes

token_app = typer.Typer(help="Issues and verifies session tokens.", epilog="Example:  accredit token keygen tokens.key")

_Issuer = Annotated[str, typer.Option("--issuer", metavar="NAME", help="Who issues it: `iss`.")]
_Policy = Annotated[
    Path | None,
    typer.Option(
        "--policy", metavar="FILE", callback=reads, help="The configuration that it is good under: accredit.toml."
    ),
]


@token_app.command()
def keygen(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", callback=only_file(TWO_FILES), help="The private key; the public one is PATH.pub."
        ),
    ],
    force: ReplaceKeyOption = False,
    as_json: JsonOption = False,
) -> None:
    """Makes a key that signs session tokens (P-256, PEM): PATH, which only you can read, and PATH.pub, for gateways.

    Example:

    accredit token keygen tokens.key
    """
    from accredit.cli.actions.token_issue import make

    make(path, replace=force, as_json=as_json)


@token_app.command()
def issue(
    key: Annotated[Path, typer.Option("--key", metavar="K", callback=reads_secret, help="The private key that signs.")],
    agent: Annotated[str, typer.Option("--agent", metavar="ID", help="Whom it is for: the agent's id.")],
    audience: Annotated[
        str, typer.Option("--audience", metavar="A", help="Where it is good: the audience that the gateway expects.")
    ],
    ttl: Annotated[str, typer.Option("--ttl", metavar="15m", help="How long it lives: 30s, 15m, 12h, 7d.")] = "15m",
    allow: Annotated[
        list[str] | None,
        typer.Option("--allow", metavar="TOOL", help="Only this tool; may be repeated. Without it: all tools."),
    ] = None,
    deny: Annotated[
        list[str] | None, typer.Option("--deny", metavar="TOOL", help="Not this tool; may be repeated.")
    ] = None,
    policy: _Policy = None,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="The one MCP session that it is good in, as its client knows it."),
    ] = None,
    issuer: _Issuer = "accredit",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", callback=writes, help="Write it there, for you alone, and do not print it."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Signs a session token and prints it. With --policy it is worthless as soon as that file changes.

    Examples:

    accredit token issue --key tokens.key --agent 92cb0a15572d7a71ed72bbc8dcdfb6b6 --audience mail-gateway

    accredit token issue --key tokens.key --agent 92cb0a15572d7a71ed72bbc8dcdfb6b6 --audience mail-gateway --ttl 1h
    --allow list_inbox --allow send_email --policy accredit.toml --out session.token
    """
    from accredit.cli.actions.token_issue import TokenOptions, issue_token

    request = TokenOptions(
        key=key,
        agent=agent,
        audience=audience,
        ttl=ttl,
        allow=None if allow is None else tuple(dict.fromkeys(allow)),
        deny=tuple(dict.fromkeys(deny or ())),
        policy=policy,
        session=session,
        issuer=issuer,
        out=out,
        force=force,
    )
    issue_token(request, as_json=as_json)


@token_app.command()
def verify(
    key: Annotated[
        Path,
        typer.Option("--key", metavar="PUB", callback=reads, help="The issuer's public key (PEM), or its JWK set."),
    ],
    audience: Annotated[str, typer.Option("--audience", metavar="A", help="The audience that it has to be for.")],
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]", callback=reads, help="Holds the token (- for stdin); else it is in $ACCREDIT_TOKEN."
        ),
    ] = None,
    issuer: _Issuer = "accredit",
    policy: _Policy = None,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="The MCP session in which it has to be good.")
    ] = None,
    tool: Annotated[
        str | None, typer.Option("--tool", metavar="TOOL", help="A tool that it has to be good for.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Verifies a token as a gateway would, and describes it: exit code 0 if it is valid, else 1.

    Examples:

    accredit token verify session.token --key tokens.key.pub --audience mail-gateway --policy accredit.toml

    accredit token verify --key jwks.json --issuer https://issuer.example --audience mail-gateway --tool send_email
    """
    from accredit.cli.actions.token_verify import TokenVerifyOptions, verify_token

    return verify_token(TokenVerifyOptions(file, key, issuer, audience, policy, session, tool), as_json=as_json)
