"""A token that tells the server behind the gateway on whose authority one request is made. It is signed with ES256, by
a P-256 key. No I/O.

The token is made for one request and one server, and expires. No gateway accepts it as a client's token: its issuer is
a gateway, and its key signs nothing else.
"""

from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, UnsetType

from accredit.tokens.session import sign

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey


class IdentityGrant(Struct, frozen=True, kw_only=True):
    """The content of an identity token. Times are unix seconds. `subject` is the agent's id; with proofs off, it is the
    subject of the client's token.

    With proofs, `principal` is the id of the principal who granted the agent its scopes. `token_issuer` and
    `token_subject` are those of the client's own token, if there was one.
    """

    gateway: str
    audience: str
    subject: str
    scopes: tuple[str, ...]
    call_id: str
    issued_at: int
    expires_at: int
    token_id: str
    principal: str | None = None
    token_issuer: str | None = None
    token_subject: str | None = None


class _Actor(Struct, frozen=True):
    sub: str


class _Claims(Struct, frozen=True):
    iss: str
    aud: str
    sub: str
    act: _Actor
    scope: str
    call_id: str
    iat: int
    exp: int
    jti: str
    principal: str | UnsetType
    token_issuer: str | UnsetType
    token_subject: str | UnsetType


def issue_identity_token(key: "EllipticCurvePrivateKey", grant: IdentityGrant) -> str:
    """Return a signed token. Raises `ConfigurationError` for a key of another curve, and for a token that would be too
    long."""
    claims = _Claims(
        iss=grant.gateway,
        aud=grant.audience,
        sub=grant.subject,
        act=_Actor(grant.gateway),
        scope=" ".join(grant.scopes),
        call_id=grant.call_id,
        iat=grant.issued_at,
        exp=grant.expires_at,
        jti=grant.token_id,
        principal=_or_unset(grant.principal),
        token_issuer=_or_unset(grant.token_issuer),
        token_subject=_or_unset(grant.token_subject),
    )
    return sign(key, claims)


def _or_unset(text: str | None) -> str | UnsetType:
    return UNSET if text is None else text
