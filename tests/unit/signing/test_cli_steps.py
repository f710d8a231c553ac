"""At which step a verification ended: read from the verifier's reasons, which belong to one step each."""

import re
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.world.delegations import DAY, NOW, World, prove, tampered

from accredit import ratify
from accredit.ratify import IdentityStatus, ProofBundle, VerifyResult, verify_bundle
from accredit.ratify.constraints import MaxSpeed
from accredit.ratify.hybrid import UNSIGNED
from accredit.signing.steps import _STEPS, STEP_OF, FailurePoint, failure_point, walk

pytestmark = pytest.mark.holds("signing/steps")

WORLD = World()
LEAF, PARENT = WORLD.chain()
PROOF = prove((LEAF, PARENT), WORLD.sub)


def test_every_reason_of_the_verifier_belongs_to_a_step() -> None:
    folder = Path(ratify.__file__).parent
    source = (folder / "verify.py").read_text("utf-8")
    words = set(re.findall(r"invalid\(\s*\"([a-z_]+)\"", source)) | set(re.findall(r"code = \"([a-z_]+)\"", source))
    assert len(words) > 20
    statuses = {status.value for status in IdentityStatus} - {"authorized_agent", "verified_human", "unauthorized"}
    assert words | statuses <= STEP_OF.keys()


def test_no_reason_belongs_to_two_steps() -> None:
    counted = Counter(word for _, words in _STEPS.values() for word in words.split())
    assert set(counted.values()) == {1}
    assert list(_STEPS) == list(range(17))


@pytest.mark.parametrize(
    ("proof", "options", "place"),
    [
        (PROOF, {}, None),
        (replace(PROOF, delegations=()), {}, FailurePoint(1)),
        (replace(PROOF, delegations=(LEAF,) * 9), {}, FailurePoint(2)),
        (replace(PROOF, challenge=b""), {}, FailurePoint(3)),
        (replace(PROOF, delegations=(LEAF, replace(PARENT, scope=("custom:x",) * 129))), {}, FailurePoint(4)),
        (PROOF, {"session_context": bytes(32)}, FailurePoint(5)),
        (prove((LEAF, PARENT), WORLD.sub, session_context=bytes(32)), {}, FailurePoint(5)),
        (prove((LEAF, PARENT), WORLD.sub, stream_id=bytes(32), stream_seq=1), {}, FailurePoint(7)),
        (replace(PROOF, agent_pub_key=WORLD.owner.public_key), {}, FailurePoint(9)),
        (replace(PROOF, agent_id="0" * 32), {}, FailurePoint(9)),
        (replace(PROOF, delegations=(LEAF, tampered(PARENT, issuer_id="0" * 32))), {}, FailurePoint(10)),
        (replace(PROOF, delegations=(LEAF, tampered(PARENT, scope=("identity:delegate",)))), {}, FailurePoint(11, 1)),
        (replace(PROOF, delegations=(tampered(LEAF, scope=("nonsense",)), PARENT)), {}, FailurePoint(11, 0)),
        (replace(PROOF, delegations=(LEAF, tampered(PARENT, version=2))), {}, FailurePoint(11, 1)),
        (replace(PROOF, delegations=(LEAF, WORLD.grant("files:read"))), {}, FailurePoint(11, 0)),
        (replace(PROOF, delegations=(LEAF, LEAF)), {}, FailurePoint(11, 0)),
        (PROOF, {"now": NOW + DAY + 1}, FailurePoint(11, 0)),
        (PROOF, {"now": NOW - 1}, FailurePoint(11, 0)),
        (PROOF, {"is_revoked": {PARENT.cert_id}.__contains__}, FailurePoint(11, 1)),
        (PROOF, {"now": NOW + 301}, FailurePoint(12)),
        (replace(PROOF, challenge_sig=UNSIGNED), {}, FailurePoint(13)),
        (PROOF, {"required_scope": "files:read"}, FailurePoint(15)),
        (PROOF, {"roots": [WORLD.agent.public_key]}, FailurePoint(16)),
    ],
)
def test_where_a_verification_ends(proof: ProofBundle, options: dict[str, object], place: FailurePoint | None) -> None:
    now = options.pop("now", NOW)
    assert isinstance(now, int)
    result = verify_bundle(proof, now=now, **options)  # pyright: ignore[reportArgumentType]
    assert failure_point(result, proof.delegations, now, frozenset({PARENT.cert_id})) == place


def test_an_expired_parent_is_found_behind_a_leaf_that_holds() -> None:
    parent = WORLD.grant("comms:email:send", "identity:delegate", ends=NOW + 10)
    leaf = WORLD.grant("comms:email:send", issuer=WORLD.agent, to=WORLD.sub)
    proof = prove((leaf, parent), WORLD.sub)
    result = verify_bundle(proof, now=NOW + 11)
    assert result.identity_status is IdentityStatus.EXPIRED
    assert failure_point(result, proof.delegations, NOW + 11, frozenset()) == FailurePoint(11, 1)


def test_a_constraint_is_found_in_its_certificate() -> None:
    parent = WORLD.grant("comms:email:send", "identity:delegate", constraints=(MaxSpeed(max_mps=1),))
    leaf = WORLD.grant("comms:email:send", issuer=WORLD.agent, to=WORLD.sub)
    proof = prove((leaf, parent), WORLD.sub)
    assert failure_point(verify_bundle(proof, now=NOW), proof.delegations, NOW, frozenset()) == FailurePoint(11, 1)


def test_a_reason_can_not_pretend_to_be_another() -> None:
    cert = tampered(LEAF, scope=('cert 7: "untrusted_root: x',))
    proof = replace(PROOF, delegations=(cert, PARENT))
    assert failure_point(verify_bundle(proof, now=NOW), proof.delegations, NOW, frozenset()) == FailurePoint(11, 0)


def test_an_unforeseen_reason_is_a_failure_all_the_same() -> None:
    result = VerifyResult(valid=False, identity_status=IdentityStatus.INVALID, error_reason="new: reason")
    assert failure_point(result, PROOF.delegations, NOW, frozenset()) is not None


def test_the_walk_of_a_proof_that_verifies() -> None:
    steps = walk(2, None)
    assert [step.number for step in steps] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11, 12, 13, 14, 15, 16]
    assert {step.number: step.outcome for step in steps if step.outcome != "ok"} == {
        6: "not checked",
        14: "not checked",
    }
    assert [(step.certificate, step.what.partition(":")[0]) for step in steps if step.number == 11] == [
        (0, "certificate 0"),
        (1, "certificate 1"),
    ]


def test_the_walk_of_one_that_does_not() -> None:
    steps = walk(3, FailurePoint(11, 1))
    assert [step.outcome for step in steps][10:] == [
        "ok", "ok", "failed", *["not reached"] * 6
    ]  # fmt: skip
    assert [step.outcome for step in walk(1, FailurePoint(0))] == ["failed", *["not reached"] * 16]
    assert [step.outcome for step in walk(1, FailurePoint(16))][-1] == "failed"
