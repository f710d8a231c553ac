"""The steps that are the same for verifying a bundle and for verifying a turn of a session (Ratify sections 8 and 10).
No I/O.

Each function returns nothing, or raises `Refusal` with the exact reason. `what` names the verified object in its text.
"""

import hmac
from typing import Protocol

from accredit.limits import CHALLENGE_WINDOW_SECONDS
from accredit.ratify.challenges import CHALLENGE_BYTES
from accredit.ratify.hybrid import HybridPublicKey, HybridSignature, signature_fault
from accredit.ratify.results import invalid
from accredit.ratify.signable import challenge_sign_bytes
from accredit.ratify.structures import StreamContext

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
