"""`decide` driven by hand: which questions come, in which order, and what each answer leads to."""

from typing import Any

import pytest
from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from tests.unit.ratify.world import AGENT, HUMAN, NOW, STRANGER, SUB_AGENT, certificate
from tests.world.decisions import (
    GOOD,
    GRANT,
    ISSUED,
    VERIFIER,
    Answer,
    but,
    call,
    draw,
    granted,
    kinds,
    passed_down,
    policy,
    prove,
    proven,
    script,
    with_proof,
)

from accredit.attest.canonical import HybridPair, KeptProof
from accredit.consent.call import CallTerms
from accredit.errors import ChallengesFull, StoreUnavailable
from accredit.pins.definitions import Pins
from accredit.policy.decide import decide
from accredit.policy.decision import (
    CountUses,
    Decision,
    FindDefinition,
    FindTask,
    IsRevoked,
    IssueChallenge,
    LookAtChallenge,
    SpendChallenge,
    TakeUse,
)
from accredit.policy.guarded_call import LISTS
from accredit.policy.tasks import Owner, TaskScope, encode_task_facts, task_key
from accredit.ports import RateLimit, Spending, Task
from accredit.ratify import DelegationCert, HybridSignature, ProofBundle
from accredit.ratify.constraints import MaxAmount, MaxRate
from accredit.tokens.claims import VerifiedToken

LIST = call("", method="tools/list")

pytestmark = pytest.mark.holds("policy/decision")


def error(decision: Decision) -> str:
    assert (decision.refusal is None) == (decision.authority is not None)
    return "" if decision.refusal is None else decision.refusal.error


def forged(bundle: ProofBundle) -> ProofBundle:
    signature = bundle.challenge_sig
    bad = HybridSignature(signature.ed25519, signature.ml_dsa_65[:-1] + bytes([signature.ml_dsa_65[-1] ^ 1]))
    return replace(bundle, challenge_sig=bad)


@pytest.mark.holds("policy/decide", "allow")
def test_a_good_call_asks_about_the_challenge_then_each_certificate_then_spends_then_takes_a_use() -> None:
    rate = MaxRate(count=3, window_s=60)
    chain = passed_down(3)
    chain = (certificate(SUB_AGENT, chain[0].subject_pub_key, scope=GRANT, constraints=(rate,)), *chain[1:])
    decision, needs = script(proven(call(), chain), policy())
    revoked = [need.cert_id for need in needs if isinstance(need, IsRevoked)]
    assert error(decision) == ""
    assert kinds(needs) == [LookAtChallenge, IsRevoked, IsRevoked, IsRevoked, SpendChallenge, CountUses, TakeUse]
    assert revoked == [cert.cert_id for cert in chain]


def test_a_call_without_limits_ends_with_the_spending() -> None:
    _, needs = script(proven(call()), policy())
    assert kinds(needs) == [LookAtChallenge, IsRevoked, SpendChallenge]


@pytest.mark.holds("policy/decide", "token-subject")
@pytest.mark.parametrize("subject", [None, STRANGER.id, AGENT.id])
def test_where_tokens_are_tied_to_agents_no_other_token_gets_as_far_as_a_question(subject: str | None) -> None:
    token = None if subject is None else VerifiedToken("issuer", subject, NOW + 60, "ab")
    steps = decide(proven(call()), policy(bind_agent=True), NOW, token)
    if subject == AGENT.id:
        assert isinstance(next(steps), LookAtChallenge)
        decision, _ = script(proven(call()), policy(bind_agent=True), token=token)
        assert decision.authority is not None
        assert decision.authority.token_subject == AGENT.id
        return
    with pytest.raises(StopIteration) as ended:
        next(steps)
    assert ended.value.value.refusal.data["reason"].startswith("token_mismatch: ")


@pytest.mark.holds("policy/decide", "revocation", "replay")
@pytest.mark.parametrize("depth", [1, 2, 8])
def test_every_certificate_is_asked_about_before_the_challenge_is_spent(depth: int) -> None:
    _, needs = script(proven(call(), passed_down(depth)), policy())
    assert kinds(needs) == [LookAtChallenge, *[IsRevoked] * depth, SpendChallenge]


