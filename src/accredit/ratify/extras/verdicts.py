"""The bytes that are signed for policy verdicts (Ratify section 4). No I/O.

The verifier here accepts no verdicts, as they don't cover the requested resource. These bytes are for programs that
exchange verdicts with others.
"""

from msgspec import Struct

from accredit.ratify.canonical import canonical
from accredit.ratify.wire import Bytes32


class PolicyVerdict(Struct, frozen=True, kw_only=True):
    """A cached answer of a policy engine. Its MAC is HMAC-SHA-256 over its signable bytes. Times are unix seconds."""

    version: int
    verdict_id: str
    agent_id: str
    scope: str
    allow: bool
    context_hash: Bytes32
    issued_at: int
    valid_until: int


def policy_verdict_sign_bytes(verdict: PolicyVerdict) -> bytes:
    """Return the bytes that a verdict's MAC covers."""
    return canonical(verdict)
