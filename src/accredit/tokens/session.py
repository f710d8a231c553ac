"""Session tokens that accredit issues itself: signed with ES256, by a P-256 key. No I/O.

They are verified like any other token: by `Issuer(issuer, audience)`, with a key set that holds the public key.
"""

import hashlib
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Struct, UnsetType

from accredit.base.deferred import Deferred
from accredit.canonical import encode_base64url
from accredit.errors import ConfigurationError
from accredit.limits import MAX_TOKEN_BYTES

if TYPE_CHECKING:
    import jwt
    from cryptography.hazmat.primitives.asymmetric import ec
    from jwt import algorithms
else:
    jwt = Deferred("jwt")
    ec = Deferred("cryptography.hazmat.primitives.asymmetric.ec")
    algorithms = Deferred("jwt.algorithms")

_ALGORITHM = "ES256"
_ISSUER = "accredit"
"""The default issuer of session tokens."""


class SessionGrant(Struct, frozen=True, kw_only=True):
    """The content of a session token. Times are unix seconds. If `allowed_tools` is None, all tools are allowed but the
    denied ones.

    `session` is the id, as the client knows it, of the only MCP session in which the token is valid.
    """

    issuer: str = _ISSUER
    subject: str
    audience: str
    issued_at: int
    expires_at: int
    token_id: str
    allowed_tools: tuple[str, ...] | None = None
    denied_tools: tuple[str, ...] = ()
    policy_digest: str | None = None
    session: str | None = None


class _Header(Struct, frozen=True):
    alg: str
    kid: str
    typ: str = "JWT"


class _Claims(Struct, frozen=True):
    iss: str
    sub: str
    aud: str
    iat: int
    exp: int
    jti: str
    allowed_tools: tuple[str, ...] | UnsetType
    denied_tools: tuple[str, ...] | UnsetType
    policy_digest: str | UnsetType
    session: str | UnsetType


def issue_session_token(key: "ec.EllipticCurvePrivateKey", grant: SessionGrant) -> str:
    """Return a signed token. Raises `ConfigurationError` for a token that could never be used, and for a key of another
    curve."""
    if not (grant.issuer and grant.subject and grant.audience and grant.token_id):
        raise ConfigurationError("a session token names its issuer, agent, audience and id", "leave none of them empty")
    if grant.session == "":
        raise ConfigurationError("a session token that names a session names one", "give the session's id, or none")
    if grant.expires_at <= grant.issued_at:
        raise ConfigurationError("a session token ends after it begins", "let it live for a second at least")
    claims = _Claims(
        iss=grant.issuer,
        sub=grant.subject,
        aud=grant.audience,
        iat=grant.issued_at,
        exp=grant.expires_at,
        jti=grant.token_id,
        allowed_tools=UNSET if grant.allowed_tools is None else grant.allowed_tools,
        denied_tools=grant.denied_tools or UNSET,
        policy_digest=UNSET if grant.policy_digest is None else grant.policy_digest,
        session=UNSET if grant.session is None else grant.session,
    )
    return sign(key, claims)


def sign(key: "ec.EllipticCurvePrivateKey", claims: Struct, type: str = "JWT") -> str:
    """Return a signed token with these claims, whose header has this `typ`. Raises `ConfigurationError` for a key of
    another curve, and for a token that would be too long."""
    if not isinstance(key.curve, ec.SECP256R1):
        raise ConfigurationError("tokens are signed with a P-256 key", "use a key of that curve")
    header = _Header(_ALGORITHM, _thumbprint(key.public_key()), type)
    signed = b".".join(encode_base64url(msgspec.json.encode(part)) for part in (header, claims))
    signature = jwt.get_algorithm_by_name(_ALGORITHM).sign(signed, key)
    token = b".".join((signed, encode_base64url(signature))).decode("ascii")
    if len(token) > MAX_TOKEN_BYTES:
        raise ConfigurationError(f"a token has at most {MAX_TOKEN_BYTES} characters", "name fewer tools")
    return token


def public_jwk(key: "ec.EllipticCurvePublicKey") -> dict[str, str]:
    """Return the key as a member of a JWK set, with its id."""
    return {**_members(key), "use": "sig", "alg": _ALGORITHM, "kid": _thumbprint(key)}


def _thumbprint(key: "ec.EllipticCurvePublicKey") -> str:
    """Return the id of a key: its JWK thumbprint (RFC 7638), SHA-256 in base64url."""
    canonical = msgspec.json.encode(_members(key), order="sorted")
    return encode_base64url(hashlib.sha256(canonical).digest()).decode("ascii")


def _members(key: "ec.EllipticCurvePublicKey") -> dict[str, str]:
    return algorithms.ECAlgorithm.to_jwk(key, as_dict=True)
