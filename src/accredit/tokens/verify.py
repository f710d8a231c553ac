"""Verification of bearer tokens. No I/O: keys and time are passed in.

The steps, in order; the first failure decides, and raises `InvalidToken` except in [scopes]:

- [compact] the text is a signed token in compact form, within its bounds (`claims.take_apart`);
- [issuer] its `iss` is a configured issuer; from here on only that issuer's keys, audience and algorithms are used;
- [algorithm] its `alg` is one that this issuer may use: never none, never symmetric;
- [signature] a key of the issuer, found by `kid`, fits that algorithm and made the signature;
- [claims] the claims, read from what was signed, are complete (`iss`, `sub`, `aud` and `exp`), and all have the right
  types (`claims`);
- [audience] it is a bearer token: it has no `cnf`, whose proof (DPoP, a client's certificate) nobody checks here; `aud`
  names this audience, or the server's; `nbf` and `iat` are not in the future, `exp` is not in the past (30 s of
  leeway);
- [scopes] it has the scopes that the issuer's tokens must have, else the step raises `InsufficientScope`.

`read` does the steps from [compact] to [algorithm], so that its caller can find the keys. `verify` does the rest. The
claims of a verified token are remembered by the SHA-256 of its text. If the same text comes again with the same keys,
the steps from [signature] to [audience] are not repeated, except that `exp` is checked each time.

- [introspected] If one issuer can be asked about tokens (`introspection`), a token that is not a JWT of a configured
  issuer is treated as one of that issuer's. Its answer replaces the steps from [compact] to [claims]. There can be only
  one such issuer: the token does not say who issued it, and must not be shown to another issuer.

Not checked: whether the token was revoked, and its `typ`. `check_policy`, `check_session` and `check_tool` decide what
a verified token may do. If it lacks a right, the answer is a 403. Lists and calls agree on which tools a token may use,
as both ask `may_use`. A tool is listed even if the token lacks its scope: a client must see the scope to get a token
that has it.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, NoReturn

from msgspec import Struct

from accredit.base.caching import RecentlyUsed
from accredit.errors import ConfigurationError, InsufficientScope, InvalidToken, MissingToken
from accredit.limits import MAX_CACHED_TOKENS, MAX_TOKEN_BYTES
from accredit.tokens.claims import Claims, Compact, VerifiedToken, claimed_issuer, quote, read_claims, take_apart
from accredit.tokens.introspection import Introspection, may_be_introspected
from accredit.tokens.key_sets import ALGORITHMS, KeySet

TOKEN_LEEWAY_SECONDS = 30
"""How far an issuer's clock may be off (RFC 7519 sections 4.1.4 and 4.1.5 allow "a few minutes" at most)."""


BOUND = "bound to a key (cnf), whose proof is not checked here"
"""The reason that is given for refusing a token with `cnf`, although its signature is valid."""


class Issuer(Struct, frozen=True):
    """An accepted issuer, and the tokens that it may issue: `[[tokens.issuers]]`. Raises `ConfigurationError`.

    If there are several servers, tokens for the `server_audience` of one are also accepted there.
    """

    issuer: str
    audience: str
    algorithms: tuple[str, ...] = ("ES256",)
    required_scopes: tuple[str, ...] = ()
    server_audience: str = ""
    introspection: Introspection | None = None

    def __post_init__(self) -> None:
        if not self.issuer or not self.audience:
            raise ConfigurationError(
                "tokens.issuers: issuer and audience can't be empty",
                "name whose tokens count, and the audience that they must be for",
            )
        unknown = sorted(set(self.algorithms) - ALGORITHMS)
        if unknown or not self.algorithms:
            raise ConfigurationError(
                f"tokens.issuers: algorithms of {self.issuer}: {unknown[0] if unknown else 'none are named'}",
                f"name some of {', '.join(sorted(ALGORITHMS))}",
            )


class _Known(Struct, frozen=True):
    """A token that was verified with the key set of the digest `keys`."""

    token: VerifiedToken
    keys: bytes


