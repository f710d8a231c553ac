"""What a proof is good for: one call where it is bound, one use in any case, one request for a challenge of ours."""

import base64
import hashlib
from collections.abc import Mapping

import pytest
from msgspec.structs import replace
from tests.unit.ratify.world import AGENT, HUMAN, NOW, SUB_AGENT, certificate, key
from tests.world.decisions import (
    GRANT,
    VERIFIER,
    Deployment,
    call,
    draw,
    granted,
    prove,
    proven,
    with_proof,
)

from accredit.policy.guarded_call import GuardedCall, guarded_call_from_values
from accredit.ratify import build_session_context, operation_context_hash, present

PAY: Mapping[str, object] = {"amount": 5, "currency": "EUR", "to": "Bob"}
MISMATCH = "session_context_mismatch: bundle session_context does not match verifier context"


def reason(asked: GuardedCall, now: int = NOW, **policy: object) -> str:
    """The verifier's reason, or "" when the call is allowed."""
    refusal = Deployment(**policy).decides(asked, now).refusal
    return "" if refusal is None else str(refusal.data.get("reason", refusal.error))


def test_a_bound_proof_is_good_for_its_call() -> None:
    asked = call("pay", PAY, session="s-1")
    decision = Deployment(binding_required=True).decides(proven(asked, bound=True))
    assert decision.refusal is None
    assert decision.authority is not None
    assert decision.authority.bound is True


def test_what_is_bound_is_what_the_contract_says() -> None:
    asked = call("pay", PAY, session="s-1")
    text = b'{"arguments":{"amount":5,"currency":"EUR","to":"Bob"},"name":"pay"}'
    digest = hashlib.sha256(text).digest()
    request_hash = operation_context_hash("payments:send", "tools/call", "pay", "", digest)
    context = build_session_context(VERIFIER, "", AGENT.id, "s-1", "", request_hash=request_hash)
    bundle = present(granted(), AGENT, draw(), NOW, session_context=context)
    assert reason(with_proof(asked, bundle), binding_required=True) == ""


def test_what_is_bound_of_a_list_is_its_method_and_nothing_else() -> None:
    asked = call("", method="tools/list", session="s-1")
    request_hash = operation_context_hash("", "tools/list", "", "", b"")
    context = build_session_context(VERIFIER, "", AGENT.id, "s-1", "", request_hash=request_hash)
    bundle = present(granted(), AGENT, draw(), NOW, session_context=context)
    assert reason(with_proof(asked, bundle), binding_required=True) == ""
    for other in ("prompts/list", "resources/list"):
        assert reason(with_proof(call("", method=other, session="s-1"), bundle)) == MISMATCH


@pytest.mark.parametrize("method", ["tools/list", "resources/list", "resources/templates/list", "prompts/list"])
def test_a_proof_of_a_list_may_cover_its_params_as_that_of_a_call_does(method: str) -> None:
    digest = hashlib.sha256(b'{"cursor":"page 2"}').digest()
    request_hash = operation_context_hash("", method, "", "", digest)
    context = build_session_context(VERIFIER, "", AGENT.id, "s-1", "", request_hash=request_hash)
    bundle = present(granted(), AGENT, draw(), NOW, session_context=context)

    def asked(cursor: str = "page 2", method: str = method, session: str = "s-1") -> GuardedCall:
        return with_proof(guarded_call_from_values(method, {"cursor": cursor}, session, None), bundle)

    assert reason(asked(), binding_required=True) == ""
    other_list = "tools/list" if method != "tools/list" else "prompts/list"
    for other in (asked("page 3"), asked(session="s-2"), asked(method=other_list)):
        assert reason(other) == MISMATCH


def test_a_proof_that_covers_a_lists_params_is_good_for_no_call() -> None:
    digest = hashlib.sha256(b'{"arguments":{},"name":"pay"}').digest()
    request_hash = operation_context_hash("", "tools/call", "", "", digest)
    context = build_session_context(VERIFIER, "", AGENT.id, "s-1", "", request_hash=request_hash)
    asked = with_proof(call("pay", {}, session="s-1"), present(granted(), AGENT, draw(), NOW, session_context=context))
    assert reason(asked) == MISMATCH


