"""Decisions that are made to be recorded (`observes`): the same steps and state, and nothing is refused by them."""

from typing import Any

import pytest
from tests.unit.ratify.world import NOW, STRANGER
from tests.world.decisions import (
    GOOD,
    Deployment,
    but,
    call,
    draw,
    granted,
    kinds,
    policy,
    prove,
    proven,
    script,
    with_proof,
)

from accredit.errors import ChallengesFull, ClockSetBack, StoreUnavailable
from accredit.policy.decision import IssueChallenge, LookAtChallenge, SpendChallenge, TakeUse
from accredit.policy.guarded_call import GuardedCall
from accredit.ports import Spending
from accredit.ratify.constraints import MaxRate
from accredit.ratify.terms import IsRevoked

pytestmark = pytest.mark.holds("policy/decide", "observe")

OBSERVED = policy(observes=True)
PLAIN = call("list_inbox")
CASES: dict[str, tuple[GuardedCall, str]] = {
    "allowed": (proven(PLAIN), ""),
    "bound": (proven(PLAIN, bound=True), ""),
    "unsigned": (PLAIN, "missing_ratify_proof"),
    "no proof at all": (with_proof(PLAIN, b'"proof"'), "ratify_invalid"),
    "another's": (proven(PLAIN, granted(issuer=STRANGER)), "ratify_untrusted_root"),
    "too little": (proven(PLAIN, granted("identity:prove")), "ratify_scope_denied"),
    "stale": (proven(PLAIN, at=NOW - 100), "ratify_invalid"),
    "over": (proven(PLAIN, granted(issued_at=NOW - 100, expires_at=NOW - 50)), "ratify_expired"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_would_be_refused_is_not__and_the_verdict_is_the_one_that_would_be(name: str) -> None:
    asked, error = CASES[name]
    (seen, needs), (would_be, wanted) = script(asked, OBSERVED), script(asked, policy())
    refusals = [each.refusal.error if each.refusal is not None else "" for each in (seen, would_be)]
    assert refusals == [error, error]
    assert (seen.enforced, would_be.enforced) == (False, True)
    assert (seen.authority, seen.proved) == (would_be.authority, would_be.proved)
    assert needs == wanted, "challenges are spent and uses taken as they would be"


def test_a_sensitive_target_takes_the_clients_own_challenge__and_nobody_is_asked_for_one() -> None:
    decision, needs = script(proven(call("wipe"), bound=True), OBSERVED)
    assert (decision.refusal, decision.enforced) == (None, False)
    assert [need.issued for need in needs if isinstance(need, LookAtChallenge | SpendChallenge)] == [False, False]
    unsigned, asked = script(call("wipe"), OBSERVED)
    assert unsigned.refusal is not None
    assert (unsigned.refusal.error, unsigned.enforced, asked) == ("ratify_challenge_required", False, [])
    assert kinds(script(call("wipe"), policy())[1]) == [IssueChallenge]


def test_who_calls_a_target_that_nobody_has_named_is_known__if_the_signature_is_good() -> None:
    unnamed = call("drop_tables")
    decision, needs = script(proven(unnamed, granted("identity:prove"), bound=True), OBSERVED)
    assert decision.refusal is not None
    assert (decision.refusal.error, decision.enforced, decision.authority) == ("unknown_tool", False, None)
    assert decision.proved is not None
    assert kinds(needs) == [LookAtChallenge, IsRevoked, SpendChallenge]
    for asked in (unnamed, proven(unnamed, granted(issuer=STRANGER)), with_proof(unnamed, b"{}")):
        nobody, _ = script(asked, OBSERVED)
        assert nobody.refusal is not None
        assert (nobody.refusal.error, nobody.proved, nobody.enforced) == ("unknown_tool", None, False)


def test_a_proof_that_was_observed_is_spent__so_nobody_can_use_it_once_proofs_are_required() -> None:
    world = Deployment(observes=True)
    asked = proven(PLAIN)
    assert [world.error(asked), world.error(asked)] == ["", "ratify_replayed"]
    required = Deployment()
    required.store = world.store
    assert required.error(asked) == "ratify_replayed"
    assert required.decides(asked).enforced


def test_uses_are_counted_as_they_would_be() -> None:
    world = Deployment(observes=True)
    chain = granted(constraints=(MaxRate(count=1, window_s=60),))
    assert [world.error(proven(PLAIN, chain)) for _ in range(3)] == ["", *["ratify_constraint_denied"] * 2]
    _, needs = script(proven(PLAIN, granted("identity:prove", constraints=(MaxRate(count=1, window_s=60),))), OBSERVED)
    assert TakeUse not in kinds(needs), "a call that would be refused takes no use"


@pytest.mark.parametrize("fault", [StoreUnavailable("gone"), ClockSetBack(NOW + 9), RuntimeError("ours")])
@pytest.mark.parametrize("step", ["IsRevoked", "LookAtChallenge", "SpendChallenge", "TakeUse"])
def test_what_can_not_be_decided_is_refused_all_the_same(fault: Exception, step: str) -> None:
    chain = granted(constraints=(MaxRate(count=9, window_s=60),))
    decision, _ = script(proven(PLAIN, chain), OBSERVED, but(**{step: fault}))
    assert decision.refusal is not None
    assert decision.enforced
    full, _ = script(proven(PLAIN), OBSERVED, but(LookAtChallenge=ChallengesFull()))
    assert full.enforced


def test_a_challenge_that_was_issued_before_the_mode_was_changed_is_good_for_its_call_alone() -> None:
    world = Deployment()
    sensitive = call("wipe")
    challenge = world.challenge_for(sensitive)
    world.policy = OBSERVED
    assert world.error(with_proof(PLAIN, prove(challenge=challenge, to=PLAIN))) == "ratify_challenge_required"
    assert world.error(with_proof(sensitive, prove(challenge=challenge, to=sensitive))) == ""


@pytest.mark.parametrize("seen", [Spending.SPENT, Spending.NOT_ISSUED])
def test_no_answer_of_the_store_asks_anybody_for_a_proof(seen: Spending) -> None:
    answers: dict[str, Any] = {"LookAtChallenge": seen}
    decision, needs = script(with_proof(call("wipe"), prove(challenge=draw())), OBSERVED, but(**answers))
    assert not decision.enforced
    assert IssueChallenge not in kinds(needs)
    assert set(kinds(needs)) <= set(GOOD)
