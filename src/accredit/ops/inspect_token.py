"""Describes a token for `accredit inspect`: its claims, and whether one of the given keys signed it.

The token itself is never printed. `token verify` checks its audience, issuer and policy.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from accredit.errors import ConfigurationError, TokenError
from accredit.keys import load_key_set
from accredit.limits import MAX_TOKEN_BYTES
from accredit.signing.token_issue import tools_in_words
from accredit.terminal import wording as words
from accredit.terminal.output import BAD, GOOD, QUIET, Words, print_facts, print_result, say
from accredit.tokens.access import B64TOKEN
from accredit.tokens.claims import Claims, read_claims, take_apart
from accredit.tokens.key_sets import ALGORITHMS
from accredit.tokens.verify import BOUND, Issuer, TokenVerifier

_TOKEN = re.compile(rb"\s*[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\s*")


def is_token(data: bytes) -> bool:
    """Return whether a file's bytes have the form of a JWT (RFC 7519, compact serialization)."""
    return _TOKEN.fullmatch(data) is not None


def is_opaque(data: bytes) -> bool:
    """Return whether a file's bytes may be a token that is not a JWT: one word that a header can carry."""
    return len(data) <= MAX_TOKEN_BYTES and B64TOKEN.fullmatch(data.decode("latin-1").strip("\r\n")) is not None


def print_opaque() -> None:
    """Print the known facts about a token that is not a JWT."""
    print_result({"type": "token", "opaque": True, "signatures_good": None})
    say("a token that is no JWT: only its issuer can say what it holds")
    say("a gateway asks the issuer where introspection_url is set", QUIET)


def inspect_token(data: bytes, path: Path, keys: Sequence[Path], now: int) -> bool:
    """Print what a token holds; return whether its signature is bad. Raises `ConfigurationError`."""
    text = data.decode("ascii").strip()
    try:
        claims = read_claims(take_apart(text).claims)
    except TokenError as error:
        raise ConfigurationError(f"{path} is no token: {error.reason}", "name a file that holds a JWT") from None
    fault = _fault(text, claims, keys)
    allowed = None if claims.allowed_tools is None else tuple(claims.allowed_tools)
    print_result(
        {
            "type": "token",
            "issuer": claims.iss,
            "subject": claims.sub,
            "audience": sorted(claims.audiences),
            "expires_at": words.date_time(int(claims.exp)),
            "jti": claims.jti,
            "scopes": sorted(claims.scopes),
            "allowed_tools": allowed,
            "denied_tools": claims.denied_tools,
            "policy_digest": claims.policy_digest,
            "session": claims.session,
            "bound": claims.is_bound,
            "signatures_good": None if not keys else fault is None,
        }
    )
    unchecked = Words("not checked: name the issuer's public key or key set with --key", QUIET)
    good = Words(f"BAD: {fault}", BAD) if fault else Words("good", GOOD)
    ends = f"{words.relative(int(claims.exp), now)} ({words.date_time(int(claims.exp))})"
    say("a token")
    print_facts(
        [
            ("from", claims.iss),
            ("for", claims.sub),
            ("audience", " ".join(sorted(claims.audiences))),
            ("scopes", " ".join(sorted(claims.scopes)) or "none"),
            ("tools", tools_in_words(allowed, tuple(claims.denied_tools))),
            ("session", claims.session or "any"),
            *(
                (("bound", "to a key (cnf): it is no bearer token, and no gateway takes it"),)
                if claims.is_bound
                else ()
            ),
            ("ends", Words(ends, BAD if claims.exp < now else "")),
            ("signatures", good if keys else unchecked),
        ]
    )
    return fault is not None


def _fault(text: str, claims: Claims, keys: Sequence[Path]) -> str | None:
    """Return why none of the keys signed the token, or None if one did. The token is judged as of the time when it
    became valid, so that it is not a fault if it has expired."""
    if not claims.iss or not any(claims.audiences):
        return "it names no issuer or no audience"
    issuer = Issuer(claims.iss, next(filter(None, sorted(claims.audiences))), tuple(sorted(ALGORITHMS)))
    moment = int(max(claims.iat, claims.nbf))
    fault = None
    for key in keys:
        verifier = TokenVerifier([issuer])
        try:
            verifier.verify(verifier.read(text), load_key_set(key), moment)
        except TokenError as error:
            if error.reason == BOUND:  # its signature was good
                return None
            fault = error.reason
        else:
            return None
    return fault