@pytest.mark.parametrize("binding_required", [False, True])
@pytest.mark.parametrize(
    ("name", "other"),
    {
        "amount": call("pay", {**PAY, "amount": 6}, session="s-1"),
        "recipient": call("pay", {**PAY, "to": "bob"}, session="s-1"),
        "an argument more": call("pay", {**PAY, "x": None}, session="s-1"),
        "an argument less": call("pay", {"amount": 5, "currency": "EUR"}, session="s-1"),
        "no arguments": call("pay", session="s-1"),
        "another member": call("pay", PAY, session="s-1", task={"ttl": 1}),
        "an answer of a round": call("pay", PAY, session="s-1", inputResponses={"q": {"action": "accept"}}),
        "a state of a round": call("pay", PAY, session="s-1", requestState="x"),
        "session": call("pay", PAY, session="s-2"),
        "no session": call("pay", PAY),
        "tool": call("write", PAY, session="s-1"),
        "method": call("pay", PAY, session="s-1", method="prompts/get"),
        "target only": replace(call("pay", PAY, session="s-1"), target="visit"),
        "digest only": replace(call("pay", PAY, session="s-1"), digest=bytes(32)),
    }.items(),
)
def test_a_proof_that_is_bound_to_one_call_is_worth_nothing_for_another(
    name: str, other: GuardedCall, binding_required: bool
) -> None:
    bundle = prove(to=call("pay", PAY, session="s-1"))
    assert reason(with_proof(other, bundle), binding_required=binding_required) == MISMATCH, name


def test_a_proof_for_another_gateway_or_scope_or_agent_is_worth_nothing_here() -> None:
    asked = call("pay", PAY)
    assert reason(proven(asked, bound=True, verifier="other-gateway")) == MISMATCH
    assert reason(proven(asked, bound=True, scope="")) == MISMATCH
    assert reason(proven(asked, bound=True, scope="payments:receive")) == MISMATCH
    context = asked.session_context(VERIFIER, SUB_AGENT.id, "payments:send")
    bundle = present(granted(), AGENT, draw(), NOW, session_context=context)
    assert reason(with_proof(asked, bundle)) == MISMATCH


def test_a_bound_proof_is_bound_to_the_tools_own_scope_though_another_was_granted() -> None:
    asked = call("send_email", {"to": "Bob"})
    chain = granted("comms:email:send")
    assert reason(proven(asked, chain, bound=True), binding_required=True) == ""
    assert reason(proven(asked, chain, bound=True, scope="comms:email:send")) == MISMATCH


def test_a_workspace_or_an_invocation_that_nobody_knows_does_not_fit() -> None:
    asked = call()
    request_hash = asked.request_hash("email:read")
    for names in ((VERIFIER, "w", AGENT.id, "", ""), (VERIFIER, "", AGENT.id, "", "i"), (VERIFIER, "", "", "", "")):
        context = build_session_context(*names, request_hash=request_hash)
        bundle = present(granted(), AGENT, draw(), NOW, session_context=context)
        assert reason(with_proof(asked, bundle)) == MISMATCH


def test_the_binding_can_not_be_taken_off_or_put_on_afterwards() -> None:
    asked = call("pay", PAY)
    bound, unbound = prove(to=asked), prove()
    stripped = replace(bound, session_context=b"")
    assert reason(with_proof(asked, stripped)).startswith("bad_challenge_sig")
    dressed = replace(unbound, session_context=bound.session_context)
    assert reason(with_proof(asked, dressed)).startswith("bad_challenge_sig")


def test_an_unbound_proof_is_served_only_where_binding_is_optional() -> None:
    decision = Deployment().decides(proven(call()))
    assert decision.authority is not None
    assert decision.authority.bound is False
    missing = "missing_session_context: verifier requires a session-bound challenge but bundle has no session_context"
    assert reason(proven(call()), binding_required=True) == missing
    assert reason(proven(call("", method="tools/list")), binding_required=True) == missing


def test_a_stream_is_of_no_use_here() -> None:
    bundle = present(granted(), AGENT, draw(), NOW, stream_id=bytes([9]) * 32, stream_seq=1)
    assert reason(with_proof(call(), bundle)).startswith("stream_context_unverifiable")


