"""Transaction receipts: everything in them holds, or nothing."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.ratify.world import AGENT, HUMAN, NOW, STRANGER, SUB_AGENT, certificate, constrained, proof

from accredit.errors import WireError
from accredit.ratify import HybridPrivateKey, ProofBundle
from accredit.ratify.extras.transactions import (
    PartySignature,
    ReceiptParty,
    TransactionReceipt,
    sign_transaction_receipt,
    transaction_receipt_sign_bytes,
    verify_transaction_receipt,
)

SELLER = SUB_AGENT


def party(name: str, agent: HybridPrivateKey, bundle: ProofBundle | None = None) -> ReceiptParty:
    bundle = bundle or proof([certificate(subject=agent.public_key)], agent)
    return ReceiptParty(name, f"role of {name}", agent.id, agent.public_key, bundle)


def receipt(**members: Any) -> TransactionReceipt:
    found: dict[str, Any] = {
        "version": 1,
        "transaction_id": "tx-1",
        "created_at": NOW,
        "terms_schema_uri": "schema:terms",
        "terms_canonical_json": b'{"amount":5}',
        "parties": (party("seller", SELLER), party("buyer", AGENT)),
        "party_signatures": (),
    }
    return signed(TransactionReceipt(**(found | members)))


def signed(unsigned: TransactionReceipt) -> TransactionReceipt:
    signatures = (
        sign_transaction_receipt(unsigned, "buyer", AGENT),
        sign_transaction_receipt(unsigned, "seller", SELLER),
    )
    return replace(unsigned, party_signatures=signatures)


GOOD = receipt()


def reason(found: TransactionReceipt) -> str:
    result = verify_transaction_receipt(found, now=NOW)
    assert result.valid is not bool(result.error_reason)
    return result.error_reason


def test_two_parties() -> None:
    result = verify_transaction_receipt(GOOD, now=NOW)
    assert result.valid
    assert [found.agent_id for found in result.party_results] == [SELLER.id, AGENT.id]
    assert TransactionReceipt.decode(GOOD.encode()) == TransactionReceipt.from_dict(GOOD.to_dict()) == GOOD


def test_parties_are_signed_in_the_order_of_their_ids_and_without_their_proofs() -> None:
    other = replace(GOOD, parties=tuple(reversed(GOOD.parties)))
    assert transaction_receipt_sign_bytes(other) == transaction_receipt_sign_bytes(GOOD)
    assert b"challenge" not in transaction_receipt_sign_bytes(GOOD)
    assert reason(other) == ""


(BUYER,) = (each for each in GOOD.parties if each.party_id == "buyer")
OTHER_PARTY = party("seller", STRANGER)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"version": 2}, "version_mismatch: unsupported version 2"),
        ({"transaction_id": ""}, "missing_transaction_id"),
        ({"terms_schema_uri": ""}, "missing_terms_schema_uri"),
        ({"terms_canonical_json": b""}, "missing_terms_canonical_json"),
        ({"parties": ()}, "no_parties"),
        ({"parties": (replace(BUYER, party_id=""),)}, "empty_party_id"),
        ({"parties": (BUYER, BUYER)}, "duplicate_party_id"),
        ({"party_signatures": (PartySignature("other", AGENT.sign(b"")),)}, "unknown_party_signature"),
        ({"party_signatures": GOOD.party_signatures[:1] * 2}, "duplicate_party_signature"),
        ({"party_signatures": ()}, 'missing_party_signature: party "seller" has no signature'),
        (
            {"party_signatures": GOOD.party_signatures[:1]},
            'missing_party_signature: party "seller" has no signature',
        ),
        (
            {"terms_canonical_json": b'{"amount":50}'},
            'party_signature_invalid: party "seller": Ed25519 signature invalid',
        ),
        ({"created_at": NOW + 1}, 'party_signature_invalid: party "seller": Ed25519 signature invalid'),
        (
            {"parties": (OTHER_PARTY, BUYER)},
            'party_signature_invalid: party "seller": Ed25519 signature invalid',
        ),
        ({"parties": (replace(BUYER, agent_id="x"), GOOD.parties[0])}, "party_agent_id_mismatch"),
        (
            {"parties": (replace(BUYER, agent_pub_key=STRANGER.public_key), GOOD.parties[0])},
            "party_agent_key_mismatch",
        ),
    ],
)
def test_refusals(change: dict[str, Any], code: str) -> None:
    assert reason(replace(GOOD, **change)).startswith(code)


@pytest.mark.parametrize(
    ("bundle", "text"),
    [
        (constrained({"type": "x.y"}), "constraint_unknown"),
        (proof(challenge_at=NOW - 301), "stale_challenge"),
        (replace(proof(), challenge_sig=HUMAN.sign(b"")), "bad_challenge_sig"),
    ],
)
def test_a_party_whose_proof_does_not_hold(bundle: ProofBundle, text: str) -> None:
    spoilt = signed(replace(GOOD, parties=(party("seller", SELLER), party("buyer", AGENT, bundle))))
    assert reason(spoilt).startswith(f'party_bundle_invalid: party "buyer": {text}')


def test_the_proofs_are_read_as_strictly_as_bundles() -> None:
    value: Any = GOOD.to_dict()
    value["parties"][1]["proof_bundle"]["delegations"][0]["scope"] = ["custom:x"] * 129
    with pytest.raises(WireError, match=r"parties\[1\]\.proof_bundle\.delegations\[0\]: carries 129 scopes"):
        TransactionReceipt.from_dict(value)


def test_anything_at_all_is_an_answer() -> None:
    nothing: Any = None
    assert reason(nothing) != ""
    assert reason(replace(GOOD, parties=(nothing,))) != ""


def test_without_a_time_the_clock_is_read() -> None:
    assert (
        "stale_challenge"
        in verify_transaction_receipt(
            signed(
                replace(
                    GOOD,
                    parties=tuple(
                        party(
                            name,
                            agent,
                            proof(
                                [certificate(subject=agent.public_key, issued_at=0, expires_at=2**40)],
                                agent,
                                challenge_at=0,
                            ),
                        )
                        for name, agent in (("buyer", AGENT), ("seller", SELLER))
                    ),
                )
            )
        ).error_reason
    )