@pytest.mark.holds("policy/decide", "target")
def test_an_unknown_tool_is_refused_before_a_look_at_its_proof() -> None:
    for proof in (None, b"no proof at all", prove()):
        decision, needs = script(with_proof(call("nothing"), proof), policy())
        assert (error(decision), needs) == ("unknown_tool", [])


@pytest.mark.holds("policy/decide", "proof")
def test_an_untrusted_root_never_asks_anything() -> None:
    mine = certificate(STRANGER, AGENT.public_key, scope=GRANT)
    for chain in ((mine,), (*passed_down(2)[:1], mine)):
        bundle = prove(chain, by=AGENT if len(chain) == 1 else SUB_AGENT)
        decision, needs = script(with_proof(call("wipe"), bundle), policy())
        assert (error(decision), needs) == ("ratify_untrusted_root", [])


def test_a_stranger_who_claims_the_roots_id_is_still_a_stranger() -> None:
    liar = certificate(STRANGER, AGENT.public_key, scope=GRANT, issuer_id=granted()[0].issuer_id)
    decision, needs = script(with_proof(call(), prove((liar,))), policy())
    assert (error(decision), needs) == ("ratify_untrusted_root", [])


def test_a_root_key_of_which_one_half_is_anothers_is_no_root() -> None:
    (cert,) = granted()
    key = replace(cert.issuer_pub_key, ed25519=STRANGER.public_key.ed25519)
    bundle = replace(prove(), delegations=(replace(cert, issuer_pub_key=key),))
    assert error(script(with_proof(call(), bundle), policy())[0]) == "ratify_untrusted_root"


@pytest.mark.holds("policy/decide", "proof", "replay")
@pytest.mark.parametrize("target", ["list_inbox", "wipe"])
def test_a_forged_proof_never_spends_a_challenge(target: str) -> None:
    decision, needs = script(with_proof(call(target), forged(prove())), policy())
    assert error(decision) == "ratify_invalid"
    assert SpendChallenge not in kinds(needs)
    assert "bad_challenge_sig" in str(decision.refusal.data["reason"] if decision.refusal else "")


def test_a_certificate_that_the_root_did_not_sign_never_spends_a_challenge() -> None:
    (cert,) = granted("email:read")
    bundle = replace(prove((cert,)), delegations=(replace(cert, scope=GRANT),))
    decision, needs = script(with_proof(call(), bundle), policy())
    assert (error(decision), SpendChallenge in kinds(needs)) == ("ratify_invalid", False)


def test_a_proof_by_another_key_than_the_leafs_never_spends_a_challenge() -> None:
    theirs, mine = granted(), prove((certificate(subject=STRANGER.public_key, scope=GRANT),), by=STRANGER)
    decision, needs = script(with_proof(call(), replace(mine, delegations=theirs)), policy())
    assert (error(decision), SpendChallenge in kinds(needs)) == ("ratify_invalid", False)


@pytest.mark.holds("policy/decide", "proof")
def test_a_spent_challenge_never_reaches_revocation_or_signatures() -> None:
    rules = policy()
    decision, needs = script(with_proof(call(), forged(prove())), rules, but(LookAtChallenge=Spending.SPENT))
    assert (error(decision), kinds(needs)) == ("ratify_replayed", [LookAtChallenge])
    assert granted()[0].digest not in rules.cert_cache


@pytest.mark.holds("policy/decide", "proof")
def test_a_challenge_of_nobody_is_answered_with_a_fresh_one_before_signatures() -> None:
    answers = but(LookAtChallenge=Spending.NOT_ISSUED)
    decision, needs = script(with_proof(call("wipe"), forged(prove())), policy(), answers)
    assert (error(decision), kinds(needs)) == ("ratify_challenge_required", [LookAtChallenge, IssueChallenge])