class TestAChallengeOfTheClients:
    @pytest.mark.parametrize(("age", "freshness"), [(0, 30), (30, 30), (300, 300), (1, 1), (-1, 30), (-2, 1)])
    def test_it_is_good_to_the_last_second_and_a_little_ahead(self, age: int, freshness: int) -> None:
        assert reason(proven(call(), at=NOW - age), freshness_seconds=freshness) == ""

    @pytest.mark.parametrize(
        ("age", "freshness"), [(31, 30), (-3, 30), (301, 300), (-300, 300), (2, 1), (2**40, 30), (-(2**40), 30)]
    )
    def test_it_is_refused_a_second_later_and_from_further_ahead(self, age: int, freshness: int) -> None:
        text = f"stale_challenge: challenge is {age} seconds old (max {freshness})"
        assert reason(proven(call(), at=NOW - age), freshness_seconds=freshness) == text

    def test_one_from_a_clock_that_is_ahead_is_served_once(self) -> None:
        deployment, bundle = Deployment(freshness_seconds=300), prove(at=NOW + 2)
        assert deployment.error(with_proof(call(), bundle)) == ""
        for now in (NOW, NOW + 2, NOW + 301, NOW + 302):
            assert deployment.error(proven(call(), at=now), now) == ""  # the store forgets what it may
            assert deployment.error(with_proof(call(), bundle), now) == "ratify_replayed"

    def test_it_is_served_once_and_not_for_another_tool_later(self) -> None:
        for other in (call(), call("send_email"), call("notes:1", method="resources/read"), call("x", session="s-2")):
            deployment, bundle = Deployment(), prove()
            assert deployment.error(with_proof(call("pay"), bundle)) == ""
            other = replace(other, target="list_inbox") if other.target == "x" else other
            assert deployment.error(with_proof(other, bundle)) == "ratify_replayed"
            assert deployment.error(with_proof(call("", method="tools/list"), bundle)) == "ratify_replayed"

    def test_it_is_served_once_whoever_signs_it(self) -> None:
        deployment, challenge = Deployment(), draw()
        chain = granted()
        assert deployment.error(proven(call(), chain, challenge=challenge)) == ""
        assert deployment.error(proven(call(), chain, challenge=challenge, bound=True)) == "ratify_replayed"
        assert deployment.error(proven(call(), challenge=challenge, at=NOW - 1)) == "ratify_replayed"

    def test_it_is_spent_by_a_call_that_is_refused_for_its_scope(self) -> None:
        deployment, bundle = Deployment(), prove(granted("email:read"))
        assert deployment.error(with_proof(call("send_email"), bundle)) == "ratify_scope_denied"
        assert deployment.error(with_proof(call("list_inbox"), bundle)) == "ratify_replayed"

    def test_it_is_spent_by_a_list(self) -> None:
        deployment, bundle = Deployment(), prove()
        assert deployment.error(with_proof(call("", method="tools/list"), bundle)) == ""
        assert deployment.error(with_proof(call(), bundle)) == "ratify_replayed"

    def test_it_is_not_spent_by_a_forged_proof(self) -> None:
        deployment, good = Deployment(), prove()
        forged = replace(good, challenge_at=NOW - 1)
        assert deployment.error(with_proof(call(), forged)) == "ratify_invalid"
        assert deployment.error(with_proof(call(), good)) == ""

    def test_it_is_not_spent_by_one_who_is_not_trusted(self) -> None:
        deployment, good = Deployment(), prove()
        stranger = key(77)
        theirs = present((certificate(stranger, AGENT.public_key, scope=GRANT),), AGENT, good.challenge, NOW)
        assert deployment.error(with_proof(call(), theirs)) == "ratify_untrusted_root"
        assert deployment.error(with_proof(call(), good)) == ""

    def test_it_is_of_no_use_for_a_sensitive_tool(self) -> None:
        for target in ("wipe", "deploy"):
            assert Deployment().error(proven(call(target), bound=True)) == "ratify_challenge_required"


