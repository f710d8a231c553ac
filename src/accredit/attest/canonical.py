"""Canonical JSON (RFC 8785) of what is recorded, and its digests. No I/O.

The text is one that `jsonrpc` has accepted. It is decoded (the last of equal members counts, as in most readers), and
written by `accredit.canonical`.

Texts that differ only in integers beyond 2^53, where doubles can't tell them apart, have the same form.
"""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple, cast

import msgspec
from msgspec import Raw

from accredit.canonical import canonical as canonical_form
from accredit.errors import AttestationError
from accredit.limits import MAX_CANONICAL_RESULT_BYTES


class RecordedParams(NamedTuple):
    """A request's params as they are recorded: the SHA-256 of their canonical form, without `_meta` and tokens, and,
    for records with full arguments, that form itself."""

    sha256: str
    text: bytes | None = None


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of bytes, 64 lowercase hex characters."""
    return hashlib.sha256(data).hexdigest()


def canonical(text: bytes | Raw) -> bytes:
    """Return the RFC 8785 form of a JSON text. Raises `AttestationError` where it has none (a lone surrogate)."""
    return _canonical(_parse(text))


def recorded_params(params: bytes | Raw | None, *, token_argument: bool, full: bool = False) -> RecordedParams:
    """Return what goes into the record of a request's `params` (None where it has none): not `_meta`, nor, where a
    token travels there, `arguments._token`. Raises `AttestationError` for a text that has no canonical form."""
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
    """Return what is recorded of a proof's chain: `certificates` are their JSON texts, leaf first."""
    form = canonical(b"[%b]" % b",".join(certificates))
    return RecordedChain(sha256_hex(form), form)


def result_digest(result: bytes | Raw) -> dict[str, str]:
    """Return what goes into the record of a result: `{"rfc8785-sha256": hex}`, or, where it is over
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


def _parse(text: bytes | Raw) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise AttestationError("not a JSON text with a canonical form") from None


def _canonical(tree: object) -> bytes:
    try:
        return canonical_form(tree, wide_integers=True)
    except ValueError:
        raise AttestationError("not a JSON text with a canonical form") from None
