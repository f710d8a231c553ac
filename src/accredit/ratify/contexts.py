"""What binds a proof to one call: the operation, and the session in which it is requested (Ratify section 4). No I/O.

Every member is preceded by its length, so that no two calls give the same bytes. Text is UTF-8, taken as it is.
"""

import hashlib

_OPERATION_TAG = b"ratify/operation-context/v1"
_SESSION_TAG = b"ratify/session-context/v1"
HASH_BYTES = 32


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
    members = (*(text.encode() for text in texts), digest)
    return hashlib.sha256(tag + b"".join(len(data).to_bytes(8, "big") + data for data in members)).digest()