class UnverifiedToken(Struct, frozen=True):
    """A token that was decoded but not verified. It shows which keys are needed, and must not be trusted for anything
    else.

    Its `repr` does not show the token.
    """

    issuer: Issuer
    kid: str | None
    text: str
    compact: Compact | None = None
    """The token's parts; None for a token that was verified before, or that is to be introspected."""
    introspection: Introspection | None = None
    """Where to ask about it, if it is not a JWT of a configured issuer ([introspected])."""
    known: _Known | None = None
    """What an earlier verification of the same text has found."""

    def __bool__(self) -> NoReturn:
        """Raise `TypeError`. An object would always be true, even for a forged token."""
        raise TypeError("a Presented token is neither true nor false: give it to TokenVerifier.verify, which raises")

    def __repr__(self) -> str:
        return f"<Presented of {self.issuer.issuer!a}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("issuer", self.issuer.issuer)]


class TokenVerifier:
    """Verifies the tokens of some issuers, and remembers the valid ones."""

    __slots__ = ("_introspecting", "_issuers", "_known")

    def __init__(self, issuers: Sequence[Issuer], max_cached: int = MAX_CACHED_TOKENS) -> None:
        """Raises `ConfigurationError` if two issuers have the same name, so that `iss` would be ambiguous, or if two
        are to be asked about tokens ([introspected])."""
        self._issuers = {issuer.issuer: issuer for issuer in issuers}
        if len(self._issuers) < len(issuers):
            raise ConfigurationError("tokens.issuers: one issuer is named twice", "give each issuer one table")
        asked = [issuer for issuer in issuers if issuer.introspection is not None]
        if len(asked) > 1:
            raise ConfigurationError(
                "tokens.issuers: two issuers have an introspection_url, and each would be shown the other's tokens",
                "keep the one whose tokens are no JWTs",
            )
        self._introspecting = asked[0] if asked else None
        self._known = RecentlyUsed[bytes, _Known](max_cached)

    def read(self, text: str) -> UnverifiedToken:
        """Decode a token, and find its issuer ([compact] to [algorithm]). Raises `InvalidToken`."""
        known = self._known.get(_sha256(text))
        if known is not None:
            return UnverifiedToken(self._issuers[known.token.issuer], known.token.kid, text, known=known)
        asked = self._introspecting
        if asked is not None and may_be_introspected(text, self._issuers):
            return UnverifiedToken(asked, None, text, introspection=asked.introspection)
        compact = take_apart(text)
        issuer = self._issuers.get(claimed_issuer(compact.claims))
        if issuer is None:
            raise InvalidToken("an issuer that is not configured")
        if compact.algorithm not in issuer.algorithms:
            raise InvalidToken(f"an algorithm that is not allowed: {quote(compact.algorithm)}")
        return UnverifiedToken(issuer, compact.kid, text, compact)

    def verify(self, presented: UnverifiedToken, keys: KeySet, now: int) -> VerifiedToken:
        """Verify the token with the keys of `presented.issuer` ([signature] to [scopes]). `now` is in unix seconds.
        Raises `InvalidToken` or `InsufficientScope`."""
        known = presented.known
        if known is None or known.keys != keys.digest:
            sha256 = _sha256(presented.text)
            known = _Known(_verify_presented(presented, keys, sha256, now), keys.digest)
            self._known.put(sha256, known)
        _check_use(known.token, presented.issuer, now)
        return known.token

    def verify_introspected(self, presented: UnverifiedToken, claims: Claims, now: int) -> VerifiedToken:
        """Check the claims in the issuer's answer about a token ([audience] and [scopes]). Raises `InvalidToken` or
        `InsufficientScope`."""
        _check_claims(claims, presented.issuer, now)
        token = VerifiedToken.of(claims, _sha256(presented.text), None, introspected=True)
        _check_use(token, presented.issuer, now)
        return token


