"""Implements `accredit token keygen` and `accredit token issue`. Private keys are never printed."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec import Struct

from accredit.base.clock import unix_seconds
from accredit.base.standard import STDOUT
from accredit.errors import ConfigurationError
from accredit.keys import load_token_key, make_token_key, public_path, read_file, write_token_key
from accredit.keys.files import exists_already
from accredit.limits import MAX_POLICY_BYTES
from accredit.signing.arguments import seconds
from accredit.terminal import wording as words
from accredit.terminal.output import check_out, print_facts, print_json, write_out
from accredit.tokens import SessionGrant, issue_session_token, policy_digest, public_jwk

_TOKEN_ID_BYTES = 16


class TokenOptions(Struct, frozen=True, kw_only=True):
    """The options of one `accredit token issue`."""

    key: Path
    agent: str
    audience: str
    ttl: str
    allow: Sequence[str]
    deny: Sequence[str]
    policy: Path | None
    session: str | None
    issuer: str
    out: Path | None
    force: bool
    as_json: bool


def make(path: Path, *, replace: bool, as_json: bool) -> None:
    """Make a key, and write its private and its public file. Raises `ConfigurationError`."""
    key = make_token_key()
    write_token_key(path, key, replace=replace)
    jwk = public_jwk(key.public_key())
    files = {"private": str(path), "public": str(public_path(path))}
    if as_json:
        print_json({"kid": jwk["kid"], "public_key": jwk, "files": files})
    else:
        print_facts([("id", jwk["kid"]), *((f"{half} key", file) for half, file in files.items())])


def issue_token(request: TokenOptions) -> None:
    """Sign a token, and print it or write it to a file. Raises `ConfigurationError`."""
    check_out(request.out, as_json=request.as_json)
    if request.out not in (None, STDOUT) and not request.force and os.path.lexists(request.out):
        raise exists_already(request.out, can_force=True)
    grant = _grant(request, unix_seconds())
    token = issue_session_token(load_token_key(request.key), grant)
    if request.out is not None:
        write_out(request.out, token.encode() + b"\n", private=True, replace=request.force)
    if request.as_json:
        place = {"token": token} if request.out is None else {"file": str(request.out)}
        print_json({**place, **_members(grant)})
    elif request.out is None:
        click.echo(token)
    else:
        print_facts([*_facts(grant), ("written to", str(request.out))], err=request.out == STDOUT)


def _grant(request: TokenOptions, now: int) -> SessionGrant:
    for option, text in _names(request):
        if not text or not text.isprintable():
            raise ConfigurationError(f"{option}: not a name", "write one that can be printed")
    policy = None if request.policy is None else policy_digest(read_file(request.policy, MAX_POLICY_BYTES).data)
    return SessionGrant(
        issuer=request.issuer,
        subject=request.agent,
        audience=request.audience,
        issued_at=now,
        expires_at=now + seconds("--ttl", request.ttl),
        token_id=secrets.token_hex(_TOKEN_ID_BYTES),
        allowed_tools=tuple(dict.fromkeys(request.allow)) or None,
        denied_tools=tuple(dict.fromkeys(request.deny)),
        policy_digest=policy,
        session=request.session,
    )


def _names(request: TokenOptions) -> list[tuple[str, str]]:
    names = [("--agent", request.agent), ("--audience", request.audience), ("--issuer", request.issuer)]
    return names if request.session is None else [*names, ("--session", request.session)]


def _members(grant: SessionGrant) -> dict[str, object]:
    return {
        "issuer": grant.issuer,
        "subject": grant.subject,
        "audience": grant.audience,
        "expires_at": words.timestamp(grant.expires_at),
        "jti": grant.token_id,
        "allowed_tools": grant.allowed_tools,
        "denied_tools": grant.denied_tools,
        "policy_digest": grant.policy_digest,
        "session": grant.session,
    }


def _facts(grant: SessionGrant) -> list[tuple[str, str]]:
    return [
        ("for", grant.subject),
        ("audience", grant.audience),
        ("tools", tools_in_words(grant.allowed_tools, grant.denied_tools)),
        *([("session", grant.session)] if grant.session is not None else []),
        ("ends", f"{words.relative(grant.expires_at, grant.issued_at)} ({words.timestamp(grant.expires_at)})"),
        ("token id", grant.token_id),
    ]


def tools_in_words(allowed: tuple[str, ...] | None, denied: tuple[str, ...]) -> str:
    """Describe the tools that a token allows."""
    found = "all" if allowed is None else ", ".join(allowed) or "none"
    return f"{found}, but not {', '.join(denied)}" if denied else found