@pytest.mark.parametrize(
    ("spending", "expected"),
    [(Spending.SPENT, "ratify_replayed"), (Spending.NOT_ISSUED, "ratify_challenge_required")],
)
def test_who_spends_second_is_refused_though_the_look_was_good(spending: Spending, expected: str) -> None:
    decision, needs = script(proven(call()), policy(), but(SpendChallenge=spending))
    assert error(decision) == expected
    assert TakeUse not in kinds(needs)


@pytest.mark.holds("policy/decide", "revocation")
def test_a_revoked_certificate_anywhere_ends_it_before_the_spending() -> None:
    chain = passed_down(3)
    for cert in chain:
        revoked = cert.cert_id
        decision, needs = script(
            proven(call(), chain),
            policy(),
            lambda need, revoked=revoked: need.cert_id == revoked if isinstance(need, IsRevoked) else GOOD[type(need)],
        )
        assert error(decision) == "ratify_revoked"
        assert SpendChallenge not in kinds(needs)


PINS = Pins(tools={"list_inbox": "a" * 64})


@pytest.mark.holds("policy/decide", "definition")
@pytest.mark.parametrize("found", ["b" * 64, None])
def test_a_definition_that_is_not_the_pinned_one_ends_it_before_the_spending(found: str | None) -> None:
    chain = granted(constraints=(MaxRate(count=3, window_s=60),))
    answers: Answer = lambda need: found if isinstance(need, FindDefinition) else GOOD[type(need)]  # noqa: E731
    decision, needs = script(proven(call(), chain), policy(), answers, pins=PINS)
    assert (error(decision), kinds(needs)) == ("definition_changed", [LookAtChallenge, IsRevoked, FindDefinition])
    assert needs[-1] == FindDefinition("list_inbox", HUMAN.id, AGENT.id)
    assert decision.refusal is not None
    assert (decision.refusal.data["expected"], decision.refusal.data["found"]) == ("a" * 64, found)
    assert decision.proved is None
    good: Answer = lambda need: "a" * 64 if isinstance(need, FindDefinition) else GOOD[type(need)]  # noqa: E731
    assert error(script(proven(call(), chain), policy(), good, pins=PINS)[0]) == ""


@pytest.mark.holds("policy/decide", "definition")
def test_a_tool_that_is_not_pinned_is_refused_whatever_the_server_lists() -> None:
    for found in ("a" * 64, None):
        answers: Answer = lambda need, found=found: found if isinstance(need, FindDefinition) else GOOD[type(need)]  # noqa: E731
        decision, needs = script(proven(call("wipe")), policy(), answers, pins=PINS)
        assert (error(decision), kinds(needs)[-1]) == ("definition_changed", FindDefinition)


@pytest.mark.holds("policy/decide", "definition")
@pytest.mark.parametrize("answer", [True, 7, b"a" * 64, StoreUnavailable("away"), KeyError("bug")])
def test_what_is_no_answer_to_what_is_listed_refuses(answer: object) -> None:
    answers: Answer = lambda need: answer if isinstance(need, FindDefinition) else GOOD[type(need)]  # noqa: E731
    for pins in (PINS, replace(PINS, enforced=False)):
        decision, needs = script(proven(call()), policy(), answers, pins=pins)
        assert error(decision) == "ratify_invalid"
        assert SpendChallenge not in kinds(needs)


@pytest.mark.holds("policy/decide", "definition")
@pytest.mark.parametrize(
    ("named", "listed", "expected"),
    [("a" * 64, "a" * 64, ""), ("a" * 64, "b" * 64, "definition_changed"), (UNSET, "b" * 64, "")],
)
def test_who_was_granted_one_definition_is_held_to_it__though_pins_only_warn(
    named: str | UnsetType, listed: str, expected: str
) -> None:
    answers: Answer = lambda need: listed if isinstance(need, FindDefinition) else GOOD[type(need)]  # noqa: E731
    decision, _ = script(
        proven(call(), chain_for_definition(named)), policy(), answers, pins=replace(PINS, enforced=False)
    )
    assert error(decision) == expected


