"""Canonical JSON (RFC 8785) of recorded values, and its digests. No I/O.

`jsonrpc` has already accepted the text. It is decoded and written again by `accredit.canonical`. If a member is
repeated, the last one counts, as in most readers. Integers beyond 2^53 are treated as doubles. So two texts have the
same form if they differ only in such integers that are equal as doubles.
"""

import hashlib
from collections.abc import Generator, Iterable, Mapping
from typing import NamedTuple, cast

import msgspec
from msgspec import Raw

from accredit.canonical import canonical as canonical_form
from accredit.errors import AttestationError

MAX_CANONICAL_RESULT_BYTES = 262_144
"""The most bytes of a result whose digest is that of its canonical form, which takes up to 0.1 s if the result is all
fractions. For a longer result, the digest is that of its original bytes."""


_Params = bytes | Raw | Mapping[str, Raw] | None
"""A request's `params`: their text, or their members if already split; None if absent."""


class RecordedParams(NamedTuple):
    """A request's params as recorded: the SHA-256 of their canonical form, without `_meta` and tokens. If full
    arguments are recorded, also that form itself."""

    sha256: str
    text: bytes | None = None


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of bytes: 64 lower-case hex characters."""
    return hashlib.sha256(data).hexdigest()


def canonical(text: bytes | Raw) -> bytes:
    """Return the RFC 8785 form of a JSON text. Raises `AttestationError` if it has none (a lone surrogate)."""
    return _canonical(_parse(text))


def recorded_params(params: _Params, *, token_argument: bool, full: bool = False) -> RecordedParams:
    """Return a request's `params` as recorded: without `_meta` and, with `token_argument`, without `arguments._token`.
    Raises `AttestationError` for a text without a canonical form."""
    steps = record_params(params, token_argument=token_argument, full=full)
    while True:
        try:
            next(steps)
        except StopIteration as last:
            return last.value


def record_params(
    params: _Params, *, token_argument: bool, full: bool = False
) -> Generator[None, None, RecordedParams]:
    """Do as `recorded_params`, but in steps: between them, the caller can do other work."""
    if isinstance(params, Mapping):
        tree: object = {name: _parse(value) for name, value in params.items()}
    else:
        tree = _parse(b"{}" if params is None else params)
    yield
    _members(tree).pop("_meta", None)
    if token_argument:
        _members(_members(tree).get("arguments")).pop("_token", None)
    form = _canonical(tree)
    yield
    return RecordedParams(sha256_hex(form), form if full else None)


class RecordedChain(NamedTuple):
    """A proof's certificate chain as recorded: the canonical form of its certificates (a JSON array, leaf first), and
    the SHA-256 of that form."""

    sha256: str
    text: bytes


def recorded_chain(certificates: Iterable[bytes]) -> RecordedChain:
    """Return a proof's chain as recorded. `certificates` are JSON texts, leaf first."""
    form = canonical(b"[%b]" % b",".join(certificates))
    return RecordedChain(sha256_hex(form), form)


def result_digest(result: bytes | Raw) -> dict[str, str]:
    """Return a result's digest as recorded: `{"rfc8785-sha256": hex}`. If the result is longer than
    `MAX_CANONICAL_RESULT_BYTES`, or has no canonical form, return `{"sha256": hex}` of its bytes."""
    if len(result) <= MAX_CANONICAL_RESULT_BYTES:
        try:
            return {"rfc8785-sha256": sha256_hex(canonical(bytes(result)))}
        except AttestationError:
            pass
    return {"sha256": hashlib.sha256(memoryview(result)).hexdigest()}


def _members(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _parse(text: bytes | Raw) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise AttestationError("not a JSON text with a canonical form") from None


def _canonical(tree: object) -> bytes:
    try:
        return canonical_form(tree, wide_integers="as doubles")
    except ValueError:
        raise AttestationError("not a JSON text with a canonical form") from None
