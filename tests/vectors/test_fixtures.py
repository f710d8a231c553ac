"""The protocol's fixtures, byte for byte: signable bytes, statuses and the exact text of every reason."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET
from tests.vectors.fixtures import (
    OWN,
    Fixture,
    bytes_of,
    canonical_of,
    context_of,
    key_of,
    load,
    public_key,
    published_folder,
    stream_of,
    text_of,
)

from accredit.errors import WireError
from accredit.ratify import (
    DelegationCert,
    ProofBundle,
    RevocationList,
    VerifyResult,
    bundle_hash,
    challenge_sign_bytes,
    decode_delegation_cert,
    decode_proof_bundle,
    delegation_sign_bytes,
    derive_id,
    revocation_list_fault,
    verify_bundle,
)
from accredit.ratify.extras.sessions import (
    SessionToken,
    StreamedTurn,
    session_token_mac,
    session_token_sign_bytes,
    verify_streamed_turn,
)
from accredit.ratify.extras.statements import (
    KeyRotationStatement,
    PolicyVerdict,
    VerificationReceipt,
    WitnessEntry,
    key_rotation_fault,
    key_rotation_sign_bytes,
    policy_verdict_sign_bytes,
    verification_receipt_sign_bytes,
    witness_entry_fault,
    witness_entry_sign_bytes,
)
from accredit.ratify.extras.transactions import (
    TransactionReceipt,
    transaction_receipt_sign_bytes,
    verify_transaction_receipt,
)
from accredit.ratify.facts import VerifierContext, verifier_context_hash
from accredit.ratify.hybrid import UNSIGNED, HybridSignature
from accredit.ratify.revocation import (
    RevocationPush,
    revocation_push_fault,
    revocation_push_sign_bytes,
    revocation_sign_bytes,
)
from accredit.ratify.scopes import expand, unknown_scope
from accredit.ratify.wire import WireObject

FOLDER = published_folder()
FIXTURES = {**dict(load(FOLDER)), **{f"own-{name}": fixture for name, fixture in load(OWN)}}
WITH_ENTITIES = {name: fixture for name, fixture in FIXTURES.items() if "entities" in fixture}


@pytest.mark.skipif(FOLDER is None, reason="the protocol's fixtures are not on this machine")
def test_there_are_published_fixtures() -> None:
    assert any(True for _ in load(FOLDER))


@pytest.mark.parametrize("fixture", FIXTURES.values(), ids=FIXTURES)
def test_fixture(fixture: Fixture) -> None:
    _KINDS[fixture["kind"]](fixture)


@pytest.mark.parametrize("fixture", WITH_ENTITIES.values(), ids=WITH_ENTITIES)
def test_entities_are_made_again_from_their_seeds(fixture: Fixture) -> None:
    for entity in fixture["entities"]:
        key = key_of(entity)
        assert key.public_key == public_key(entity["public_key"])
        assert key.id == derive_id(key.public_key) == entity["id"]


def _round_trip(kind: type[WireObject], value: object) -> Any:
    found = kind.decode(text_of(value))
    assert found.encode() == canonical_of(value)
    assert kind.decode(found.encode()) == found
    assert kind.from_dict(found.to_dict()) == found
    return found


def _verify(fixture: Fixture) -> None:
    expected = fixture["expected"]
    for value, signable in zip(fixture["cert_chain"], expected["delegation_sign_bytes_hex"], strict=True):
        cert = decode_delegation_cert(text_of(value))
        assert cert == _round_trip(DelegationCert, value)
        assert delegation_sign_bytes(cert).hex() == signable
    bundle = decode_proof_bundle(text_of(fixture["bundle"]))
    assert bundle == _round_trip(ProofBundle, fixture["bundle"])
    signed = challenge_sign_bytes(
        bundle.challenge, bundle.challenge_at, bundle.session_context, bundle.stream_id, bundle.stream_seq
    )
    assert signed.hex() == expected["challenge_sign_bytes_hex"]
    options, wanted = expected["verify_options"], expected["verify_result"]
    revoked: set[str] = set()
    if wanted["identity_status"] == "revoked":
        revoked = {bundle.delegations[min(1, len(bundle.delegations) - 1)].cert_id}
    result = verify_bundle(
        bundle,
        options.get("required_scope") or UNSET,
        now=options["now"],
        is_revoked=revoked.__contains__,
        session_context=bytes_of(options.get("session_context", "")) or None,
        stream=stream_of(options.get("stream")),
        context=context_of(fixture.get("verifier_context")),
    )
    _compare(result, wanted)


def _compare(result: VerifyResult, wanted: Fixture) -> None:
    assert result.error_reason == wanted.get("error_reason", "")
    assert result.identity_status == wanted["identity_status"]
    assert result.valid is wanted["valid"]
    assert set(result.granted_scope) == set(wanted.get("granted_scope") or ())
    assert result.human_id == wanted.get("human_id", "")
    assert result.agent_id == wanted.get("agent_id", "")


def _scope(fixture: Fixture) -> None:
    assert expand(fixture["scope_input"]) == sorted(fixture["expected"]["expanded_scopes"])
    if "unknown" in fixture["name"]:
        assert unknown_scope(fixture["scope_input"]) in fixture["scope_input"]


def _revocation(fixture: Fixture) -> None:
    revoked = _round_trip(RevocationList, fixture["revocation_list"])
    assert revocation_sign_bytes(revoked).hex() == fixture["expected"]["revocation_sign_bytes_hex"]
    assert revocation_list_fault(revoked, public_key(fixture["entities"][0]["public_key"])) is None


def _push(fixture: Fixture) -> None:
    push = _round_trip(RevocationPush, fixture["revocation_push"])
    assert revocation_push_sign_bytes(push).hex() == _sign_bytes(fixture)
    assert revocation_push_fault(push, public_key(fixture["entities"][0]["public_key"])) is None


def _rotation(fixture: Fixture) -> None:
    statement, expected = _round_trip(KeyRotationStatement, fixture["key_rotation"]), fixture["expected"]
    assert key_rotation_sign_bytes(statement).hex() == expected["key_rotation_sign_bytes_hex"]
    fault = key_rotation_fault(statement)
    assert (fault is None) is expected["key_rotation_verify_ok"]
    assert (fault or "") == expected.get("key_rotation_error_reason", "")


def _witness(fixture: Fixture) -> None:
    entry = _round_trip(WitnessEntry, fixture["witness_entry"])
    assert witness_entry_sign_bytes(entry).hex() == _sign_bytes(fixture)
    assert witness_entry_fault(entry, public_key(fixture["entities"][0]["public_key"])) is None


def _sign_bytes(fixture: Fixture) -> str:
    (found,) = (value for name, value in fixture["expected"].items() if name.endswith("sign_bytes_hex"))
    return found


def _token(fixture: Fixture) -> None:
    part, expected = fixture["session_token"], fixture["expected"]
    token, secret = _round_trip(SessionToken, part["token"]), bytes.fromhex(part["session_secret_hex"])
    assert session_token_sign_bytes(token).hex() == expected["session_token_sign_bytes_hex"]
    assert token.mac.hex() == expected["session_token_mac_hex"]
    spoilt = fixture["name"].endswith(("_tampered", "_wrong_secret"))
    assert (session_token_mac(token, secret) != token.mac) is spoilt
    signature = HybridSignature(
        bytes_of(part["challenge_sig"]["ed25519"]), bytes_of(part["challenge_sig"]["ml_dsa_65"])
    )
    turn = StreamedTurn(
        challenge=bytes_of(part["challenge"]), challenge_at=part["challenge_at"], challenge_sig=signature
    )
    _compare(verify_streamed_turn(token, secret, turn, now=part["verify_now"]), expected["streamed_turn"])


def _transaction(fixture: Fixture) -> None:
    receipt, expected = _round_trip(TransactionReceipt, fixture["transaction_receipt"]), fixture["expected"]
    assert transaction_receipt_sign_bytes(receipt).hex() == expected["receipt_sign_bytes_hex"]
    result = verify_transaction_receipt(receipt, now=fixture["timestamps"]["verifier_now"])
    assert result.valid is expected["receipt_valid"]
    assert result.error_reason == expected.get("receipt_error_reason", "")


def _context_hash(fixture: Fixture) -> None:
    facts = dict(fixture["input"])
    if not facts.pop("has_location"):
        assert [facts.pop(f"current_{name}") for name in ("lat", "lon", "alt_m")] == [0, 0, 0]
    if not facts.pop("has_speed"):
        assert facts.pop("current_speed_mps") == 0
    if not facts.pop("has_amount"):
        assert [facts.pop(f"requested_{name}") for name in ("amount", "currency")] == [0, ""]
    assert verifier_context_hash(VerifierContext(**facts)).hex() == fixture["expected_hash_hex"]


def _bundle_hash(fixture: Fixture) -> None:
    bundle = _round_trip(ProofBundle, fixture["input"]["bundle"])
    assert bundle_hash(bundle).hex() == fixture["expected_hash_hex"]


def _verdict(fixture: Fixture) -> None:
    members = dict(fixture["input"])
    members["context_hash"] = bytes.fromhex(members.pop("context_hash_hex"))
    assert policy_verdict_sign_bytes(PolicyVerdict(**members)) == bytes_of(fixture["expected_bytes_b64"])


def _receipt(fixture: Fixture) -> None:
    members = dict(fixture["input"])
    for name in ("bundle_hash", "prev_hash"):
        members[name] = bytes.fromhex(members.pop(f"{name}_hex"))
    members["verifier_pub"] = public_key(members["verifier_pub"])
    members["granted_scope"] = tuple(members.get("granted_scope") or ())
    receipt = VerificationReceipt(signature=UNSIGNED, **members)
    assert verification_receipt_sign_bytes(receipt) == bytes_of(fixture["expected_bytes_b64"])


def _negative(fixture: Fixture) -> None:
    kind: type[WireObject] = SessionToken if fixture["target"] == "token" else ProofBundle
    with pytest.raises(WireError, match=r"^wire: "):
        kind.decode(bytes_of(fixture["doc_b64"]))


_KINDS: dict[str, Callable[[Fixture], None]] = {
    "verify": _verify,
    "scope": _scope,
    "revocation": _revocation,
    "revocation_push": _push,
    "key_rotation": _rotation,
    "witness_entry": _witness,
    "session_token": _token,
    "transaction_receipt": _transaction,
    "verifier_context_hash": _context_hash,
    "bundle_hash": _bundle_hash,
    "policy_verdict_sign_bytes": _verdict,
    "verification_receipt_sign_bytes": _receipt,
    "wire_negative": _negative,
}
