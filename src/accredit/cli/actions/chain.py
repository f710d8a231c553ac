"""Whether certificates belong together and are signed, one by one, and what they grant. No I/O.

Only faults that time does not change: expiry, revocation and constraints are for `ratify.verify`.
"""

from collections.abc import Sequence

from accredit.cli.actions.vocabulary import catalog_scopes
from accredit.policy import MCP_SCOPES
from accredit.ratify import (
    DelegationCert,
    HybridPublicKey,
    ProofBundle,
    VerifyResult,
    challenge_sign_bytes,
    delegation_sign_bytes,
    derive_id,
    verify_chain,
)
from accredit.ratify.hybrid import signature_fault
from accredit.ratify.scopes import DELEGATE


def certificate_fault(chain: Sequence[DelegationCert], index: int) -> str | None:
    """Return why a certificate of a chain, leaf first, is not valid, or None."""
    cert = chain[index]
    return (
        _id_fault("issuer", cert.issuer_id, cert.issuer_pub_key)
        or _id_fault("subject", cert.subject_id, cert.subject_pub_key)
        or signature_fault(delegation_sign_bytes(cert), cert.signature, cert.issuer_pub_key)
        or (_link_fault(cert, chain[index + 1]) if index + 1 < len(chain) else None)
    )


def judged(chain: Sequence[DelegationCert], now: int) -> VerifyResult:
    """Return what a chain grants at `now` if catalogs name its scopes; revocation and constraints are not checked."""
    scopes = [scope for cert in chain for scope in cert.scope]
    return verify_chain(chain, now=now, vocabulary=MCP_SCOPES | catalog_scopes(scopes))


def challenge_fault(bundle: ProofBundle) -> str | None:
    """Return why a proof is not by its chain's agent, or None."""
    if bundle.agent_pub_key != bundle.delegations[0].subject_pub_key:
        return "the agent's key is not the one that the delegation is for"
    message = challenge_sign_bytes(
        bundle.challenge, bundle.challenge_at, bundle.session_context, bundle.stream_id, bundle.stream_seq
    )
    return signature_fault(message, bundle.challenge_sig, bundle.agent_pub_key)


def _id_fault(whose: str, id: str, key: HybridPublicKey) -> str | None:
    return None if id == derive_id(key) else f"the {whose}'s id is not that of its key"


def _link_fault(cert: DelegationCert, parent: DelegationCert) -> str | None:
    if cert.issuer_pub_key != parent.subject_pub_key:
        return "not issued by the subject of the certificate after it"
    if DELEGATE not in parent.scope:
        return f"its issuer was not granted {DELEGATE}"
    return None
