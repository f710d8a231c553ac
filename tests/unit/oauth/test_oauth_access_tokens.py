"""An access token of the front door: nothing else that the key signs is one, and it is good at one endpoint."""

import json
from base64 import urlsafe_b64encode

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.issuer import NOW, IssuerKey, key_set_text

from accredit.errors import InvalidToken
from accredit.oauth.access_tokens import FrontToken, is_front_token, mint_access_token, verify_access_token
from accredit.tokens.issued import SessionGrant, issue_session_token
from accredit.tokens.key_sets import read_key_set
from accredit.tokens.verify import TOKEN_LEEWAY_SECONDS

ISSUER, MAIL = "https://mcp.example.com", "https://mcp.example.com/mcp/mail"
KEY = IssuerKey(None)
KEYS = read_key_set(key_set_text(KEY))
TOKEN = FrontToken(
    issuer=ISSUER,
    subject="0a" * 16,
    resource=MAIL,
    client_id="https://claude.ai/c",
    login="0b" * 32,
    token_id="t1",
    scope="email:read email:send",
    issued_at=NOW,
    expires_at=NOW + 900,
)
CLAIMS: dict[str, object] = {
    "iss": ISSUER,
    "sub": "a",
    "aud": MAIL,
    "client_id": "https://claude.ai/c",
    "jti": "t1",
    "sid": "0b" * 32,
    "iat": NOW,
    "exp": NOW + 900,
}


def reason(text: str, now: int = NOW, resource: str = MAIL) -> str:
    with pytest.raises(InvalidToken) as caught:
        verify_access_token(text, ISSUER, resource, KEYS, now)
    return caught.value.reason


def signed(key: IssuerKey = KEY, typ: str = "at+jwt", **changes: object) -> str:
    return signed_with(changes, key, typ)


def signed_with(changes: dict[str, object], key: IssuerKey = KEY, typ: str = "at+jwt") -> str:
    found = {name: value for name, value in {**CLAIMS, **changes}.items() if value is not None}
    return key.sign(found, {"typ": typ})


def test_a_token_says_what_was_granted() -> None:
    text = mint_access_token(KEY.private, TOKEN)
    assert verify_access_token(text, ISSUER, MAIL, KEYS, NOW) == TOKEN
    assert is_front_token(text, ISSUER)
    assert jwt.get_unverified_header(text)["typ"] == "at+jwt"
    # and PyJWT, which knows nothing of us, reads it so
    found = jwt.decode(
        text, KEY.private.public_key(), ["ES256"], audience=MAIL, options={"verify_exp": False, "verify_iat": False}
    )
    assert (found["client_id"], found["scope"], found["sub"]) == (
        "https://claude.ai/c",
        "email:read email:send",
        "0a" * 16,
    )


@pytest.mark.holds("oauth/access_tokens", "type")
def test_no_other_token_of_the_same_key_passes_for_one() -> None:
    grant = SessionGrant(issuer=ISSUER, subject="a", audience=MAIL, issued_at=NOW, expires_at=NOW + 9, token_id="t")
    assert "typ" in reason(issue_session_token(KEY.private, grant))
    for typ in ("JWT", "", "at+jwtx", "logout+jwt"):
        assert "typ" in reason(signed(typ=typ))
    assert verify_access_token(signed(typ="application/at+jwt"), ISSUER, MAIL, KEYS, NOW)


@pytest.mark.holds("oauth/access_tokens", "signature")
def test_nobody_else_signs_one() -> None:
    assert "signature" in reason(signed(IssuerKey(None)))
    assert "signature" in reason(signed(IssuerKey(None, "RS256")))
    head, claims, signature = signed().split(".")
    unsigned = urlsafe_b64encode(json.dumps({"alg": "none", "typ": "at+jwt"}).encode()).decode().rstrip("=")
    assert "signature" in reason(f"{unsigned}.{claims}.{signature}")
    assert "signature" in reason(f"{head}.{urlsafe_b64encode(b'{}').decode().rstrip('=')}.{signature}")


@pytest.mark.holds("oauth/access_tokens", "issuer")
def test_another_issuers_is_none() -> None:
    other = signed(iss="https://evil.example")
    assert reason(other) == "another issuer"
    assert not is_front_token(other, ISSUER)


@pytest.mark.holds("oauth/access_tokens", "audience")
def test_a_token_for_one_endpoint_is_not_good_at_another() -> None:
    assert reason(signed(), resource=ISSUER + "/mcp/bank") == "another audience"
    assert reason(signed(aud=ISSUER)) == "another audience"
    assert "claims" in reason(signed(aud=[MAIL, ISSUER + "/mcp/bank"]))


@pytest.mark.holds("oauth/access_tokens", "times")
def test_a_token_is_good_for_its_time() -> None:
    end = NOW + 900 + TOKEN_LEEWAY_SECONDS
    assert verify_access_token(signed(), ISSUER, MAIL, KEYS, end - 1)
    assert reason(signed(), end) == "expired"
    assert "future" in reason(signed(), NOW - TOKEN_LEEWAY_SECONDS - 1)


@pytest.mark.holds("oauth/access_tokens", "whole")
@pytest.mark.parametrize(
    "change", [{name: None} for name in CLAIMS if name != "iss"] + [{"jti": ""}, {"sid": "g1"}, {"exp": "1"}]
)
def test_a_token_that_names_nobody_is_none(change: dict[str, object]) -> None:
    assert "claims" in reason(signed_with(change))


@pytest.mark.holds("oauth/access_tokens", "whole")
def test_a_bound_token_is_not_taken_for_a_bearers() -> None:
    assert "cnf" in reason(signed(cnf={"jkt": "a"}))


@pytest.mark.parametrize("text", ["", "a", "a.b", "a.b.c", "....", "ä.b.c", "e30.e30.e30"])
def test_what_is_no_token_is_not_ours(text: str) -> None:
    assert not is_front_token(text, ISSUER)


@given(st.text("aZ0._-=é\x00", max_size=40) | st.text(max_size=40))
def test_any_text_is_refused(text: str) -> None:
    assert not is_front_token(text, ISSUER)
    reason(text)


def test_a_token_that_was_verified_is_current_as_long_as_it_would_be_verified_again() -> None:
    assert TOKEN.is_current(NOW - TOKEN_LEEWAY_SECONDS)
    assert TOKEN.is_current(NOW + 899 + TOKEN_LEEWAY_SECONDS)
    assert not TOKEN.is_current(NOW - 1 - TOKEN_LEEWAY_SECONDS)
    assert not TOKEN.is_current(NOW + 900 + TOKEN_LEEWAY_SECONDS)
