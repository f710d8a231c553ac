"""Writes JSON in the canonical form of RFC 8785 (JCS). C code does it, as the gateway hashes megabytes from clients
that are not authenticated yet. No I/O.

`msgspec` sorts members, and writes strings and most numbers as RFC 8785 does. The rest is then corrected in the text,
in one pass for all numbers that need it. (`rfc8785`, in plain Python, takes seconds for a body of 4 MiB.) Corrected
are:

- [fractions] a float without a fraction loses its `.0`, and zero loses its sign;
- [exponents] exponents from 21 on get a plus sign; numbers from 1e-6 to 1e-5, and from 1e16 to 1e21, are written
  without an exponent. These are rewritten one by one, up to a bound;
- [order] members must be in the order of UTF-16 units: objects are sorted again if the order of their names could be
  different in UTF-8.

Property tests compare the results with those of `rfc8785`.

Base64 and base64url are here, too: of each text there is one canonical spelling (RFC 4648 section 3.5).
"""

import math
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Literal, cast

import msgspec

from accredit.base.steps import Steps
from accredit.limits import MAX_SAFE_INTEGER, SHORT_MESSAGE_BYTES

MAX_REWRITTEN_NUMBERS = 25_000
"""The most numbers of one text that are rewritten one by one (1 us each): integers beyond 2^53-1, fractions nearer to
zero than 1e-5, and fractions from 1e16 on. Measurements have a few; lists of large ids some thousands."""


_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_encode = msgspec.json.Encoder().encode

# Neither occurs in UTF-8: they replace escaped backslashes and quotes while strings are separated from the rest.
_BACKSLASH, _QUOTE = b"\xff", b"\xfe"
# Classes of first bytes: 1 for U+E000 to U+FFFF, 2 for characters beyond. In UTF-16 these two sort the other way round.
_PLANES = bytes(0 if byte < 0xEE else 1 if byte < 0xF0 else 2 for byte in range(256))
_SHORT_EXPONENT = re.compile(rb"([0-9])(?<![0-9.][0-9])(?:\.([0-9]++))?e(-6|1[6-9]|20)(?![0-9])")
_ANY_SHORT_EXPONENT = re.compile(rb"e(?:-6|1[6-9]|20)(?![0-9])")
_BARE_EXPONENT = re.compile(rb"e(?=[0-9])")
_NEGATIVE_ZERO = re.compile(rb"-0(?![.0-9])")
# Keeps numbers and blanks everything else. Of a word such as `true` only an e is left, which is not a number.
_NUMBERS = bytes(byte if byte in b"0123456789.eE+-" else ord(" ") for byte in range(256))
# Integers that may exceed 2^53-1: 17 digits or more, or 16 that begin with a nine.
_WIDE = re.compile(rb"[0-9](?<![0-9.][0-9])(?:[0-9]{16,}+|(?<=9)[0-9]{15}+)(?![0-9.eE])")
_LARGEST = b"%d" % MAX_SAFE_INTEGER
_DIGITS_A_NUMBER = 20

# Every digit becomes a zero, so that a plain search can tell whether there is anything to do.
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LONG, _WITH_EXPONENT, _WHOLE = b"0" * 16, b"0e", (b".0,", b".0]", b".0}")
# The same, and whatever is neither digit nor dot becomes a comma, after which an integer begins.
_INTEGERS = bytes(ord("0") if byte in b"0123456789" else byte if byte == ord(".") else ord(",") for byte in range(256))


WideIntegers = Literal["refused", "as doubles", "as written"]
"""How to treat integers beyond 2^53-1, for which RFC 8785 has no form: raise `ValueError`, write the doubles that most
readers take them for, or keep their digits."""


def canonical(tree: object, *, wide_integers: WideIntegers = "refused") -> bytes:
    """Return the RFC 8785 form of a decoded JSON value: dicts, lists, strings, finite numbers, booleans, None.

    Raises `ValueError` for a value without a form (a lone surrogate), and for more than `MAX_REWRITTEN_NUMBERS` numbers
    to rewrite one by one.
    """
    form = _canonical_text(_encode_sorted, tree)
    if _sorts_otherwise(form):
        form = _canonical_text(_encode_in_utf16_order, tree)
    return _with_numbers(form, wide_integers)


def canonical_in_steps(tree: object) -> Steps[bytes]:
    """Do as `canonical`, but in steps: between them, the caller can do other work."""
    form = _canonical_text(_encode_sorted, tree)
    if len(form) > SHORT_MESSAGE_BYTES:
        yield
    if _sorts_otherwise(form):
        form = b""
        yield
        form = _canonical_text(_encode_in_utf16_order, tree)
        yield
    return _with_numbers(form, "refused")


def _canonical_text(write: Callable[[object], bytes], tree: object) -> bytes:
    """Encode a value with `write`. Raises `ValueError` for a value without a canonical form."""
    try:
        return write(tree)
    except UnicodeEncodeError:
        raise ValueError("a lone surrogate in a text") from None
    except (TypeError, OverflowError, RecursionError):
        raise ValueError("not a JSON value with a canonical form") from None


