"""Reads a token: the compact form of a signed JSON Web Token (RFC 7515 section 7.1), and its claims (RFC 7519 section
4.1, RFC 9068 section 2.2). No I/O.

A token is accepted only if, in this order:

- [size] it has at most `MAX_TOKEN_BYTES` ASCII characters, checked before anything is decoded;
- [spelling] it has three parts of base64url without padding, each in its one canonical spelling;
- [header] its header is an object whose `alg` is a string, and so is its `kid`, if there is one;
- [embedded-keys] its header has no key, and no URL of one (`jku`, `x5u`, `jwk`): keys come only from the configured
  issuer;
- [extensions] its header demands no extension (`crit`), as none is supported here.

Not checked here: the signature. Nothing read here may be trusted.

Claims with other names are ignored. If a claim with a known name has a wrong type, the token is invalid.
"""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Raw, Struct

from accredit.canonical import decode_base64url
from accredit.errors import InvalidToken
from accredit.limits import MAX_QUOTED, MAX_SAFE_INTEGER, MAX_TOKEN_BYTES

NOT_JSON = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The errors that `msgspec` raises for a text that is not JSON."""

_PARTS = 3


class _Header(Struct, frozen=True):
    alg: str
    kid: str | None = None
    jku: Raw = Raw()
    x5u: Raw = Raw()
    jwk: Raw = Raw()
    crit: Raw = Raw()


_read_header = msgspec.json.Decoder(_Header).decode


class Compact(Struct, frozen=True):
    """The parts of a token, which is not verified. `claims` should be JSON text. The `repr` does not show them."""

    algorithm: str
    kid: str | None
    claims: bytes
    signed: bytes
    signature: bytes

    def __repr__(self) -> str:
        return "<Compact>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


def take_apart(text: str) -> Compact:
    """Split a token, and check the rules from [size] to [extensions]. Raises `InvalidToken`."""
    if len(text) > MAX_TOKEN_BYTES:
        raise InvalidToken("more characters than a token may have")
    if not text.isascii():
        raise InvalidToken("not ASCII")
    parts = text.encode("ascii").split(b".", _PARTS)
    if len(parts) != _PARTS:
        raise InvalidToken("not three parts")
    try:
        header_text, claims, signature = map(decode_base64url, [part or b"=" for part in parts])  # no part is empty
    except ValueError:
        raise InvalidToken("a part is not base64url") from None
    try:
        header = _read_header(header_text)
    except NOT_JSON:
        raise InvalidToken("the header is not one of a signed token") from None
    if header.jku or header.x5u or header.jwk:
        raise InvalidToken("the header brings its own key")
    if header.crit:
        raise InvalidToken("the header demands an extension")
    return Compact(header.alg, header.kid, claims, b".".join(parts[:2]), signature)


_Text = Annotated[str, Meta(min_length=1)]
_Moment = Annotated[float, Meta(ge=0, le=MAX_SAFE_INTEGER)]
"""Unix seconds; RFC 7519 allows fractions."""


class Claims(Struct, frozen=True):
    """The claims that are used; the first four are required."""

    iss: _Text
    sub: _Text
    aud: _Text | list[str]
    exp: _Moment
    nbf: _Moment = 0
    iat: _Moment = 0
    jti: str | None = None
    scope: str | list[str] | None = None
    scp: str | list[str] | None = None
    allowed_tools: list[str] | None = None
    denied_tools: list[str] = []
    policy_digest: str | None = None
    session: _Text | None = None
    cnf: object = UNSET
    """The key that the token's holder must prove to possess (RFC 7800), by DPoP or a client's certificate. If `cnf` has
    any value, even null, possession of the token alone is not enough."""

    @property
    def audiences(self) -> frozenset[str]:
        """The audiences for which the token is meant."""
        return frozenset([self.aud] if isinstance(self.aud, str) else self.aud)

    @property
    def is_bound(self) -> bool:
        """Whether the token is bound to a key (`cnf`), and so is not a bearer token."""
        return self.cnf is not UNSET

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes that the token grants. They are in `scope`, else in `scp`, each a string with spaces or a list."""
        scope = self.scope if self.scope is not None else self.scp or ""
        return frozenset(scope.split() if isinstance(scope, str) else scope)


class VerifiedToken(Struct, frozen=True):
    """The content of a valid token, without the token itself. Times are unix seconds.

    If `allowed_tools` is None, every tool is allowed that is not in `denied_tools`. `session` is the id, as the client
    knows it, of the only MCP session in which the token is valid; None stands for any session. `sha256` is that of the
    token's text, in hex, for records. `introspected` says that its issuer was asked about it, since it is not a JWT of
    a configured issuer. `client` is the OAuth client's id in a token that the gateway itself gave out: then `subject`
    is an agent, and a proof beside the token must be that agent's.
    """

    issuer: str
    subject: str
    expires_at: int
    sha256: str
    jti: str | None = None
    kid: str | None = None
    scopes: frozenset[str] = frozenset()
    allowed_tools: frozenset[str] | None = None
    denied_tools: frozenset[str] = frozenset()
    policy_digest: str | None = None
    session: str | None = None
    introspected: bool = False
    client: str | None = None

    @classmethod
    def of(cls, claims: Claims, sha256: bytes, kid: str | None, *, introspected: bool = False) -> "VerifiedToken":
        """Return the content of a token whose claims were verified. `sha256` is that of its text."""
        return cls(
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


class _Issued(Struct, frozen=True):
    iss: str


_read_claims = msgspec.json.Decoder(Claims).decode
_read_issued = msgspec.json.Decoder(_Issued).decode


def read_claims(text: bytes) -> Claims:
    """Return the claims of a token. Raises `InvalidToken`."""
    try:
        return _read_claims(text)
    except msgspec.ValidationError as error:
        raise InvalidToken(f"claims: {_place(error)}") from None
    except NOT_JSON:
        raise InvalidToken("the claims are not JSON") from None


def claimed_issuer(text: bytes) -> str:
    """Return the unverified issuer of a token, to find the keys that can verify it. Raises `InvalidToken`."""
    try:
        return _read_issued(text).iss
    except NOT_JSON:
        raise InvalidToken("no issuer") from None


def quote(text: str) -> str:
    """Return the beginning of a token's text, printable, for a log."""
    return ascii(text[:MAX_QUOTED])[:MAX_QUOTED]


def _place(error: msgspec.ValidationError) -> str:
    # The parser names types and our own members, and quotes nothing of the token.
    return str(error)[:MAX_QUOTED]
