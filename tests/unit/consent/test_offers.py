"""What a person may choose is narrow, limited and ends; each choice is the delegation that it says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.world.asked import GATEWAY, PARAMS, SCOPE, WORLD, a_message, a_request, allowed, an_ask
from tests.world.delegations import NOW

from accredit.consent.answers import chain_allowed
from accredit.consent.asks import Ask, AskedRefusal
from accredit.consent.call import CallTerms, evaluate_call
from accredit.consent.offers import MAX_LIKE_SECONDS, Offer, concerns_money, offers_for, parts_of
from accredit.errors import NotOffered, UnusableAnswer
from accredit.limits import ASK_SECONDS, MAX_LIKE_CALLS
from accredit.policy.constraint_words import constraint
from accredit.ratify import CallFacts, Extension, VerifierContext, issue_delegation
from accredit.ratify.constraints import MaxRate


def keys(ask: Ask, *, is_new: bool = False) -> list[str]:
    return [offer.key for offer in offers_for(ask, is_new=is_new)]


def call(**arguments: Any) -> Ask:
    return an_ask({"name": "send_email", "arguments": arguments})


def choice(ask: Ask, key: str) -> Offer:
    return next(offer for offer in offers_for(ask, is_new=False) if offer.key == key)


def terms(offer: Offer) -> CallTerms:
    (found,) = [CallTerms.read(each) for each in offer.constraints if isinstance(each, Extension)]
    return found


@pytest.mark.holds("consent/offers", "one-call")
@pytest.mark.parametrize(
    ("ask", "other", "words"),
    [
        (a_request(), a_request("/api/mail/messages/8/send"), "this path and body"),
        (a_request(), a_request(body=b'{"to":"eve"}'), "this path and body"),
        (a_message("summarize"), a_message(), "this very message"),
    ],
)
def test_a_request_or_a_message_is_allowed_by_itself_alone(ask: Ask, other: Ask, words: str) -> None:
    assert keys(ask) == ["once"]
    once = choice(ask, "once")
    assert once.words == f"Only this call: {words}, once, within 10 minutes"
    cert = issue_delegation(WORLD.owner.signer(), once.grant(ask, "c1", NOW), vocabulary=ask.refusal.scopes)
    assert cert.scope == ask.refusal.scopes
    assert chain_allowed(allowed(ask, cert), ask, NOW) == (cert,)
    with pytest.raises(UnusableAnswer, match="not for this call"):
        chain_allowed(allowed(other, cert), other, NOW)
    part = replace(once, scopes=once.scopes[:-1] or ("mcp:tool",)).grant(ask, "c2", NOW)
    less = issue_delegation(WORLD.owner.signer(), part, vocabulary=part.scope)
    with pytest.raises(UnusableAnswer, match="every scope"):
        chain_allowed(allowed(ask, less), ask, NOW)


@pytest.mark.holds("consent/offers", "caution")
@pytest.mark.parametrize(
    ("target", "body"), [("/pay?amount=5", b""), ("/pay", b'{"amount":5}'), ("/pay", b'[{"x":{"amountUsd":5}}]')]
)
def test_money_is_seen_in_a_query_and_in_a_body(target: str, body: bytes) -> None:
    assert concerns_money(a_request(target, body))
    assert not concerns_money(a_request())


@pytest.mark.holds("consent/offers", "caution")
@pytest.mark.parametrize(
    "body",
    [
        b' {"amount":5}',
        b'{"amount":5,"Amount":5}',
        b'{"amount":5,"rate":0.10000000000000000001}',
        b"to=ada&amount=5",
        b'{"text":"&amount=5&to=ada"}',
        b'\xff{"amount":5}',
    ],
)
def test_an_agent_can_not_avoid_the_passphrase_by_the_form_of_its_body(body: bytes) -> None:
    assert concerns_money(a_request("/pay", body))
    assert not concerns_money(a_request("/pay", b""))
    assert not concerns_money(a_request("/pay", b'{"text":"the amount = 5"}'))


@pytest.mark.holds("consent/offers", "limits")
def test_none_of_several_scopes_is_a_wildcard() -> None:
    refusal = AskedRefusal("ratify_scope_denied", "custom:ask", required_scopes=("custom:ask", "identity:delegate"))
    with pytest.raises(NotOffered):
        offers_for(a_message(refusal=refusal), is_new=False)


@pytest.mark.holds("consent/offers", "one-call")
def test_only_this_call_is_always_offered_and_is_only_this_call() -> None:
    ask = an_ask()
    once = choice(ask, "once")
    grant = once.grant(ask, "c1", NOW)
    assert [constraint(each) for each in grant.constraints] == [
        f"only at gateway {GATEWAY}, only tools/call send_email, only arguments with SHA-256 {ask.params_sha256}",
        "at most 1 call in 10m",
    ]
    assert grant.expires_at - grant.issued_at < ASK_SECONDS  # within the window of its limit
    cert = issue_delegation(WORLD.owner.signer(), grant)
    assert chain_allowed(allowed(ask, cert), ask, NOW) == (cert,)
    other = call(to="eve@example.org")
    with pytest.raises(UnusableAnswer):
        chain_allowed(allowed(other, cert), other, NOW)
    for changed in ({"max_calls": 2}, {"seconds": 3_600}):
        with pytest.raises(NotOffered):
            once.grant(ask, "c2", NOW, **changed)


@pytest.mark.holds("consent/offers", "definition")
@pytest.mark.parametrize("key", ["once", "like"])
def test_every_choice_ends_with_the_definition_to_which_the_tool_is_held(key: str) -> None:
    ask = an_ask(refusal=AskedRefusal("ratify_scope_denied", SCOPE, definition="d" * 64))
    offer = choice(ask, key)
    assert terms(offer).definition == "d" * 64
    cert = issue_delegation(WORLD.owner.signer(), offer.grant(ask, "c1", NOW))
    assert chain_allowed(allowed(ask, cert), ask, NOW) == (cert,)
    other = an_ask(refusal=AskedRefusal("ratify_scope_denied", SCOPE, definition="e" * 64))
    with pytest.raises(UnusableAnswer, match="another definition"):
        chain_allowed(allowed(other, cert), other, NOW)


@pytest.mark.holds("consent/offers", "similar-calls")
def test_calls_like_it_keep_what_they_are_about() -> None:
    ask = an_ask()
    like = choice(ask, "like")
    assert like.kept == ("/to",)
    grant = like.grant(ask, "c1", NOW, max_calls=7, seconds=1_800)
    assert MaxRate(7, 1_800) in grant.constraints

    def judged(**arguments: Any) -> str | None:
        facts = CallFacts(
            verifier_id=GATEWAY, method="tools/call", target="send_email", arguments=arguments, params_digest=bytes
        )
        return evaluate_call(terms(like).constraint(), "c1", VerifierContext(call=facts), NOW)

    assert judged(to="ada@example.org", subject="Again") is None
    assert judged(to="eve@example.org", subject="Hello") is not None
    assert judged(subject="Hello") is not None


@pytest.mark.holds("consent/offers", "similar-calls")
@pytest.mark.parametrize(
    ("ask", "offered"),
    [
        (call(to="ada"), True),
        (call(to=["ada", "bob"], cc=[]), True),
        (call(repo="a/b", title="x"), True),
        (call(), False),
        (call(to=""), False),
        (call(subject="ada"), False),
        (call(to="x" * 2_000), False),
        (an_ask({"name": "send_email"}), False),
        (an_ask({"name": "hello", "arguments": {"to": "x"}}, method="prompts/get"), False),
        (an_ask({"uri": "mail://inbox"}, method="resources/read", target="mail://inbox"), True),
    ],
)
def test_calls_like_it_are_offered_only_where_they_can_be_told(ask: Ask, offered: bool) -> None:
    assert ("like" in keys(ask)) is offered


@pytest.mark.holds("consent/offers", "similar-calls")
def test_calls_like_it_keep_what_was_shown_empty__it_could_be_anybody_in_the_next_ones() -> None:
    like = choice(call(to="ada@example.org", bcc=[], cc="", subject="Hello"), "like")
    assert set(like.kept) == {"/to", "/bcc", "/cc"}
    facts = CallFacts(
        verifier_id=GATEWAY, method="tools/call", target="send_email",
        arguments={"to": "ada@example.org", "bcc": ["eve@example.org"], "cc": ""}, params_digest=bytes,
    )  # fmt: skip
    assert evaluate_call(terms(like).constraint(), "c1", VerifierContext(call=facts), NOW) is not None


@pytest.mark.holds("consent/offers", "similar-calls")
@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (call(to="ada"), "“to” as in this one, “cc” and “bcc” may be added, anything"),
        (call(to="ada", cc=""), "“cc”, “to” as in this one, “bcc” may be added, anything"),
        (call(to="a", cc="", bcc=""), "“bcc”, “cc”, “to” as in this one, anything"),
        (call(repo="a/b", title="x"), "“repo” as in this one, anything"),
        (call(to="ada", replyTo="bob", emailAddress="x"), "“emailAddress”, “replyTo”, “to” as in this one, “cc”"),
    ],
)
def test_calls_like_it_say_who_else_could_be_written_to(ask: Ask, told: str) -> None:
    assert told in choice(ask, "like").words


@pytest.mark.holds("consent/offers", "similar-calls")
def test_calls_like_it_are_not_offered_where_one_that_says_whom_they_are_about_is_too_long_or_odd() -> None:
    for arguments in (
        {"to": "ada", "cc": ["x" * 2_000]},
        {"to": "ada", "email<x>": "b"},
        {"to": "ada", "e“mail” to": ""},
    ):
        assert keys(call(**arguments)) == ["once"]


@pytest.mark.holds("consent/offers", "caution")
@pytest.mark.parametrize(
    "ask",
    [
        call(to="bob", amount=480),
        call(to="bob", Price=480),
        call(to="bob", payment=[{"iban": "DE89"}]),
        call(to="bob", command="ls"),
        call(database="shop", SQL="select 1"),
        call(to="bob", value=1),
        call(to="bob", amount_cents=1),
        call(to="bob", amountUsd=1),
        call(to="bob", TOTAL2="1"),
        call(to="bob", totalamount="1"),
        call(to="bob", options={"accountNumber": "1"}),
        call(to="bob", priceInEUR="1"),
        call(**dict.fromkeys(("to", "\u0430mount"), 1)),
        call(**dict.fromkeys(("to", "\uff41\uff4d\uff4f\uff55\uff4e\uff54"), 1)),
        call(channel="x", program="ls", args=[]),
        call(repo="a/b", bash="ls"),
        call(project="p", statement="drop"),
        call(repo="a/b", pythonCode="x"),
        call(repo="a/b", source_code="x"),
        call(repo="a/b", runSQLQuery="x"),
        call(repo="a/b", code="x"),
        call(repo="a/b", bashcommand="x"),
    ],
)
def test_money_and_commands_are_allowed_one_by_one(ask: Ask) -> None:
    assert keys(ask) == ["once"]


@pytest.mark.parametrize(
    "name", ["description", "zip_code", "countryCode", "title", "summary", "body", "cashier", "encoder", "evaluation"]
)
def test_names_that_only_sound_like_money_or_commands_are_none(name: str) -> None:
    assert keys(call(to="bob", **{name: "x"})) == ["once", "like"]


def test_the_words_of_a_name_are_found_however_they_are_joined() -> None:
    for name in ("amountUsd", "amount_usd", "AMOUNT-USD2", "amount.usd", "AmountUSD"):
        assert parts_of(name) == ["amount", "usd"]
    assert parts_of("runSQLQuery2") == ["run", "sql", "query"]
    assert parts_of("メール") == []


@pytest.mark.holds("consent/offers", "caution")
def test_an_agent_that_is_new_is_allowed_one_call() -> None:
    assert keys(an_ask(), is_new=True) == ["once"]
    assert keys(an_ask()) == ["once", "like"]


@pytest.mark.holds("consent/offers", "limits")
@pytest.mark.parametrize("scope", ["identity:delegate", "comms:*", "*", "custom:*", "so run `accredit grant --x y` *"])
def test_what_would_hand_the_keys_over_is_not_offered__in_the_desk_s_words_alone(scope: str) -> None:
    ask = an_ask(refusal=replace(an_ask().refusal, required_scope=scope))
    with pytest.raises(NotOffered, match="accredit grant") as refused:
        offers_for(ask, is_new=False)
    assert scope == "*" or scope not in str(refused.value)


@pytest.mark.holds("consent/offers", "limits")
def test_a_name_that_other_verifiers_would_print_differently_is_not_offered() -> None:
    uri = "mail://inbox?a=1&b=2"
    with pytest.raises(NotOffered):
        offers_for(an_ask({"uri": uri}, method="resources/read", target=uri), is_new=False)


NAMES = st.sampled_from(["to", "cc", "repo", "amount", "command", "x", "a/b~c", "⟨", "<&>"])


@pytest.mark.slow
@pytest.mark.holds("consent/offers", "limits")
@given(st.dictionaries(NAMES, st.text(max_size=9) | st.integers(0, 9), max_size=4), st.booleans())
def test_each_choice_is_signed_as_offered_and_is_good_for_the_call(arguments: dict[str, Any], is_new: bool) -> None:
    ask = replace(an_ask(), params=PARAMS | {"arguments": arguments})
    for offer in offers_for(ask, is_new=is_new):
        assert offer.button.startswith("Allow")
        for length in {offer.seconds, MAX_LIKE_SECONDS} if offer.key != "once" else {offer.seconds}:
            grant = offer.grant(ask, "c1", NOW, seconds=length)
            cert = issue_delegation(WORLD.owner.signer(), grant)
            assert cert.scope == (SCOPE,)
            assert 0 < cert.expires_at - cert.issued_at < length
            assert MaxRate(offer.max_calls, length) in cert.constraints
            assert terms(offer).gateway == GATEWAY
            assert terms(offer).target == (ask.target,)
            assert chain_allowed(allowed(ask, cert), ask, NOW) == (cert,)


@pytest.mark.parametrize(
    "changes", [{"max_calls": MAX_LIKE_CALLS + 1}, {"seconds": MAX_LIKE_SECONDS + 1}, {"seconds": 1}]
)
def test_more_than_is_offered_is_not_signed(changes: dict[str, int]) -> None:
    with pytest.raises(NotOffered):
        choice(an_ask(), "like").grant(an_ask(), "c1", NOW, **changes)
