"""Encodes a signature's members for a log's entry. No I/O.

They are not part of what is signed, and the key may not verify every bit of them, or of the signature's bytes. So they
are kept with the SHA-256 of both, which is not signed either, but reveals damage.
"""

import hashlib

from accredit.attest import Signature

_DIGEST_BYTES = 32


def encode_members(signature: Signature) -> bytes | None:
    """Encode a signature's members, without its bytes."""
    return _digest(signature) + signature.members if signature.members else None


def restore_members(signature: Signature, members: object) -> Signature | None:
    """Return the signature with its entry's members, or None if either is damaged."""
    if members is None:
        return signature
    if not isinstance(members, bytes):
        return None
    whole = signature._replace(members=members[_DIGEST_BYTES:])
    return whole if whole.members and _digest(whole) == members[:_DIGEST_BYTES] else None


def _digest(signature: Signature) -> bytes:
    return hashlib.sha256(b"%d %b%b" % (len(signature.data), signature.data, signature.members)).digest()
