"""The published package judges the chain and the challenge of a kept call as we do: of each thing that is changed."""

import base64
import json
from typing import Any

import pytest
from tests.differential.peer import Question, read_by_them, their_answer
from tests.unit.policy.test_evidence import CERTIFICATES, CHANGED_CERTIFICATES, CHANGED_PROOFS, GOOD, PROOF
from tests.unit.ratify.world import HUMAN, NOW
from tests.world.signed_calls import SCOPE, judged, lied

BOUND_TO = base64.b64decode(PROOF["session_context"])


def is_good_to_them(certificates: Any, proof: Any) -> bool:
    """Whether the published package accepts the proof and its chain, bound to this call, as from the person."""
    members = {name: value for name, value in proof.items() if name != "context"} if isinstance(proof, dict) else proof
    bundle = {**members, "agent_id": CERTIFICATES[0]["subject_id"], "delegations": certificates}
    read = read_by_them(json.dumps(bundle).encode())
    asked = Question(now=NOW, required_scope=SCOPE, session_context=BOUND_TO)
    if read is None:
        return False
    status, _, human_id, *_ = their_answer(read, asked)
    return (status, human_id) == ("authorized_agent", HUMAN.id)


def test_they_accept_what_is_proved() -> None:
    assert is_good_to_them(CERTIFICATES, PROOF)
    assert [part.verified for part in judged(GOOD)[:2]] == [True, True]


@pytest.mark.parametrize("what", CHANGED_CERTIFICATES)
def test_no_certificate_that_was_changed_is_good_to_either(what: str) -> None:
    found = judged(lied(GOOD, certificates=CHANGED_CERTIFICATES[what]))

    assert not is_good_to_them(CHANGED_CERTIFICATES[what], PROOF)
    assert found.allowed.verified is False


@pytest.mark.parametrize("what", [what for what in CHANGED_PROOFS if "'context'" not in what])
def test_no_proof_that_was_changed_is_good_to_either(what: str) -> None:
    assert not is_good_to_them(CERTIFICATES, CHANGED_PROOFS[what])
    assert judged(lied(GOOD, proof=CHANGED_PROOFS[what])).signed.verified is False
