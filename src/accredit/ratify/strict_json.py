"""Strict reading of received JSON (Ratify section 12, steps 1 to 3). No I/O.

- [size] The text has at most the allowed number of bytes. This is checked before anything is parsed.
- [encoding] It is UTF-8 without a byte order mark.
- [value] It is one JSON value. No object has a member twice; there is no NaN or infinity, no "-0", no integer outside
  the safe range, and no lone surrogate.

`wire` then checks the value against a structure. Nesting is bounded there and not here, as only an extension's
parameters may nest freely.
"""

import json
import math

from accredit.errors import WireError
from accredit.limits import MAX_QUOTED, MAX_SAFE_INTEGER

_GONE = object()


def quote(text: str) -> str:
    """Return at most `MAX_QUOTED` characters of a text from a peer, in quotes and in ASCII."""
    return json.dumps(text[:MAX_QUOTED])


def parse(data: bytes, max_bytes: int) -> object:
    """Return the value of a JSON text, as dicts, lists, strings, integers, floats, booleans and None.

    Raises `WireError`, and nothing else, for a text that breaks a rule above.
    """
    if len(data) > max_bytes:
        raise WireError("", f"more than {max_bytes} bytes")
    try:
        text = str(data, "utf-8")
        value: object = _decode(text)
        if "\\" in text:  # only an escape can spell half of a surrogate pair
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError:
        raise WireError("", "not UTF-8") from None
    except UnicodeEncodeError:
        raise WireError("", "a lone surrogate in a string") from None
    except RecursionError:
        raise WireError("", "nested too deep") from None
    except ValueError:
        raise WireError("", "not one JSON value") from None
    return value


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        for name, _ in pairs:
            if members.pop(name, _GONE) is _GONE:
                raise WireError("", f"duplicate key {quote(name)} in JSON object")
    return members


def _integer(text: str) -> int:
    # A longer text is out of range whatever its digits; converting all of it would take quadratic time.
    value = int(text[:20])
    if not -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        raise WireError("", "integer outside the safe-integer range [-(2^53-1), 2^53-1]")
    if value == 0 and text[0] == "-":
        raise WireError("", "-0 is not the shortest form of zero")
    return value


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise WireError("", "a number that is too large")
    if value == 0 and text[0] == "-":
        raise WireError("", "-0 is not the shortest form of zero")
    return value


def _constant(name: str) -> float:
    raise WireError("", f"{name} is not JSON")


_decode = json.JSONDecoder(
    object_pairs_hook=_members, parse_int=_integer, parse_float=_number, parse_constant=_constant
).decode