def chain_for_definition(named: str | UnsetType) -> tuple[DelegationCert, ...]:
    """A chain for a tool, and for one definition of it."""
    terms = CallTerms(gateway=VERIFIER, method="tools/call", target=("list_inbox",), definition=named)
    return granted(constraints=(terms.constraint(),))


def test_only_calls_of_tools_are_held_to_definitions() -> None:
    for other in (call("mail://1", method="resources/read"), LIST):
        _, needs = script(proven(other), policy(), pins=PINS)
        assert FindDefinition not in kinds(needs)


def test_a_refusal_tells_the_definition_to_which_the_tool_is_held__so_that_what_a_person_allows_can_end_with_it() -> (
    None
):
    held, warned = PINS, replace(PINS, enforced=False)
    good: Answer = lambda need: "a" * 64 if isinstance(need, FindDefinition) else GOOD[type(need)]  # noqa: E731
    denied = proven(call(), granted("email:send"))
    for refused, code in ((call(), -31001), (denied, -31003)):
        for pins, told in ((held, "a" * 64), (warned, None), (None, None)):
            refusal = script(refused, policy(), good, pins=pins)[0].refusal
            assert refusal is not None
            assert (refusal.code, refusal.data.get("definition")) == (code, told)
    for other in (call("wipe"), call("mail://1", method="resources/read"), call("no_such_tool")):  # nothing is pinned
        refusal = script(other, policy(), good, pins=held)[0].refusal
        assert refusal is not None
        assert "definition" not in refusal.data


@pytest.mark.holds("policy/decide", "authority")
def test_a_use_is_taken_only_where_the_scope_is_granted() -> None:
    chain = granted("email:read", constraints=(MaxRate(count=3, window_s=60),))
    _, allowed = script(proven(call("list_inbox"), chain), policy())
    decision, denied = script(proven(call("send_email"), chain), policy())
    assert kinds(allowed)[-1] is TakeUse
    assert (error(decision), TakeUse in kinds(denied)) == ("ratify_scope_denied", False)


@pytest.mark.holds("policy/decide", "authority")
def test_a_use_is_taken_only_where_the_constraints_hold() -> None:
    chain = granted(constraints=(MaxRate(count=3, window_s=60),))
    decision, needs = script(proven(call(), chain), policy(), but(CountUses=3))
    assert (error(decision), TakeUse in kinds(needs)) == ("ratify_constraint_denied", False)


def test_uses_are_taken_for_all_limits_of_the_chain_at_once() -> None:
    one, other = MaxRate(count=3, window_s=60), MaxRate(count=9, window_s=3600)
    root = certificate(scope=GRANT, constraints=(one, other), cert_id="root")
    leaf = certificate(AGENT, SUB_AGENT.public_key, scope=GRANT, constraints=(one,), cert_id="leaf")
    _, needs = script(proven(call(), (leaf, root)), policy())
    takings = [need for need in needs if isinstance(need, TakeUse)]
    assert [[(limit.window_s, limit.count) for limit in need.limits] for need in takings] == [
        [(60, 3), (60, 3), (3600, 9)]
    ]
    assert all(isinstance(limit, RateLimit) for need in takings for limit in need.limits)


@pytest.mark.parametrize("method", sorted(LISTS))
def test_a_list_without_a_proof_asks_nothing(method: str) -> None:
    decision, needs = script(call("", method=method), policy())
    assert (decision.refusal, decision.authority, needs) == (None, None, [])


@pytest.mark.holds("policy/decide", "authority")
def test_a_list_with_a_proof_spends_it_and_takes_no_use() -> None:
    chain = granted(constraints=(MaxRate(count=3, window_s=60),))
    decision, needs = script(proven(LIST, chain), policy())
    assert error(decision) == ""
    assert kinds(needs) == [LookAtChallenge, IsRevoked, SpendChallenge, CountUses]


