"""Makes text of any origin safe to show. No I/O."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from accredit.errors import one_line as one_line
from accredit.limits import MAX_QUOTED

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


def some_of(names: Sequence[str], most: int) -> str:
    """Return the first `most` names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return one_line(", ".join(names[:most])) + more


def is_utf8(text: str) -> bool:
    """Return whether a text can be encoded in UTF-8. Some file names can't be: Python reads invalid bytes in them as
    lone surrogates."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def several(number: int, what: str) -> str:
    """Return a number with a word in the right form: `1 call`, `2 calls`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def date_time(at: int) -> str:
    """Return a time in RFC 3339, UTC. A time after the year 9999 is a number of seconds."""
    try:
        return (_EPOCH + timedelta(seconds=at)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return f"{at} s after 1970"
