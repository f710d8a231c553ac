"""Envelopes: DSSE v1 (secure-systems-lab/dsse, `envelope.md` and `protocol.md`), read strictly. No I/O.

What is signed is the pre-authentication encoding: lengths are decimal ASCII without leading zeros, and count bytes.
An envelope is read only when:

1. it is one JSON object with `payload`, `payloadType` and `signatures`, each of them with `keyid` and `sig`, and
   nothing else;
2. its base64 is standard, padded and canonical, so that no bit of it can change unnoticed;
3. it has a signature.

Who signed, and whether the signatures are good, is for `verify` to say.
"""

import binascii
from typing import NamedTuple

import msgspec
from msgspec import Struct

from accredit.errors import AttestationError
from accredit.limits import MAX_ATTESTATION_BYTES

PAYLOAD_TYPE = "application/vnd.in-toto+json"


class Signature(NamedTuple):
    """The raw bytes of a signature, and which key is said to have made it."""

    key_id: str
    data: bytes


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
    signatures: tuple[_WireSignature, ...]


_decode = msgspec.json.Decoder(_WireEnvelope).decode
_PREFIX = b"DSSEv1 %d %b " % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode("ascii"))


def signed_bytes(payload: bytes) -> bytes:
    """What is signed of a payload of `PAYLOAD_TYPE` (DSSE's PAE)."""
    return b"%b%d %b" % (_PREFIX, len(payload), payload)


def encode_envelope(envelope: Envelope) -> bytes:
    """The envelope's JSON text, on one line without its end."""
    return msgspec.json.encode(
        _WireEnvelope(
            _base64(envelope.payload),
            PAYLOAD_TYPE,
            tuple(_WireSignature(each.key_id, _base64(each.data)) for each in envelope.signatures),
        )
    )


def decode_envelope(text: bytes) -> Envelope:
    """Rules 1 to 3. Raises `AttestationError`."""
    if len(text) > MAX_ATTESTATION_BYTES:
        raise AttestationError(f"an envelope of more than {MAX_ATTESTATION_BYTES} bytes")
    try:
        wire = _decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise AttestationError("not a DSSE envelope") from None
    if wire.payloadType != PAYLOAD_TYPE:
        raise AttestationError(f"the payload is not of type {PAYLOAD_TYPE}")
    if not wire.signatures:
        raise AttestationError("the envelope has no signature")
    return Envelope(_bytes(wire.payload), tuple(Signature(each.keyid, _bytes(each.sig)) for each in wire.signatures))


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
