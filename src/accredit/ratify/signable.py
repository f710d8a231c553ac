"""What an agent signs, and the hashes of chains and bundles (Ratify section 4). No I/O.

The signable bytes of every other object are defined beside its structure.
"""

import hashlib
from collections.abc import Iterable

from accredit.ratify.canonical import canonical
from accredit.ratify.structures import DelegationCert, ProofBundle, delegation_sign_bytes
from accredit.ratify.wire import tree

_UINT64 = 2**64


def challenge_sign_bytes(
    challenge: bytes, challenge_at: int, session_context: bytes = b"", stream_id: bytes = b"", stream_seq: int = 0
) -> bytes:
    """Return what an agent signs, in binary: 40 bytes, followed by the session context and the turn of a stream, if
    any.

    Numbers have eight bytes, big-endian, negative ones in two's complement.
    """
    turn = stream_id + _be64(stream_seq) if stream_id else b""
    return challenge + _be64(challenge_at) + session_context + turn


def chain_hash(chain: Iterable[DelegationCert]) -> bytes:
    """Return the 32-byte hash of a chain's signable bytes, leaf first."""
    return hashlib.sha256(b"".join(map(delegation_sign_bytes, chain))).digest()


def bundle_hash(bundle: ProofBundle) -> bytes:
    """Return the 32-byte hash of a bundle in a fixed shape: absent members are included, empty or 0."""
    members = {name: tree(getattr(bundle, name)) for name in bundle.__struct_fields__}
    return hashlib.sha256(canonical(members)).digest()


def _be64(number: int) -> bytes:
    return (number % _UINT64).to_bytes(8, "big")
