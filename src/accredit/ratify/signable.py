"""The bytes that an agent signs, the hashes that bind them to one call, and the hashes of chains and bundles (Ratify
section 4). No I/O.

A signature is bound to a call by two hashes: of its operation, and of the session in which it is requested. In both
hashes every member is preceded by its length, so that no two calls give the same bytes. Text is UTF-8, unchanged.

The signable bytes of every other object are defined beside its structure.

The checks of what was signed are the same for a bundle and for a turn of a session (Ratify sections 8 and 10). Each
returns nothing, or raises `Refusal` with the exact reason. `what` names the verified object in its text.
"""

import hashlib
import hmac
from collections.abc import Iterable
from typing import Protocol

from accredit.limits import CHALLENGE_WINDOW_SECONDS
from accredit.ratify.canonical import canonical
from accredit.ratify.challenges import CHALLENGE_BYTES
from accredit.ratify.hybrid import HybridPublicKey, HybridSignature, signature_fault
from accredit.ratify.results import invalid
from accredit.ratify.structures import DelegationCert, ProofBundle, StreamContext, delegation_sign_bytes
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


_BYTES = 32


class _SignedChallenge(Protocol):
    """A challenge with everything that its signature covers: a part of a bundle, or of a streamed turn."""

    @property
    def challenge(self) -> bytes: ...
    @property
    def challenge_at(self) -> int: ...
    @property
    def challenge_sig(self) -> HybridSignature: ...
    @property
    def session_context(self) -> bytes: ...
    @property
    def stream_id(self) -> bytes: ...
    @property
    def stream_seq(self) -> int: ...


def check_challenge_length(challenge: bytes) -> None:
    """[challenge] of `verify`: the decoded challenge has 32 bytes. If other lengths were allowed, two bindings could
    have the same signed bytes."""
    if len(challenge) != CHALLENGE_BYTES:
        raise invalid("invalid_challenge", f"challenge must be {CHALLENGE_BYTES} bytes, got {len(challenge)}")


def check_session(what: str, bound_to: bytes, expected: bytes) -> None:
    """[context] of `verify`: both sides name the same session context, or neither names one."""
    code = "invalid_session_context"
    if bound_to and len(bound_to) != _BYTES:
        raise invalid(code, f"session_context must be {_BYTES} bytes, got {len(bound_to)}")
    if expected and len(expected) != _BYTES:
        raise invalid(code, f"verify option session_context must be {_BYTES} bytes, got {len(expected)}")
    if expected and not bound_to:
        raise invalid(
            "missing_session_context",
            f"verifier requires a session-bound challenge but {what} has no session_context",
        )
    if expected and not hmac.compare_digest(bound_to, expected):
        raise invalid("session_context_mismatch", f"{what} session_context does not match verifier context")
    if bound_to and not expected:
        raise invalid("session_context_unverifiable", f"{what} has session_context but verifier did not provide one")


def check_stream(what: str, signed: _SignedChallenge, stream: StreamContext | None) -> None:
    """[stream] of `verify`: the turn is well formed, and it is the next one of the stream that the verifier knows."""
    stream_id, seq = signed.stream_id, signed.stream_seq
    if stream_id and len(stream_id) != _BYTES:
        raise invalid("invalid_stream_id", f"stream_id must be {_BYTES} bytes, got {len(stream_id)}")
    if seq and not stream_id:
        raise invalid("invalid_stream_seq", "stream_seq set without stream_id")
    if stream_id and seq < 1:
        raise invalid("invalid_stream_seq", f"stream_seq must be >=1, got {seq}")
    if stream is not None:
        _check_turn(what, stream_id, seq, stream)
    elif stream_id:
        raise invalid(
            "stream_context_unverifiable", f"{what} has stream_id but verifier did not provide a stream context"
        )


def _check_turn(what: str, stream_id: bytes, seq: int, stream: StreamContext) -> None:
    if len(stream.stream_id) != _BYTES:
        size = len(stream.stream_id)
        raise invalid("invalid_stream_id", f"verify option stream_id must be {_BYTES} bytes, got {size}")
    if not stream_id:
        raise invalid(
            "missing_stream_context", f"verifier requires a stream-bound challenge but {what} has no stream_id"
        )
    if not hmac.compare_digest(stream_id, stream.stream_id):
        raise invalid("stream_id_mismatch", f"{what} stream_id does not match verifier stream context")
    if seq <= stream.last_seen_seq:
        raise invalid("stream_seq_replay", f"stream_seq {seq} already seen (last={stream.last_seen_seq})")
    if seq != stream.last_seen_seq + 1:
        raise invalid("stream_seq_skip", f"stream_seq {seq} skips expected {stream.last_seen_seq + 1}")


def check_freshness(
    challenge_at: int, now: int, *, max_age: int = CHALLENGE_WINDOW_SECONDS, max_ahead: int = 0
) -> None:
    """[freshness] of `verify`: the challenge is at most `max_age` seconds old, and at most `max_ahead` seconds in the
    future."""
    age = now - challenge_at
    if not -max_ahead <= age <= max_age:
        raise invalid("stale_challenge", f"challenge is {age} seconds old (max {max_age})")


def check_challenge_signature(signed: _SignedChallenge, key: HybridPublicKey) -> None:
    """[signature] of `verify`: the agent signed the challenge, its time and everything that it is bound to."""
    message = challenge_sign_bytes(
        signed.challenge, signed.challenge_at, signed.session_context, signed.stream_id, signed.stream_seq
    )
    fault = signature_fault(message, signed.challenge_sig, key)
    if fault:
        raise invalid("bad_challenge_sig", f"challenge signature verification failed: {fault}")
