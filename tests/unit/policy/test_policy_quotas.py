"""Quotas: nobody makes more calls than there may be, or for more in sum, and no call goes uncounted."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.ratify.world import AGENT, NOW, SUB_AGENT, certificate, constraint
from tests.world.decisions import GRANT, Deployment, call, finished, granted, passed_down, proven

from accredit.policy.decide import decide
from accredit.policy.decision import Flow, drive
from accredit.policy.quotas import Quota, QuotaCaller, QuotaReached, Quotas, window_seconds
from accredit.policy.uses import take
from accredit.stores import MemoryStore
from accredit.tokens.claims import VerifiedToken

REACHED = "quota_exceeded"


def quota(**changes: Any) -> Quota:
    members: dict[str, Any] = {"by": "agent", "tools": frozenset({"*"}), "window_s": 60, "window": "60s", "most": 2}
    return Quota(**(members | changes))


def deployment(*quotas: Quota, **changes: Any) -> Deployment:
    return Deployment(quotas=Quotas(quotas), **changes)


def token(subject: str) -> VerifiedToken:
    return VerifiedToken("https://id.example.org", subject, NOW + 60, "")


def paid(amount: object) -> Any:
    return proven(call("pay", {"amount": amount, "currency": "EUR"}))


SUM = quota(tools=frozenset({"pay"}), most=500_000_000, fact="amount")


@pytest.mark.holds("policy/quotas", "subject")
def test_so_many_calls_pass_in_a_window__and_it_is_told_when_there_is_room_again() -> None:
    here = deployment(quota())
    answers = [here.error(proven(call(), at=NOW + at), NOW + at) for at in (0, 1, 2, 59, 61, 62)]
    assert answers == ["", "", REACHED, REACHED, "", ""]
    refusal = here.decides(proven(call(), at=NOW + 70), NOW + 70).refusal
    assert refusal is not None
    assert (refusal.code, refusal.data["retry_after_seconds"]) == (-31013, 51)
    assert "2 calls in 60s for each agent" in refusal.message


def test_a_call_that_is_refused_for_anything_was_not_counted() -> None:
    here = deployment(quota(most=1))
    for asked in (call("list_inbox"), proven(call("nothing")), proven(call("send_email"), granted("email:read"))):
        assert here.error(asked) not in ("", REACHED)
    spent = proven(call())
    assert [here.error(spent), here.error(spent), here.error(proven(call()))] == ["", "ratify_replayed", REACHED]
    refusal = here.decides(proven(call())).refusal
    assert refusal is not None
    assert refusal.data["required_scope"] == "email:read"


@pytest.mark.holds("policy/quotas", "capacity")
def test_where_one_quota_has_no_room_no_other_counts__and_no_use_is_taken() -> None:
    rate = constraint(type="max_rate", count=2, window_s=60)
    here = deployment(SUM, quota(most=3))
    chain = granted(constraints=(rate,))
    over = proven(call("pay", {"amount": 501, "currency": "EUR"}), chain)
    assert [here.error(over) for _ in range(1)] == [REACHED]
    assert [here.error(proven(call(), chain)) for _ in range(3)] == ["", "", "ratify_constraint_denied"]
    assert here.error(proven(call())) == ""
    assert here.error(proven(call())) == REACHED


def test_a_sum_counts_to_the_cent__and_its_limit_is_inclusive() -> None:
    here = deployment(SUM)
    assert [here.error(paid(amount)) for amount in (499.9, 0.2, 0.1, 0.000001, 0)] == ["", REACHED, "", REACHED, ""]
    tenths = deployment(quota(tools=frozenset({"pay"}), most=1_000_000, fact="amount"))
    assert [tenths.error(paid(0.1)) for _ in range(11)] == [""] * 10 + [REACHED]


@pytest.mark.parametrize("amount", [None, "5", -1, True, [5]])
def test_a_call_that_has_no_amount_can_not_be_counted_and_is_refused(amount: object) -> None:
    here = deployment(SUM)
    decision = here.decides(paid(amount))
    assert decision.refusal is not None
    assert decision.refusal.error == REACHED
    assert decision.refusal.data["retry_after_seconds"] is None


def test_an_amount_above_the_limit_has_no_room_ever() -> None:
    refusal = deployment(SUM).decides(paid(1e300)).refusal
    assert refusal is not None
    assert refusal.data["retry_after_seconds"] is None
    assert "500" in refusal.message


def test_each_is_counted_alone__a_principal_over_all_its_agents() -> None:
    leaf = certificate(AGENT, SUB_AGENT.public_key, scope=GRANT, cert_id="leaf")
    other = (leaf, certificate(scope=GRANT, cert_id="root"))
    for by, expected in (("agent", ["", REACHED, ""]), ("principal", ["", REACHED, REACHED])):
        here = deployment(quota(by=by, most=1))
        assert [here.error(proven(call())), here.error(proven(call())), here.error(proven(call(), other))] == expected


def test_subjects_are_counted_by_their_issuer_too__and_a_call_without_a_token_is_refused() -> None:
    here = deployment(quota(by="subject", most=1))

    def error(whose: VerifiedToken | None) -> str:
        steps = decide(proven(call()), here.policy, NOW, whose)
        refusal = finished(drive(steps, here.store, here.known, NOW)).refusal
        return refusal.error if refusal is not None else ""

    other = VerifiedToken("https://other.example.org", "ada", NOW + 60, "")
    assert [error(each) for each in (token("ada"), token("bob"), other, token("ada"), None)] == [
        "",
        "",
        "",
        REACHED,
        REACHED,
    ]


def test_only_the_tools_that_are_named_count__and_nothing_but_tools() -> None:
    here = deployment(quota(tools=frozenset({"send_email"}), most=1))
    for asked in (call(), call("mail://1", method="resources/read"), call()):
        assert here.error(proven(asked)) == ""
    assert [here.error(proven(call("send_email"))) for _ in range(2)] == ["", REACHED]
    anything = deployment(quota(most=1))
    for _ in range(3):
        assert anything.error(proven(call("mail://1", method="resources/read"))) == ""


@pytest.mark.holds("policy/quotas", "count-key")
def test_a_call_at_the_endpoint_of_all_servers_counts_as_the_servers_own() -> None:
    of_mail, of_all = quota(by="server", tools=frozenset({"send_email"})), quota(by="server")
    own = Quotas((of_mail, of_all), server="mail")
    merged = Quotas((of_mail, of_all), merged=frozenset({"mail", "crm"}))
    assert own.taken_by("send_email", QuotaCaller(), {}) == merged.taken_by("mail__send_email", QuotaCaller(), {})
    assert own.taken_by("send_email", QuotaCaller(), {}) != merged.taken_by("crm__send_email", QuotaCaller(), {})
    assert merged.taken_by("nobody-s__send_email", QuotaCaller(), {}) == ()
    of_one = (quota(by="server", tools=frozenset({"mail__send_email"})),)
    taken = [Quotas(of_one, server=name).taken_by("send_email", QuotaCaller(), {}) for name in ("mail", "crm")]
    assert [len(each) for each in taken] == [1, 0]


@pytest.mark.holds("policy/quotas", "count-key")
def test_a_limit_that_is_changed_finds_what_was_counted() -> None:
    here = deployment(quota(most=2))
    assert [here.error(proven(call())) for _ in range(2)] == ["", ""]
    raised = deployment(quota(most=3))
    raised.store = here.store
    assert [raised.error(proven(call())) for _ in range(2)] == ["", REACHED]


@pytest.mark.holds("policy/uses", "quota-once")
def test_a_call_of_several_rounds_counts_once__and_a_round_that_is_repeated_counts_anew() -> None:
    here = deployment(quota(most=3))

    def leg(flow: Flow | None) -> str:
        steps = decide(proven(call()), here.policy, NOW, flow_of=lambda _principal, _agent: flow)
        refusal = finished(drive(steps, here.store, here.known, NOW)).refusal
        return refusal.error if refusal is not None else ""

    first, second = Flow("one", 1), Flow("one", 2)
    assert [leg(each) for each in (None, first, second)] == ["", "", ""]  # 1
    assert [leg(first), leg(first), leg(first)] == ["", "", REACHED]
    assert leg(Flow("two", 1)) == "", "a leg of another call is free once, too"


@pytest.mark.holds("policy/uses", "quota-once")
def test_a_round_is_free_once__and_not_once_for_each_agent_that_shares_a_token() -> None:
    """A state that is sealed for a token's subject opens for each of its agents."""
    quotas, store, flow = Quotas((quota(most=1),)), MemoryStore(), Flow("one", 1)

    def made(agent: str) -> bool:
        taken = quotas.taken_by("x", QuotaCaller(agent=agent), {})
        return finished(drive(take((), taken, flow, NOW), store, None, NOW))

    assert made("a")
    assert made("b"), "counted"
    with pytest.raises(QuotaReached):
        made("b")


