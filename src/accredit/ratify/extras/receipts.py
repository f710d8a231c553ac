"""Verification receipts: a verifier's signed record of one verdict, chained to its previous one (Ratify section 11). No
I/O."""

import hashlib
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from accredit.errors import WireError
from accredit.ratify.canonical import canonical
from accredit.ratify.hybrid import UNSIGNED, HybridPublicKey, HybridSignature, HybridSigner, derive_id, signature_fault
from accredit.ratify.results import IdentityStatus, VerifyResult
from accredit.ratify.signable import bundle_hash
from accredit.ratify.structures import PROTOCOL_VERSION, ProofBundle
from accredit.ratify.wire import Bytes32, Integer, Name, WireObject

FIRST_PREV_HASH = bytes(32)
"""The `prev_hash` of a verifier's first receipt."""
_HASH_BYTES = 32
_DECISIONS = frozenset(status.value for status in IdentityStatus)


class VerificationReceipt(WireObject, frozen=True):
    """Who decided what, at `verified_at` (unix seconds), about the bundle whose hash is `bundle_hash`."""

    version: Integer
    verifier_id: Name
    verifier_pub: HybridPublicKey
    bundle_hash: Bytes32
    decision: str
    verified_at: Integer
    prev_hash: Bytes32
    signature: HybridSignature
    agent_id: Name = ""
    human_id: Name = ""
    error_reason: Name = ""
    granted_scope: Annotated[tuple[str, ...], Meta(min_length=1)] = ()

    def check(self, path: str, level: int) -> None:
        """Check that the decision is one of those that the protocol defines. Raises `WireError`."""
        if self.decision not in _DECISIONS:
            raise WireError(f"{path}.decision", "unknown decision")


def verification_receipt_sign_bytes(receipt: VerificationReceipt) -> bytes:
    """Return what a verifier signs. In it, empty members are left out, and scopes are sorted."""
    members = {name: getattr(receipt, name) for name in receipt.__struct_fields__ if name != "signature"}
    members["granted_scope"] = sorted(receipt.granted_scope)
    for name in ("agent_id", "human_id", "error_reason", "granted_scope"):
        if not members[name]:
            del members[name]
    return canonical(members)


def receipt_hash(receipt: VerificationReceipt) -> bytes:
    """Return the hash of a receipt, which is the `prev_hash` of the verifier's next one."""
    return hashlib.sha256(verification_receipt_sign_bytes(receipt)).digest()


def issue_verification_receipt(
    verifier: HybridSigner,
    bundle: ProofBundle,
    result: VerifyResult,
    verified_at: int,
    prev_hash: bytes = FIRST_PREV_HASH,
) -> VerificationReceipt:
    """Return a receipt signed by the verifier. `verified_at` is in unix seconds."""
    receipt = VerificationReceipt(
        version=PROTOCOL_VERSION,
        verifier_id=verifier.id,
        verifier_pub=verifier.public_key,
        bundle_hash=bundle_hash(bundle),
        decision=result.identity_status.value,
        verified_at=verified_at,
        prev_hash=prev_hash,
        signature=UNSIGNED,
        agent_id=result.agent_id,
        human_id=result.human_id,
        error_reason=result.error_reason,
        granted_scope=tuple(sorted(result.granted_scope)),
    )
    return replace(receipt, signature=verifier.sign(verification_receipt_sign_bytes(receipt)))


def verification_receipt_fault(receipt: VerificationReceipt) -> str | None:
    """Return why a receipt is not valid, or None. Whether to trust its verifier is for the caller to decide."""
    if receipt.version != PROTOCOL_VERSION:
        return f"version_mismatch: unsupported version {receipt.version}"
    for name, digest in (("bundle_hash", receipt.bundle_hash), ("prev_hash", receipt.prev_hash)):
        if len(digest) != _HASH_BYTES:
            return f"{name} must be {_HASH_BYTES} bytes, got {len(digest)}"
    if derive_id(receipt.verifier_pub) != receipt.verifier_id:
        return "verifier_id does not match verifier_pub"
    return signature_fault(verification_receipt_sign_bytes(receipt), receipt.signature, receipt.verifier_pub)
