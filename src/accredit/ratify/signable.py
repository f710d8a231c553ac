"""The bytes that an agent signs, the hashes that bind them to one call, and the hashes of chains and bundles (Ratify
section 4). No I/O.

A signature is bound to a call by two hashes: of its operation, and of the session in which it is requested. In both
hashes every member is preceded by its length, so that no two calls give the same bytes. Text is UTF-8, unchanged.

The signable bytes of every other object are defined beside its structure.
"""

import hashlib
from collections.abc import Iterable

from accredit.ratify.canonical import canonical
from accredit.ratify.structures import DelegationCert, ProofBundle, delegation_sign_bytes
from accredit.ratify.wire import tree

_OPERATION_TAG = b"ratify/operation-context/v1"
_SESSION_TAG = b"ratify/session-context/v1"
HASH_BYTES = 32
_UINT64 = 2**64


def challenge_sign_bytes(
    challenge: bytes, challenge_at: int, session_context: bytes = b"", stream_id: bytes = b"", stream_seq: int = 0
) -> bytes:
    """Return the bytes that an agent signs: 40 bytes, followed by the session context and the stream turn, if there are
    any.

    Numbers have eight bytes, big-endian, negative ones in two's complement.
    """
    turn = stream_id + _be64(stream_seq) if stream_id else b""
    return challenge + _be64(challenge_at) + session_context + turn


def chain_hash(chain: Iterable[DelegationCert]) -> bytes:
    """Return the 32-byte hash of a chain's signable bytes, leaf first."""
    return hashlib.sha256(b"".join(map(delegation_sign_bytes, chain))).digest()


def bundle_hash(bundle: ProofBundle) -> bytes:
    """Return the 32-byte hash of a bundle. The hashed text always has the same members: absent ones are in it, empty or
    0."""
    members = {name: tree(getattr(bundle, name)) for name in bundle.__struct_fields__}
    return hashlib.sha256(canonical(members)).digest()


def operation_context_hash(
    required_scope: str = "",
    operation: str = "",
    resource_id: str = "",
    requested_path: str = "",
    payload_digest: bytes = b"",
) -> bytes:
    """Return the 32-byte request hash of an operation. Absent members are empty; a payload digest has 32 bytes.

    Raises `ValueError` for a digest of another length, or a text with a lone surrogate.
    """
    if len(payload_digest) not in (0, HASH_BYTES):
        raise ValueError(f"a payload digest has {HASH_BYTES} bytes")
    return _hash(_OPERATION_TAG, (required_scope, operation, resource_id, requested_path), payload_digest)


def build_session_context(
    verifier_id: str = "",
    workspace_id: str = "",
    agent_id: str = "",
    session_id: str = "",
    invocation_id: str = "",
    request_hash: bytes = b"",
) -> bytes:
    """Return the 32-byte session context of a request: who asks whom for what.

    Raises `ValueError` unless the request hash has 32 bytes, and for a text with a lone surrogate.
    """
    if len(request_hash) != HASH_BYTES:
        raise ValueError(f"a request hash has {HASH_BYTES} bytes")
    return _hash(_SESSION_TAG, (verifier_id, workspace_id, agent_id, session_id, invocation_id), request_hash)


def _hash(tag: bytes, texts: tuple[str, ...], digest: bytes) -> bytes:
    parts = [tag]
    for text in texts:
        data = text.encode()
        parts += (len(data).to_bytes(8, "big"), data)
    parts += (len(digest).to_bytes(8, "big"), digest)
    return hashlib.sha256(b"".join(parts)).digest()


def _be64(number: int) -> bytes:
    return (number % _UINT64).to_bytes(8, "big")
