"""The compact form of a signed JSON Web Token (RFC 7515 section 7.1). No I/O.

A token is accepted only if, in this order:

- [size] it has at most `MAX_TOKEN_BYTES` ASCII characters, checked before anything is decoded;
- [spelling] it has three parts of base64url without padding, each in its one canonical spelling;
- [header] its header is an object whose `alg` is a string, and so is its `kid`, if there is one;
- [embedded-keys] its header has no key, and no URL of one (`jku`, `x5u`, `jwk`): keys come only from the configured
  issuer;
- [extensions] its header demands no extension (`crit`), as none is supported here.

Not checked here: the signature. Nothing read here may be trusted.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import msgspec
from msgspec import Raw, Struct

from accredit.errors import InvalidToken
from accredit.limits import MAX_TOKEN_BYTES

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
    header_text, claims, signature = map(_decode_part, parts)
    try:
        header = _read_header(header_text)
    except NOT_JSON:
        raise InvalidToken("the header is not one of a signed token") from None
    if header.jku or header.x5u or header.jwk:
        raise InvalidToken("the header brings its own key")
    if header.crit:
        raise InvalidToken("the header demands an extension")
    return Compact(header.alg, header.kid, claims, b".".join(parts[:2]), signature)


def _decode_part(part: bytes) -> bytes:
    try:
        decoded = urlsafe_b64decode(part + b"=" * (-len(part) % 4))
    except ValueError:
        decoded = b""
    # Re-encoding reveals ignored characters, padding and unused bits.
    if not part or urlsafe_b64encode(decoded).rstrip(b"=") != part:
        raise InvalidToken("a part is not base64url")
    return decoded
