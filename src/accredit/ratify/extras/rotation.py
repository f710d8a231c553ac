"""Key rotation: a holder's statement, signed with both keys, that a new key replaces the old one. No I/O."""

from msgspec.structs import replace

from accredit.ratify.hybrid import UNSIGNED, HybridPublicKey, HybridSignature, HybridSigner, derive_id, signature_fault
from accredit.ratify.structures import PROTOCOL_VERSION
from accredit.ratify.wire import Integer, WireObject, signed_text

_ROTATION_REASONS = frozenset({"routine", "compromise_suspected", "device_lost", "recovery", "other"})


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
