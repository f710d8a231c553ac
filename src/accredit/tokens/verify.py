"""Verification of bearer tokens. No I/O: keys and time are passed in.

The steps, in order; the first failure decides, and raises `InvalidToken` except in [scopes]:

- [compact] the text is a signed token in compact form, within its bounds (`compact`);
- [issuer] its `iss` is a configured issuer; from here on only that issuer's keys, audience and algorithms count;
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

- [introspected] If one of the issuers can be asked about tokens (`introspection`), one that is no JWT of a configured
  issuer is presented as that issuer's. Its answer takes the place of the steps from [compact] to [claims]. Only one
  issuer can be: such a token does not say whose it is, and must not be shown to those whose it is not.

Not checked: whether the token was revoked, its `typ`, and what it may do with a tool (`rules`).
"""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from msgspec import Struct

from accredit.base.caching import RecentlyUsed
from accredit.base.deferred import Deferred
from accredit.errors import ConfigurationError, InsufficientScope, InvalidToken
from accredit.limits import MAX_CACHED_TOKENS, MAX_QUOTED, MAX_TOKEN_BYTES
from accredit.tokens.claims import Claims, VerifiedToken, claimed_issuer, read_claims
from accredit.tokens.compact import Compact, take_apart
from accredit.tokens.introspection import Introspection, may_be_introspected
from accredit.tokens.key_sets import ALGORITHMS, KeySet

if TYPE_CHECKING:
    import jwt
else:
    jwt = Deferred("jwt")

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


class Presented(Struct, frozen=True):
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
    """Where to ask about it, if it is no JWT of a configured issuer ([introspected])."""

    def __bool__(self) -> NoReturn:
        """Raise `TypeError`. An object would always be true, even for a forged token."""
        raise TypeError("a Presented token is neither true nor false: give it to TokenVerifier.verify, which raises")

    def __repr__(self) -> str:
        return f"<Presented of {self.issuer.issuer!a}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("issuer", self.issuer.issuer)]


class TokenVerifier:
    """Verifies the tokens of some issuers, and remembers the valid ones."""

    __slots__ = ("_cache", "_introspecting", "_issuers")

    def __init__(self, issuers: Sequence[Issuer], max_cached: int = MAX_CACHED_TOKENS) -> None:
        """Raises `ConfigurationError` if two issuers have the same name, as `iss` could not tell which is meant; or if
        two are to be asked about tokens ([introspected])."""
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
        self._cache = VerifiedTokens(max_cached)

    def read(self, text: str) -> Presented:
        """Decode a token, and find its issuer ([compact] to [algorithm]). Raises `InvalidToken`."""
        known = self._cache.peek(_sha256(text))
        if known is not None:
            return Presented(self._issuers[known.issuer], known.kid, text)
        asked = self._introspecting
        if asked is not None and may_be_introspected(text, self._issuers):
            return Presented(asked, None, text, introspection=asked.introspection)
        compact = take_apart(text)
        issuer = self._issuers.get(claimed_issuer(compact.claims))
        if issuer is None:
            raise InvalidToken("an issuer that is not configured")
        if compact.algorithm not in issuer.algorithms:
            raise InvalidToken(f"an algorithm that is not allowed: {_quote(compact.algorithm)}")
        return Presented(issuer, compact.kid, text, compact)

    def verify(self, presented: Presented, keys: KeySet, now: int) -> VerifiedToken:
        """Verify the token with the keys of `presented.issuer` ([signature] to [scopes]). `now` is in unix seconds.
        Raises `InvalidToken` or `InsufficientScope`."""
        sha256 = _sha256(presented.text)
        token = self._cache.get(sha256, keys.digest)
        if token is None:
            token = _verify_presented(presented, keys, sha256, now)
            self._cache.put(sha256, keys.digest, token)
        _check_use(token, presented.issuer, now)
        return token

    def verify_introspected(self, presented: Presented, claims: Claims, now: int) -> VerifiedToken:
        """Check what the issuer says about a token that it was asked about ([audience] and [scopes]). Raises
        `InvalidToken` or `InsufficientScope`."""
        _check_claims(claims, presented.issuer, now)
        token = _verified_token(claims, _sha256(presented.text), None, introspected=True)
        _check_use(token, presented.issuer, now)
        return token


