"""Reading proof bundles quickly. No I/O.

`ProofBundle.decode` says what a bundle is. Here are texts of which it is plain that `msgspec` alone reads them in the
same way, in half the time. Of what it lets through, none can be in a text of at most the allowed size where

1. there is no backslash: every string is spelled as it is, so no half of a surrogate pair is;
2. there are no more colons than members and strings have: no member is there twice;
3. no integer is 0: none is written "-0", and `Integer` bounds the others;
4. every "=" comes after a character that canonical base64 can end with;
5. certificates with constraints were read strictly by themselves.

Any other text is read strictly, and what is wrong with it is said there. A certificate whose very text was read
before is not read again; that says nothing of its signatures, which the verifier looks at.
"""

from typing import NoReturn

import msgspec
from msgspec import Raw, Struct

from accredit.errors import WireError
from accredit.limits import (
    MAX_GLIMPSED_TEXTS,
    MAX_PROOF_BUNDLE_BYTES,
    MAX_REMEMBERED_TEXT_BYTES,
    MAX_REMEMBERED_TEXTS,
)
from accredit.ratify.cache import RecentlyUsed
from accredit.ratify.constraints import Extension
from accredit.ratify.structures import DelegationCert, Presentation, ProofBundle
from accredit.ratify.wire import base64_is_canonical

_LEVEL_IN_BUNDLE = 3
"""Nesting of a certificate in a bundle."""

_BUNDLE_MEMBERS = 10
"""Members of a bundle without session and stream, its certificates left out and its key's and signature's included."""

_CERT_MEMBERS = 17
"""Members of a certificate without constraints, its keys' and signature's included."""

_NAME_BYTES = 96
"""How much of a certificate's text it is looked up by: the whole `cert_id`, where it comes first."""


class _Envelope(Presentation, frozen=True, kw_only=True):
    delegations: tuple[Raw, ...]


class _Read(Struct, frozen=True):
    """A certificate, its very text, and how many colons that has."""

    text: Raw
    cert: DelegationCert
    colons: int


def _not_plain(_kind: type, _value: object) -> NoReturn:
    raise ValueError("constraints are read strictly")


_read_envelope = msgspec.json.Decoder(_Envelope).decode
_read_certificate = msgspec.json.Decoder(DelegationCert, dec_hook=_not_plain).decode
_glimpsed = RecentlyUsed[bytes, bool](MAX_GLIMPSED_TEXTS)
_remembered = RecentlyUsed[bytes, _Read](MAX_REMEMBERED_TEXTS)


def decode_proof_bundle(data: bytes | str) -> ProofBundle:
    """Reads a proof bundle's JSON text, at most 131,072 bytes. Raises `WireError`."""
    plain = _plain(data) if isinstance(data, bytes) else None
    return plain or ProofBundle.decode(data)


def _plain(data: bytes) -> ProofBundle | None:
    """What the text says, or None where that is not plain."""
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
    """Reads one certificate. Raises `WireError` or what `msgspec` raises."""
    known = _remembered.get(_name(text))
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


def _name(text: Raw) -> bytes:
    return bytes(memoryview(text)[:_NAME_BYTES])


def _nothing_else(data: bytes, envelope: _Envelope, read: list[_Read]) -> bool:
    """Rules 2 to 4 for the whole text."""
    members = _BUNDLE_MEMBERS + bool(envelope.session_context) + 2 * bool(envelope.stream_id)
    colons = members + envelope.agent_id.count(":") + sum([each.colons for each in read])
    return envelope.challenge_at != 0 and _colons(data) == colons and base64_is_canonical(data)


def _colons(data: bytes) -> int:
    return len(data) - len(data.replace(b":", b""))  # faster than counting them


def _remember(read: _Read) -> None:
    """Remembers a text that comes for the second time: most come once, and memory for them would be wasted.

    Parameters could be changed by whoever holds them, so certificates with such are not shared.
    """
    name = _name(read.text)
    if _remembered.get(name) is read:
        return
    if not _glimpsed.get(name):
        _glimpsed.put(name, True)
    elif len(memoryview(read.text)) <= MAX_REMEMBERED_TEXT_BYTES and not _has_parameters(read.cert):
        _remembered.put(name, _Read(read.text.copy(), read.cert, read.colons))


def _has_parameters(cert: DelegationCert) -> bool:
    return any(isinstance(constraint, Extension) for constraint in cert.constraints)