def _sorts_otherwise(form: bytes) -> bool:
    """Return whether the order of an object's names may be different in UTF-16."""
    if form.isascii():
        return False
    planes = form.translate(_PLANES)
    return b"\x01" in planes and b"\x02" in planes


def has_wide_integer(text: bytes) -> bool:
    """Return whether a JSON text holds an integer beyond 2^53-1. Fast for texts without long runs of digits."""
    if not _may_be_wide(text):
        return False
    return _any_wide(_long_integers(b'"'.join(text.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])))


def _may_be_wide(text: bytes) -> bool:
    shape = text.translate(_INTEGERS)
    return shape.startswith(_LONG) or b"," + _LONG in shape


def _long_integers(numbers: bytes) -> list[bytes]:
    """Return the digits of all integers of 16 digits or more."""
    candidates = [number.lstrip(b"-") for number in numbers.translate(_NUMBERS).split() if len(number) > 15]
    return [digits for digits in candidates if len(digits) > 15 and digits.isdigit()]


def _any_wide(integers: list[bytes]) -> bool:
    return bool(integers) and (max(map(len, integers)) > len(_LARGEST) or max(integers) > _LARGEST)


def _with_numbers(form: bytes, wide_integers: WideIntegers) -> bytes:
    """Return the text with its numbers written as RFC 8785 writes them."""
    shape = form.translate(_DIGITS)
    if not (_LONG in shape or _WITH_EXPONENT in shape or any(end in form for end in _WHOLE) or form.endswith(b".0")):
        return form
    escaped = b"\\" in form
    if escaped:
        form = form.replace(b"\\\\", _BACKSLASH).replace(b'\\"', _QUOTE)
    parts = form.split(b'"')
    numbers = b'"'.join(parts[::2])  # everything outside strings; a quote stands for each string
    written = _floats(_integers(numbers, wide_integers))
    if written is not numbers:
        parts[::2] = written.split(b'"')
        form = b'"'.join(parts)
    return form.replace(_QUOTE, b'\\"').replace(_BACKSLASH, b"\\\\") if escaped else form


def _integers(numbers: bytes, wide: WideIntegers) -> bytes:
    integers = _long_integers(numbers) if wide != "as written" and _may_be_wide(numbers) else []
    if not _any_wide(integers):
        return numbers
    if wide == "refused":
        raise ValueError("an integer beyond 2^53-1")
    if sum(map(len, integers)) > _DIGITS_A_NUMBER * MAX_REWRITTEN_NUMBERS:
        raise ValueError("more digits of large integers than are read")
    return _each(_WIDE, _as_double, numbers)


def _as_double(match: re.Match[bytes]) -> bytes:
    if len(match[0]) == len(_LARGEST) and match[0] <= _LARGEST:
        return match[0]
    value = float(match[0])
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
            numbers = _each(_SHORT_EXPONENT, _expand_exponent, numbers)
        numbers = _BARE_EXPONENT.sub(b"e+", numbers)
    return numbers


def _expand_exponent(match: re.Match[bytes]) -> bytes:
    digits = match[1] + (match[2] or b"")
    return b"0.00000" + digits if match[3] == b"-6" else digits.ljust(int(match[3]) + 1, b"0")


def _each(pattern: re.Pattern[bytes], write: Callable[[re.Match[bytes]], bytes], numbers: bytes) -> bytes:
    written, count = pattern.subn(write, numbers, MAX_REWRITTEN_NUMBERS + 1)
    if count > MAX_REWRITTEN_NUMBERS:
        raise ValueError(f"more than {MAX_REWRITTEN_NUMBERS} numbers that are written otherwise in RFC 8785")
    return written if count else numbers


def _encode_in_utf16_order(value: object) -> bytes:
    return _encode(_in_utf16_order(value))


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


# The last characters of a canonical text before "=" (whose two low bits are zero) and before "==" (four are).
_BEFORE_ONE_PAD = frozenset(b"AEIMQUYcgkosw048")
_BEFORE_TWO_PADS = frozenset(b"AQgw")
_PAD = ord("=")


def encode_base64url(data: bytes) -> bytes:
    """Return base64url without padding (RFC 4648 section 5)."""
    return urlsafe_b64encode(data).rstrip(b"=")


def decode_base64url(text: bytes | str) -> bytes:
    """Decode base64url without padding. Raises `ValueError` for a text that `encode_base64url` would not write:
    Python's own decoder ignores foreign characters, padding and unused bits."""
    text = text.encode("ascii") if isinstance(text, str) else text
    data = urlsafe_b64decode(text + b"=" * (-len(text) % 4))
    if encode_base64url(data) != text:
        raise ValueError("another spelling of its base64url")
    return data


def base64_is_canonical(data: bytes) -> bool:
    """Return whether every "=" in `data` follows a character with which canonical base64 can end, so that no bits are
    left over.

    Decoders ignore such bits. `data` may also hold "=" outside of base64, so False only means that `data` must be
    examined more closely.
    """
    if b"\\" in data:
        return False
    find = data.find
    at = find(b"=")
    while at > 0:
        double = data[at + 1] == _PAD
        if data[at - 1] not in (_BEFORE_TWO_PADS if double else _BEFORE_ONE_PAD):
            return False
        at = find(b"=", at + 2)
    return True
