"""What an issuer says about a token that is no JWT, and which tokens it is asked about."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.issuer import AUDIENCE, NOW, IssuerKey, claims, key_set_text

from accredit.errors import AccessTokenError, ConfigurationError, InsufficientScope, InvalidToken
from accredit.limits import MAX_TOKEN_BYTES
from accredit.tokens.claims import VerifiedToken
from accredit.tokens.introspection import (
    INTROSPECTED_SECONDS,
    Introspection,
    may_be_introspected,
    question,
    read_introspection,
)
from accredit.tokens.key_sets import read_key_set
from accredit.tokens.verify import Issuer, TokenVerifier

NAME = "https://issuer.example"
ASKED = Introspection("https://issuer.example/introspect", "gw", "s3cret")
ISSUER = Issuer(NAME, AUDIENCE, introspection=ASKED)
OPAQUE = "2YotnFZFEjr1zCsicMWpAA"


def said(**changes: object) -> bytes:
    return json.dumps(claims(NAME, **{"active": True, "token_type": "Bearer", **changes})).encode()


def judged(body: bytes, issuer: Issuer = ISSUER, now: int = NOW) -> VerifiedToken:
    verifier = TokenVerifier([issuer])
    return verifier.verify_introspected(verifier.read(OPAQUE), read_introspection(body, NAME, now), now)


def refusal(body: bytes, issuer: Issuer = ISSUER, now: int = NOW) -> str:
    with pytest.raises(InvalidToken) as refused:
        judged(body, issuer, now)
    return refused.value.reason


@pytest.mark.holds("tokens/verify", "introspected")
def test_a_token_that_its_issuer_calls_active_is_good_as_a_jwt_with_these_claims_is() -> None:
    token = judged(said(scope="a b", client_id="ignored", username="ignored", allowed_tools=["list"], session="one"))
    assert (token.issuer, token.subject, token.expires_at, token.jti) == (NAME, "agent-7", NOW + 600, "token-1")
    assert (token.scopes, token.allowed_tools, token.session) == ({"a", "b"}, {"list"}, "one")
    assert (token.introspected, token.kid) == (True, None)
    assert judged(said(iss=None)).issuer == NAME
    assert judged(said(exp=None)).expires_at == NOW + INTROSPECTED_SECONDS


@pytest.mark.holds("tokens/introspection", "active")
@pytest.mark.parametrize("body", [b'{"active": false}', said(active=False)])
def test_a_token_that_is_not_active_is_refused(body: bytes) -> None:
    assert "not active" in refusal(body)


@pytest.mark.holds("tokens/introspection", "answer")
@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"null", b"[]", b"<html>", b'{"active": "true"}', b'{"active": 1}', b'{"active": null}', b"\xff"],
)
def test_what_does_not_say_whether_it_is_active_is_no_answer(body: bytes) -> None:
    with pytest.raises(AccessTokenError):
        read_introspection(body, NAME, NOW)


@pytest.mark.holds("tokens/introspection", "same-rules")
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"aud": "https://other.example"}, "another audience"),
        ({"aud": None}, "claims"),
        ({"aud": []}, "another audience"),
        ({"sub": None}, "claims"),
        ({"sub": ""}, "claims"),
        ({"iss": "https://other.example"}, "of another one"),
        ({"iss": ""}, "claims"),
        ({"exp": NOW - 31}, "expired"),
        ({"exp": "soon"}, "claims"),
        ({"nbf": NOW + 31}, "not valid yet"),
        ({"cnf": {"jkt": "x"}}, "bound to a key"),
    ],
)
def test_what_is_wrong_with_a_jwt_is_wrong_with_an_answer(changes: dict[str, object], why: str) -> None:
    assert why in refusal(said(**changes))


def test_null_is_not_absent() -> None:
    body = said()[:-1] + b', "iss": null}'
    assert "claims" in refusal(body)


@pytest.mark.holds("tokens/introspection", "bearer")
@pytest.mark.parametrize("changes", [{"token_type": "DPoP"}, {"token_type": "mac"}, {"token_use": "refresh_token"}])
def test_a_token_for_something_else_is_no_access_token(changes: dict[str, object]) -> None:
    assert "no bearer token" in refusal(said(**changes))
    assert judged(said(token_type="bearer", token_use="access_token")).subject == "agent-7"


def test_a_server_takes_what_is_for_it_alone_and_an_issuer_s_scopes_are_asked_for() -> None:
    body = said(aud=f"{AUDIENCE}/mail")
    assert "another audience" in refusal(body)
    there = Issuer(NAME, AUDIENCE, server_audience=f"{AUDIENCE}/mail", introspection=ASKED)
    assert judged(body, there).subject == "agent-7"
    with pytest.raises(InsufficientScope):
        judged(said(scope="a"), Issuer(NAME, AUDIENCE, required_scopes=("b",), introspection=ASKED))


@pytest.mark.holds("tokens/introspection", "not-a-jwt")
def test_a_jwt_of_a_known_issuer_is_never_sent_however_broken_it_is() -> None:
    key, other = IssuerKey(), IssuerKey("other")
    verifier = TokenVerifier([ISSUER, Issuer("https://second.example", AUDIENCE)])
    good = key.sign(claims(NAME))
    assert verifier.read(good).introspection is None
    head, body, signature = good.split(".")
    for text in (other.sign(claims(NAME)), key.sign(claims("https://second.example"))):
        presented = verifier.read(text)
        assert presented.introspection is None
        with pytest.raises(InvalidToken):
            verifier.verify(presented, read_key_set(key_set_text(IssuerKey("third"))), NOW)
    broken = (f"{head}.{body}.", f"x.{body}.{signature}", f".{body}.", f"{head}.{body}.{signature}=")
    broken += (
        f"{good}.",
        f"{good}.x",
        f"{head}.{body}",
        f"{head}.{body[:-7]}.{signature}",
        f"{body}.{head}.{signature}",
    )
    for text in (
        *broken,
        key.sign(claims(NAME), {"jku": "https://x.example"}),
        key.sign(claims(NAME), {"crit": ["x"]}),
    ):
        with pytest.raises(InvalidToken):
            verifier.read(text)


@pytest.mark.holds("tokens/introspection", "not-a-jwt")
@pytest.mark.parametrize(
    "payload",
    [
        {"iss": [NAME]},
        [{"iss": NAME}],
        f'\ufeff{{"iss": "{NAME}"}}',
        f'{{"iss": "{NAME}", "a": NaN}}',
        f'{{"iss": "{NAME}"}} x',
        f'{{"iss": "{NAME}", "iss": "https://unknown.example"}}',
        f'{{"iss": "{NAME}", "a": NaN}}'.replace("/", "\\/"),
        json.dumps({"iss": NAME}).encode("utf-16"),
    ],
)
def test_nor_is_one_that_only_another_reader_takes_for_a_jwt_of_that_issuer(payload: object) -> None:
    text = payload if isinstance(payload, str | bytes) else json.dumps(payload)
    part = base64.urlsafe_b64encode(text.encode() if isinstance(text, str) else text).rstrip(b"=").decode()
    for token in (f"e30.{part}.AA", f"e30.{part}", f"{part}..a.b.c"):
        assert not may_be_introspected(token, [NAME])
        assert may_be_introspected(token, ["https://third.example"])


@given(st.text("ab.=~-_+/" + "eyJ", max_size=60))
def test_whatever_a_token_is_it_may_be_sent_or_not(text: str) -> None:
    assert may_be_introspected(text, [NAME]) in (True, False)


@pytest.mark.holds("tokens/introspection", "not-a-jwt")
def test_what_a_header_can_not_bring_is_never_sent() -> None:
    for text in ("", "a b", "é", "a\n", "a" * (MAX_TOKEN_BYTES + 1), "=", 'a"b', "a&token=b"):
        assert not may_be_introspected(text, [NAME])
        with pytest.raises(InvalidToken):
            TokenVerifier([ISSUER]).read(text)
    for text in (OPAQUE, "a", "a.b", "a.b.c", "a.b.c.d.e", IssuerKey().sign(claims("https://unknown.example"))):
        assert TokenVerifier([ISSUER]).read(text).introspection == ASKED
        with pytest.raises(InvalidToken):
            TokenVerifier([Issuer(NAME, AUDIENCE)]).read(text)


@pytest.mark.holds("tokens/verify", "introspected")
def test_one_issuer_alone_is_shown_tokens_that_do_not_say_whose_they_are() -> None:
    with pytest.raises(ConfigurationError, match="each would be shown the other's tokens"):
        TokenVerifier([ISSUER, Issuer("https://second.example", AUDIENCE, introspection=ASKED)])


def test_the_question_is_a_form_and_the_secret_is_shown_nowhere() -> None:
    assert question("a+/=~") == b"token=a%2B%2F%3D~&token_type_hint=access_token"
    assert ASKED.authorization == "Basic Z3c6czNjcmV0"
    shown = f"{ASKED!r} {ISSUER!r} {TokenVerifier([ISSUER]).read(OPAQUE)!r}"
    assert "s3cret" not in shown
    assert OPAQUE not in shown


@given(
    st.binary(max_size=120) | st.dictionaries(st.text(max_size=9), st.text(max_size=9)).map(lambda each: said(**each))
)
def test_whatever_an_issuer_says_is_good_or_refused(body: bytes) -> None:
    try:
        found = read_introspection(body, NAME, NOW)
    except (InvalidToken, AccessTokenError):
        return
    assert found.iss == NAME
    assert found.sub


@given(st.text(max_size=60) | st.lists(st.text("abcXYZ019-_=", max_size=40), max_size=6).map(".".join))
def test_whatever_comes_as_a_token_is_sent_or_not__and_nothing_escapes(text: str) -> None:
    verifier = TokenVerifier([ISSUER])
    try:
        presented = verifier.read(text)
    except InvalidToken:
        return
    assert presented.introspection is not None
    assert question(text).isascii()
