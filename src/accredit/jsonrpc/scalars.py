"""JSON scalars, read without guessing: a value of another type is None, never converted. No I/O."""

import re
from collections.abc import Callable

import msgspec
from msgspec import Raw

from accredit.limits import MAX_NUMBER_LENGTH

_INTEGER = re.compile(rb"-?(?:0|[1-9][0-9]*)")
_decode_string: Callable[[Raw], str] = msgspec.json.Decoder(str).decode


def as_string(raw: Raw | None) -> str | None:
    """The value of a JSON string, or None when it is anything else."""
    if raw is None:
        return None
    try:
        return _decode_string(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def as_integer(raw: Raw | None) -> int | None:
    """The value of a JSON number that is written as an integer (1.0 is not, nor is 1e3), or None."""
    if raw is None or len(raw) > MAX_NUMBER_LENGTH:
        return None
    text = bytes(raw)
    return int(text) if _INTEGER.fullmatch(text) else None
