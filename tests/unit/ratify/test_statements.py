"""Revocations, key rotations, witness entries and receipts: who signed them, and what they say."""

import hashlib
import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.ratify.world import AGENT, HUMAN, NOW, STRANGER, judged, proof

from accredit.errors import WireError
from accredit.ratify import RevocationList, bundle_hash, issue_revocation_list, revocation_list_fault
from accredit.ratify.extras.statements import (
    KeyRotationStatement,
    VerificationReceipt,
    WitnessEntry,
    issue_key_rotation,
    issue_verification_receipt,
    issue_witness_entry,
    key_rotation_fault,
    key_rotation_sign_bytes,
    receipt_hash,
    verification_receipt_fault,
    verification_receipt_sign_bytes,
    witness_entry_fault,
    witness_entry_hash,
    witness_entry_sign_bytes,
)
from accredit.ratify.hybrid import HybridSignature, signature_fault
from accredit.ratify.revocation import RevocationPush, issue_revocation_push, revocation_push_fault
from accredit.ratify.wire import WireObject

pytestmark = [
    pytest.mark.holds("ratify/extras/statements"),
    pytest.mark.holds("ratify/revocation"),
]

BAD = HybridSignature(bytes(64), bytes(3309))
LIST = issue_revocation_list(HUMAN, ["b", "a", "b"], NOW)
PUSH = issue_revocation_push(HUMAN, 1, ["b", "a"], NOW)
ROTATION = issue_key_rotation(HUMAN, STRANGER, "device_lost", NOW)
ENTRY = issue_witness_entry(HUMAN, b"\x00anything", NOW)
PROOF = proof()
RECEIPT = issue_verification_receipt(HUMAN, PROOF, judged(PROOF), NOW)


@pytest.mark.parametrize("found", [LIST, PUSH, ROTATION, ENTRY, RECEIPT, issue_revocation_list(HUMAN, [], 0)])
def test_all_travel(found: WireObject) -> None:
    kind = type(found)
    assert kind.decode(found.encode()) == kind.from_dict(found.to_dict()) == found
    value = found.to_dict()
    for name in value:
        for wrong in (None, 1.5):
            with pytest.raises(WireError):
                kind.from_dict(value | {name: wrong})
    with pytest.raises(WireError, match="unknown field"):
        kind.from_dict(value | {"note": 1})
    for name in ("signature", "signature_old", "timestamp", "updated_at", "pushed_at", "version"):
        if name in value:
            with pytest.raises(WireError, match="missing required field"):
                kind.from_dict({other: value[other] for other in value if other != name})


def test_lists_may_be_longer_than_a_bundle_and_not_without_end() -> None:
    many = issue_revocation_list(HUMAN, [f"{n:032x}" for n in range(10_000)], NOW)
    assert len(many.encode()) > 131_072
    assert RevocationList.decode(many.encode()) == many
    with pytest.raises(WireError, match="more than 4194304 bytes"):
        RevocationList.decode(many.encode().ljust(4_194_305))


class TestRevocation:
    def test_ids_are_signed_in_their_order(self) -> None:
        assert LIST.revoked_certs == ("b", "a", "b")
        assert revocation_list_fault(LIST, HUMAN.public_key) is None
        assert revocation_push_fault(PUSH, HUMAN.public_key) is None

    @pytest.mark.parametrize(
        "change", [{"revoked_certs": ("a", "b", "b")}, {"updated_at": NOW + 1}, {"signature": BAD}]
    )
    def test_a_changed_list(self, change: dict[str, Any]) -> None:
        assert revocation_list_fault(replace(LIST, **change), HUMAN.public_key) == "Ed25519 signature invalid"

    @pytest.mark.parametrize("change", [{"entries": ()}, {"pushed_at": 0}, {"seq_no": 2}])
    def test_a_changed_push(self, change: dict[str, Any]) -> None:
        assert revocation_push_fault(replace(PUSH, **change), HUMAN.public_key) == "Ed25519 signature invalid"

    def test_nobody_revokes_for_another(self) -> None:
        other = issue_revocation_list(STRANGER, ["a"], NOW)
        text = "issuer_id does not match the key"
        assert revocation_list_fault(other, HUMAN.public_key) == text
        assert revocation_list_fault(replace(other, issuer_id=HUMAN.id), STRANGER.public_key) == text
        assert revocation_push_fault(PUSH, STRANGER.public_key) == text

    def test_pushes_count_from_one(self) -> None:
        with pytest.raises(WireError, match="seq_no"):
            RevocationPush.from_dict(PUSH.to_dict() | {"seq_no": 0})


