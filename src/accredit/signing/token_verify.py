"""Implements `accredit token verify`: checks a token as a gateway does, but offline. The token itself is never
printed."""

import os
from pathlib import Path
from typing import NamedTuple

from accredit.base.clock import unix_seconds
from accredit.errors import ConfigurationError, TokenError
from accredit.keys import load_key_set, read_file
from accredit.limits import MAX_POLICY_BYTES, MAX_TOKEN_BYTES
from accredit.signing.token_issue import tools_in_words
from accredit.terminal import wording as words
from accredit.terminal.output import BAD, GOOD, Words, print_facts, print_result, say
from accredit.tokens.claims import VerifiedToken
from accredit.tokens.verify import Issuer, TokenVerifier, check_policy, check_session, check_tool, policy_digest

_TOKEN_VARIABLE = "ACCREDIT_TOKEN"  # noqa: S105 - the name of a variable
_LINE_END_BYTES = 2


class _Checked(NamedTuple):
    """Whether the token's policy and session could be checked: only if the options give what to compare them with."""

    policy: bool
    session: bool


def verify_token(
    *,
    file: Path | None,
    key: Path,
    issuer: str,
    audience: str,
    policy: Path | None,
    session: str | None,
    tool: str | None,
) -> int:
    """Print the verdict on a token; return the exit code. Raises `ConfigurationError`."""
    text = _text(file)
    keys = load_key_set(key)
    algorithms = sorted({algorithm for each in keys.keys for algorithm in each.algorithms})
    digest = None if policy is None else policy_digest(read_file(policy, MAX_POLICY_BYTES).data)
    verifier = TokenVerifier([Issuer(issuer, audience, tuple(algorithms))])
    now = unix_seconds()
    try:
        token = verifier.verify(verifier.read(text), keys, now)
        if digest is not None:
            check_policy(token, digest)
        if session is not None:
            check_session(token, session)
        if tool is not None:
            check_tool(token, tool)
    except TokenError as error:
        # The caller holds the token, so show the reason that a gateway would only log.
        print_result({"valid": False, "error": error.error, "reason": error.reason})
        say(f"not good: {error} ({error.reason})", BAD)
        return 1
    checked = _Checked(policy=digest is not None, session=session is not None)
    _report(token, now, checked)
    return 0


def _text(file: Path | None) -> str:
    if file is not None:
        return read_file(file, MAX_TOKEN_BYTES + _LINE_END_BYTES).data.decode("latin-1").strip("\r\n")
    text = os.environ.get(_TOKEN_VARIABLE)
    if text is None:
        raise ConfigurationError(
            "no token", f"name a file that holds it, or put it into the environment as {_TOKEN_VARIABLE}"
        )
    return text


def _report(token: VerifiedToken, now: int, checked: _Checked) -> None:
    allowed = None if token.allowed_tools is None else tuple(sorted(token.allowed_tools))
    denied = tuple(sorted(token.denied_tools))
    print_result(
        {
            "valid": True,
            "issuer": token.issuer,
            "subject": token.subject,
            "expires_at": words.date_time(token.expires_at),
            "jti": token.jti,
            "kid": token.kid,
            "scopes": sorted(token.scopes),
            "allowed_tools": allowed,
            "denied_tools": denied,
            "policy_digest": token.policy_digest,
            "policy_checked": checked.policy,
            "session": token.session,
            "session_checked": checked.session,
            "sha256": token.sha256,
        }
    )
    print_facts(
        [
            ("token", Words("good", GOOD)),
            ("issued by", token.issuer),
            ("for", token.subject),
            ("scopes", " ".join(sorted(token.scopes)) or "none"),
            ("tools", tools_in_words(allowed, denied)),
            ("policy", _limit(token.policy_digest, "--policy", checked=checked.policy)),
            ("session", _limit(token.session, "--session", checked=checked.session)),
            ("ends", f"{words.relative(token.expires_at, now)} ({words.date_time(token.expires_at)})"),
        ]
    )


def _limit(named: str | None, option: str, *, checked: bool) -> str:
    return named if checked and named else f"{named} (not checked: name it with {option})" if named else "any"
