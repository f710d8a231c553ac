"""The verifier: each step's refusal, its exact reason, and the order in which they decide."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.ratify.world import (
    AGENT,
    CHALLENGE,
    CONTEXT,
    HOUR,
    HUMAN,
    NOW,
    STRANGER,
    STREAM,
    SUB_AGENT,
    certificate,
    chain,
    constrained,
    judged,
    proof,
    signed,
    verdict,
)

from accredit.errors import WireError
from accredit.ratify import (
    CertificateCache,
    DelegationCert,
    HybridPublicKey,
    HybridSignature,
    IdentityStatus,
    MemoryChallengeStore,
    StreamContext,
    delegation_sign_bytes,
    verify_bundle,
    verify_chain,
)
from accredit.ratify.callbacks import run
from accredit.ratify.results import Refusal
from accredit.ratify.terms import Terms
from accredit.ratify.verify import _check_link as check_link
from accredit.ratify.verify import constraints_fault, verification

pytestmark = [
    pytest.mark.holds("ratify/results"),
    pytest.mark.holds("ratify/callbacks"),
    pytest.mark.holds("ratify/terms"),
]

GOOD = ("authorized_agent", "")


def invalid(reason: str) -> tuple[str, str]:
    return "invalid", reason


@pytest.mark.parametrize("depth", [1, 2, 3, 8])
def test_a_good_chain_is_valid_and_names_both_ends(depth: int) -> None:
    result = judged(proof(chain(depth)), required_scope="files:read")
    assert (result.valid, result.human_id, result.principal_id) == (True, HUMAN.id, HUMAN.id)
    assert result.agent_id == proof(chain(depth)).agent_id
    assert result.granted_scope == ["files:read", "identity:delegate"]
    assert result.identity_status == IdentityStatus.VALID
    assert result.root_checked is False


class TestShape:
    @pytest.mark.holds("ratify/verify", "certificates")
    def test_no_certificates(self) -> None:
        reason = "no_delegations: proof bundle contains no delegation certificates"
        assert verdict(replace(proof(), delegations=())) == invalid(reason)

    @pytest.mark.holds("ratify/verify", "chain-length")
    def test_more_than_eight_certificates(self) -> None:
        bundle = replace(proof(), delegations=chain(1) * 9)
        assert verdict(bundle) == invalid("chain_too_deep: delegation chain exceeds maximum depth")

    @pytest.mark.holds("ratify/verify", "challenge")
    def test_no_challenge(self) -> None:
        reason = "no_challenge: proof bundle contains no challenge"
        assert verdict(replace(proof(), challenge=b"")) == invalid(reason)

    @pytest.mark.holds("ratify/verify", "challenge")
    @pytest.mark.parametrize("size", [31, 33, 72])
    def test_a_challenge_of_another_length_can_not_pass_for_one_with_a_binding(self, size: int) -> None:
        bundle = proof(challenge=bytes(size))
        assert verdict(bundle) == invalid(f"invalid_challenge: challenge must be 32 bytes, got {size}")

    @pytest.mark.holds("ratify/verify", "bounds")
    def test_too_many_scopes(self) -> None:
        cert = certificate(scope=tuple(f"custom:{n}" for n in range(129)))
        reason = "invalid: cert 0 carries 129 scopes, exceeding MAX_SCOPES_PER_CERT (128)"
        assert verdict(proof([cert])) == invalid(reason)

    @pytest.mark.holds("ratify/verify", "bounds")
    def test_too_many_constraints(self) -> None:
        bundle = constrained(*[{"type": "com.example.x"}] * 33)
        reason = "invalid: cert 0 carries 33 constraints, exceeding MAX_CONSTRAINTS_PER_CERT (32)"
        assert verdict(bundle) == invalid(reason)

    @pytest.mark.holds("ratify/verify", "bounds")
    def test_a_scope_that_is_too_long_in_bytes(self) -> None:
        cert = certificate(scope=("custom:" + "é" * 125,))
        reason = "invalid: cert 0 carries a scope of 257 bytes, exceeding MAX_SCOPE_LENGTH_BYTES (256)"
        assert verdict(proof([cert])) == invalid(reason)

    def test_a_resource_id_that_is_too_long(self) -> None:
        bundle = constrained({"type": "resource_path", "resource_id": "r" * 513})
        reason = "invalid: cert 0 constraint resource_id is 513 bytes, exceeding MAX_IDENTIFIER_LENGTH_BYTES (512)"
        assert verdict(bundle) == invalid(reason)


class TestSession:
    def test_bound_to_the_expected_context(self) -> None:
        assert verdict(proof(session_context=CONTEXT), session_context=CONTEXT) == GOOD

    @pytest.mark.holds("ratify/verify", "context")
    @pytest.mark.parametrize(
        ("bound", "expected", "reason"),
        [
            (b"short", b"", "invalid_session_context: session_context must be 32 bytes, got 5"),
            (
                CONTEXT,
                b"short",
                "invalid_session_context: verify option session_context must be 32 bytes, got 5",
            ),
            (
                b"",
                CONTEXT,
                "missing_session_context: verifier requires a session-bound challenge but bundle has no"
                " session_context",
            ),
            (
                CONTEXT,
                bytes(32),
                "session_context_mismatch: bundle session_context does not match verifier context",
            ),
            (
                CONTEXT,
                b"",
                "session_context_unverifiable: bundle has session_context but verifier did not provide one",
            ),
        ],
    )
    def test_refusals(self, bound: bytes, expected: bytes, reason: str) -> None:
        assert verdict(proof(session_context=bound), session_context=expected or None) == invalid(reason)


class TestStream:
    @pytest.mark.holds("ratify/verify", "stream")
    def test_the_first_and_the_next_turn(self) -> None:
        for last in (0, 4):
            bundle = proof(stream_id=STREAM, stream_seq=last + 1)
            assert verdict(bundle, stream=StreamContext(STREAM, last)) == GOOD

    @pytest.mark.parametrize(
        ("stream_id", "seq", "stream", "reason"),
        [
            (b"short", 1, None, "invalid_stream_id: stream_id must be 32 bytes, got 5"),
            (b"", 1, None, "invalid_stream_seq: stream_seq set without stream_id"),
            (STREAM, 0, None, "invalid_stream_seq: stream_seq must be >=1, got 0"),
            (STREAM, -1, None, "invalid_stream_seq: stream_seq must be >=1, got -1"),
            (
                STREAM,
                1,
                StreamContext(b"short"),
                "invalid_stream_id: verify option stream_id must be 32 bytes, got 5",
            ),
            (
                b"",
                0,
                StreamContext(STREAM),
                "missing_stream_context: verifier requires a stream-bound challenge but bundle has no stream_id",
            ),
            (
                STREAM,
                1,
                StreamContext(bytes(32)),
                "stream_id_mismatch: bundle stream_id does not match verifier stream context",
            ),
            (STREAM, 4, StreamContext(STREAM, 4), "stream_seq_replay: stream_seq 4 already seen (last=4)"),
            (STREAM, 6, StreamContext(STREAM, 4), "stream_seq_skip: stream_seq 6 skips expected 5"),
            (
                STREAM,
                1,
                None,
                "stream_context_unverifiable: bundle has stream_id but verifier did not provide a stream context",
            ),
        ],
    )
    def test_refusals(self, stream_id: bytes, seq: int, stream: StreamContext | None, reason: str) -> None:
        bundle = proof(stream_id=stream_id, stream_seq=seq)
        assert verdict(bundle, stream=stream) == invalid(reason)


class TestAgent:
    @pytest.mark.holds("ratify/verify", "key-length")
    def test_a_key_of_the_wrong_length(self) -> None:
        key = AGENT.public_key
        short = replace(proof(), agent_pub_key=HybridPublicKey(key.ed25519[:-1], key.ml_dsa_65))
        assert verdict(short) == invalid("invalid_agent_key: agent Ed25519 public key has wrong length: 31")
        short = replace(proof(), agent_pub_key=HybridPublicKey(key.ed25519, key.ml_dsa_65 + b"x"))
        assert verdict(short) == invalid("invalid_agent_key: agent ML-DSA-65 public key has wrong length: 1953")

    @pytest.mark.holds("ratify/verify", "leaf")
    @pytest.mark.parametrize("part", ["ed25519", "ml_dsa_65"])
    def test_either_part_of_another_key(self, part: str) -> None:
        mixed = replace(AGENT.public_key, **{part: getattr(STRANGER.public_key, part)})
        reason = "key_mismatch: agent public key does not match delegation subject"
        assert verdict(replace(proof(), agent_pub_key=mixed)) == invalid(reason)

    @pytest.mark.holds("ratify/verify", "ids")
    def test_another_id(self) -> None:
        bundle = replace(proof(), agent_id=STRANGER.id)
        assert verdict(bundle) == invalid("id_mismatch: agent ID does not match delegation subject ID")


class TestIds:
    def test_a_root_that_calls_itself_the_victim(self) -> None:
        cert = certificate(STRANGER, issuer_id=HUMAN.id)
        reason = "id_derivation: cert 0 issuer_id does not match its key"
        assert verdict(proof([cert])) == invalid(reason)
        assert verdict(proof([cert]), roots=[HUMAN.public_key]) == invalid(reason)

    def test_an_agent_that_calls_itself_another(self) -> None:
        cert = certificate(subject_id=STRANGER.id)
        bundle = replace(proof([cert]), agent_id=STRANGER.id)
        assert verdict(bundle) == invalid("id_derivation: cert 0 subject_id does not match its key")

    def test_an_id_in_the_middle_of_a_chain(self) -> None:
        leaf, root = chain(2)
        parent = signed(replace(root, issuer_id=STRANGER.id))
        assert verdict(proof((leaf, parent))) == invalid("id_derivation: cert 1 issuer_id does not match its key")

    def test_comes_after_the_agent_and_before_the_certificates(self) -> None:
        cert = certificate(STRANGER, issuer_id=HUMAN.id, version=2)
        assert verdict(proof([cert]))[1].startswith("id_derivation")
        assert verdict(replace(proof([cert]), agent_id="x"))[1].startswith("id_mismatch")


class TestCertificate:
    @pytest.mark.holds("ratify/verify", "chain")
    def test_another_version(self) -> None:
        bundle = proof([certificate(version=2)])
        assert verdict(bundle) == invalid("version_mismatch: cert 0 has unsupported version 2")

    def test_a_scope_that_no_vocabulary_knows(self) -> None:
        bundle = proof([certificate(scope=("files:read", "email:send", "urn:x"))])
        reason = (
            'invalid_scope: cert 0: unknown scope "email:send": not in canonical vocabulary and not a custom: extension'
        )
        assert verdict(bundle) == ("invalid_scope", reason)
        assert verdict(bundle, vocabulary=["email:send"])[1].startswith('invalid_scope: cert 0: unknown scope "urn:x"')

    def test_the_deployments_own_scopes(self) -> None:
        bundle = proof([certificate(scope=("email:send",))])
        tools = {"send_email": "email:send"}
        result = verify_bundle(bundle, required_scope="email:send", vocabulary=tools.values(), now=NOW)
        assert result.granted_scope == ["email:send"]

    @pytest.mark.holds("ratify/verify", "chain")
    def test_expired(self) -> None:
        bundle = proof([certificate(expires_at=NOW)])
        assert verdict(bundle) == GOOD
        result = judged(bundle, now=NOW + 1)
        assert (result.identity_status, result.error_reason) == (
            IdentityStatus.EXPIRED,
            "delegation certificate has expired",
        )
        assert (result.human_id, result.agent_id) == (HUMAN.id, AGENT.id)

    @pytest.mark.holds("ratify/verify", "chain")
    def test_not_yet_valid(self) -> None:
        assert verdict(proof([certificate(issued_at=NOW)])) == GOOD
        assert verdict(proof([certificate(issued_at=NOW + 1)])) == invalid("not_yet_valid: cert 0 is not yet valid")

    def test_the_sentinel_for_no_expiry_is_an_ordinary_time(self) -> None:
        bundle = proof([certificate(expires_at=4_070_908_799)])
        assert verdict(bundle) == GOOD
        assert verdict(bundle, now=4_070_908_800)[0] == "expired"

    @pytest.mark.holds("ratify/verify", "chain")
    @pytest.mark.parametrize("at", [0, 1, 2])
    def test_revoked_anywhere_in_the_chain(self, at: int) -> None:
        bundle = proof(chain(3))
        revoked = bundle.delegations[at].cert_id
        assert verdict(bundle, is_revoked={revoked}.__contains__) == (
            "revoked",
            "delegation certificate has been revoked",
        )

    def test_a_lookup_that_fails_is_a_refusal(self) -> None:
        def broken(_cert_id: str) -> bool:
            raise OSError("the list is gone")

        reason = "revocation_error: cert 0: revocation lookup failed: the list is gone"
        assert verdict(proof(), is_revoked=broken) == invalid(reason)

    def test_a_lookup_without_an_answer_is_a_refusal(self) -> None:
        nothing: Callable[[str], Any] = {}.get
        reason = "revocation_error: cert 0: revocation lookup failed: no answer"
        assert verdict(proof(), is_revoked=nothing) == invalid(reason)

    @pytest.mark.holds("ratify/verify", "chain")
    @pytest.mark.parametrize(("part", "name"), [("ed25519", "Ed25519"), ("ml_dsa_65", "ML-DSA-65")])
    def test_either_signature_spoilt(self, part: str, name: str) -> None:
        cert = certificate()
        data = getattr(cert.signature, part)
        bad = replace(cert, signature=replace(cert.signature, **{part: data[:-1] + bytes([data[-1] ^ 1])}))
        assert verdict(proof([bad])) == invalid(f"bad_signature: cert 0: {name} signature invalid")

    @pytest.mark.parametrize(
        ("signature", "text"),
        [
            (HybridSignature(bytes(63), bytes(3309)), "Ed25519 signature wrong length: 63"),
            (HybridSignature(bytes(64), bytes(3310)), "ML-DSA-65 signature wrong length: 3310"),
        ],
    )
    def test_a_signature_of_the_wrong_length(self, signature: HybridSignature, text: str) -> None:
        bundle = proof([replace(certificate(), signature=signature)])
        assert verdict(bundle) == invalid(f"bad_signature: cert 0: {text}")

    def test_constraints_are_judged_before_the_parent(self) -> None:
        leaf = certificate(
            AGENT, SUB_AGENT.public_key, constraints=constrained({"type": "x.y"}).delegations[0].constraints
        )
        bundle = proof((leaf, certificate(scope=("files:read",))), SUB_AGENT)
        assert verdict(bundle)[0] == "constraint_unknown"


class TestLinks:
    @pytest.mark.holds("ratify/verify", "chain")
    def test_an_issuer_that_is_not_the_parents_subject(self) -> None:
        bundle = proof((certificate(STRANGER, SUB_AGENT.public_key), chain(1)[0]), SUB_AGENT)
        assert verdict(bundle) == invalid("broken_chain: cert 0 issuer does not match cert 1 subject")

    def test_an_issuer_whose_id_is_the_parents_subjects_and_whose_key_is_not(self) -> None:
        # Ids are derived from keys, so only a collision of their 128 bits leads here in a verification.
        (parent,) = chain(1)
        child = certificate(STRANGER, SUB_AGENT.public_key, issuer_id=AGENT.id)
        with pytest.raises(Refusal, match=r"^broken_chain_keys: cert 0 issuer key does not match cert 1 subject key$"):
            check_link(0, child, parent)

    @pytest.mark.holds("ratify/verify", "chain")
    def test_a_parent_that_does_not_allow_delegation(self) -> None:
        bundle = proof(chain(2, scope=("files:read",)))
        reason = (
            "delegation_not_authorized: cert 0 issued by a subject whose parent cert 1"
            ' did not grant "identity:delegate"'
        )
        assert verdict(bundle) == ("delegation_not_authorized", reason)

    def test_the_scope_is_the_intersection_of_all(self) -> None:
        leaf = certificate(AGENT, SUB_AGENT.public_key, scope=("meeting:*", "files:write"))
        root = certificate(scope=("identity:delegate", "meeting:attend", "meeting:record", "files:write"))
        result = judged(proof((leaf, root), SUB_AGENT))
        assert result.granted_scope == ["files:write", "meeting:attend"]


class TestChallenge:
    @pytest.mark.holds("ratify/verify", "freshness")
    @pytest.mark.parametrize(("age", "good"), [(60, True), (61, False), (-5, True), (-6, False)])
    def test_who_verifies_may_set_another_window(self, age: int, good: bool) -> None:
        terms = Terms(now=NOW, max_age=60, max_ahead=5)
        assert run(verification(proof(challenge_at=NOW - age), terms), NOW).valid is good

    @pytest.mark.holds("ratify/verify", "freshness")
    @pytest.mark.parametrize(("age", "good"), [(0, True), (300, True), (301, False), (-1, False)])
    def test_the_window_is_inclusive(self, age: int, good: bool) -> None:
        reason = f"stale_challenge: challenge is {age} seconds old (max 300)"
        assert verdict(proof(challenge_at=NOW - age)) == (GOOD if good else invalid(reason))

    def test_a_time_before_1970_is_only_stale(self) -> None:
        assert verdict(proof(challenge_at=-5))[1].startswith("stale_challenge")

    @pytest.mark.holds("ratify/verify", "signature")
    @pytest.mark.parametrize(
        "change",
        [
            {"challenge": bytes(32)},
            {"challenge_at": NOW - 1},
            {"challenge_sig": STRANGER.sign(b"x")},
        ],
    )
    def test_what_the_agent_did_not_sign(self, change: dict[str, Any]) -> None:
        reason = "bad_challenge_sig: challenge signature verification failed: Ed25519 signature invalid"
        assert verdict(replace(proof(), **change)) == invalid(reason)

    def test_a_session_that_the_agent_did_not_sign(self) -> None:
        bundle = replace(proof(), session_context=CONTEXT)
        assert verdict(bundle, session_context=CONTEXT)[1].startswith("bad_challenge_sig")

    def test_a_turn_that_the_agent_did_not_sign(self) -> None:
        bundle = replace(proof(stream_id=STREAM, stream_seq=1), stream_seq=2)
        assert verdict(bundle, stream=StreamContext(STREAM, 1))[1].startswith("bad_challenge_sig")


class TestStore:
    UNKNOWN = invalid("unknown_challenge: challenge was not issued by this verifier or has already been used")

    @staticmethod
    def issued() -> MemoryChallengeStore:
        store = MemoryChallengeStore(lambda _size: CHALLENGE)
        store.issue(b"", 60, NOW)
        return store

    def test_a_challenge_is_good_once(self) -> None:
        store = self.issued()
        assert verdict(proof(), challenge_store=store) == GOOD
        assert verdict(proof(), challenge_store=store) == self.UNKNOWN

    @pytest.mark.holds("ratify/verify", "acceptance")
    def test_a_challenge_that_was_not_issued(self) -> None:
        assert verdict(proof(challenge=bytes(32)), challenge_store=self.issued()) == self.UNKNOWN

    @pytest.mark.holds("ratify/verify", "consumption")
    @pytest.mark.parametrize(
        "change",
        [
            {"challenge_sig": STRANGER.sign(b"x")},
            {"agent_id": "x"},
            {"challenge_at": NOW - 301},
            {"delegations": (certificate(version=2),)},
        ],
    )
    def test_a_forged_proof_does_not_burn_a_real_challenge(self, change: dict[str, Any]) -> None:
        store = self.issued()
        assert verdict(replace(proof(), **change), challenge_store=store)[0] == "invalid"
        assert verdict(proof(), challenge_store=store) == GOOD

    def test_a_good_signature_spends_it_whatever_comes_after(self) -> None:
        for bundle, options in (
            (constrained({"type": "x.y"}), {}),
            (proof(), {"required_scope": "files:write"}),
            (proof(), {"roots": []}),
        ):
            store = self.issued()
            assert judged(bundle, challenge_store=store, **options).valid is False
            assert verdict(bundle, challenge_store=store, **options) == self.UNKNOWN

    @pytest.mark.holds("ratify/verify", "consumption")
    def test_constraints_wait_for_the_signature(self) -> None:
        bundle = replace(constrained({"type": "x.y"}), challenge_sig=STRANGER.sign(b"x"))
        assert verdict(bundle, challenge_store=self.issued())[1].startswith("bad_challenge_sig")
        assert verdict(bundle)[0] == "constraint_unknown"
        bundle = constrained({"type": "x.y"})
        assert verdict(bundle, challenge_store=self.issued()) == verdict(bundle)

    def test_a_store_that_fails_has_not_said_yes(self) -> None:
        class Broken:
            def validate(self, challenge: bytes, binding: bytes, now: int) -> str | None:
                raise OSError("gone")

            consume = validate

        class BreaksLater(Broken):
            def validate(self, challenge: bytes, binding: bytes, now: int) -> str | None:
                return None

        assert verdict(proof(), challenge_store=Broken()) == self.UNKNOWN
        assert verdict(proof(), challenge_store=BreaksLater()) == self.UNKNOWN

    def test_the_store_is_asked_with_the_verifiers_own_context(self) -> None:
        asked: list[tuple[bytes, bytes, int]] = []

        class Asked:
            def validate(self, challenge: bytes, binding: bytes, now: int) -> str | None:
                asked.append((challenge, binding, now))

            consume = validate

        bundle = proof(session_context=CONTEXT)
        assert verdict(bundle, session_context=CONTEXT, challenge_store=Asked()) == GOOD
        assert asked == [(CHALLENGE, CONTEXT, NOW)] * 2


class TestScope:
    @pytest.mark.holds("ratify/verify", "scopes")
    def test_what_is_not_granted(self) -> None:
        reason = 'scope_denied: required scope "files:write" not in effective delegation scope'
        assert verdict(proof(), required_scope="files:write") == ("scope_denied", reason)

    def test_a_wildcard_is_never_what_is_required(self) -> None:
        bundle = proof([certificate(scope=("meeting:*",))])
        assert verdict(bundle, required_scope="meeting:*")[0] == "scope_denied"
        assert verdict(bundle, required_scope="meeting:attend") == GOOD

    def test_an_empty_grant_is_valid_for_nothing(self) -> None:
        bundle = proof([certificate(scope=())])
        assert judged(bundle).granted_scope == []
        assert verdict(bundle, required_scope="files:read")[0] == "scope_denied"


class TestRoots:
    def test_a_trusted_root(self) -> None:
        result = judged(proof(chain(2)), roots=iter([STRANGER.public_key, HUMAN.public_key]))
        assert (result.valid, result.root_checked) == (True, True)

    @pytest.mark.holds("ratify/verify", "root")
    @pytest.mark.parametrize("roots", [[], [STRANGER.public_key], [AGENT.public_key]])
    def test_any_other_root(self, roots: list[HybridPublicKey]) -> None:
        result = judged(proof(chain(2)), roots=roots)
        assert (result.identity_status, result.error_reason) == (
            IdentityStatus.INVALID,
            "untrusted_root: the chain's root is not trusted",
        )
        assert result.root_checked is True

    def test_half_of_a_trusted_key_is_not_trusted(self) -> None:
        half = replace(STRANGER.public_key, ed25519=HUMAN.public_key.ed25519)
        assert verdict(proof(), roots=[half])[1].startswith("untrusted_root")

    def test_is_checked_last(self) -> None:
        assert verdict(proof(), roots=[], required_scope="files:write")[0] == "scope_denied"


class TestCache:
    def test_what_was_verified_is_not_verified_again(self) -> None:
        cache = CertificateCache()
        assert verdict(proof(chain(3)), cert_cache=cache) == GOOD
        assert len(cache) == 3
        assert verdict(proof(chain(3)), cert_cache=cache) == GOOD

    def test_only_good_signatures_are_remembered(self) -> None:
        cache = CertificateCache()
        bad = replace(certificate(), signature=STRANGER.sign(b"x"))
        for _ in range(2):
            assert verdict(proof([bad]), cert_cache=cache)[1].startswith("bad_signature")
        assert len(cache) == 0

    @pytest.mark.parametrize(
        "options",
        [
            {"now": NOW + HOUR + 1},
            {"now": NOW - HOUR - 1},
            {"is_revoked": bool},
            {"required_scope": "files:write"},
            {"roots": []},
            {"session_context": CONTEXT},
        ],
    )
    def test_what_can_change_is_judged_every_time(self, options: dict[str, Any]) -> None:
        cache = CertificateCache()
        assert verdict(proof(), cert_cache=cache) == GOOD
        assert verdict(proof(), cert_cache=cache, **options) == verdict(proof(), **options) != GOOD

    def test_a_changed_certificate_is_another_one(self) -> None:
        cache = CertificateCache()
        good = certificate()
        assert verdict(proof([good]), cert_cache=cache) == GOOD
        for change in ({"expires_at": NOW + 2 * HOUR}, {"scope": ("files:write",)}, {"cert_id": "other"}):
            bundle = proof([replace(good, **change)])
            assert verdict(bundle, cert_cache=cache)[1].startswith("bad_signature")

    def test_bytes_moved_from_one_signature_to_the_other_are_not_the_same(self) -> None:
        cache = CertificateCache()
        good = certificate()
        assert verdict(proof([good]), cert_cache=cache) == GOOD
        both = good.signature.ed25519 + good.signature.ml_dsa_65
        moved = replace(good, signature=HybridSignature(both[:63], both[63:]))
        assert verdict(proof([moved]), cert_cache=cache)[1].startswith("bad_signature")

    def test_is_bounded(self) -> None:
        cache = CertificateCache(2)
        assert verdict(proof(chain(8)), cert_cache=cache) == GOOD
        assert len(cache) == 2


class TestAnythingAtAll:
    @pytest.mark.parametrize(
        "change",
        [
            {"delegations": None},
            {"delegations": (None,)},
            {"agent_pub_key": None},
            {"challenge": None},
            {"challenge_at": "now"},
            {"challenge_sig": None},
            {"session_context": "text"},
            {"stream_id": STREAM, "stream_seq": None},
        ],
    )
    def test_a_bundle_that_no_one_decoded_is_an_answer(self, change: dict[str, Any]) -> None:
        assert judged(replace(proof(), **change)).identity_status == "invalid"

    @pytest.mark.parametrize(
        "change",
        [
            {"cert_id": "\ud800"},
            {"scope": ("custom:\ud800",)},
            {"scope": (5,)},
            {"version": None},
            {"constraints": (5,)},
            {"expires_at": None},
            {"issuer_pub_key": None},
            {"signature": None},
        ],
    )
    def test_a_certificate_that_no_one_decoded_is_an_answer(self, change: dict[str, Any]) -> None:
        bundle = replace(proof(), delegations=(replace(certificate(), **change),))
        assert judged(bundle).identity_status in {"invalid", "invalid_scope"}

    def test_it_is_not_even_a_bundle(self) -> None:
        nothing: Any = None
        assert judged(nothing).identity_status == "invalid"


def test_without_a_time_the_clock_is_read() -> None:
    cert = certificate(issued_at=0, expires_at=2**40)
    assert verify_bundle(proof([cert], challenge_at=0)).error_reason.startswith("stale_challenge")


class TestChain:
    def test_a_good_chain_without_a_proof(self) -> None:
        result = verify_chain(chain(3), now=NOW)
        assert (result.valid, result.human_id, result.agent_id, result.granted_scope) == (
            True,
            HUMAN.id,
            proof(chain(3)).agent_id,
            ["files:read", "identity:delegate"],
        )
        assert verify_chain([certificate(scope=("email:send",))], now=NOW, vocabulary=["email:send"]).valid

    @pytest.mark.parametrize(
        ("certs", "reason"),
        [
            ((), "no_delegations"),
            (chain(1) * 9, "chain_too_deep"),
            ((certificate(version=2),), "version_mismatch"),
            ((certificate(scope=("email:send",)),), "invalid_scope"),
            ((certificate(expires_at=NOW - 1),), "delegation certificate has expired"),
            ((certificate(STRANGER, issuer_id=HUMAN.id),), "id_derivation"),
            (chain(2)[:1] * 2, "broken_chain"),
        ],
    )
    def test_refusals(self, certs: tuple[DelegationCert, ...], reason: str) -> None:
        assert verify_chain(certs, now=NOW).error_reason.startswith(reason)


def test_constraints_alone_name_the_first_that_does_not_hold() -> None:
    certs = (*chain(1), *constrained({"type": "x.y"}).delegations)
    assert constraints_fault(chain(1), Terms(now=NOW)) is None
    fault = constraints_fault(certs, Terms(now=NOW))
    assert fault is not None
    assert fault.error_reason.startswith("constraint_unknown: cert 1: constraint[0] (x.y)")
    assert constraints_fault(certs, Terms(now=NOW, check_constraints=False)) is None


def test_the_signable_of_a_certificate_has_a_canonical_form_or_it_is_refused() -> None:
    with pytest.raises(WireError, match="lone surrogate"):
        delegation_sign_bytes(replace(certificate(), cert_id="\udfff"))