@pytest.mark.holds("policy/uses", "atomicity")
def test_a_store_that_does_not_answer_refuses() -> None:
    class Silent(MemoryStore):
        async def use(self, limits: Any, *, now: int) -> bool:
            raise OSError("gone")

    here = deployment(quota())
    here.store = Silent()
    assert here.error(proven(call())) == "ratify_invalid"


def test_what_nobody_can_say_the_room_of_is_refused() -> None:
    steps = take((), ((quota(), Quotas((quota(),)).taken_by("x", QuotaCaller(agent="a"), {})[0][1]),), None, NOW)
    next(steps)
    steps.send(False)
    with pytest.raises(TypeError):
        steps.send("soon")


def test_others_who_took_the_room_meanwhile_and_gave_it_back_are_worth_another_try() -> None:
    limit = Quotas((quota(),)).taken_by("x", QuotaCaller(agent="a"), {})
    steps = take((), limit, None, NOW)
    next(steps)
    steps.send(False)
    with pytest.raises(QuotaReached) as reached:
        steps.send(NOW)
    assert reached.value.seconds == 1


@pytest.mark.slow
@given(st.lists(st.decimals(0, 1_000, places=6, allow_nan=False, allow_infinity=False), max_size=30))
def test_no_window_ever_holds_more_than_the_limit__exactly(amounts: list[Any]) -> None:
    here = deployment(quota(tools=frozenset({"pay"}), most=1_500_000_000, fact="amount"))
    total = 0
    for amount in amounts:
        units = int(amount * 1_000_000)
        fits = total + units <= 1_500_000_000
        assert (here.error(paid(float(amount))) == "") is fits
        total += units * fits


@pytest.mark.parametrize(("text", "seconds"), [("1s", 1), ("15m", 900), ("12h", 43_200), ("31d", 31 * 86_400)])
def test_windows_are_read(text: str, seconds: int) -> None:
    assert window_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "1", "0s", "00s", "-1s", "1.5h", "32d", "1w", "1 h", "1h ", "9999999d", "1h\n"])
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="60s"):
        window_seconds(text)


def test_a_principal_is_counted_whatever_the_length_of_the_chain() -> None:
    limit = deployment(quota(by="principal", most=1))
    assert [limit.error(proven(call(), passed_down(depth))) for depth in (1, 3)] == ["", REACHED]
