"""Ours and the published package: what either signs the other accepts, and both judge generated proofs alike."""

import json
from typing import Any

import pytest
import ratify_protocol as published
from tests.differential.peer import (
    Question,
    both,
    ours_key,
    read_by_them,
    read_by_us,
    their_context,
    theirs_key,
    theirs_signature,
)
from tests.unit.ratify.world import (
    CHALLENGE,
    CONTEXT,
    HOUR,
    HUMAN,
    NOW,
    STRANGER,
    STREAM,
    chain,
    proof,
)

from accredit.ratify import (
    VerifierContext,
    build_session_context,
    bundle_hash,
    chain_hash,
    issue_revocation_list,
    operation_context_hash,
    revocation_list_fault,
    verify_bundle,
)
from accredit.ratify.extras.sessions import SessionToken, StreamedTurn, issue_session_token, verify_streamed_turn
from accredit.ratify.extras.statements import (
    VerificationReceipt,
    issue_key_rotation,
    issue_verification_receipt,
    key_rotation_sign_bytes,
    verification_receipt_fault,
)
from accredit.ratify.facts import verifier_context_hash
from accredit.ratify.revocation import RevocationList
from accredit.ratify.scopes import CANONICAL_SCOPES, SENSITIVE_SCOPES, WILDCARDS

GOOD = ("authorized_agent", "")


class TestTheVocabulary:
    def test_is_the_same(self) -> None:
        assert set(published.vocabulary()) == CANONICAL_SCOPES
        assert {name: set(members) for name, members in published.scope_wildcards().items()} == dict(WILDCARDS)
        assert {scope for scope in CANONICAL_SCOPES if published.is_sensitive(scope)} == SENSITIVE_SCOPES


class TestWhatTheySign:
    def test_a_chain_of_two_and_a_proof(self) -> None:
        root, root_key = published.generate_human_root()
        middle, middle_key = published.generate_agent("middle", "custom")
        agent, agent_key = published.generate_agent("agent", "custom")
        certs = [
            self.issue("leaf", middle, middle_key, agent, ["files:read"]),
            self.issue("root", root, root_key, middle, ["files:read", "identity:delegate"]),
        ]
        bundle = published.ProofBundle(
            agent_id=agent.id,
            agent_pub_key=agent.public_key,
            delegations=certs,
            challenge=CHALLENGE,
            challenge_at=NOW,
            challenge_sig=published.sign_challenge(CHALLENGE, NOW, agent_key, session_context=CONTEXT),
            session_context=CONTEXT,
        )
        ours = read_by_us(published.encode_proof_bundle(bundle).encode())
        assert ours is not None
        roots = [ours_key(root.public_key)]
        result = verify_bundle(ours, "files:read", now=NOW, session_context=CONTEXT, roots=roots)
        assert (result.valid, result.human_id, result.agent_id) == (True, root.id, agent.id)
        assert bundle_hash(ours) == published.bundle_hash(bundle)
        assert chain_hash(ours.delegations) == published.chain_hash(certs)
        assert ours.encode() == published.encode_proof_bundle(bundle).encode()

    @staticmethod
    def issue(cert_id: str, issuer: Any, key: Any, subject: Any, scope: list[str]) -> Any:
        cert = published.DelegationCert(
            cert_id=cert_id,
            version=1,
            issuer_id=issuer.id,
            issuer_pub_key=issuer.public_key,
            subject_id=subject.id,
            subject_pub_key=subject.public_key,
            scope=scope,
            issued_at=NOW - HOUR,
            expires_at=NOW + HOUR,
        )
        published.issue_delegation(cert, key)
        return cert

    def test_a_revocation_list(self) -> None:
        root, key = published.generate_human_root()
        revoked = published.RevocationList(root.id, NOW, ["b", "a"], published.sign_both(b"", key))
        published.issue_revocation_list(revoked, key)
        ours = RevocationList.from_dict(json.loads(published.canonical_json(revoked)))
        assert revocation_list_fault(ours, ours_key(root.public_key)) is None