@pytest.mark.parametrize("target", ["wipe", "deploy"])
def test_a_sensitive_call_without_a_proof_gets_a_challenge_and_an_other_does_not(target: str) -> None:
    decision, needs = script(call(target), policy())
    assert (error(decision), kinds(needs)) == ("ratify_challenge_required", [IssueChallenge])
    decision, needs = script(call("list_inbox"), policy())
    assert (error(decision), needs) == ("missing_ratify_proof", [])


@pytest.mark.holds("policy/decide", "target")
def test_only_a_sensitive_call_says_that_its_challenge_must_have_been_issued() -> None:
    for target, issued in (("wipe", True), ("list_inbox", False)):
        _, needs = script(proven(call(target)), policy())
        said = [need.issued for need in needs if isinstance(need, LookAtChallenge | SpendChallenge)]
        assert said == [issued, issued]


def test_what_is_looked_at_is_what_is_spent_and_is_for_this_very_call() -> None:
    for asked, scope, looks in (
        (call("pay", {"amount": 1, "currency": "EUR"}), "payments:send", 1),
        (CANCEL, "", 2),
    ):
        challenge = draw()
        _, needs = script(proven(asked, challenge=challenge), policy(), answers_with(task()))
        seen = [
            (need.challenge, need.request_hash) for need in needs if isinstance(need, LookAtChallenge | SpendChallenge)
        ]
        assert seen == [(challenge, asked.request_hash(scope))] * (looks + 1)


def test_what_was_spent_is_remembered_for_as_long_as_it_could_be_fresh__which_its_proof_alone_says() -> None:
    for now, at, until in ((NOW, NOW, NOW + 301), (NOW + 30, NOW, NOW + 301)):
        _, needs = script(proven(call(), at=at), policy(), now=now)
        assert [need.keep_until for need in needs if isinstance(need, SpendChallenge)] == [until]
    _, needs = script(proven(call("wipe"), at=NOW + 60), policy())
    assert [need.keep_until for need in needs if isinstance(need, SpendChallenge)] == [NOW + 361]


RATED = granted(constraints=(MaxRate(count=3, window_s=60),))
NEEDS = {
    "LookAtChallenge": call(),
    "IsRevoked": call(),
    "SpendChallenge": call(),
    "CountUses": call(),
    "TakeUse": call(),
}
WRONG: list[Any] = [None, "", "first", 0.0, (), b"", {}, [False]]


@pytest.mark.parametrize("name", NEEDS)
@pytest.mark.parametrize("wrong", [*WRONG, 1, True], ids=repr)
def test_an_answer_of_another_type_is_a_no(name: str, wrong: object) -> None:
    good = {"IsRevoked": (), "CountUses": (1, True), "TakeUse": (True,)}.get(name, ())
    if any(wrong is each for each in good):
        return
    decision, needs = script(proven(NEEDS[name], RATED), policy(), but(**{name: wrong}))
    assert error(decision).startswith("ratify_")
    assert kinds(needs)[-1].__name__ == name


@pytest.mark.parametrize("name", NEEDS)
@pytest.mark.parametrize(
    "raised", [StoreUnavailable("/secret/file"), OSError(5, "x"), ValueError(), RecursionError(), TimeoutError()]
)
def test_an_exception_instead_of_an_answer_is_a_no_and_its_text_is_for_the_log(name: str, raised: Exception) -> None:
    decision, needs = script(proven(call(), RATED), policy(), but(**{name: raised}))
    assert error(decision) == "ratify_invalid"
    assert decision.fault is raised
    assert decision.refusal is not None
    assert "store_unavailable" in decision.refusal.message
    assert "/secret/file" not in repr(decision.refusal.data) + decision.refusal.message
    assert kinds(needs)[-1].__name__ == name
    assert decision.entry is not None
    assert (decision.proved is not None) is (name == "TakeUse"), "only then is it certain who calls"


@pytest.mark.parametrize("answer", [*WRONG, (bytes(32), NOW)], ids=repr)
def test_a_challenge_that_is_none_is_not_handed_out(answer: object) -> None:
    decision, _ = script(call("wipe"), policy(), but(IssueChallenge=answer))
    assert error(decision) == "ratify_invalid"
    assert decision.refusal is not None
    assert decision.refusal.data["_meta"] == {}


