"""The form of RFC 8785 (JCS), found by C code: megabytes of strangers are hashed before anybody is known. No I/O.

`msgspec` writes sorted members, and strings and most numbers as RFC 8785 has them. What is left is done in the text, at
once for all that need it; `rfc8785` itself, which is plain Python, takes seconds for a body of 4 MiB:

1. fractions that are whole lose their `.0`, and zero its sign;
2. an exponent from 21 on gets its plus sign; numbers of 1e-6 to 1e-5, and of 1e16 to 1e21, are written out. These are
   written one by one, and there is a bound on how many;
3. members sort by UTF-16 units: where names can tell that from the order of UTF-8, the objects are sorted anew.

Property tests hold it against `rfc8785`.
"""

import math
import re
from collections.abc import Callable
from typing import cast

import msgspec

from accredit.limits import MAX_REWRITTEN_NUMBERS, MAX_SAFE_INTEGER

_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_encode = msgspec.json.Encoder().encode

# Neither occurs in UTF-8: they stand for an escaped backslash and an escaped quote while texts are told apart.
_BACKSLASH, _QUOTE = b"\xff", b"\xfe"
# First bytes of characters: U+E000 to U+FFFF, and those beyond, which sort the other way round in UTF-16.
_PLANES = bytes(0 if byte < 0xEE else 1 if byte < 0xF0 else 2 for byte in range(256))
_SHORT_EXPONENT = re.compile(rb"([0-9])(?<![0-9.][0-9])(?:\.([0-9]++))?e(-6|1[6-9]|20)(?![0-9])")
_ANY_SHORT_EXPONENT = re.compile(rb"e(?:-6|1[6-9]|20)(?![0-9])")
_BARE_EXPONENT = re.compile(rb"e(?=[0-9])")
_NEGATIVE_ZERO = re.compile(rb"-0(?![.0-9])")
# Numbers, each between blanks; of words only an e is left, which is none.
_NUMBERS = bytes(byte if byte in b"0123456789.eE+-" else ord(" ") for byte in range(256))
# Integers that may be beyond 2^53-1: of 17 digits and more, or of 16 that begin with a nine.
_WIDE = re.compile(rb"[0-9](?<![0-9.][0-9])(?:[0-9]{16,}+|(?<=9)[0-9]{15}+)(?![0-9.eE])")
_LARGEST = b"%d" % MAX_SAFE_INTEGER
_DIGITS_A_NUMBER = 20

# Every digit becomes a zero, so that a plain search finds whether there is anything to do.
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LONG, _WITH_EXPONENT, _WHOLE = b"0" * 16, b"0e", (b".0,", b".0]", b".0}")
# The same, and whatever is neither digit nor dot becomes a comma: an integer begins after one.
_INTEGERS = bytes(ord("0") if byte in b"0123456789" else byte if byte == ord(".") else ord(",") for byte in range(256))


def canonical(tree: object, *, wide_integers: bool = False) -> bytes:
    """Return the RFC 8785 form of a JSON value, as decoders make them: dicts, lists, texts, finite numbers, booleans,
    None.

    With `wide_integers`, integers beyond 2^53-1 are written as the doubles that they are to most readers. Raises
    `ValueError` for what has no form (such integers otherwise, a lone surrogate), and for more than
    `MAX_REWRITTEN_NUMBERS` numbers that are written one by one.
    """
    try:
        form = _encode_sorted(tree)
        if not form.isascii() and _sorts_otherwise(form):
            form = _encode(_in_utf16_order(tree))
    except UnicodeEncodeError:
        raise ValueError("a lone surrogate in a text") from None
    except (TypeError, OverflowError, RecursionError):
        raise ValueError("not a JSON value with a canonical form") from None
    return _with_numbers(form, wide_integers)


def _sorts_otherwise(form: bytes) -> bool:
    """Return whether the order of its names may be another in UTF-16."""
    planes = form.translate(_PLANES)
    return b"\x01" in planes and b"\x02" in planes


