"""What a chain of certificates grants, and whether its agent made a proof. No I/O.

Of all that changes over time, only expiry is checked here: `ratify.verify` checks revocation and constraints.
"""

from collections.abc import Sequence

from accredit.policy import MCP_SCOPES
from accredit.ratify import (
    DelegationCert,
    ProofBundle,
    VerifyResult,
    challenge_sign_bytes,
    verify_chain,
)
from accredit.ratify.hybrid import signature_fault
from accredit.signing.vocabulary import catalog_scopes


def judge_chain(chain: Sequence[DelegationCert], now: int) -> VerifyResult:
    """Return what a chain grants at `now`. Scopes that only a catalog can define are accepted. Revocation and
    constraints are not checked."""
    scopes = [scope for cert in chain for scope in cert.scope]
    return verify_chain(chain, now=now, vocabulary=MCP_SCOPES | catalog_scopes(scopes))


def challenge_fault(bundle: ProofBundle) -> str | None:
    """Return why the proof was not made by the chain's agent, or None if it was."""
    if bundle.agent_pub_key != bundle.delegations[0].subject_pub_key:
        return "the agent's key is not the one that the delegation is for"
    message = challenge_sign_bytes(
        bundle.challenge, bundle.challenge_at, bundle.session_context, bundle.stream_id, bundle.stream_seq
    )
    return signature_fault(message, bundle.challenge_sig, bundle.agent_pub_key)
