"""How a signature's members are kept in a log's entry. No I/O.

They are no part of what is signed, and their key may not look at each bit of them, nor of the signature's bytes beside
them. So they are kept with the SHA-256 of both: it is not signed either, and finds damage.
"""

import hashlib

from accredit.attest import Signature

_DIGEST_BYTES = 32


def kept(signature: Signature) -> bytes | None:
    """Return what the entry holds of a signature beside its bytes."""
    return _digest(signature) + signature.members if signature.members else None


def restored(signature: Signature, members: object) -> Signature | None:
    """Return the signature with what its entry holds beside its bytes, or None where one of them is damaged."""
    if members is None:
        return signature
    if not isinstance(members, bytes):
        return None
    whole = signature._replace(members=members[_DIGEST_BYTES:])
    return whole if whole.members and _digest(whole) == members[:_DIGEST_BYTES] else None


def _digest(signature: Signature) -> bytes:
    return hashlib.sha256(b"%d %b%b" % (len(signature.data), signature.data, signature.members)).digest()