def test_too_many_challenges_are_said_so() -> None:
    full = ChallengesFull("too many challenges were spent of late")
    for asked, name in ((call("wipe"), "IssueChallenge"), (proven(call()), "SpendChallenge")):
        decision, _ = script(asked, policy(), but(**{name: full}))
        assert error(decision) == "too_many_challenges"
        assert decision.fault is full


def test_the_challenge_that_is_handed_out_is_the_stores() -> None:
    decision, needs = script(call("wipe"), policy(challenge_seconds=45))
    (need,) = needs
    assert isinstance(need, IssueChallenge)
    assert (need.expires_at, need.request_hash) == (NOW + 45, call("wipe").request_hash("comms:email:delete"))
    assert decision.refusal is not None
    assert str(ISSUED.expires_at) in repr(decision.refusal.data)


def test_a_call_that_nobody_could_have_read_is_refused_and_not_raised() -> None:
    broken = replace(call(), digest=b"short")
    decision, needs = script(with_proof(broken, prove()), policy())
    assert (error(decision), needs) == ("ratify_invalid", [])
    assert isinstance(decision.fault, ValueError)
    odd = replace(call(), session_id="\ud800")
    assert error(script(with_proof(odd, prove(to=call())), policy())[0]) == "ratify_invalid"


def test_facts_that_raise_are_a_no() -> None:
    class Trap(dict[str, object]):
        def get(self, *_: object) -> Any:
            raise ZeroDivisionError

    asked = replace(call("pay", {"amount": 1}), arguments=Trap(amount=1))
    decision, needs = script(with_proof(asked, prove(RATED)), policy())
    assert (error(decision), needs) == ("ratify_invalid", [])


def test_it_says_as_of_when_a_proof_was_judged__a_call_is_recorded_as_of_no_later() -> None:
    decision, _ = script(proven(call("list_inbox")), policy())
    assert decision.proved is not None
    assert decision.proved.judged_at == NOW


@pytest.mark.parametrize(("target", "until"), [("list_inbox", NOW + 25), ("wipe", NOW + 65)])
def test_it_says_until_when_a_store_could_be_asked_for_it_again__with_a_clock_that_was_set_back(
    target: str, until: int
) -> None:
    decision, _ = script(proven(call(target), at=NOW - 5), policy(freshness_seconds=20, challenge_seconds=55))
    assert decision.authority is not None
    assert decision.authority.fresh_until == until


@pytest.mark.parametrize("bound", [True, False])
def test_what_was_signed_is_kept_for_whoever_checks_the_record(bound: bool) -> None:
    asked = call("pay", {"amount": 1, "currency": "EUR"})
    bundle = prove(to=asked if bound else None)
    decision, _ = script(with_proof(asked, bundle), policy())
    assert decision.authority is not None
    assert decision.authority.chain == bundle.delegations
    key, signature = bundle.agent_pub_key, bundle.challenge_sig
    assert decision.authority.proof == KeptProof(
        HybridPair(key.ed25519, key.ml_dsa_65),
        bundle.challenge,
        NOW,
        HybridPair(signature.ed25519, signature.ml_dsa_65),
        asked.signed_context(VERIFIER, AGENT.id, "payments:send") if bound else None,
        bundle.session_context,
    )


# --- tasks ------------------------------------------------------------------------------------------


CANCEL, LOOK = (call("", method=method, taskId="t") for method in ("tasks/cancel", "tasks/get"))
MINE = Owner(HUMAN.id, AGENT.id).at("")


def task(target: str = "pay", owner: bytes = MINE) -> Task:
    return Task(owner, "tools/call", target, encode_task_facts({"amount": 50, "currency": "EUR"}, b"", None, ()), "")


def answers_with(found: object, **other: object) -> Answer:
    return lambda need: found if isinstance(need, FindTask) else but(**other)(need)


