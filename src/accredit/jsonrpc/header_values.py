"""Encodes and decodes HTTP header values that mirror parts of a message (2026-07-28). No I/O."""

import base64
import binascii
import re
from collections.abc import Mapping

_PLAIN = re.compile(rb"[\t\x20-\x7e]*")
_SENTINEL = re.compile(r"=\?base64\?(.*)\?=")

Headers = Mapping[bytes, bytes]
"""Header values by lower-case name. A header that is repeated has all its values, joined by `DUPLICATED`."""

DUPLICATED = b"\0"
"""Joins the values of a repeated header. No valid value contains this byte, so the joined value never equals anything
in a body."""


def plain_header(value: bytes) -> str | None:
    """Return the text of a header value without surrounding blanks (RFC 9110 section 5.5).

    None if it is not ASCII.
    """
    value = value.strip(b" \t")
    return value.decode("ascii") if _PLAIN.fullmatch(value) else None


def encode_header(text: str) -> bytes:
    """Return the header value for a text: the text itself if `decode_header` would return it unchanged, else its Base64
    sentinel form (`=?base64?...?=`)."""
    value = text.encode("utf-8", "surrogatepass")
    if plain_header(value) == text and not _SENTINEL.fullmatch(text):
        return value
    return b"=?base64?" + base64.b64encode(value) + b"?="


def decode_header(value: bytes) -> str | None:
    """Return the text of a header value that may have the Base64 sentinel form `=?base64?...?=`.

    None if it is not ASCII, or the form is malformed.
    """
    text = plain_header(value)
    found = _SENTINEL.fullmatch(text or "")
    if found is None:
        return text
    try:
        decoded = base64.b64decode(found[1], validate=True)
        if base64.b64encode(decoded).decode("ascii") != found[1]:
            return None  # two spellings of one value: only the canonical one counts
        return decoded.decode("utf-8")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
