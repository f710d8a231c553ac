"""Whether certificates belong together and are signed."""

from msgspec.structs import replace
from tests.world.delegations import DAY, NOW, World, prove, tampered

from accredit.ops.inspect import challenge_fault, judge_chain
from accredit.ratify.verify import certificate_fault

WORLD = World()
LEAF, PARENT = WORLD.chain()


def test_a_good_chain_has_no_faults_whatever_the_time() -> None:
    assert [certificate_fault((LEAF, PARENT), index) for index in (0, 1)] == [None, None]
    assert judge_chain((LEAF, PARENT), NOW).granted_scope == ["comms:email:send"]
    assert judge_chain((LEAF, PARENT), NOW + DAY + 1).error_reason == "delegation certificate has expired"


def test_scopes_that_a_catalog_may_name_count() -> None:
    assert judge_chain((WORLD.grant("email:send"),), NOW).granted_scope == ["email:send"]
    assert not judge_chain((tampered(LEAF, scope=("nonsense",)),), NOW).valid


def test_what_was_changed_after_it_was_signed_is_found() -> None:
    assert certificate_fault((tampered(LEAF, expires_at=NOW + 9 * DAY),), 0) == "Ed25519 signature invalid"
    half = replace(LEAF.signature, ml_dsa_65=bytes(3309))
    assert certificate_fault((tampered(LEAF, signature=half),), 0) == "ML-DSA-65 signature invalid"


def test_an_id_is_the_one_of_its_key() -> None:
    for member in ("issuer", "subject"):
        fault = certificate_fault((tampered(LEAF, **{f"{member}_id": WORLD.owner.id}),), 0)
        assert fault == f"the {member}'s id is not that of its key"


def test_a_certificate_is_issued_by_the_subject_of_the_next_who_may_delegate() -> None:
    assert "not issued by the subject" in str(certificate_fault((LEAF, WORLD.grant("files:read", to=WORLD.sub)), 0))
    assert "identity:delegate" in str(certificate_fault((LEAF, WORLD.grant("comms:email:send")), 0))


def test_a_proof_is_by_the_agent_that_the_chain_is_for() -> None:
    proof = prove((LEAF, PARENT), WORLD.sub)
    assert challenge_fault(proof) is None
    assert challenge_fault(replace(proof, challenge_at=NOW + 1)) == "Ed25519 signature invalid"
    assert "not the one" in str(challenge_fault(replace(proof, agent_pub_key=WORLD.agent.public_key)))