@pytest.mark.holds("policy/decide", "authority")
def test_to_see_a_task_needs_nothing_more_than_owning_it() -> None:
    decision, needs = script(proven(LOOK, granted("identity:prove")), policy(), answers_with(task()))
    assert (error(decision), decision.task) == ("", task())
    assert kinds(needs) == [LookAtChallenge, IsRevoked, FindTask, SpendChallenge]
    assert needs[2] == FindTask(task_key("", "t"))


@pytest.mark.holds("policy/decide", "authority")
def test_where_each_session_has_its_own_tasks_another_session_s_is_not_looked_for() -> None:
    place = TaskScope("mail", apart="run")
    asked = proven(call("", method="tasks/get", taskId="t", session="s"), granted("identity:prove"))
    steps = decide(asked, policy(), NOW, place=place)
    need = next(steps)
    while not isinstance(need, FindTask):
        need = steps.send(GOOD[type(need)])
    assert need == FindTask(place.key("t", "s"))
    assert place.key("t", "s") not in {place.key("t", "other"), place.key("t")}


@pytest.mark.holds("policy/decide", "authority")
@pytest.mark.parametrize("asked", [CANCEL, LOOK])
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, "unknown_task"),
        (task(owner=Owner(HUMAN.id, SUB_AGENT.id).at("")), "unknown_task"),
        (task(owner=Owner(STRANGER.id, AGENT.id).at("")), "unknown_task"),
        (task("gone"), "unknown_task"),
        (True, "ratify_invalid"),
        (b"", "ratify_invalid"),
    ],
)
def test_a_task_is_its_makers__and_nothing_is_spent_on_anothers(asked: Any, found: object, expected: str) -> None:
    decision, needs = script(proven(asked), policy(), answers_with(found))
    assert (error(decision), kinds(needs)[-1]) == (expected, FindTask)


@pytest.mark.holds("policy/decide", "authority")
@pytest.mark.parametrize(
    ("proof", "target", "expected"),
    [
        (prove(), "pay", ""),
        (prove(to=CANCEL, scope="payments:send"), "pay", ""),
        (prove(to=CANCEL, scope="email:read"), "pay", "ratify_invalid"),
        (prove(granted("email:read")), "pay", "ratify_scope_denied"),
        (prove(), "wipe", "ratify_challenge_required"),
        (prove(granted(constraints=(MaxAmount(max_amount=50, currency="EUR"),))), "pay", ""),
        (prove(granted(constraints=(MaxAmount(max_amount=49, currency="EUR"),))), "pay", "ratify_constraint_denied"),
        (prove(granted(constraints=(MaxRate(count=1, window_s=60),))), "pay", ""),
    ],
)
def test_to_change_a_task_needs_what_its_call_needed__and_takes_no_use(
    proof: ProofBundle, target: str, expected: str
) -> None:
    answers = answers_with(task(target))
    own: Answer = lambda need: Spending.NOT_ISSUED if getattr(need, "issued", False) else answers(need)  # noqa: E731
    decision, needs = script(with_proof(CANCEL, proof), policy(), own)
    assert error(decision) == expected
    assert CountUses not in kinds(needs)
    assert TakeUse not in kinds(needs)
    if expected == "ratify_constraint_denied":
        assert decision.refusal is not None
        assert "49" in decision.refusal.message
        assert "constraint[0]" not in decision.refusal.message, "that is for programs"
        assert str(decision.refusal.data["reason"]).startswith("constraint_denied: cert 0: constraint[0] ")


@pytest.mark.parametrize(("pins", "refused"), [(PINS, False), (None, True)])
def test_a_task_is_held_to_the_definition_that_is_pinned_for_its_tool(pins: Pins | None, refused: bool) -> None:
    asked = proven(CANCEL, chain_for_definition("a" * 64))
    decision, _ = script(asked, policy(), answers_with(task("list_inbox")), pins=pins)
    assert error(decision).startswith("ratify_constraint_") is refused
    assert (decision.refusal is not None) is refused
