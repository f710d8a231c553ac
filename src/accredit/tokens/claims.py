"""What a token says (RFC 7519 section 4.1, RFC 9068 section 2.2). No I/O.

Members of other names are passed over; one of a known name and a wrong type makes the token invalid.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from accredit.errors import InvalidToken
from accredit.limits import MAX_QUOTED, MAX_SAFE_INTEGER
from accredit.tokens.compact import NOT_JSON

_Text = Annotated[str, Meta(min_length=1)]
_Moment = Annotated[float, Meta(ge=0, le=MAX_SAFE_INTEGER)]
"""Unix seconds; RFC 7519 allows fractions."""


class Claims(Struct, frozen=True):
    """The claims that are looked at; the first four have to be there."""

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

    @property
    def audiences(self) -> frozenset[str]:
        """Whom the token is for."""
        return frozenset([self.aud] if isinstance(self.aud, str) else self.aud)

    @property
    def scopes(self) -> frozenset[str]:
        """What it allows: `scope`, else `scp`, each a text with spaces or a list."""
        found = self.scope if self.scope is not None else self.scp or ""
        return frozenset(found.split() if isinstance(found, str) else found)


class VerifiedToken(Struct, frozen=True):
    """What a good token says; times in unix seconds. The token itself is not in it.

    `allowed_tools` is None where it names none: then all are allowed that are not in `denied_tools`. `session` is the
    one MCP session that it is good in, by the id that its client has; None where it names none. `sha256` is that of the
    token's text, in hex, for records.
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
    """Who a token says issued it, to find the keys which show whether that is so. Raises `InvalidToken`."""
    try:
        return _read_issued(text).iss
    except NOT_JSON:
        raise InvalidToken("no issuer") from None


def _place(error: msgspec.ValidationError) -> str:
    # The parser names types and our own members, and quotes nothing of the text.
    return str(error)[:MAX_QUOTED]
