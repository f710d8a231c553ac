"""Canonical JSON (RFC 8785) of what is recorded, and its digests. No I/O.

The text is one that `jsonrpc` has accepted. Its form is found like this:

1. it is decoded; the last of equal members counts, as in most readers;
2. numbers with a fraction or an exponent take the form that ECMAScript gives them;
3. it is encoded with sorted members, by C code;
4. where that can differ from RFC 8785, the `rfc8785` library does it anew: integers of 16 digits and more are doubles
   there, and members sort by UTF-16 units, which is the order of UTF-8 but for names beyond the basic plane.

Texts that differ only in integers beyond 2^53, where doubles can't tell them apart, have the same form.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import NamedTuple, cast

import msgspec
import rfc8785
from msgspec import Raw

from accredit.errors import AttestationError
from accredit.limits import MAX_CANONICAL_RESULT_BYTES, MAX_SAFE_INTEGER

_encode = msgspec.json.Encoder(order="sorted").encode
_LONG_INTEGER = re.compile(rb"[0-9]{16}")
_END_OF_BASIC_PLANE = re.compile(rb"[\xee\xef]")
_BEYOND_BASIC_PLANE = re.compile(rb"[\xf0-\xf4]")


class RecordedParams(NamedTuple):
    """A request's params as they are recorded: the SHA-256 of their canonical form, without `_meta` and tokens, and,
    for records with full arguments, that form itself."""

    sha256: str
    text: bytes | None = None


def sha256_hex(data: bytes) -> str:
    """The SHA-256 of bytes, 64 lowercase hex characters."""
    return hashlib.sha256(data).hexdigest()


def canonical(text: bytes | Raw) -> bytes:
    """The RFC 8785 form of a JSON text. Raises `AttestationError` where it has none (a lone surrogate)."""
    return _canonical(_parse(text))


def recorded_params(params: bytes | Raw | None, *, token_argument: bool, full: bool = False) -> RecordedParams:
    """What goes into the record of a request's `params` (None where it has none): not `_meta`, nor, where a token
    travels there, `arguments._token`. Raises `AttestationError` for a text that has no canonical form."""
    tree = _parse(b"{}" if params is None else params)
    _members(tree).pop("_meta", None)
    if token_argument:
        _members(_members(tree).get("arguments")).pop("_token", None)
    form = _canonical(tree)
    return RecordedParams(sha256_hex(form), form if full else None)


class RecordedChain(NamedTuple):
    """The canonical form of a chain's certificates, a JSON array, leaf first, and the SHA-256 of it."""

    sha256: str
    text: bytes


def recorded_chain(certificates: Iterable[bytes]) -> RecordedChain:
    """What is recorded of a proof's chain: `certificates` are their JSON texts, leaf first."""
    form = canonical(b"[%b]" % b",".join(certificates))
    return RecordedChain(sha256_hex(form), form)


def result_digest(result: bytes | Raw) -> dict[str, str]:
    """What goes into the record of a result: `{"rfc8785-sha256": hex}`, or, where it is over
    `MAX_CANONICAL_RESULT_BYTES` or has no canonical form, `{"sha256": hex}` of its bytes."""
    data = bytes(result)
    if len(data) <= MAX_CANONICAL_RESULT_BYTES:
        try:
            return {"rfc8785-sha256": sha256_hex(canonical(data))}
        except AttestationError:
            pass
    return {"sha256": sha256_hex(data)}


def _members(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _number(text: str) -> object:
    value = float(text)
    if value == 0:
        return 0
    if abs(value) <= MAX_SAFE_INTEGER:
        if value == int(value):
            return int(value)
        if abs(value) >= 1e-5:
            return value
    try:
        return Raw(rfc8785.dumps(value))
    except ValueError:
        raise AttestationError("a number is too large for a canonical form") from None


def _parse(text: bytes | Raw) -> object:
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise AttestationError("not a JSON text with a canonical form") from None


def _canonical(tree: object) -> bytes:
    form = _encode(tree)
    if _LONG_INTEGER.search(form) or (_BEYOND_BASIC_PLANE.search(form) and _END_OF_BASIC_PLANE.search(form)):
        try:
            return rfc8785.dumps(cast("str", _as_doubles(msgspec.json.decode(form))))
        except (ValueError, OverflowError, RecursionError):
            raise AttestationError("not a JSON text with a canonical form") from None
    return form


def _as_doubles(tree: object) -> object:
    if isinstance(tree, dict):
        return {name: _as_doubles(value) for name, value in cast("dict[str, object]", tree).items()}
    if isinstance(tree, list):
        return [_as_doubles(value) for value in cast("list[object]", tree)]
    return float(tree) if isinstance(tree, int) and abs(tree) > MAX_SAFE_INTEGER else tree


_decode = msgspec.json.Decoder(float_hook=_number).decode