class TestWhatWeSign:
    @pytest.mark.parametrize("depth", [1, 2, 3, 8])
    def test_a_chain_and_a_proof(self, depth: int) -> None:
        bundle = proof(chain(depth), session_context=CONTEXT, stream_id=STREAM, stream_seq=3)
        asked = Question(now=NOW, required_scope="files:read", session_context=CONTEXT, stream=(STREAM, 2))
        theirs, ours = both(bundle.encode(), asked)
        assert theirs == ours
        assert theirs[:2] == GOOD
        decoded = read_by_them(bundle.encode())
        assert published.encode_proof_bundle(decoded).encode() == bundle.encode()
        assert published.bundle_hash(decoded) == bundle_hash(bundle)

    def test_a_revocation_list(self) -> None:
        ours = issue_revocation_list(HUMAN, ["b", "a", "\u2028"], NOW)
        theirs = published.RevocationList(
            ours.issuer_id, ours.updated_at, list(ours.revoked_certs), theirs_signature(ours.signature)
        )
        assert published.verify_revocation_list(theirs, theirs_key(HUMAN.public_key))

    def test_a_key_rotation(self) -> None:
        ours = issue_key_rotation(HUMAN, STRANGER, "routine", NOW)
        theirs = published.KeyRotationStatement(
            1,
            ours.old_id,
            theirs_key(ours.old_pub_key),
            ours.new_id,
            theirs_key(ours.new_pub_key),
            NOW,
            "routine",
            theirs_signature(ours.signature_old),
            theirs_signature(ours.signature_new),
        )
        assert published.key_rotation_sign_bytes(theirs) == key_rotation_sign_bytes(ours)
        assert published.verify_key_rotation_statement_e(theirs) is None

    def test_a_session_token_and_a_turn(self) -> None:
        bundle = proof()
        result = verify_bundle(bundle, now=NOW)
        token = issue_session_token(bundle, result, "session", NOW, NOW + 60, b"secret")
        theirs = published.decode_session_token(token.encode())
        turn = StreamedTurn(challenge=CHALLENGE, challenge_at=NOW, challenge_sig=bundle.challenge_sig)
        ours = verify_streamed_turn(SessionToken.decode(token.encode()), b"secret", turn, now=NOW)
        found = published.verify_streamed_turn(
            theirs, b"secret", CHALLENGE, NOW, theirs_signature(bundle.challenge_sig), now=NOW
        )
        assert found.valid is ours.valid is True
        assert found.granted_scope == ours.granted_scope

    def test_a_verification_receipt(self) -> None:
        bundle = proof()
        for result in (verify_bundle(bundle, now=NOW), verify_bundle(bundle, "files:write", now=NOW)):
            receipt = issue_verification_receipt(HUMAN, bundle, result, NOW)
            theirs = published.decode_verification_receipt(receipt.encode())
            assert published.verify_verification_receipt(theirs) is None
            assert published.encode_verification_receipt(theirs).encode() == receipt.encode()
            assert verification_receipt_fault(VerificationReceipt.decode(receipt.encode())) is None


class TestHashes:
    @pytest.mark.parametrize(
        "facts",
        [
            {},
            {"current_lat": 1.5, "current_lon": -0.25},
            {"current_lat": 1.5},
            {"current_alt_m": 5.0},
            {"current_lat": 0, "current_lon": 0, "current_alt_m": 5.5},
            {"current_speed_mps": 0.1},
            {"requested_amount": 99.99, "requested_currency": "EUR"},
            {"requested_amount": 1},
            {"requested_currency": "EUR"},
        ],
    )
    def test_of_a_context(self, facts: dict[str, Any]) -> None:
        theirs = published.verifier_context_hash(their_context(facts))
        assert verifier_context_hash(VerifierContext(**facts)) == theirs

    def test_of_an_operation_and_a_session(self) -> None:
        for text in ("", "é\0x", "a" * 300):
            operation = published.OperationContext(text, "op", text, "/p", bytes(32))
            ours = operation_context_hash(text, "op", text, "/p", bytes(32))
            assert published.operation_context_hash(operation) == ours
            session = published.SessionContextInputs(text, "", text, "s", "", ours)
            assert published.build_session_context(session) == build_session_context(
                text, "", text, "s", request_hash=ours
            )
