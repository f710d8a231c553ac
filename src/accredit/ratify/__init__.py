"""The Ratify Protocol, version 1: a human authorizes an agent, and anyone can verify it offline.

The rules are pure code: bytes and facts in, answers out. The only file read is the time zone data.

- `structures`: certificates and proofs; `wire` and `strict_json` read and write them
- `canonical`, `signable`: what is signed, and what binds it to a call
- `hybrid`: keys and signatures
- `scopes`, `constraints`: what is granted
- `facts`: what is known of a call
- `verify`, `terms`, `results`: the verifier; `callbacks` runs it at one go; `challenges`: its memory
- `issue`: makes delegations and proofs; `revocation`: revokes delegations
- `extras`: the protocol's other objects: `statements` (key rotations, receipts, witness entries, verdicts), `sessions`,
  `transactions`, `registry`
"""

from accredit.ratify.callbacks import verify_bundle, verify_chain
from accredit.ratify.challenges import ChallengeStore, IssuedChallenge, MemoryChallengeStore
from accredit.ratify.constraints import Constraint, Evaluator, Extension, read_constraint, zone_names
from accredit.ratify.facts import CallFacts, VerifierContext
from accredit.ratify.hybrid import HybridPrivateKey, HybridPublicKey, HybridSignature, HybridSigner, derive_id
from accredit.ratify.issue import Grant, issue_delegation, present
from accredit.ratify.results import IdentityStatus, VerifyResult
from accredit.ratify.revocation import RevocationList, issue_revocation_list, revocation_list_fault
from accredit.ratify.signable import (
    build_session_context,
    bundle_hash,
    chain_hash,
    challenge_sign_bytes,
    operation_context_hash,
)
from accredit.ratify.structures import (
    DelegationCert,
    ProofBundle,
    StreamContext,
    decode_delegation_cert,
    decode_proof_bundle,
    delegation_sign_bytes,
    encode_delegation_cert,
    encode_proof_bundle,
)
from accredit.ratify.terms import CertificateCache

__all__ = [
    "CallFacts",
    "CertificateCache",
    "ChallengeStore",
    "Constraint",
    "DelegationCert",
    "Evaluator",
    "Extension",
    "Grant",
    "HybridPrivateKey",
    "HybridPublicKey",
    "HybridSignature",
    "HybridSigner",
    "IdentityStatus",
    "IssuedChallenge",
    "MemoryChallengeStore",
    "ProofBundle",
    "RevocationList",
    "StreamContext",
    "VerifierContext",
    "VerifyResult",
    "build_session_context",
    "bundle_hash",
    "chain_hash",
    "challenge_sign_bytes",
    "decode_delegation_cert",
    "decode_proof_bundle",
    "delegation_sign_bytes",
    "derive_id",
    "encode_delegation_cert",
    "encode_proof_bundle",
    "issue_delegation",
    "issue_revocation_list",
    "operation_context_hash",
    "present",
    "read_constraint",
    "revocation_list_fault",
    "verify_bundle",
    "verify_chain",
    "zone_names",
]
