"""Implements `accredit token keygen` and `accredit token issue`. Private keys are never printed."""

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

import click

from accredit.base.clock import unix_seconds
from accredit.base.standard import STDOUT, is_for_programs
from accredit.errors import ConfigurationError
from accredit.keys import load_token_key, make_token_key, public_path, read_file, write_token_key
from accredit.keys.files import exists_already
from accredit.limits import MAX_POLICY_BYTES
from accredit.signing.arguments import seconds
from accredit.terminal import wording as words
from accredit.terminal.output import check_out, print_facts, print_json, print_result, write_out
from accredit.tokens.issued import SessionGrant, issue_session_token, public_jwk
from accredit.tokens.verify import policy_digest

_TOKEN_ID_BYTES = 16


def make(path: Path, *, replace: bool) -> None:
    """Make a key, and write its private and its public file. Raises `ConfigurationError`."""
    key = make_token_key()
    write_token_key(path, key, replace=replace)
    jwk = public_jwk(key.public_key())
    files = {"private": str(path), "public": str(public_path(path))}
    print_result({"kid": jwk["kid"], "public_key": jwk, "files": files})
    print_facts([("id", jwk["kid"]), *((f"{half} key", file) for half, file in files.items())])


def issue_token(
    *,
    key: Path,
    agent: str,
    audience: str,
    ttl: str,
    allow: Sequence[str],
    deny: Sequence[str],
    policy: Path | None,
    session: str | None,
    issuer: str,
    out: Path | None,
    force: bool,
) -> None:
    """Sign a token, and print it or write it to a file. Raises `ConfigurationError`."""
    check_out(out)
    if out not in (None, STDOUT) and not force and os.path.lexists(out):
        raise exists_already(out, can_force=True)
    names = {
        "--agent": agent,
        "--audience": audience,
        "--issuer": issuer,
        "--session": "-" if session is None else session,
    }
    for option, text in names.items():
        if not text or not text.isprintable():
            raise ConfigurationError(f"{option}: not a name", "write one that can be printed")
    now = unix_seconds()
    grant = SessionGrant(
        issuer=issuer,
        subject=agent,
        audience=audience,
        issued_at=now,
        expires_at=now + seconds("--ttl", ttl),
        token_id=secrets.token_hex(_TOKEN_ID_BYTES),
        allowed_tools=tuple(dict.fromkeys(allow)) if allow else None,
        denied_tools=tuple(dict.fromkeys(deny)),
        policy_digest=None if policy is None else policy_digest(read_file(policy, MAX_POLICY_BYTES).data),
        session=session,
    )
    token = issue_session_token(load_token_key(key), grant)
    if out is not None:
        write_out(out, token.encode() + b"\n", private=True, replace=force)
    if is_for_programs():
        print_json({**({"token": token} if out is None else {"file": str(out)}), **_members(grant)})
    elif out is None:
        click.echo(token)
    else:
        print_facts([*_facts(grant), ("written to", str(out))], err=out == STDOUT)


def _members(grant: SessionGrant) -> dict[str, object]:
    return {
        "issuer": grant.issuer,
        "subject": grant.subject,
        "audience": grant.audience,
        "expires_at": words.date_time(grant.expires_at),
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
        ("ends", f"{words.relative(grant.expires_at, grant.issued_at)} ({words.date_time(grant.expires_at)})"),
        ("token id", grant.token_id),
    ]


def tools_in_words(allowed: tuple[str, ...] | None, denied: tuple[str, ...]) -> str:
    """Describe the tools that a token allows."""
    found = "all" if allowed is None else ", ".join(allowed) or "none"
    return f"{found}, but not {', '.join(denied)}" if denied else found
