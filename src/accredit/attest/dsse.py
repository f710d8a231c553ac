"""Envelopes: DSSE v1 (secure-systems-lab/dsse, `envelope.md` and `protocol.md`), read strictly. No I/O.

The signed bytes are DSSE's pre-authentication encoding. Its lengths count bytes, and are written in decimal ASCII
without leading zeros. An envelope is accepted only if:

- [members] it is one JSON object with `payload`, `payloadType` and `signatures`, and nothing else;
- [signatures] each signature is an object with `keyid` and `sig`; its other members are kept in canonical form, and
  have at most `MAX_SIGNATURE_MEMBERS_BYTES`;
- [base64] its base64 is standard, padded and canonical, so that no bit of it can change unnoticed;
- [presence] it has at least one signature.

`signing` checks who signed, whether the signatures are valid, and whether they may have other members.
"""

import binascii
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from accredit.attest.canonical import canonical
from accredit.errors import AttestationError
from accredit.limits import MAX_ATTESTATION_BYTES

MAX_SIGNATURE_MEMBERS_BYTES = 65_536
"""The most bytes of a signature's further members, as canonical JSON. A sigstore bundle has some 10 KB."""


PAYLOAD_TYPE = "application/vnd.in-toto+json"


class Signature(NamedTuple):
    """A signature's raw bytes, and the id of the key that supposedly made it.

    `members` are its other members, such as a sigstore bundle: a canonical JSON object, or empty.
    """

    key_id: str
    data: bytes
    members: bytes = b""


class Envelope(NamedTuple):
    """A payload of `PAYLOAD_TYPE` and its signatures."""

    payload: bytes
    signatures: tuple[Signature, ...]


class _WireSignature(Struct, frozen=True, forbid_unknown_fields=True):
    keyid: str
    sig: str


class _WireEnvelope(Struct, frozen=True, forbid_unknown_fields=True):
    payload: str
    payloadType: str
    signatures: tuple[Raw, ...]


_decode = msgspec.json.Decoder(_WireEnvelope).decode
_decode_signature = msgspec.json.Decoder(_WireSignature).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_KEPT = frozenset(("keyid", "sig"))
_NOT_AN_ENVELOPE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_PREFIX = b"DSSEv1 %d %b " % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode("ascii"))


def signed_bytes(payload: bytes) -> bytes:
    """Return the bytes to sign for a payload of `PAYLOAD_TYPE` (DSSE's PAE)."""
    return b"%b%d %b" % (_PREFIX, len(payload), payload)


def encode_envelope(envelope: Envelope) -> bytes:
    """Return the envelope's JSON text: one line, without a line end."""
    return msgspec.json.encode(
        _WireEnvelope(
            _base64(envelope.payload),
            PAYLOAD_TYPE,
            tuple(map(_signature_text, envelope.signatures)),
        )
    )


def signature_members(members: object) -> bytes:
    """Return a signature's other members (given as a mapping) in the form of `Signature.members`. Raises
    `AttestationError`."""
    if not members:
        return b""
    try:
        text = msgspec.json.encode(members)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise AttestationError("a signature has members that are not JSON") from None
    form = canonical(_check_size(text))
    if not form.startswith(b"{") or _KEPT & _decode_members(form).keys():
        raise AttestationError("what a signature holds beside its bytes is no object of other members")
    return _check_size(form)  # checked again: canonical numbers may be longer


def decode_envelope(text: bytes) -> Envelope:
    """Read an envelope, and check the rules from [members] to [presence]. Raises `AttestationError`."""
    if len(text) > MAX_ATTESTATION_BYTES:
        raise AttestationError(f"an envelope of more than {MAX_ATTESTATION_BYTES} bytes")
    try:
        wire = _decode(text)
        signatures = tuple(map(_signature, wire.signatures))
    except _NOT_AN_ENVELOPE:
        raise AttestationError("not a DSSE envelope") from None
    if wire.payloadType != PAYLOAD_TYPE:
        raise AttestationError(f"the payload is not of type {PAYLOAD_TYPE}")
    if not wire.signatures:
        raise AttestationError("the envelope has no signature")
    return Envelope(_bytes(wire.payload), signatures)


def _signature_text(signature: Signature) -> Raw:
    text = msgspec.json.encode(_WireSignature(signature.key_id, _base64(signature.data)))
    return Raw(b"%b,%b" % (text[:-1], signature.members[1:]) if signature.members else text)


def _signature(text: Raw) -> Signature:
    try:
        wire = _decode_signature(text)
    except msgspec.ValidationError:
        wire, members = _signature_with_members(text)
    else:
        members = b""
    return Signature(wire.keyid, _bytes(wire.sig), members)


def _signature_with_members(text: Raw) -> tuple[_WireSignature, bytes]:
    members = _decode_members(text)
    wire = msgspec.convert({name: msgspec.json.decode(members.pop(name, b"null")) for name in _KEPT}, _WireSignature)
    return wire, signature_members(members)


def _check_size(members: bytes) -> bytes:
    if len(members) > MAX_SIGNATURE_MEMBERS_BYTES:
        raise AttestationError(f"a signature with more than {MAX_SIGNATURE_MEMBERS_BYTES} bytes beside its own")
    return members


def _base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def _bytes(text: str) -> bytes:
    try:
        data = binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        raise AttestationError("the envelope's base64 is not valid") from None
    if _base64(data) != text:
        raise AttestationError("the envelope's base64 is not canonical")
    return data
