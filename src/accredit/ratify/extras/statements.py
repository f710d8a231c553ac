"""Signed statements (Ratify sections 2, 4 and 11): that a key replaces another, what a verifier decided, what a witness
saw; and the bytes that are signed for policy verdicts. No I/O.

A verifier's receipts form a chain, and so do the entries of a witness's log: each carries the hash of the previous one.

The verifier here accepts no policy verdicts, as they don't cover the requested resource. Their bytes are for programs
that exchange verdicts with others.
"""

import hashlib
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from accredit.base.values import decodable
from accredit.errors import WireError
from accredit.ratify.canonical import canonical
from accredit.ratify.hybrid import UNSIGNED, HybridPublicKey, HybridSignature, HybridSigner, derive_id, signature_fault
from accredit.ratify.results import IdentityStatus, VerifyResult
from accredit.ratify.signable import HASH_BYTES, bundle_hash
from accredit.ratify.structures import PROTOCOL_VERSION, ProofBundle
from accredit.ratify.wire import Bytes32, Integer, Name, WireObject, signed_text

FIRST_PREV_HASH = bytes(HASH_BYTES)
"""The `prev_hash` of a verifier's first receipt, and of a log's first entry."""
_ROTATION_REASONS = frozenset({"routine", "compromise_suspected", "device_lost", "recovery", "other"})
_DECISIONS = frozenset(status.value for status in IdentityStatus)


@decodable
class KeyRotationStatement(WireObject, frozen=True):
    """The statement that a new key replaces an old one. `rotated_at` is in unix seconds. `reason` is one of
    `ROTATION_REASONS`."""

    version: Integer
    old_id: str
    old_pub_key: HybridPublicKey
    new_id: str
    new_pub_key: HybridPublicKey
    rotated_at: Integer
    reason: str
    signature_old: HybridSignature
    signature_new: HybridSignature


def key_rotation_sign_bytes(statement: KeyRotationStatement) -> bytes:
    """Return the bytes that both keys sign."""
    return signed_text(statement, "signature_old", "signature_new")


def issue_key_rotation(old: HybridSigner, new: HybridSigner, reason: str, rotated_at: int) -> KeyRotationStatement:
    """Return a statement signed with both keys. `rotated_at` is in unix seconds."""
    statement = KeyRotationStatement(
        PROTOCOL_VERSION, old.id, old.public_key, new.id, new.public_key, rotated_at, reason, UNSIGNED, UNSIGNED
    )
    message = key_rotation_sign_bytes(statement)
    return replace(statement, signature_old=old.sign(message), signature_new=new.sign(message))


def key_rotation_fault(statement: KeyRotationStatement) -> str | None:
    """Return why a statement is not valid, or None. The caller must know whether the old key was trusted (section
    11)."""
    if statement.version != PROTOCOL_VERSION:
        return f"version_mismatch: unsupported version {statement.version}"
    if derive_id(statement.old_pub_key) != statement.old_id:
        return "old_id does not match old_pub_key"
    if derive_id(statement.new_pub_key) != statement.new_id:
        return "new_id does not match new_pub_key"
    if statement.old_id == statement.new_id:
        return "old_id and new_id must differ"
    if statement.reason not in _ROTATION_REASONS:
        return f"unknown key rotation reason: {statement.reason}"
    return _signatures_fault(statement)


def _signatures_fault(statement: KeyRotationStatement) -> str | None:
    message = key_rotation_sign_bytes(statement)
    fault = signature_fault(message, statement.signature_old, statement.old_pub_key)
    if fault:
        return f"old signature invalid: {fault}"
    fault = signature_fault(message, statement.signature_new, statement.new_pub_key)
    return f"new signature invalid: {fault}" if fault else None


@decodable
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
        if len(digest) != HASH_BYTES:
            return f"{name} must be {HASH_BYTES} bytes, got {len(digest)}"
    if derive_id(receipt.verifier_pub) != receipt.verifier_id:
        return "verifier_id does not match verifier_pub"
    return signature_fault(verification_receipt_sign_bytes(receipt), receipt.signature, receipt.verifier_pub)


@decodable
class WitnessEntry(WireObject, frozen=True):
    """Arbitrary bytes, witnessed at `timestamp` (unix seconds) by `witness_id`."""

    prev_hash: Bytes32
    entry_data: bytes
    timestamp: Integer
    witness_id: str
    signature: HybridSignature


def witness_entry_sign_bytes(entry: WitnessEntry) -> bytes:
    """Return the bytes that a witness signs."""
    return signed_text(entry, "signature")


def witness_entry_hash(entry: WitnessEntry) -> bytes:
    """Return the hash of an entry, which is the `prev_hash` of the next one."""
    return hashlib.sha256(witness_entry_sign_bytes(entry)).digest()


def issue_witness_entry(
    witness: HybridSigner, entry_data: bytes, timestamp: int, prev_hash: bytes = FIRST_PREV_HASH
) -> WitnessEntry:
    """Return an entry signed by the witness. `timestamp` is in unix seconds."""
    entry = WitnessEntry(prev_hash, entry_data, timestamp, witness.id, UNSIGNED)
    return replace(entry, signature=witness.sign(witness_entry_sign_bytes(entry)))


def witness_entry_fault(entry: WitnessEntry, witness: HybridPublicKey) -> str | None:
    """Return why an entry is not signed by this key, or None. The entry's `witness_id` need not be the key's id."""
    return signature_fault(witness_entry_sign_bytes(entry), entry.signature, witness)


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
