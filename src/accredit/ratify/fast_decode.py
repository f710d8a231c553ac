"""Reads proof bundles quickly. No I/O.

`ProofBundle.decode` defines what a bundle is. This module recognises texts that `msgspec` alone reads in the same way,
in half the time. A text within the allowed size is one of these if:

- [backslash] it has no backslash, so every string is spelled literally, and no surrogate stands alone;
- [repetition] it has no more colons than its members and strings account for, so no member occurs twice;
- [zero] no integer in it is 0, so none can be written "-0"; the other integers are bounded by `Integer`;
- [base64] every "=" follows a character with which canonical base64 can end;
- [constraints] each of its certificates with constraints was read strictly.

Any other text is read strictly, which also produces the errors. A certificate whose exact text was read before is not
read again; its signatures are still checked by the verifier.
"""

from typing import NoReturn

import msgspec
from msgspec import Raw, Struct

from accredit.base.caching import RecentlyUsed
from accredit.errors import WireError
from accredit.limits import MAX_PROOF_BUNDLE_BYTES
from accredit.ratify.constraints import Extension
from accredit.ratify.structures import DelegationCert, Presentation, ProofBundle
from accredit.ratify.wire import base64_is_canonical

MAX_GLIMPSED_TEXTS = 4_096
"""How many certificates' texts that were seen once are remembered, each by its first bytes, in some 250 bytes."""
MAX_REMEMBERED_TEXTS = 256
"""How many certificates' texts that were seen twice are remembered, each with the decoded certificate."""
MAX_REMEMBERED_TEXT_BYTES = 16_384
"""The most bytes of such a remembered text. A certificate with a few scopes has 11 KB. With the decoded object and two
loaded keys, of 11 KiB each (measured), 256 of them take at most 14 MiB."""


_LEVEL_IN_BUNDLE = 3
"""The level of nesting at which a certificate is in a bundle."""

_BUNDLE_MEMBERS = 10
"""How many members a bundle without session and stream has. Those of its key and signature are counted, those of its
certificates are not."""

_CERT_MEMBERS = 17
"""How many members a certificate without constraints has. Those of its keys and signature are counted."""

_LOOKUP_BYTES = 96
"""How many bytes of a certificate's text are used as its lookup key. They include the whole `cert_id` if that comes
first."""


class _Envelope(Presentation, frozen=True, kw_only=True):
    delegations: tuple[Raw, ...]


class _Read(Struct, frozen=True):
    """A certificate, its exact text, and the number of colons in that text."""

    text: Raw
    cert: DelegationCert
    colons: int


def _not_plain(_kind: type, _value: object) -> NoReturn:
    raise ValueError("constraints are read strictly")


_read_envelope = msgspec.json.Decoder(_Envelope).decode
_read_certificate = msgspec.json.Decoder(DelegationCert, dec_hook=_not_plain).decode
_seen_once = RecentlyUsed[bytes, bool](MAX_GLIMPSED_TEXTS)
_remembered = RecentlyUsed[bytes, _Read](MAX_REMEMBERED_TEXTS)


def decode_proof_bundle(data: bytes | str) -> ProofBundle:
    """Read a proof bundle's JSON text, at most 131,072 bytes. Raises `WireError`."""
    plain = _plain(data) if isinstance(data, bytes) else None
    return plain or ProofBundle.decode(data)


def _plain(data: bytes) -> ProofBundle | None:
    """Return the bundle if this module may read the text; None if the text must be read strictly."""
    if len(data) > MAX_PROOF_BUNDLE_BYTES or b"\\" in data:
        return None
    try:
        envelope = _read_envelope(data)
        read = [_certificate(raw) for raw in envelope.delegations]
        envelope.check("", 1)
    except (msgspec.MsgspecError, ValueError, RecursionError, WireError):
        return None
    if not read or not _nothing_else(data, envelope, read):
        return None
    for each in read:
        _remember(each)
    return ProofBundle(
        agent_id=envelope.agent_id,
        agent_pub_key=envelope.agent_pub_key,
        challenge=envelope.challenge,
        challenge_at=envelope.challenge_at,
        challenge_sig=envelope.challenge_sig,
        session_context=envelope.session_context,
        stream_id=envelope.stream_id,
        stream_seq=envelope.stream_seq,
        delegations=tuple([each.cert for each in read]),
    )


def _certificate(text: Raw) -> _Read:
    """Read one certificate. Raises `WireError` or what `msgspec` raises."""
    known = _remembered.get(_lookup_key(text))
    if known is not None and known.text == text:
        return known
    try:
        cert = _read_certificate(text)
    except msgspec.ValidationError:
        cert = None
    if cert is None or not (cert.version and cert.issued_at and cert.expires_at):
        cert = DelegationCert.decode(bytes(text))
        colons = _colons(bytes(text))
    else:
        colons = _CERT_MEMBERS + "".join((cert.cert_id, cert.issuer_id, cert.subject_id, *cert.scope)).count(":")
    cert.check("", _LEVEL_IN_BUNDLE)
    return _Read(text, cert, colons)


def _lookup_key(text: Raw) -> bytes:
    return bytes(memoryview(text)[:_LOOKUP_BYTES])


def _nothing_else(data: bytes, envelope: _Envelope, read: list[_Read]) -> bool:
    """Check the rules from [repetition] to [base64] for the whole text."""
    members = _BUNDLE_MEMBERS + bool(envelope.session_context) + 2 * bool(envelope.stream_id)
    colons = members + envelope.agent_id.count(":") + sum([each.colons for each in read])
    return envelope.challenge_at != 0 and _colons(data) == colons and base64_is_canonical(data)


def _colons(data: bytes) -> int:
    return len(data) - len(data.replace(b":", b""))  # faster than counting them


def _remember(read: _Read) -> None:
    """Cache a text when it is seen for the second time. Most texts are seen once, and would only fill the memory.

    A certificate whose constraints have parameters is not cached: these are mutable, so a caller could change them.
    """
    name = _lookup_key(read.text)
    if _remembered.get(name) is read:
        return
    if not _seen_once.get(name):
        _seen_once.put(name, True)
    elif len(memoryview(read.text)) <= MAX_REMEMBERED_TEXT_BYTES and not _has_parameters(read.cert):
        _remembered.put(name, _Read(read.text.copy(), read.cert, read.colons))


def _has_parameters(cert: DelegationCert) -> bool:
    return any(isinstance(constraint, Extension) for constraint in cert.constraints)
