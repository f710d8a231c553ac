"""Makes text of any origin safe to show. No I/O."""

import json

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
