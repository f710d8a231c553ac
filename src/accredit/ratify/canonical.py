"""Canonical JSON, the form that is signed (Ratify section 3). No I/O.

- [members] The text is UTF-8 without whitespace, and members are sorted by the bytes of their names.
- [strings] Strings escape only what JSON requires, and U+2028 and U+2029.
- [bytes-integers] Bytes are padded standard base64; integers are plain decimals in the safe range (up to 2^53-1).
- [fractions] Numbers that may have a fraction must first go through `number`, which gives them ECMAScript's form.
"""

import msgspec
from msgspec import Raw

from accredit.errors import WireError
from accredit.limits import MAX_SAFE_INTEGER

_encode = msgspec.json.Encoder(order="sorted").encode
_LINE_SEPARATOR = "\u2028".encode()
_PARAGRAPH_SEPARATOR = "\u2029".encode()


def canonical(value: object) -> bytes:
    """Return the canonical text of structs, mappings, sequences, strings, bytes, integers, booleans and null.

    Floats must come from `number`. Raises `WireError` for anything else, and for a lone surrogate.
    """
    try:
        text = _encode(value)
    except UnicodeEncodeError:
        raise WireError("", "a lone surrogate in a string") from None
    except (TypeError, ValueError, OverflowError):
        raise WireError("", "a value without a canonical form") from None
    if text.isascii():
        return text
    return text.replace(_LINE_SEPARATOR, b"\\u2028").replace(_PARAGRAPH_SEPARATOR, b"\\u2029")


def number(value: float) -> int | float | Raw:
    """Return a number in the form that `canonical` takes. Integral values then print as integers, and others as in
    ECMAScript.

    Raises `WireError` for NaN, infinities and magnitudes above 2^53-1, on whose form implementations differ.
    """
    if not abs(value) <= MAX_SAFE_INTEGER:
        raise WireError("", "a number without a canonical form")
    if value == int(value):
        return int(value)
    if 1e-6 <= abs(value) < 1e-5:  # the one decade in which msgspec and ECMAScript differ
        digits = repr(abs(value)).partition("e")[0].replace(".", "")
        return Raw(f"{'-' if value < 0 else ''}0.00000{digits}".encode())
    return value