class TestAChallengeOfOurs:
    @pytest.mark.parametrize("bound", [False, True])
    def test_it_is_good_for_its_call_once(self, bound: bool) -> None:
        deployment, asked = Deployment(), call("wipe", {"box": 1})
        challenge = deployment.challenge_for(asked)
        again = proven(asked, challenge=challenge, bound=bound)
        assert deployment.error(again) == ""
        assert deployment.error(again) == "ratify_replayed"
        assert deployment.error(again, NOW + 300) == "ratify_replayed"

    def test_the_one_that_is_handed_out_is_the_one_that_is_good(self) -> None:
        deployment, asked = Deployment(binding_required=True), call("wipe", {"box": 1})
        refusal = deployment.decides(asked).refusal
        assert refusal is not None
        meta = refusal.data["_meta"]
        assert isinstance(meta, dict)
        challenge = base64.b64decode(str(meta["ratify_challenge"]["challenge"]))
        assert deployment.error(proven(asked, challenge=challenge, bound=True), NOW + 60) == ""

    @pytest.mark.parametrize(
        "other",
        [
            call("wipe", {"box": 2}),
            call("wipe"),
            call("deploy", {"box": 1}),
            call("list_inbox", {"box": 1}),
            call("list_inbox"),
            call("notes:1", method="resources/read"),
            call("", method="tools/list"),
        ],
        ids=lambda other: f"{other.method} {other.target} {other.arguments}",
    )
    @pytest.mark.parametrize("bound", [False, True])
    def test_it_is_good_for_nothing_else_and_stays_good_for_its_own(self, other: GuardedCall, bound: bool) -> None:
        deployment, asked = Deployment(), call("wipe", {"box": 1})
        challenge = deployment.challenge_for(asked)
        decision = deployment.decides(proven(other, challenge=challenge, bound=bound))
        assert decision.refusal is not None
        assert decision.refusal.error == "ratify_challenge_required"
        assert deployment.error(proven(asked, challenge=challenge)) == ""

    def test_one_for_a_tool_that_is_not_sensitive_is_good_for_that(self) -> None:
        deployment, asked = Deployment(), call("pay", PAY)
        challenge = deployment.challenge_for(asked)
        assert deployment.error(proven(call("pay"), challenge=challenge)) == "ratify_challenge_required"
        assert deployment.error(proven(asked, challenge=challenge)) == ""

    def test_it_is_good_until_it_expires(self) -> None:
        asked = call("wipe")
        for later, expected in ((60, ""), (61, "ratify_challenge_required"), (361, "ratify_challenge_required")):
            deployment = Deployment()
            challenge = deployment.challenge_for(asked)
            assert deployment.error(proven(asked, challenge=challenge), NOW + later) == expected

    @pytest.mark.parametrize("ahead", [1, 60, -300])
    def test_the_agents_clock_may_be_wrong(self, ahead: int) -> None:
        deployment, asked = Deployment(), call("wipe")
        challenge = deployment.challenge_for(asked)
        assert deployment.error(proven(asked, challenge=challenge, at=NOW + ahead)) == ""

    @pytest.mark.parametrize("ahead", [61, -301])
    def test_the_agents_clock_may_not_be_wrong_by_more(self, ahead: int) -> None:
        deployment, asked = Deployment(), call("wipe")
        challenge = deployment.challenge_for(asked)
        assert deployment.error(proven(asked, challenge=challenge, at=NOW + ahead)) == "ratify_invalid"
        assert deployment.error(proven(asked, challenge=challenge)) == ""

    def test_one_that_was_spent_is_no_client_challenge_for_another_tool_either(self) -> None:
        deployment, asked = Deployment(freshness_seconds=300), call("wipe")
        bundle = prove(challenge=deployment.challenge_for(asked), at=NOW + 60)
        assert deployment.error(with_proof(asked, bundle), NOW) == ""
        for now in (NOW, NOW + 60, NOW + 360):
            assert deployment.error(with_proof(call(), bundle), now) == "ratify_replayed"

    def test_one_that_was_never_presented_is_no_client_challenge_for_another_tool(self) -> None:
        deployment, asked = Deployment(freshness_seconds=300), call("wipe")
        bundle = prove(challenge=deployment.challenge_for(asked))
        for now in (NOW, NOW + 61, NOW + 300):
            assert deployment.error(with_proof(call(), bundle), now) == "ratify_challenge_required"

    @pytest.mark.parametrize("freshness", [1, 30, 300])
    def test_one_that_the_decision_handed_out_never_becomes_a_client_challenge(self, freshness: int) -> None:
        """Not before a proof over it is stale that was signed in its last second, by a clock that is ahead."""
        deployment = Deployment(freshness_seconds=freshness)
        refusal = deployment.decides(call("wipe")).refusal
        assert refusal is not None
        meta = refusal.data["_meta"]
        assert isinstance(meta, dict)
        bundle = prove(challenge=base64.b64decode(str(meta["ratify_challenge"]["challenge"])), at=NOW + 120)
        for now in (NOW + 60, NOW + 120, NOW + 120 + freshness, NOW + 121 + freshness, NOW + 122 + freshness):
            assert deployment.error(with_proof(call(), bundle), now) in {"ratify_challenge_required", "ratify_invalid"}

    def test_it_does_not_cross_sessions_where_the_proof_is_bound(self) -> None:
        deployment, asked = Deployment(), call("wipe", session="s-1")
        challenge = deployment.challenge_for(asked)
        bundle = prove(to=asked, challenge=challenge)
        assert deployment.error(with_proof(replace(asked, session_id="s-2"), bundle)) == "ratify_invalid"
        assert deployment.error(with_proof(asked, bundle)) == ""