def _verify_presented(presented: UnverifiedToken, keys: KeySet, sha256: bytes, now: int) -> VerifiedToken:
    """Verify the signature and the claims ([signature] to [audience])."""
    compact = presented.compact or take_apart(presented.text)
    keys.check_signature(compact)
    claims = read_claims(compact.claims)
    _check_claims(claims, presented.issuer, now)
    return VerifiedToken.of(claims, sha256, compact.kid)


def _check_use(token: VerifiedToken, issuer: Issuer, now: int) -> None:
    """Make the checks of every use: `exp`, and the issuer's scopes ([scopes])."""
    if token.expires_at + TOKEN_LEEWAY_SECONDS <= now:
        raise InvalidToken("expired", "the token has expired")
    missing = tuple(scope for scope in issuer.required_scopes if scope not in token.scopes)
    if missing:
        raise InsufficientScope(
            f"lacks {quote(' '.join(missing))}",
            "the token lacks a scope that this server requires",
            issuer.required_scopes,
        )


def _check_claims(claims: Claims, issuer: Issuer, now: int) -> None:
    """Check `cnf`, audience and times ([audience]). `exp` is not checked here, as it is checked on every use."""
    if claims.is_bound:
        raise InvalidToken(BOUND, "the token is bound to a key, and this server takes bearer tokens only")
    if not {issuer.audience, issuer.server_audience or issuer.audience}.intersection(claims.audiences):
        raise InvalidToken("for another audience", "the token is not for this server")
    if max(claims.nbf, claims.iat) > now + TOKEN_LEEWAY_SECONDS:
        raise InvalidToken("not valid yet", "the token is not valid yet")


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text[: MAX_TOKEN_BYTES + 1].encode("utf-8", "surrogatepass")).digest()


def policy_digest(configuration: bytes) -> str:
    """Return the digest by which a token names a policy, the SHA-256 of the configuration's bytes, in lower-case
    hex."""
    return hashlib.sha256(configuration).hexdigest()


def check_policy(token: VerifiedToken, digest: str) -> None:
    """Check that a token names either no policy or the current one, whose digest is `digest`. Raises `InvalidToken`."""
    if token.policy_digest is not None and token.policy_digest != digest:
        raise InvalidToken("issued under another policy", "the token was issued under another configuration")


def check_session(token: VerifiedToken, session: str) -> None:
    """Check that a token names either no session or this one. Raises `InvalidToken`.

    `session` is the session's id as the client knows it, "" without a session.
    """
    if token.session is not None and token.session != session:
        raise InvalidToken("names another session", "the token is good in one session, and this is not it")


def may_use(token: VerifiedToken, tool: str) -> bool:
    """Return whether `allowed_tools` and `denied_tools` let a token use a tool. A tool in both is refused."""
    return tool not in token.denied_tools and (token.allowed_tools is None or tool in token.allowed_tools)


def check_present(token: VerifiedToken | None) -> None:
    """Check that a token was sent, for a call that requires one. Raises `MissingToken`."""
    if token is None:
        raise MissingToken("no token", "a bearer token is required")


def check_tool(token: VerifiedToken | None, tool: str, token_scope: str = "") -> None:
    """Check that a token may call a tool. `token_scope` is the scope that the tool requires of tokens, "" if it
    requires none. Without a token, only a tool that requires none may be called.

    Raises `InsufficientScope` or `MissingToken`. Raises `TypeError` for a scope that is no text, such as the None of a
    lookup that found nothing.
    """
    if not isinstance(token_scope, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"token_scope is {type(token_scope).__name__}, not a text: refuse an unknown tool first")
    if token is None:
        if token_scope:
            raise MissingToken("no token for a tool that asks for its scope", "this tool needs a bearer token")
        return
    if not may_use(token, tool):
        raise InsufficientScope("not one of the token's tools", "the token may not use this tool")
    if token_scope and token_scope not in token.scopes:
        raise InsufficientScope("lacks the tool's scope", "the token lacks the scope of this tool", (token_scope,))
