"""A client's ask is read strictly, and an answer to it lets that client do what was asked, and no more."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.asked import SCOPE, WORLD, a_client_ask, allowed, an_ask, let_in, standing
from tests.world.delegations import NOW, tampered

from accredit.consent.held import MAX_CLIENT_SECONDS, MAX_CLIENT_TOOLS, AskingClient, chain_of, client_grant, read_held
from accredit.errors import AskError, NotOffered, UnusableAnswer
from accredit.ratify import DelegationCert, issue_delegation
from accredit.ratify.constraints import MaxRate

ASK = a_client_ask()


def cert(**changes: Any) -> DelegationCert:
    members: dict[str, Any] = {"constraints": standing(ASK), "ends": ASK.until}
    return WORLD.grant(SCOPE, **members | changes)


def test_both_kinds_of_ask_are_read_as_they_were_written() -> None:
    call = an_ask()
    assert read_held(ASK.encode()) == ASK
    assert read_held(call.text()) == call


@given(st.binary() | st.integers(0, 9_000).map(lambda at: ASK.text()[: at % len(ASK.text())]))
def test_any_bytes_are_an_ask_or_one_error(data: bytes) -> None:
    with pytest.raises(AskError):
        read_held(data)


@pytest.mark.parametrize(
    "changes",
    [
        {"tools": []},
        {"tools": [{"name": f"t{number}"} for number in range(MAX_CLIENT_TOOLS + 1)]},
        {"tools": [{"name": ""}]},
        {"scopes": []},
        {"client": {"id": "", "name": "x", "redirect_uri": "x:y"}},
        {"accredit_client_ask": 2},
        {"more": 1},
    ],
)
def test_what_is_not_written_as_a_client_s_ask_is_none(changes: dict[str, Any]) -> None:
    with pytest.raises(AskError):
        read_held(json.dumps(json.loads(ASK.text()) | changes).encode())


@pytest.mark.parametrize(
    ("id", "redirect", "told"),
    [
        ("https://claude.ai/c", "https://claude.ai/back", ("claude.ai", "claude.ai", False)),
        ("https://claude.ai@evil.example/c", "https://EVIL.example:1/", ("evil.example", "evil.example", False)),
        ("accredit-client:" + "0" * 32, "http://127.0.0.1:7/", ("", "127.0.0.1", True)),
        ("https://a.example/c", "http://[::1]/", ("a.example", "::1", True)),
        ("https://a.example/c", "cursor://anysphere/back", ("a.example", "anysphere", False)),
        ("https://a.example/c", "com.app:/back", ("a.example", "com.app", True)),
        ("https://[bad", "https://[bad", ("", "https", True)),
    ],
)
def test_the_host_that_a_person_is_shown_is_the_one_that_gets_the_answer(
    id: str, redirect: str, told: tuple[str, str, bool]
) -> None:
    client = AskingClient(id, "Claude", redirect)
    assert (client.host, client.redirect_host, client.returns_here) == told


def test_programs_are_told_what_is_asked() -> None:
    told = ASK.json()
    assert set(told) == {"kind", "client", "endpoint", "tools", "scopes", "expires", "until"}
    assert told["client"] == {
        "id": "https://claude.ai/oauth/client",
        "name": "Claude",
        "host": "claude.ai",
        "redirect_host": "claude.ai",
    }


def test_an_answer_lets_the_client_do_what_was_asked() -> None:
    answer = let_in(ASK)
    assert chain_of(answer, ASK, NOW) == answer.certificates
    fewer = cert(constraints=(MaxRate(5, 60), *standing(ASK, target=("send_email",))), ends=NOW + 60)
    assert chain_of(let_in(ASK, fewer), ASK, NOW) == (fewer,)
    call = an_ask()
    yes = allowed(call)
    assert chain_of(yes, call, NOW) == yes.certificates


@pytest.mark.holds("consent/held", "answer")
def test_a_no__and_an_answer_to_another_ask__let_nobody_in() -> None:
    with pytest.raises(UnusableAnswer, match="does not allow"):
        chain_of(let_in(ASK, decision="deny", certificates=()), ASK, NOW)
    with pytest.raises(UnusableAnswer, match="another ask"):
        chain_of(let_in(ASK), a_client_ask(), NOW)


@pytest.mark.holds("consent/held", "call")
def test_an_answer_about_a_call_is_held_against_that_call() -> None:
    with pytest.raises(UnusableAnswer, match="another ask"):
        chain_of(allowed(an_ask()), an_ask(), NOW)


@pytest.mark.holds("consent/held", "client")
@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (cert(to=WORLD.sub), "another key"),
        (cert(issuer=WORLD.sub), None),
        (tampered(cert(), expires_at=NOW + 9), "proves nothing"),
        (cert(ends=NOW - 1, begins=NOW - 9), "proves nothing"),
        (cert(ends=ASK.until + 1), "more than"),
        (WORLD.grant(SCOPE, "comms:email:read", constraints=standing(ASK), ends=ASK.until), None),
        (WORLD.grant(SCOPE, "identity:delegate", constraints=standing(ASK), ends=ASK.until), "more than"),
        (cert(constraints=()), "certain calls"),
        (cert(constraints=(MaxRate(1, 60),)), "certain calls"),
        (cert(constraints=standing(ASK, gateway="other")), "certain calls"),
        (cert(constraints=standing(ASK, method="prompts/get")), "certain calls"),
        (cert(constraints=standing(ASK, target=("send_email", "delete_all"))), "certain calls"),
    ],
)
def test_a_delegation_of_more_than_was_asked_for_is_not_kept(changed: DelegationCert, why: str | None) -> None:
    if changed.issuer_id == WORLD.sub.id:  # who may say yes is the gateway's to know: each call is judged for that
        assert chain_of(let_in(ASK, changed), ASK, NOW) == (changed,)
        return
    with pytest.raises(UnusableAnswer, match=why):
        chain_of(let_in(ASK, changed), ASK, NOW)


def test_what_a_person_signs_for_a_client_is_what_was_asked__and_its_answer_lets_it_in() -> None:
    grant = client_grant(ASK, "c0" * 16, NOW)
    signed = issue_delegation(WORLD.owner.signer(), grant, vocabulary=ASK.scopes)
    assert chain_of(let_in(ASK, signed), ASK, NOW) == (signed,)


@pytest.mark.parametrize(
    "changes",
    [
        {"scopes": (SCOPE, "identity:delegate")},
        {"scopes": ("comms:email:delete",)},
        {"scopes": ("comms:email:*",)},
        {"until": NOW + MAX_CLIENT_SECONDS + 1},
        {"until": NOW},
    ],
)
def test_a_gateway_that_asks_for_more_than_a_client_is_given_gets_no_signature(changes: dict[str, Any]) -> None:
    with pytest.raises(NotOffered):
        client_grant(a_client_ask(**changes), "c0" * 16, NOW)
