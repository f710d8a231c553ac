"""How often the certificates of a call may be used: a limit is one, whoever counts, and one yes is for one call."""

import asyncio
import hashlib
from typing import Any

import pytest
from tests.unit.ratify.world import AGENT, NOW, SUB_AGENT, certificate, constraint
from tests.world.decisions import GRANT, VERIFIER, Deployment, call, finished, granted, proven

from accredit.consent.call import CallTerms
from accredit.policy.decide import decide
from accredit.policy.decision import Decision, Flow, drive
from accredit.policy.guarded_call import GuardedCall
from accredit.ratify import Constraint, DelegationCert
from accredit.ratify.constraints import MaxRate

DENIED, UNVERIFIABLE = "ratify_constraint_denied", "ratify_constraint_unverifiable"
AT_MOST_5 = constraint(type="max_amount", currency="EUR", max_amount=5)


def error(asked: GuardedCall, *constraints: Constraint, now: int = NOW) -> str:
    return Deployment().error(proven(asked, granted(constraints=constraints), at=now), now)


class TestRates:
    TWICE = constraint(type="max_rate", count=2, window_s=60)

    @pytest.mark.holds("policy/uses", "rate")
    def test_so_many_pass_in_a_window_and_then_again(self) -> None:
        deployment, chain = Deployment(), granted(constraints=(self.TWICE,))
        answers = [deployment.error(proven(call(), chain, at=NOW + at), NOW + at) for at in (0, 1, 2, 59, 120, 121)]
        assert answers == ["", "", DENIED, DENIED, "", ""]

    def test_what_is_refused_is_no_use(self) -> None:
        deployment, chain = Deployment(), granted("email:read", constraints=(self.TWICE, AT_MOST_5))
        for _ in range(3):
            assert deployment.error(proven(call(), chain)) == UNVERIFIABLE
        chain = granted("email:read", constraints=(self.TWICE,), cert_id=chain[0].cert_id)
        for _ in range(3):
            assert deployment.error(proven(call("send_email"), chain)) == "ratify_scope_denied"
        assert [deployment.error(proven(call(), chain)) for _ in range(3)] == ["", "", DENIED]

    def test_a_replay_is_no_use(self) -> None:
        deployment, chain = Deployment(), granted(constraints=(self.TWICE,))
        asked = proven(call(), chain)
        assert [deployment.error(asked) for _ in range(3)] == ["", "ratify_replayed", "ratify_replayed"]
        assert deployment.error(proven(call(), chain)) == ""

    def test_the_parents_limit_counts_for_all_that_were_made_from_it(self) -> None:
        deployment = Deployment()
        root = certificate(scope=GRANT, constraints=(self.TWICE,), cert_id="root")
        leaves = [certificate(AGENT, SUB_AGENT.public_key, scope=GRANT, cert_id=f"leaf-{n}") for n in range(3)]
        assert [deployment.error(proven(call(), (leaf, root))) for leaf in leaves] == ["", "", DENIED]

    @pytest.mark.holds("policy/uses", "issuer")
    def test_who_delegates_can_not_use_up_the_limit_of_a_certificate_of_the_same_id(self) -> None:
        deployment, theirs = Deployment(), granted(constraints=(self.TWICE,), cert_id="x")
        many = constraint(type="max_rate", count=1000, window_s=60)
        mine = certificate(AGENT, SUB_AGENT.public_key, scope=GRANT, constraints=(many,), cert_id="x")
        for _ in range(3):
            assert deployment.error(proven(call(), (mine, certificate(scope=GRANT)))) == ""
        assert [deployment.error(proven(call(), theirs)) for _ in range(3)] == ["", "", DENIED]

    def test_an_id_that_both_certificates_of_a_chain_have_hides_no_limit(self) -> None:
        many = constraint(type="max_rate", count=1000, window_s=60)
        for first, second in ((many, self.TWICE), (self.TWICE, many)):
            deployment = Deployment()
            leaf = certificate(AGENT, SUB_AGENT.public_key, scope=GRANT, constraints=(first,), cert_id="x")
            chain = (leaf, certificate(scope=GRANT, constraints=(second,), cert_id="x"))
            assert [deployment.error(proven(call(), chain)) for _ in range(3)] == ["", "", DENIED]

    def test_each_certificate_has_a_limit_of_its_own(self) -> None:
        deployment, one, other = Deployment(), *(granted(constraints=(self.TWICE,)) for _ in range(2))
        for chain in (one, other):
            assert [deployment.error(proven(call(), chain)) for _ in range(3)] == ["", "", DENIED]

    def test_two_limits_of_one_certificate_both_count(self) -> None:
        hourly = constraint(type="max_rate", count=3, window_s=3600)
        deployment, chain = Deployment(), granted(constraints=(self.TWICE, hourly), expires_at=NOW + 9000)
        times = (0, 0, 0, 100, 100, 5000)
        answers = [deployment.error(proven(call(), chain, at=NOW + at), NOW + at) for at in times]
        assert answers == ["", "", DENIED, "", DENIED, ""]

    @pytest.mark.parametrize(("count", "window"), [(0, 60), (-1, 60), (1, 0), (1, -60), (0, 0)])
    def test_a_limit_that_means_nothing_allows_nothing(self, count: int, window: int) -> None:
        assert error(call(), constraint(type="max_rate", count=count, window_s=window)) == DENIED

    @pytest.mark.parametrize("window", [1, 31 * 86_400])
    def test_a_window_may_be_short_or_long(self, window: int) -> None:
        assert error(call(), constraint(type="max_rate", count=1, window_s=window)) == ""

    @pytest.mark.parametrize("window", [31 * 86_400 + 1, 2**53 - 1])
    def test_nobody_counts_for_longer_than_a_month__what_is_counted_would_fill_the_store(self, window: int) -> None:
        assert error(call(), constraint(type="max_rate", count=1, window_s=window)) == UNVERIFIABLE

    @pytest.mark.parametrize("together", [2, 7])
    def test_of_calls_that_come_at_once_exactly_so_many_pass(self, together: int) -> None:
        """Each is counted before any is taken: the taking decides."""
        deployment, chain = Deployment(), granted(constraints=(constraint(type="max_rate", count=1, window_s=60),))
        store, known, policy = deployment.store, deployment.known, deployment.policy
        counted = asyncio.Barrier(together)

        class Counting:
            """The store, in which every call waits after its count until all have been counted."""

            def __getattr__(self, name: str) -> object:
                return getattr(store, name)

            async def uses(self, cert_id: str, window_s: int, *, now: int) -> int:
                used = await store.uses(cert_id, window_s, now=now)
                await counted.wait()
                return used

        async def all_at_once() -> list[str]:
            calls = [proven(call(), chain) for _ in range(together)]
            both: object = Counting()
            found = await asyncio.gather(
                *(drive(decide(each, policy, NOW), both, known, NOW) for each in calls)  # pyright: ignore[reportArgumentType]
            )
            return [each.refusal.error if each.refusal else "" for each in found]

        assert sorted(asyncio.run(all_at_once())) == ["", *[DENIED] * (together - 1)]


