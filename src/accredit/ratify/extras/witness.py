"""Entries of a witness's log: each carries the hash of the previous one (Ratify section 2). No I/O."""

import hashlib

from msgspec.structs import replace

from accredit.ratify.hybrid import UNSIGNED, HybridPublicKey, HybridSignature, HybridSigner, signature_fault
from accredit.ratify.wire import Bytes32, Integer, WireObject, signed_text

FIRST_PREV_HASH = bytes(32)
"""The `prev_hash` of a log's first entry."""


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