class TestRotation:
    def test_both_keys_sign_the_same(self) -> None:
        assert key_rotation_fault(ROTATION) is None
        for signature, key in ((ROTATION.signature_old, HUMAN), (ROTATION.signature_new, STRANGER)):
            assert signature_fault(key_rotation_sign_bytes(ROTATION), signature, key.public_key) is None
        assert (ROTATION.old_id, ROTATION.new_id) == (HUMAN.id, STRANGER.id)

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"version": 2}, "version_mismatch: unsupported version 2"),
            ({"old_id": STRANGER.id}, "old_id does not match old_pub_key"),
            ({"new_id": HUMAN.id}, "new_id does not match new_pub_key"),
            ({"new_id": HUMAN.id, "new_pub_key": HUMAN.public_key}, "old_id and new_id must differ"),
            ({"reason": "bored"}, "unknown key rotation reason: bored"),
            ({"reason": "routine"}, "old signature invalid: Ed25519 signature invalid"),
            ({"rotated_at": 0}, "old signature invalid: Ed25519 signature invalid"),
            ({"signature_new": BAD}, "new signature invalid: Ed25519 signature invalid"),
        ],
    )
    def test_faults(self, change: dict[str, Any], text: str) -> None:
        assert key_rotation_fault(replace(ROTATION, **change)) == text

    def test_the_two_signatures_are_not_interchangeable(self) -> None:
        swapped = replace(ROTATION, signature_old=ROTATION.signature_new, signature_new=ROTATION.signature_old)
        assert key_rotation_fault(KeyRotationStatement.decode(swapped.encode())) is not None


class TestWitness:
    def test_entries_are_chained(self) -> None:
        assert ENTRY.prev_hash == bytes(32)
        digest = witness_entry_hash(ENTRY)
        assert digest == hashlib.sha256(witness_entry_sign_bytes(ENTRY)).digest()
        after = issue_witness_entry(HUMAN, b"", NOW, digest)
        assert witness_entry_fault(after, HUMAN.public_key) is None
        assert WitnessEntry.decode(after.encode()).entry_data == b""

    @pytest.mark.parametrize(
        "change", [{"prev_hash": b"\x01" * 32}, {"entry_data": b""}, {"timestamp": 0}, {"witness_id": "x"}]
    )
    def test_a_changed_entry(self, change: dict[str, Any]) -> None:
        assert witness_entry_fault(replace(ENTRY, **change), HUMAN.public_key) == "Ed25519 signature invalid"


class TestReceipt:
    def test_says_what_was_decided_of_which_bundle(self) -> None:
        assert verification_receipt_fault(RECEIPT) is None
        assert (RECEIPT.decision, RECEIPT.agent_id, RECEIPT.human_id) == ("authorized_agent", AGENT.id, HUMAN.id)
        assert RECEIPT.bundle_hash == bundle_hash(PROOF)

    def test_what_is_empty_is_left_out(self) -> None:
        refused = issue_verification_receipt(HUMAN, PROOF, judged(PROOF, required_scope="x"), NOW)
        members = json.loads(verification_receipt_sign_bytes(refused))
        assert members["error_reason"].startswith("scope_denied: ")
        assert not {"agent_id", "human_id", "granted_scope", "signature"} & set(members)
        assert VerificationReceipt.decode(refused.encode()) == refused

    def test_scopes_are_signed_sorted(self) -> None:
        mixed = replace(RECEIPT, granted_scope=("z", "a"))
        assert json.loads(verification_receipt_sign_bytes(mixed))["granted_scope"] == ["a", "z"]

    def test_receipts_are_chained(self) -> None:
        after = issue_verification_receipt(HUMAN, PROOF, judged(PROOF), NOW, receipt_hash(RECEIPT))
        assert after.prev_hash == hashlib.sha256(verification_receipt_sign_bytes(RECEIPT)).digest()
        assert verification_receipt_fault(after) is None

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"version": 2}, "version_mismatch: unsupported version 2"),
            ({"bundle_hash": b"x"}, "bundle_hash must be 32 bytes, got 1"),
            ({"prev_hash": b"x"}, "prev_hash must be 32 bytes, got 1"),
            ({"verifier_id": STRANGER.id}, "verifier_id does not match verifier_pub"),
            ({"decision": "revoked"}, "Ed25519 signature invalid"),
            ({"granted_scope": ()}, "Ed25519 signature invalid"),
            ({"verified_at": 0}, "Ed25519 signature invalid"),
        ],
    )
    def test_faults(self, change: dict[str, Any], text: str) -> None:
        assert verification_receipt_fault(replace(RECEIPT, **change)) == text

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"decision": "perhaps"}, r"^wire: VerificationReceipt\.decision: unknown decision$"),
            ({"verifier_id": ""}, "verifier_id"),
            ({"agent_id": ""}, "agent_id"),
            ({"granted_scope": []}, "granted_scope"),
            ({"bundle_hash": "AA=="}, "bundle_hash"),
        ],
    )
    def test_what_is_not_read(self, change: dict[str, Any], text: str) -> None:
        with pytest.raises(WireError, match=text):
            VerificationReceipt.from_dict(RECEIPT.to_dict() | change)