def _verify_presented(presented: Presented, keys: KeySet, sha256: bytes, now: int) -> VerifiedToken:
    """Verify the signature and the claims ([signature] to [audience])."""
    compact = presented.compact or take_apart(presented.text)
    candidates = keys.candidates(compact.algorithm, compact.kid)
    if not candidates:
        raise InvalidToken(f"no key of the issuer fits: kid {_quote(compact.kid or '(none)')}")
    if not any(is_signed_by(key.key, compact) for key in candidates):
        raise InvalidToken("the signature is not good")
    claims = read_claims(compact.claims)
    _check_claims(claims, presented.issuer, now)
    return _verified_token(claims, sha256, compact.kid)


def _verified_token(claims: Claims, sha256: bytes, kid: str | None, *, introspected: bool = False) -> VerifiedToken:
    return VerifiedToken(
        issuer=claims.iss,
        subject=claims.sub,
        expires_at=int(claims.exp),
        sha256=sha256.hex(),
        jti=claims.jti,
        kid=kid,
        scopes=claims.scopes,
        allowed_tools=None if claims.allowed_tools is None else frozenset(claims.allowed_tools),
        denied_tools=frozenset(claims.denied_tools),
        policy_digest=claims.policy_digest,
        session=claims.session,
        introspected=introspected,
    )


def _check_use(token: VerifiedToken, issuer: Issuer, now: int) -> None:
    """Check what is checked on every use: `exp`, and the issuer's scopes ([scopes])."""
    if token.expires_at + TOKEN_LEEWAY_SECONDS <= now:
        raise InvalidToken("expired", "the token has expired")
    missing = tuple(scope for scope in issuer.required_scopes if scope not in token.scopes)
    if missing:
        raise InsufficientScope(
            f"lacks {_quote(' '.join(missing))}",
            "the token lacks a scope that this server requires",
            issuer.required_scopes,
        )


def is_signed_by(key: object, compact: Compact) -> bool:
    """Return whether this key made a token's signature, by the algorithm that its header names. Whether that one may be
    used, the caller has checked."""
    try:
        return jwt.get_algorithm_by_name(compact.algorithm).verify(compact.signed, key, compact.signature)
    except (jwt.PyJWTError, ValueError, TypeError):
        return False


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


def _quote(text: str) -> str:
    return ascii(text[:MAX_QUOTED])[:MAX_QUOTED]


class VerifiedTokens:
    """A bounded cache of verified tokens that drops the least recently used first.

    Threads may share it: a race can only make it forget.
    """

    __slots__ = ("_known",)

    def __init__(self, max_entries: int = MAX_CACHED_TOKENS) -> None:
        """With a bound of 0, nothing is remembered."""
        self._known = RecentlyUsed[bytes, _Known](max_entries)

    def __len__(self) -> int:
        return len(self._known)

    def peek(self, sha256: bytes) -> VerifiedToken | None:
        """Return the claims of a token that was verified before, with whatever keys; or None."""
        known = self._known.peek(sha256)
        return known.token if known is not None else None

    def get(self, sha256: bytes, keys: bytes) -> VerifiedToken | None:
        """Return the claims of a token that was verified with the key set of this digest; or None. If it was verified
        with another set, forget it."""
        known = self._known.get(sha256)
        if known is None:
            return None
        if known.keys != keys:
            self._known.forget(sha256)
            return None
        return known.token

    def put(self, sha256: bytes, keys: bytes, token: VerifiedToken) -> None:
        """Remember a verified token."""
        self._known.put(sha256, _Known(token, keys))


class _Known(Struct, frozen=True):
    token: VerifiedToken
    keys: bytes
