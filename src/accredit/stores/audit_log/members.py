"""Encodes a signature's members for a log's entry. No I/O.

A signature's members are not signed, and verification may not cover every bit of them, or of the signature's bytes. So
a SHA-256 of both is kept with the members. It is not signed either, but reveals damage.
"""

import hashlib

from accredit.attest import Signature

_DIGEST_BYTES = 32


def encode_members(signature: Signature) -> bytes | None:
    """Encode a signature's members, without its bytes."""
    return _digest(signature) + signature.members if signature.members else None


def restore_members(signature: Signature, members: object) -> Signature | None:
    """Return the signature with the members that its entry holds; None if the signature or the members are damaged."""
    if members is None:
        return signature
    if not isinstance(members, bytes):
        return None
    whole = signature._replace(members=members[_DIGEST_BYTES:])
    return whole if whole.members and _digest(whole) == members[:_DIGEST_BYTES] else None


def _digest(signature: Signature) -> bytes:
    return hashlib.sha256(b"%d %b%b" % (len(signature.data), signature.data, signature.members)).digest()
