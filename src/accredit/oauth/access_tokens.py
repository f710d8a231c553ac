"""Access tokens of the gateway's own authorization server (RFC 9068): made, and verified. No I/O.

Such a token gives no rights by itself: it names an agent, for whom a person has signed a delegation. It is valid only
if:

- [type] its header has the `typ` `at+jwt`, so that no other token signed by the same key can be used as one;
- [signature] a key of the gateway signed it, with ES256;
- [issuer] `iss` is the gateway's public URL;
- [audience] `aud` is a single endpoint, the one that receives it;
- [times] `exp` is not past, and `iat` is not in the future, apart from the allowed difference of clocks;
- [whole] `sub`, `client_id`, `jti` and `sid` are there, and there is no `cnf`, as its proof would not be checked here.

Not checked: whether the login that `sid` names has ended. The store knows that.
"""

import re
from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import UNSET, Meta, Struct

from accredit.errors import InvalidToken
from accredit.limits import MAX_SAFE_INTEGER
from accredit.tokens.claims import NOT_JSON, claimed_issuer, take_apart
from accredit.tokens.issued import sign_token
from accredit.tokens.key_sets import KeySet
from accredit.tokens.verify import TOKEN_LEEWAY_SECONDS

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

TYPE = "at+jwt"
_ALGORITHM = "ES256"

_Text = Annotated[str, Meta(min_length=1)]
_CLAIMS = {
    "issuer": "iss", "subject": "sub", "resource": "aud", "token_id": "jti", "login": "sid", "issued_at": "iat",
    "expires_at": "exp",
}  # fmt: skip
_Moment = Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)]
_COMPACT = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+")


class FrontToken(Struct, frozen=True, kw_only=True, rename=_CLAIMS.get):
    """The content of an access token. Times are unix seconds.

    `subject` is the person's root id, or a digest of issuer and subject of a login. `resource` is the endpoint, `login`
    the id (hex) of its login, and `token_id` its own id. `scope` is a list with spaces.
    """

    issuer: _Text
    subject: _Text
    resource: _Text
    client_id: _Text
    token_id: _Text
    login: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
    issued_at: _Moment
    expires_at: _Moment
    scope: str = ""
    cnf: object = UNSET

    def is_current(self, now: int) -> bool:
        """Return whether it is valid now ([times])."""
        return self.issued_at - TOKEN_LEEWAY_SECONDS <= now < self.expires_at + TOKEN_LEEWAY_SECONDS


class _Type(Struct, frozen=True):
    typ: str = ""


_read_token = msgspec.json.Decoder(FrontToken).decode
_read_type = msgspec.json.Decoder(_Type).decode


def mint_access_token(key: "EllipticCurvePrivateKey", token: FrontToken) -> str:
    """Return a signed access token. Raises `ConfigurationError` for a key of another curve."""
    return sign_token(key, token, TYPE)


def is_front_token(text: str, issuer: str) -> bool:
    """Return whether a bearer token claims to be one of this issuer's. Then only this issuer's keys decide about it."""
    parts = _COMPACT.fullmatch(text)
    try:
        return parts is not None and claimed_issuer(urlsafe_b64decode(parts[2] + "==")) == issuer
    except (InvalidToken, ValueError):
        return False


def verify_access_token(text: str, issuer: str, resource: str, keys: KeySet, now: int) -> FrontToken:
    """Verify a token ([type] to [whole]) for the endpoint `resource`. `now` is in unix seconds. Raises
    `InvalidToken`."""
    compact = take_apart(text)
    if _type_of(text) not in (TYPE, f"application/{TYPE}"):
        raise InvalidToken("it is no access token: another typ")
    if compact.algorithm != _ALGORITHM:
        raise InvalidToken("the signature is not good")
    keys.check_signature(compact)
    try:
        token = _read_token(compact.claims)
    except NOT_JSON:
        raise InvalidToken("the claims are not those of an access token") from None
    if token.issuer != issuer:
        raise InvalidToken("another issuer")
    if token.cnf is not UNSET:
        raise InvalidToken("bound to a key (cnf), whose proof is not checked here")
    if token.resource != resource:
        raise InvalidToken("another audience", "the token is for another endpoint")
    if token.issued_at - TOKEN_LEEWAY_SECONDS > now:
        raise InvalidToken("issued in the future")
    if token.expires_at + TOKEN_LEEWAY_SECONDS <= now:
        raise InvalidToken("expired", "the token has expired")
    return token


def _type_of(text: str) -> str:
    """Return the `typ` of a decoded token."""
    header = text.partition(".")[0]
    try:
        return _read_type(urlsafe_b64decode(header + "==")).typ.lower()
    except NOT_JSON:
        return ""
