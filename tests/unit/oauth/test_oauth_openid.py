"""What an identity provider says: an id token that was made for another login, client or issuer, or by another key,
names nobody; and no bytes of its raise past the errors that are told of."""

import contextlib
import hashlib
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.issuer import NOW, IssuerKey

from accredit.errors import KeySetError, OAuthError
from accredit.oauth import openid
from accredit.oauth.forms import Parameters
from accredit.oauth.requests import fits
from accredit.tokens.key_sets import read_key_set

ISSUER, CLIENT, SECRET = "https://idp.example", "accredit", "s" * 43
KEY, OTHER = IssuerKey(), IssuerKey()
KEYS = read_key_set(json.dumps({"keys": [KEY.jwk()]}).encode())
METADATA = {
    "issuer": ISSUER,
    "jwks_uri": f"{ISSUER}/jwks",
    "authorization_endpoint": f"{ISSUER}/authorize?a=b",
    "token_endpoint": f"{ISSUER}/token",
    "scopes_supported": ["openid", "email", "offline_access"],
}
PROVIDER = openid.read_provider(json.dumps(METADATA).encode(), ISSUER)


def nonce() -> str:
    url = openid.login_url(PROVIDER, CLIENT, "https://mcp.example/oauth/login", "state", SECRET)
    return parse_qs(urlsplit(url).query)["nonce"][0]


def claims(**changes: object) -> dict[str, object]:
    found = {
        "iss": ISSUER,
        "sub": "ada",
        "aud": CLIENT,
        "exp": NOW + 60,
        "iat": NOW,
        "nonce": nonce(),
        "groups": ["mail-users"],
        "preferred_username": "Ada",
        **changes,
    }
    return {name: value for name, value in found.items() if value is not None}


def person(key: IssuerKey = KEY, refresh_token: str = "r", **changes: object) -> openid.Person:
    tokens = key.sign(claims(**changes)), refresh_token
    return openid.read_person(tokens, ISSUER, CLIENT, KEYS, NOW, secret=SECRET)


def test_a_person_is_known_by_issuer_and_sub__and_their_name_is_for_a_page() -> None:
    ada = person()
    assert (ada.name, ada.groups, ada.refresh_token) == ("Ada", frozenset({"mail-users"}), "r")
    assert ada.subject == hashlib.sha256(b'["https://idp.example","ada"]').hexdigest()
    assert person(sub="bob").subject != ada.subject
    assert "ada" not in repr(ada).lower()


@pytest.mark.holds("oauth/openid", "id-token", "one-secret")
@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "https://idp.example/"},
        {"aud": "another"},
        {"aud": [CLIENT, "another"]},
        {"aud": []},
        {"azp": "another"},
        {"exp": NOW - 60},
        {"iat": NOW + 600},
        {"nonce": None},
        {"nonce": hashlib.sha256(SECRET.encode()).hexdigest()},
        {"nonce": "ä\ud800"},
        {"sub": None},
        {"sub": ""},
        {"groups": "mail-users"},
    ],
)
def test_an_id_token_of_another_login__client_or_issuer_names_nobody(changes: dict[str, Any]) -> None:
    with pytest.raises(OAuthError, match="access_denied"):
        person(**changes)


@pytest.mark.holds("oauth/openid", "id-token")
def test_an_id_token_is_signed_by_the_provider_s_key() -> None:
    with pytest.raises(OAuthError, match="signature"):
        person(OTHER)
    header, _, _ = KEY.sign(claims()).split(".")
    forged = IssuerKey("key-1")
    _, body, signature = forged.sign(claims()).split(".")
    for text in (f"{header}.{body}.{signature}", f"{header}.{body}.", "eyJhbGciOiJub25lIn0.e30.", "a.b.c", ""):
        with pytest.raises(OAuthError):
            openid.read_person((text, "r"), ISSUER, CLIENT, KEYS, NOW, secret=SECRET)


@pytest.mark.holds("oauth/openid", "groups", "refresh-token")
def test_without_the_claim_there_are_no_groups__and_without_a_refresh_token_there_is_no_login() -> None:
    assert person(groups=None).groups == frozenset()
    with pytest.raises(OAuthError, match="no refresh token"):
        person(refresh_token="")
    again = KEY.sign(claims(nonce=None)), ""
    assert openid.read_person(again, ISSUER, CLIENT, KEYS, NOW, secret=None).refresh_token == ""


@pytest.mark.holds("oauth/openid", "metadata")
@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": "https://other.example"},
        {"token_endpoint": "http://idp.example/token"},
        {"token_endpoint": "http://127.0.0.1/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "https://user@idp.example/"},
        {"token_endpoint": None},
    ],
)
def test_metadata_of_another_issuer__or_in_the_clear__are_none(changes: dict[str, object]) -> None:
    members = {name: value for name, value in {**METADATA, **changes}.items() if value is not None}
    with pytest.raises(KeySetError):
        openid.read_provider(json.dumps(members).encode(), ISSUER)


@pytest.mark.holds("oauth/openid", "one-secret")
def test_the_login_s_url_shows_neither_the_secret_nor_scopes_that_are_not_there() -> None:
    url = openid.login_url(PROVIDER, CLIENT, "https://mcp.example/oauth/login", "state", SECRET)
    query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    assert url.startswith(f"{ISSUER}/authorize?a=b&")
    assert SECRET not in url
    assert query["scope"] == "openid offline_access"
    assert fits(SECRET, query["code_challenge"])
    assert query["nonce"] not in query["code_challenge"]


@pytest.mark.holds("oauth/openid", "issuer-named")
def test_an_answer_of_another_provider_is_none() -> None:
    def code(sends: bool, **answer: str) -> str:
        provider = openid.Provider("https://a.example", "https://b.example", (), sends)
        return openid.read_code(provider, Parameters(answer), ISSUER)

    assert code(False, code="c") == code(True, code="c", iss=ISSUER) == "c"
    for sends, answer in (
        (True, {"code": "c"}),
        (False, {"code": "c", "iss": "https://other.example"}),
        (False, {"error": "login_required", "code": "c"}),
        (False, {}),
    ):
        with pytest.raises(OAuthError, match="access_denied"):
            code(sends, **answer)


@given(
    st.binary(max_size=300)
    | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps).map(str.encode)
)
def test_no_bytes_raise_past_the_errors_that_are_told_of(data: bytes) -> None:
    def tried(read: Any, error: type[Exception]) -> None:
        with contextlib.suppress(error):
            read()

    tried(lambda: openid.read_provider(data, ISSUER), KeySetError)
    tried(lambda: openid.read_tokens(data), OAuthError)
    text = data.decode("latin-1")
    tried(lambda: openid.key_id_of(text), OAuthError)
    tried(lambda: openid.read_person((text, ""), ISSUER, CLIENT, KEYS, NOW, secret=None), OAuthError)
