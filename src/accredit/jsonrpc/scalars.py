"""JSON scalars, read without guessing: a value of another type gives None, and is never converted. No I/O."""

import re
from collections.abc import Callable

import msgspec
from msgspec import Raw

from accredit.limits import MAX_NUMBER_LENGTH

_INTEGER = re.compile(rb"-?(?:0|[1-9][0-9]*)")
_decode_string: Callable[[Raw], str] = msgspec.json.Decoder(str).decode


def as_string(raw: Raw | None) -> str | None:
    """Return the value of a JSON string, or None for anything else."""
    if raw is None:
        return None
    try:
        return _decode_string(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def as_integer(raw: Raw | None) -> int | None:
    """Return the value of a JSON number written as an integer (not 1.0 or 1e3), or None."""
    if raw is None or len(raw) > MAX_NUMBER_LENGTH:
        return None
    text = bytes(raw)
    return int(text) if _INTEGER.fullmatch(text) else None
