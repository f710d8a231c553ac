"""Tokens that accredit issues itself: signed with ES256, by a P-256 key. No I/O.

- A session token is for a client. It is verified like any other token: by `Issuer(issuer, audience)`, with a key set
  that holds the public key.
- An identity token tells the server behind the gateway on whose authority one request is made. It is made for one
  request and one server, and expires. No gateway accepts it as a client's token: its issuer is a gateway, and its key
  signs nothing else.
"""

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

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
_CLAIMS = {
    "issuer": "iss",
    "subject": "sub",
    "audience": "aud",
    "actor": "act",
    "issued_at": "iat",
    "expires_at": "exp",
    "token_id": "jti",
}
"""The claims (RFC 7519 section 4.1, RFC 8693 section 4.1) that are named otherwise here."""


class SessionGrant(Struct, frozen=True, kw_only=True, omit_defaults=True, rename=_CLAIMS):
    """The claims of a session token. Times are unix seconds. If `allowed_tools` is None, all tools are allowed but the
    denied ones.

    `session` is the id, as the client knows it, of the only MCP session in which the token is valid.
    """

    issuer: str
    subject: str
    audience: str
    issued_at: int
    expires_at: int
    token_id: str
    allowed_tools: tuple[str, ...] | None = None
    denied_tools: tuple[str, ...] = ()
    policy_digest: str | None = None
    session: str | None = None


class IdentityGrant(Struct, frozen=True, kw_only=True, omit_defaults=True, rename=_CLAIMS):
    """The claims of an identity token. Times are unix seconds. `issuer` is the gateway, and so is the `sub` of the
    `actor`. `subject` is the agent's id; with proofs off, it is the subject of the client's token. `scope` has spaces
    between the scopes.

    With proofs, `principal` is the id of the principal who granted the agent its scopes. `token_issuer` and
    `token_subject` are those of the client's own token, if there was one.
    """

    issuer: str
    audience: str
    subject: str
    actor: Mapping[str, str]
    scope: str
    call_id: str
    issued_at: int
    expires_at: int
    token_id: str
    principal: str | None = None
    token_issuer: str | None = None
    token_subject: str | None = None


def issue_session_token(key: "ec.EllipticCurvePrivateKey", grant: SessionGrant) -> str:
    """Return a signed token. Raises `ConfigurationError` for a token that could never be used, and for a key of another
    curve."""
    if not (grant.issuer and grant.subject and grant.audience and grant.token_id):
        raise ConfigurationError("a session token names its issuer, agent, audience and id", "leave none of them empty")
    if grant.session == "":
        raise ConfigurationError("a session token that names a session names one", "give the session's id, or none")
    if grant.expires_at <= grant.issued_at:
        raise ConfigurationError("a session token ends after it begins", "let it live for a second at least")
    return sign_token(key, grant)


def sign_token(key: "ec.EllipticCurvePrivateKey", claims: Struct, type: str = "JWT") -> str:
    """Return a signed token with these claims, whose header has this `typ`. Raises `ConfigurationError` for a key of
    another curve, and for a token that would be too long."""
    if not isinstance(key.curve, ec.SECP256R1):
        raise ConfigurationError("tokens are signed with a P-256 key", "use a key of that curve")
    header = {"alg": _ALGORITHM, "kid": _thumbprint(key.public_key()), "typ": type}
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