def test_who_authorized_a_call_is_named_as_it_is_configured() -> None:
    root = certificate(scope=("comms:email:*", "email:read", "identity:delegate"), cert_id="root")
    leaf = certificate(AGENT, SUB_AGENT.public_key, scope=("comms:email:send", "email:read"), cert_id="leaf")
    decision = Deployment(roots={HUMAN.public_key: "The Owner"}).decides(proven(call(), (leaf, root)))
    authority = decision.authority
    assert authority is not None
    assert (authority.principal_id, authority.principal_name, authority.agent_id) == (
        HUMAN.id,
        "The Owner",
        SUB_AGENT.id,
    )
    assert authority.granted_scope == ("comms:email:send", "email:read")
    assert authority.cert_ids == ("leaf", "root")


def test_each_root_has_its_own_name() -> None:
    other = key(78)
    roots = {HUMAN.public_key: "One", other.public_key: "Two"}
    theirs = (certificate(other, AGENT.public_key, scope=GRANT, issuer_id=other.id),)
    decision = Deployment(roots=roots).decides(with_proof(call(), present(theirs, AGENT, draw(), NOW)))
    assert decision.authority is not None
    assert (decision.authority.principal_id, decision.authority.principal_name) == (other.id, "Two")


def test_with_no_roots_nobody_is_trusted() -> None:
    assert Deployment(roots={}).error(proven(call())) == "ratify_untrusted_root"


def test_a_wildcard_covers_what_is_not_sensitive() -> None:
    chain = granted("comms:*")
    assert Deployment().error(proven(call("send_email"), chain)) == ""
    deployment = Deployment()
    challenge = deployment.challenge_for(call("wipe"))
    assert deployment.error(proven(call("wipe"), chain, challenge=challenge)) == "ratify_scope_denied"


@pytest.mark.parametrize(
    "scope", ["email:*", "*", "mcp:*", "EMAIL:READ", "email:read ", "custom:email:read", "custom:*"]
)
def test_what_only_looks_like_the_scope_does_not_cover_it(scope: str) -> None:
    assert Deployment().error(proven(call(), granted(scope))) in {"ratify_invalid_scope", "ratify_scope_denied"}


def test_each_certificate_of_the_chain_must_grant_the_scope() -> None:
    wide = ("email:read", "email:send", "identity:delegate")
    narrow = ("email:read", "identity:delegate")
    for leaf, root in ((wide, narrow), (narrow, wide)):
        chain = (certificate(AGENT, SUB_AGENT.public_key, scope=leaf), certificate(scope=root))
        assert Deployment().error(proven(call("send_email"), chain)) == "ratify_scope_denied"
        assert Deployment().error(proven(call("list_inbox"), chain)) == ""
