"""What the gateway asks an authorization server for, and which answers it takes for a token."""

import json
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

import pytest
from tests.world.issuer import IssuerKey, claims

from accredit.canonical import encode_base64url
from accredit.errors import AccessTokenError, InvalidToken
from accredit.limits import MAX_TOKEN_BYTES
from accredit.tokens.access import (
    MAX_TOLD_TOKEN_SECONDS,
    UNTOLD_TOKEN_SECONDS,
    AccessGrant,
    AccessToken,
    SubjectToken,
    error_word,
    exchangeable,
    read_access_token,
    subject_key,
)
from accredit.tokens.claims import VerifiedToken

pytestmark = [pytest.mark.holds("tokens"), pytest.mark.holds("tokens/access")]

SUBJECT = SubjectToken("caller.s.own", b"k")
JWT_TYPE = "urn:ietf:params:oauth:token-type:jwt"


def grant(**changes: Any) -> AccessGrant:
    given: dict[str, Any] = {
        "type": "client_credentials",
        "token_url": "https://idp.example/t",
        "client_id": "gw",
        "client_secret": "s",
        **changes,
    }
    return AccessGrant(**given)


def answer(**changes: Any) -> bytes:
    given = {"access_token": "a.b-c_d~e+f/g==", "token_type": "Bearer", "expires_in": 600, **changes}
    return json.dumps({name: value for name, value in given.items() if value is not None}).encode()


def test_the_clients_id_and_secret_are_encoded_each_before_they_are_put_together() -> None:
    # A colon in an id would end it early, and RFC 6749 section 2.3.1 has both form-encoded.
    assert grant(client_id="a:b c", client_secret="p%+é").authorization == "Basic YSUzQWIrYzpwJTI1JTJCJUMzJUE5"


def test_what_is_asked_for_is_said_and_nothing_else() -> None:
    asked = grant(audience="https://a?b&c", scope="x y", resource="urn:r").form(None)
    assert parse_qs(asked.decode()) == {
        "grant_type": ["client_credentials"],
        "audience": ["https://a?b&c"],
        "resource": ["urn:r"],
        "scope": ["x y"],
    }
    assert parse_qs(grant().form(None).decode()) == {"grant_type": ["client_credentials"]}
    exchanged = parse_qs(grant(type="token_exchange", audience="m").form(SUBJECT).decode())
    assert exchanged == {
        "grant_type": ["urn:ietf:params:oauth:grant-type:token-exchange"],
        "subject_token": ["caller.s.own"],
        "subject_token_type": ["urn:ietf:params:oauth:token-type:access_token"],
        "requested_token_type": ["urn:ietf:params:oauth:token-type:access_token"],
        "audience": ["m"],
    }


@pytest.mark.parametrize("kind", ["Bearer", "bearer", "BEARER"])
def test_a_good_answer_is_a_token(kind: str) -> None:
    token = read_access_token(answer(token_type=kind, refresh_token="r", scope=["odd"]))
    assert (token.text, token.seconds) == ("a.b-c_d~e+f/g==", 600)
    assert token.line == b"Authorization: Bearer a.b-c_d~e+f/g==\r\n"
    assert read_access_token(answer(expires_in=None)).seconds == UNTOLD_TOKEN_SECONDS


@pytest.mark.holds("tokens/access", "members", "token-type", "spelling", "expiry")
@pytest.mark.parametrize(
    "changes",
    [
        {"access_token": None},
        {"access_token": ""},
        {"access_token": 7},
        {"access_token": "a b"},
        {"access_token": "a\r\nX-Admin: 1"},
        {"access_token": "a\n"},
        {"access_token": "ä"},
        {"access_token": "a=b"},
        {"access_token": "="},
        {"access_token": "x" * (MAX_TOKEN_BYTES + 1)},
        {"token_type": None},
        {"token_type": "mac"},
        {"token_type": "DPoP"},
        {"token_type": "N_A"},
        {"token_type": "Bearer\n"},
        {"token_type": ["Bearer"]},
        {"expires_in": 0},
        {"expires_in": -1},
        {"expires_in": "600"},
        {"expires_in": 600.5},
        {"expires_in": True},
        {"expires_in": MAX_TOLD_TOKEN_SECONDS + 1},
        {"expires_in": 10**40},
    ],
)
def test_an_answer_that_says_anything_else_is_none_and_is_not_quoted(changes: dict[str, Any]) -> None:
    with pytest.raises(AccessTokenError) as refused:
        read_access_token(answer(**{"access_token": "marked", **changes}))
    assert "marked" not in str(refused.value)


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{}", b"\xff", b'{"access_token":', b"[" * 100_000])
def test_bytes_that_are_no_answer_are_none(body: bytes) -> None:
    with pytest.raises(AccessTokenError):
        read_access_token(body)


@pytest.mark.holds("tokens/access", "exchange")
def test_of_an_exchange_the_kind_of_token_is_said_and_it_is_not_the_callers_own() -> None:
    for kind in ("urn:ietf:params:oauth:token-type:access_token", JWT_TYPE):
        assert read_access_token(answer(issued_token_type=kind), SUBJECT).seconds == 600
    for kind in (None, "", "urn:ietf:params:oauth:token-type:refresh_token", "access_token", 1):
        with pytest.raises(AccessTokenError):
            read_access_token(answer(issued_token_type=kind), SUBJECT)
    with pytest.raises(AccessTokenError):
        read_access_token(answer(issued_token_type=JWT_TYPE, access_token=SUBJECT.text), SUBJECT)


def test_of_a_refusal_only_a_word_of_the_specification_is_quoted() -> None:
    assert error_word(b'{"error":"invalid_grant","error_description":"secret"}') == "invalid_grant"
    for body in (b'{"error":"the token eyJ..."}', b'{"error":1}', b"", b"invalid_grant", b"\xff"):
        assert error_word(body) == ""


def test_nothing_shows_a_secret_or_a_token() -> None:
    made = [grant(client_secret="marked"), SubjectToken("marked", b""), AccessToken("marked", 1)]
    verified = VerifiedToken("i", "s", 1, "00")
    assert "marked" not in repr([*made, exchangeable(verified, "marked", b"k")])
    assert exchangeable(verified, "marked", b"k").carried.text == "marked"


def test_tokens_that_say_the_same_have_one_key_and_any_other_claim_another_one() -> None:
    key = IssuerKey()

    def of(**changes: object) -> bytes:
        return subject_key(key.sign(claims(**changes)))

    assert of() == of(jti="other", iat=1, exp=2, nbf=3) == of(jti=None)
    others = [of(sub="b"), of(iss="b"), of(scope="x"), of(scope="y"), of(tenant="b"), of(act={"sub": "b"}), of(aud="b")]
    assert len({of(), *others}) == len(others) + 1


@pytest.mark.parametrize("nested", ["[" * 4_000 + "]" * 4_000, "x"])
def test_claims_that_can_t_be_read_refuse_the_token_and_fail_nothing_else(nested: str) -> None:
    """A token may have been verified where there was more room to read what nests, for another server, and is
    remembered."""
    header, claims_text = (
        encode_base64url(part.encode()).decode() for part in ('{"alg":"ES256"}', f'{{"x":{nested}}}')
    )
    with pytest.raises(InvalidToken) if nested == "x" else suppress(InvalidToken):
        subject_key(f"{header}.{claims_text}.AAAA")
