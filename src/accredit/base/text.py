"""Makes text of any origin safe to show, and bytes into text. No I/O."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode

from accredit.errors import one_line as one_line
from accredit.limits import MAX_QUOTED


def excerpt(text: str | bytes, limit: int = MAX_QUOTED) -> str:
    """Return at most `limit` printable ASCII characters of a peer's text, for an error message."""
    if isinstance(text, bytes):
        text = text[: limit * 4].decode("utf-8", "replace")
    return "".join(char if " " <= char <= "~" else "?" for char in text[:limit])


def json_ascii(value: object) -> str:
    """Return a value as JSON in printable ASCII."""
    return json.dumps(value, separators=(",", ":")).replace("\x7f", "\\u007f")


def escape_text(text: str) -> str:
    """Return a text in printable ASCII, without quotes around it."""
    return json_ascii(text)[1:-1]


def several(number: int, what: str) -> str:
    """Return a number with a word in the right form: `1 call`, `2 calls`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def encode_base64url(data: bytes) -> bytes:
    """Return base64url without padding (RFC 4648 section 5)."""
    return urlsafe_b64encode(data).rstrip(b"=")


def decode_base64url(text: bytes | str) -> bytes:
    """Decode base64url without padding. Raises `ValueError` for all but the one spelling that `encode_base64url` gives
    the result: Python's decoder ignores other characters, padding and unused bits."""
    text = text.encode("ascii") if isinstance(text, str) else text
    data = urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    if encode_base64url(data) != text:
        raise ValueError("another spelling of its base64url")
    return data