def has_wide_integer(text: bytes) -> bool:
    """Return whether a JSON text holds an integer beyond 2^53-1. Quick where no digits stand together."""
    if not _may_be_wide(text):
        return False
    return _any_wide(_long_integers(b'"'.join(text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])))


def _may_be_wide(text: bytes) -> bool:
    shape = text.translate(_INTEGERS)
    return shape.startswith(_LONG) or b"," + _LONG in shape


def _long_integers(numbers: bytes) -> list[bytes]:
    """Return the digits of integers of 16 digits and more."""
    found = [number.lstrip(b"-") for number in numbers.translate(_NUMBERS).split() if len(number) > 15]
    return [digits for digits in found if len(digits) > 15 and digits.isdigit()]


def _any_wide(integers: list[bytes]) -> bool:
    return bool(integers) and (max(map(len, integers)) > len(_LARGEST) or max(integers) > _LARGEST)


def _with_numbers(form: bytes, wide_integers: bool) -> bytes:
    """Return the text with its numbers as RFC 8785 has them."""
    shape = form.translate(_DIGITS)
    if not (_LONG in shape or _WITH_EXPONENT in shape or any(end in form for end in _WHOLE) or form.endswith(b".0")):
        return form
    escaped = b"\\" in form
    if escaped:
        form = form.replace(b"\\\\", _BACKSLASH).replace(b'\\"', _QUOTE)
    parts = form.split(b'"')
    numbers = b'"'.join(parts[::2])  # all that is no text, with a quote in the place of each
    written = _floats(_integers(numbers, wide_integers))
    if written is not numbers:
        parts[::2] = written.split(b'"')
        form = b'"'.join(parts)
    return form.replace(_QUOTE, b'\\"').replace(_BACKSLASH, b"\\\\") if escaped else form


def _integers(numbers: bytes, wide: bool) -> bytes:
    integers = _long_integers(numbers) if _may_be_wide(numbers) else []
    if not _any_wide(integers):
        return numbers
    if not wide:
        raise ValueError("an integer beyond 2^53-1")
    if sum(map(len, integers)) > _DIGITS_A_NUMBER * MAX_REWRITTEN_NUMBERS:
        raise ValueError("more digits of large integers than are read")
    return _each(_WIDE, _as_double, numbers)


def _as_double(found: re.Match[bytes]) -> bytes:
    if len(found[0]) == len(_LARGEST) and found[0] <= _LARGEST:
        return found[0]
    value = float(found[0])
    if math.isinf(value):
        raise ValueError("an integer that is not finite as a double")
    return _encode(value)


def _floats(numbers: bytes) -> bytes:
    for whole in _WHOLE:
        numbers = numbers.replace(whole, whole[2:])
    numbers = numbers.removesuffix(b".0")
    if b"-0" in numbers:
        numbers = _NEGATIVE_ZERO.sub(b"0", numbers)
    if _WITH_EXPONENT in numbers.translate(_DIGITS):
        if _ANY_SHORT_EXPONENT.search(numbers):
            numbers = _each(_SHORT_EXPONENT, _written_out, numbers)
        numbers = _BARE_EXPONENT.sub(b"e+", numbers)
    return numbers


def _written_out(found: re.Match[bytes]) -> bytes:
    digits = found[1] + (found[2] or b"")
    return b"0.00000" + digits if found[3] == b"-6" else digits.ljust(int(found[3]) + 1, b"0")


def _each(pattern: re.Pattern[bytes], write: Callable[[re.Match[bytes]], bytes], numbers: bytes) -> bytes:
    written, count = pattern.subn(write, numbers, MAX_REWRITTEN_NUMBERS + 1)
    if count > MAX_REWRITTEN_NUMBERS:
        raise ValueError(f"more than {MAX_REWRITTEN_NUMBERS} numbers that are written otherwise in RFC 8785")
    return written if count else numbers


def _in_utf16_order(value: object) -> object:
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        names = sorted(members, key=_utf16) if len(members) > 1 else members
        return {name: _in_utf16_order(members[name]) for name in names}
    if isinstance(value, list | tuple):
        return [_in_utf16_order(item) for item in cast("list[object]", value)]
    return value


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be")
