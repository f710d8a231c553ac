"""A desk that lies can waste time, and win nothing."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.asked import GATEWAY, PARAMS, SCOPE, WORLD, allowed, an_ask, once
from tests.world.delegations import NOW, tampered

from accredit.consent.answers import Answer, chain_allowed, read_answer
from accredit.errors import UnusableAnswer
from accredit.limits import MAX_CONSENT_ANSWER_BYTES
from accredit.ratify.constraints import MaxAmount, MaxRate

ASK = an_ask()
GOOD = allowed(ASK)
CERT = GOOD.certificates[0]


def test_an_answer_that_allows_the_call_gives_its_chain() -> None:
    assert chain_allowed(read_answer(GOOD.encode()), ASK, NOW) == GOOD.certificates


@pytest.mark.holds("consent/answers", "decoding")
@pytest.mark.parametrize("decision", ["deny", "later"])
def test_no_and_later_allow_nothing(decision: Any) -> None:
    answer = read_answer(Answer(ask=ASK.digest.hex(), decision=decision, reason="no").encode())
    with pytest.raises(UnusableAnswer):
        chain_allowed(answer, ASK, NOW)


@pytest.mark.holds("consent/answers", "decoding")
@pytest.mark.parametrize(
    "changes",
    [
        {"decision": "deny"},
        {"decision": "ALLOW"},
        {"certificates": []},
        {"certificates": [json.loads(CERT.encode())] * 9},
        {"certificates": [{}]},
        {"ask": "7"},
        {"reason": "x" * 501},
        {"more": 1},
    ],
)
def test_what_is_not_written_as_an_answer_is_none(changes: dict[str, Any]) -> None:
    with pytest.raises(UnusableAnswer):
        read_answer(json.dumps(json.loads(GOOD.encode()) | changes).encode())


@pytest.mark.holds("consent/answers", "decoding")
def test_a_longer_text_than_an_answer_is_not_read() -> None:
    with pytest.raises(UnusableAnswer, match=str(MAX_CONSENT_ANSWER_BYTES)):
        read_answer(GOOD.encode().ljust(MAX_CONSENT_ANSWER_BYTES + 1))


@given(st.binary() | st.integers(0, 14_000).map(lambda at: GOOD.encode()[: at % len(GOOD.encode())]))
def test_any_bytes_are_an_answer_or_one_error(data: bytes) -> None:
    with pytest.raises(UnusableAnswer):
        read_answer(data)


@pytest.mark.holds("consent/answers", "ask")
def test_an_answer_to_another_ask_is_none_to_this() -> None:
    with pytest.raises(UnusableAnswer, match="another ask"):
        chain_allowed(allowed(an_ask()), ASK, NOW)


@pytest.mark.holds("consent/answers", "chain")
@pytest.mark.parametrize(
    "cert",
    [
        WORLD.grant(SCOPE, to=WORLD.sub, constraints=once(ASK)),
        WORLD.grant(SCOPE, issuer=WORLD.sub, constraints=once(ASK)),
        WORLD.grant(SCOPE, constraints=once(ASK), begins=NOW - 9, ends=NOW - 1),
        WORLD.grant(SCOPE, constraints=once(ASK), begins=NOW + 9),
        tampered(CERT, scope=("mcp:tool",)),
        tampered(CERT, expires_at=NOW + 999),
    ],
    ids=["another key", "a stranger's", "over", "not yet", "scope", "end"],
)
def test_a_delegation_that_proves_nothing_for_this_key_is_not_used(cert: Any) -> None:
    with pytest.raises(UnusableAnswer):
        chain_allowed(allowed(ASK, cert), ASK, NOW)


def test_whoever_has_a_key_may_answer_where_nobody_was_named() -> None:
    ask = an_ask(principals=())
    stranger = WORLD.grant(SCOPE, issuer=WORLD.sub, constraints=once(ask))
    assert chain_allowed(allowed(ask, stranger), ask, NOW) == (stranger,)


@pytest.mark.holds("consent/answers", "gateway")
@pytest.mark.parametrize(
    "constraints",
    [
        (),
        (MaxRate(1, 600),),
        once(ASK, gateway="another"),
        once(ASK, method="prompts/get"),
        once(ASK, target=("pay",)),
        once(ASK, params_sha256="0" * 64),
        (MaxAmount(max_amount=480, currency="EUR"), *once(ASK, params_sha256="0" * 64)),
        (*once(ASK), *once(ASK, gateway="another")),
    ],
)
def test_a_delegation_for_another_call_or_another_place_is_not_used(constraints: Any) -> None:
    with pytest.raises(UnusableAnswer):
        chain_allowed(allowed(ASK, WORLD.grant(SCOPE, constraints=constraints)), ASK, NOW)


def test_what_only_the_gateway_knows_is_left_to_it() -> None:
    cert = WORLD.grant(SCOPE, constraints=(MaxAmount(max_amount=480, currency="EUR"), *once(ASK)))
    assert chain_allowed(allowed(ASK, cert), ASK, NOW) == (cert,)


@pytest.mark.holds("consent/answers", "scope")
def test_a_delegation_without_the_scope_is_not_used() -> None:
    with pytest.raises(UnusableAnswer, match="scope"):
        chain_allowed(allowed(ASK, WORLD.grant("comms:email:read", constraints=once(ASK))), ASK, NOW)


def test_the_call_is_the_one_that_was_asked_for() -> None:
    assert (ASK.gateway.id, ASK.params) == (GATEWAY, PARAMS)
