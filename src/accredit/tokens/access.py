"""Access tokens that the gateway gets for itself: makes the request to an authorization server, and reads the answer.
No I/O.

The gateway asks on its own behalf (client credentials, RFC 6749 section 4.4), or exchanges a caller's verified token
for one that is for the server behind the gateway (RFC 8693). It authenticates with `client_secret_basic`: id and secret
are each form-encoded, then joined (RFC 6749 section 2.3.1). An answer is accepted only if, in this order:

- [members] it is one JSON object with the members of RFC 6749 section 5.1, each of its type; others are ignored;
- [token-type] its `token_type` is Bearer, in any case;
- [spelling] its `access_token` is a b64token (RFC 6750 section 2.1) of at most `MAX_TOKEN_BYTES` characters;
- [expiry] its `expires_in` is a whole number of seconds above 0. It may be absent: then `UNTOLD_TOKEN_SECONDS` is used;
- [exchange] if a token was exchanged, `issued_token_type` says that the new one is an access token or a JWT, and the
  new one differs from the caller's: a token for the gateway must not be forwarded to a server.

Not checked: the token's content, which is for its server, and the scopes that were granted.
"""

import hashlib
import re
from base64 import b64encode
from typing import Annotated, Any, Literal
from urllib.parse import quote_plus, urlencode

import msgspec
from msgspec import Meta, Raw, Struct

from accredit.errors import AccessTokenError, InvalidToken
from accredit.limits import MAX_TOKEN_BYTES
from accredit.tokens.claims import NOT_JSON, VerifiedToken, take_apart

UNTOLD_TOKEN_SECONDS = 60
"""The lifetime of an access token if the answer does not give one (RFC 6749 section 5.1 only recommends to give it)."""
MAX_TOLD_TOKEN_SECONDS = 10_000_000_000
"""The longest lifetime that an answer may give, some 300 years. A larger number is a mistake, such as nanoseconds."""


GrantType = Literal["client_credentials", "token_exchange"]

_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - a type's name
_JWT = "urn:ietf:params:oauth:token-type:jwt"
_GRANTS = {
    "client_credentials": "client_credentials",
    "token_exchange": "urn:ietf:params:oauth:grant-type:token-exchange",
}
B64TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""Matches a bearer token as a header can carry it (RFC 6750 section 2.1)."""
_OF_ONE_TOKEN = frozenset({"iat", "exp", "nbf", "jti"})
"""Claims that may differ between tokens that are otherwise the same."""
_WORDS = frozenset(
    {
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "invalid_scope",
        "invalid_target",
        "unauthorized_client",
        "unsupported_grant_type",
        "temporarily_unavailable",
        "server_error",
    }
)
"""Errors of RFC 6749 section 5.2 and RFC 8693 section 2.2.2, and two that servers borrow. Only these are quoted."""


class Hidden:
    """Hides its content in `repr`."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return []


class SubjectToken(Hidden, Struct, frozen=True):
    """A caller's verified token, to be exchanged. `key` is the same for all equivalent tokens of a caller: it is the
    SHA-256 of their claims, without times and ids."""

    text: str
    key: bytes


class ExchangeableToken(VerifiedToken, frozen=True, kw_only=True):
    """A verified token, with what is needed to exchange it."""

    carried: SubjectToken


class AccessToken(Hidden, Struct, frozen=True):
    """A token for the server behind the gateway, valid for `seconds` after it was requested. Raises `AccessTokenError`
    for a text that breaks [spelling]."""

    text: str
    seconds: int

    def __post_init__(self) -> None:
        if len(self.text) > MAX_TOKEN_BYTES or not B64TOKEN.fullmatch(self.text):
            raise AccessTokenError("the answer's access_token is none that a header can bring")

    @property
    def line(self) -> bytes:
        """The header line that carries this token in a request."""
        return b"Authorization: Bearer %b\r\n" % self.text.encode("ascii")


def basic_credentials(client_id: str, client_secret: str) -> str:
    """Return the value of an `Authorization` header by which a client authenticates itself (RFC 6749 section 2.3.1)."""
    pair = f"{quote_plus(client_id)}:{quote_plus(client_secret)}"
    return f"Basic {b64encode(pair.encode('ascii')).decode('ascii')}"


class AccessGrant(Hidden, Struct, frozen=True):
    """How the gateway gets access tokens for one server: `[upstream.auth]`. Members that are "" are not sent."""

    type: GrantType
    token_url: str
    client_id: str
    client_secret: str
    audience: str = ""
    resource: str = ""
    scope: str = ""

    @property
    def exchanges(self) -> bool:
        """Whether each caller's own token is exchanged."""
        return self.type == "token_exchange"

    @property
    def authorization(self) -> str:
        """The value of the `Authorization` header that authenticates the gateway."""
        return basic_credentials(self.client_id, self.client_secret)

    def form(self, subject: SubjectToken | None) -> bytes:
        """Return the body of a request for a token. `subject` is the token to exchange, or None."""
        fields = {"grant_type": _GRANTS[self.type]}
        if subject is not None:
            fields["subject_token"] = subject.text
            fields["subject_token_type"] = fields["requested_token_type"] = _ACCESS_TOKEN
        fields |= {name: value for name in ("audience", "resource", "scope") if (value := getattr(self, name))}
        return urlencode(fields).encode("ascii")


class _Answer(Struct, frozen=True):
    access_token: str
    token_type: str
    expires_in: Annotated[int, Meta(ge=1, le=MAX_TOLD_TOKEN_SECONDS)] = UNTOLD_TOKEN_SECONDS
    issued_token_type: str = ""


class _Error(Struct, frozen=True):
    error: str


_read_answer = msgspec.json.Decoder(_Answer).decode
_read_error = msgspec.json.Decoder(_Error).decode
_read_claims = msgspec.json.Decoder(dict[str, Raw]).decode


def read_access_token(body: bytes, subject: SubjectToken | None = None) -> AccessToken:
    """Return the token in an answer. `subject` is the token that was exchanged, or None. Raises `AccessTokenError`,
    which does not quote the answer."""
    try:
        answer = _read_answer(body)
    except NOT_JSON:
        raise AccessTokenError("the answer is no token response") from None
    if answer.token_type.lower() != "bearer":
        raise AccessTokenError("the answer's token_type is not Bearer")
    token = AccessToken(answer.access_token, answer.expires_in)
    if subject is not None and answer.issued_token_type not in (_ACCESS_TOKEN, _JWT):
        raise AccessTokenError("the answer's issued_token_type is that of no access token")
    if subject is not None and token.text == subject.text:
        raise AccessTokenError("the answer's access_token is the caller's own")
    return token


def error_word(body: bytes) -> str:
    """Return the `error` of a refusal if the specification defines it, else ""."""
    try:
        word = _read_error(body).error
    except NOT_JSON:
        return ""
    return word if word in _WORDS else ""


def exchangeable(token: VerifiedToken, text: str, key: bytes) -> ExchangeableToken:
    """Return a verified token together with its text, and the `subject_key` of that text."""
    return ExchangeableToken(**msgspec.structs.asdict(token), carried=SubjectToken(text, key))


def subject_key(text: str) -> bytes:
    """Return a verified token's `SubjectToken.key`. Raises `InvalidToken`."""
    try:
        claims = _read_claims(take_apart(text).claims)
    except NOT_JSON:  # such as for claims that nest almost too deep: they were verified when there was more room
        raise InvalidToken("the claims can't be read") from None
    said = {name: value for name, value in claims.items() if name not in _OF_ONE_TOKEN}
    return hashlib.sha256(msgspec.json.encode(said, order="sorted")).digest()
