"""Tokens that are not JWTs: makes the question to their issuer (RFC 7662), and reads the answer. No I/O.

The gateway authenticates itself with `client_secret_basic`. A token is handled in this order:

- [not-a-jwt] A token that names a configured issuer as a JWT does (`iss`) is never sent, even if it is malformed (cut
  off, with a part too many, or no strict JSON): that issuer's keys decide about it. A token that is too long, or that a
  header can't carry, is not sent either.
- [answer] The answer is one JSON object with a member `active`. Any other answer counts as none, so no decision about
  the token is made.
- [active] The token is valid only if `active` is true.
- [same-rules] The other members are read as the claims of a JWT are, and checked by the same rules (`verify`). `exp`
  may be absent; then the token is valid until the issuer has to be asked again. `iss` may be absent, too; otherwise it
  must be the issuer that was asked. `sub` and `aud` must be there.
- [bearer] `token_type` and `token_use`, if they are there, are those of a bearer access token: an issuer also calls its
  refresh tokens active.

Not checked: whether the answer is signed (RFC 9701); it comes over TLS.
"""

import re
from base64 import urlsafe_b64decode
from collections.abc import Collection
from contextlib import suppress
from urllib.parse import urlencode

import msgspec
from msgspec import Raw, Struct

from accredit.errors import AccessTokenError, InvalidToken
from accredit.limits import MAX_TOKEN_BYTES
from accredit.tokens.access import B64TOKEN, Hidden, basic_credentials
from accredit.tokens.claims import NOT_JSON, Claims, claimed_issuer, read_claims

INTROSPECTED_SECONDS = 30
"""How long an issuer's answer about a token is valid. So a token that is revoked there is refused here after this time
at the latest."""

_ISS = re.compile(rb'"iss"\s*+:\s*+(?:\[\s*+)?"([^"]*)"')
_PARTS = 5
"""How many parts of a token are looked at: an encrypted JWT has so many."""


class Introspection(Hidden, Struct, frozen=True):
    """Where an issuer is asked about tokens, and with which credentials: `[[tokens.issuers]] introspection_url` and the
    related keys."""

    url: str
    client_id: str
    client_secret: str

    @property
    def authorization(self) -> str:
        """The value of the `Authorization` header that authenticates the gateway."""
        return basic_credentials(self.client_id, self.client_secret)


class _Answer(Struct, frozen=True):
    active: bool
    token_type: str = "Bearer"  # noqa: S105 - a kind of token
    token_use: str = "access_token"  # noqa: S105 - a kind of token


_read_answer = msgspec.json.Decoder(_Answer).decode
_read_members = msgspec.json.Decoder(dict[str, Raw]).decode


def may_be_introspected(text: str, issuers: Collection[str]) -> bool:
    """Return whether a token may be sent to an issuer ([not-a-jwt]). `issuers` are the names of all that are
    configured."""
    if len(text) > MAX_TOKEN_BYTES or not B64TOKEN.fullmatch(text):
        return False
    parts = text.split(".", _PARTS)[:_PARTS]
    return len(parts) == 1 or not any(_names_issuer(part, issuers) for part in parts)


def _names_issuer(part: str, issuers: Collection[str]) -> bool:
    """Return whether a part of a token names one of `issuers`, either in valid JSON or in the remains of it."""
    plain = part.replace("~", "").replace("=", "")
    decoded = urlsafe_b64decode(plain[: len(plain) - (len(plain) % 4 == 1)] + "==")
    with suppress(InvalidToken, ValueError):
        if claimed_issuer(decoded) in issuers:
            return True
    left = decoded.replace(b"\0", b"").replace(b"\\", b"")  # of UTF-16, and of slashes that are escaped
    return any(name.decode("utf-8", "replace") in issuers for name in _ISS.findall(left))


def question(text: str) -> bytes:
    """Return the form that asks about a token."""
    return urlencode({"token": text, "token_type_hint": "access_token"}).encode("ascii")


def read_introspection(body: bytes, issuer: str, now: int) -> Claims:
    """Return the claims in an issuer's answer about an active token ([answer] to [bearer]). `now` is in unix seconds.
    Raises `InvalidToken`. Raises `AccessTokenError` for a malformed answer. Neither error quotes the answer."""
    try:
        answer, members = _read_answer(body), _read_members(body)
    except NOT_JSON:
        raise AccessTokenError("the answer does not say whether the token is active") from None
    if not answer.active:
        raise InvalidToken("its issuer says that it is not active")
    if answer.token_type.lower() != "bearer" or answer.token_use != "access_token":  # noqa: S105 - a kind of token
        raise InvalidToken("its issuer says that it is no bearer token for access")
    absent = {name: Raw(msgspec.json.encode(value)) for name, value in _defaults(issuer, now).items()}
    claims = read_claims(msgspec.json.encode({**absent, **members}))
    if claims.iss != issuer:
        raise InvalidToken("its issuer says that it is of another one")
    return claims


def _defaults(issuer: str, now: int) -> dict[str, str | int]:
    return {"iss": issuer, "exp": now + INTROSPECTED_SECONDS}