LEG = call("list_inbox", {"limit": 3}, requestState="sealed", inputResponses={})
DIGEST = hashlib.sha256(b'{"arguments":{"limit":3},"name":"list_inbox"}').hexdigest()


def once(**changes: Any) -> tuple[DelegationCert, ...]:
    terms: dict[str, Any] = {
        "gateway": VERIFIER,
        "method": "tools/call",
        "target": ("list_inbox",),
        "params_sha256": DIGEST,
    }
    return granted(constraints=[CallTerms(**(terms | changes)).constraint(), MaxRate(1, 600)])


def leg(deployment: Deployment, chain: tuple[DelegationCert, ...], flow: Flow | None) -> Decision:
    decision = decide(proven(LEG, chain), deployment.policy, NOW, flow_of=lambda principal, agent: flow)
    return finished(drive(decision, deployment.store, deployment.known, NOW))


@pytest.mark.holds("policy/decide", "authority")
@pytest.mark.holds("policy/uses", "consent")
def test_each_leg_of_a_flow_passes_once__and_the_first_one_takes_the_use() -> None:
    deployment, chain = Deployment(), once()
    assert deployment.error(proven(call("list_inbox", {"limit": 3}), chain)) == ""
    for flow in (Flow("f", 1), Flow("f", 2), Flow("g", 1)):
        assert leg(deployment, chain, flow).refusal is None
        again = leg(deployment, chain, flow).refusal
        assert again is not None
        assert again.error == "ratify_constraint_denied"


def test_where_no_state_is_sealed_every_leg_takes_a_use() -> None:
    deployment, chain = Deployment(), once()
    assert leg(deployment, chain, None).refusal is None
    assert leg(deployment, chain, None).refusal is not None


def test_a_certificate_for_many_calls_has_a_use_taken_by_every_leg() -> None:
    terms = CallTerms(gateway=VERIFIER, method="tools/call", target=("list_inbox",))
    deployment, chain = Deployment(), granted(constraints=[terms.constraint(), MaxRate(1, 600)])
    assert leg(deployment, chain, Flow("f", 1)).refusal is None
    assert leg(deployment, chain, Flow("f", 2)).refusal is not None


def test_a_leg_is_not_made_again_by_another_consent_to_the_same_call__whose_use_nobody_takes() -> None:
    """Two consents are good for two calls, not for four last legs."""
    deployment, flow = Deployment(), Flow("f", 1)
    one, another = once(), once()
    assert leg(deployment, one, flow).refusal is None
    assert leg(deployment, another, None).refusal is None
    refusal = leg(deployment, another, flow).refusal
    assert refusal is not None
    assert refusal.error == DENIED
    assert leg(deployment, another, Flow("g", 1)).refusal is None
