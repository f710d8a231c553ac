"""The signable bytes of policy verdicts (Ratify section 4). No I/O.

The verifier here takes no verdicts, since they do not cover the resource that a call asks for; these bytes are for
those who exchange them with others.
"""

from msgspec import Struct

from accredit.ratify.canonical import canonical
from accredit.ratify.wire import Bytes32


class PolicyVerdict(Struct, frozen=True, kw_only=True):
    """A cached answer of a policy engine; the MAC is HMAC-SHA-256 over its signable bytes."""

    version: int
    verdict_id: str
    agent_id: str
    scope: str
    allow: bool
    context_hash: Bytes32
    issued_at: int
    valid_until: int


def policy_verdict_sign_bytes(verdict: PolicyVerdict) -> bytes:
    """What the MAC of a verdict is over."""
    return canonical(verdict)
