"""Authorize, token, revoke: whatever is left out, weakened or added is refused."""

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.errors import OAuthError
from accredit.oauth.forms import Parameters, read_parameters
from accredit.oauth.requests import (
    MAX_SCOPE_CHARS,
    MAX_SCOPES,
    MAX_SECRET_CHARS,
    MAX_STATE_CHARS,
    Authorization,
    CodeGrant,
    RefreshGrant,
    choose_scopes,
    fits,
    read_asked,
    read_authorization,
    read_grant,
    read_revocation,
    reduce_scopes,
)
from accredit.oauth.uris import MAX_URI_CHARS

URL = "https://claude.ai/oauth/mcp-oauth-client-metadata"
MAIL, ROOT = "https://mcp.example.com/mcp/mail", "https://mcp.example.com/"
ENDPOINTS = (MAIL, ROOT)
# RFC 7636, appendix B
VERIFIER, CHALLENGE = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"

AUTHORIZE = {
    "response_type": "code",
    "client_id": URL,
    "redirect_uri": "https://claude.ai/cb",
    "code_challenge": CHALLENGE,
    "code_challenge_method": "S256",
    "resource": MAIL,
    "state": "s",
    "scope": "email:read email:send",
}
CODE = {
    "grant_type": "authorization_code",
    "client_id": URL,
    "resource": MAIL,
    "code": "c" * 43,
    "code_verifier": VERIFIER,
    "redirect_uri": "https://claude.ai/cb",
}
REFRESH = {"grant_type": "refresh_token", "client_id": URL, "resource": MAIL, "refresh_token": "r" * 43}


def said(base: dict[str, str], **changes: str | None) -> Parameters:
    members = {name: value for name, value in {**base, **changes}.items() if value is not None}
    return read_parameters(urlencode(members).encode())


def authorize(query: Parameters) -> Authorization:
    return read_authorization(query, read_asked(query), ENDPOINTS)


def refusal(query: Parameters) -> str:
    with pytest.raises(OAuthError) as caught:
        authorize(query)
    return caught.value.error


def token_refusal(form: Parameters) -> str:
    with pytest.raises(OAuthError) as caught:
        read_grant(form, ENDPOINTS)
    return caught.value.error


@pytest.mark.holds("oauth/requests", "code")
def test_a_whole_request_is_read() -> None:
    found = authorize(said(AUTHORIZE, nonce="ignored"))
    assert (found.client_id, found.redirect_uri, found.state) == (URL, "https://claude.ai/cb", "s")
    assert (found.challenge, found.resource, found.scopes) == (CHALLENGE, MAIL, ("email:read", "email:send"))
    assert "claude" not in repr(found)


@pytest.mark.holds("oauth/requests", "who")
@pytest.mark.parametrize(
    "change",
    [
        {"client_id": None},
        {"client_id": "mail"},
        {"client_id": "https://claude.ai/"},
        {"redirect_uri": None},
        {"redirect_uri": "https://claude.ai/" + "c" * MAX_URI_CHARS},
    ],
)
def test_a_request_of_nobody_is_answered_to_nobody(change: dict[str, str | None]) -> None:
    with pytest.raises(OAuthError, match=r"^invalid_request"):
        read_asked(said(AUTHORIZE, **change))


@pytest.mark.holds("oauth/requests", "state")
def test_a_state_that_could_not_come_back_is_refused() -> None:
    assert read_asked(said(AUTHORIZE, state="s" * MAX_STATE_CHARS)).state
    assert read_asked(said(AUTHORIZE, state=None)).state == ""
    with pytest.raises(OAuthError, match="state"):
        read_asked(said(AUTHORIZE, state="s" * (MAX_STATE_CHARS + 1)))


@pytest.mark.holds("oauth/requests", "pkce")
@pytest.mark.parametrize(
    "change",
    [
        {"code_challenge": None},
        {"code_challenge_method": None},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": "s256"},
        {"code_challenge": CHALLENGE + "="},
        {"code_challenge": CHALLENGE[:-1]},
        {"code_challenge": VERIFIER + "a"},
    ],
)
def test_a_stolen_code_is_worth_nothing_without_its_verifier(change: dict[str, str | None]) -> None:
    assert refusal(said(AUTHORIZE, **change)) == "invalid_request"


@pytest.mark.holds("oauth/requests", "verifier")
def test_only_the_verifier_fits() -> None:
    assert fits(VERIFIER, CHALLENGE)
    assert not fits(VERIFIER[:-1] + "j", CHALLENGE)
    assert not fits(CHALLENGE, CHALLENGE)


@pytest.mark.holds("oauth/requests", "resource")
@pytest.mark.parametrize(
    "resource",
    [
        None,
        "",
        "https://mcp.example.com/mcp",
        "https://evil.example/mcp/mail",
        MAIL + "//",
        MAIL + "?x",
        MAIL + "#",
        MAIL.upper(),
    ],
)
def test_a_token_for_another_server_is_not_had_here(resource: str | None) -> None:
    assert refusal(said(AUTHORIZE, resource=resource)) == "invalid_target"
    assert token_refusal(said(CODE, resource=resource)) == "invalid_target"
    assert token_refusal(said(REFRESH, resource=resource)) == "invalid_target"


@pytest.mark.holds("oauth/requests", "resource")
def test_one_slash_more_is_the_same_endpoint() -> None:
    assert authorize(said(AUTHORIZE, resource=MAIL + "/")).resource == MAIL
    assert authorize(said(AUTHORIZE, resource=ROOT[:-1])).resource == ROOT


@pytest.mark.holds("oauth/requests", "code")
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": "code id_token"}, "unsupported_response_type"),
        ({"response_type": None}, "invalid_request"),
        ({"response_mode": "fragment"}, "invalid_request"),
        ({"request": "e30.e30."}, "request_not_supported"),
        ({"request_uri": "https://evil.example/r"}, "request_uri_not_supported"),
    ],
)
def test_another_flow_is_refused(change: dict[str, str | None], error: str) -> None:
    assert refusal(said(AUTHORIZE, **change)) == error


@pytest.mark.holds("oauth/requests", "scope")
@pytest.mark.parametrize("scope", ["a  b", 'a"', "a\\b", "ä", " a", "a" * (MAX_SCOPE_CHARS + 1)])
def test_a_scope_that_nobody_can_read_is_refused(scope: str) -> None:
    assert refusal(said(AUTHORIZE, scope=scope)) == "invalid_scope"


@pytest.mark.holds("oauth/requests", "scope")
def test_scopes_have_a_bound_and_come_once() -> None:
    assert len(authorize(said(AUTHORIZE, scope=" ".join(map(str, range(MAX_SCOPES))))).scopes) == MAX_SCOPES
    assert refusal(said(AUTHORIZE, scope=" ".join(map(str, range(MAX_SCOPES + 1))))) == "invalid_scope"
    assert authorize(said(AUTHORIZE, scope="a b a")).scopes == ("a", "b")


@pytest.mark.holds("oauth/requests", "grant")
def test_both_grants_are_read() -> None:
    code, refresh = read_grant(said(CODE), ENDPOINTS), read_grant(said(REFRESH, scope="a"), ENDPOINTS)
    assert isinstance(code, CodeGrant)
    assert (code.client_id, code.resource, code.verifier, code.redirect_uri) == (
        URL,
        MAIL,
        VERIFIER,
        "https://claude.ai/cb",
    )
    assert isinstance(refresh, RefreshGrant)
    assert (refresh.client_id, refresh.refresh_token, refresh.scopes) == (URL, "r" * 43, ("a",))
    assert "ccc" not in repr(code)
    assert "rrr" not in repr(refresh)


@pytest.mark.holds("oauth/requests", "grant")
@pytest.mark.parametrize(
    ("base", "change", "error"),
    [
        (CODE, {"grant_type": "client_credentials"}, "unsupported_grant_type"),
        (CODE, {"grant_type": "password"}, "unsupported_grant_type"),
        (CODE, {"grant_type": None}, "invalid_request"),
        (CODE, {"code": None}, "invalid_request"),
        (CODE, {"code": "c" * (MAX_SECRET_CHARS + 1)}, "invalid_grant"),
        (CODE, {"code": "c'--"}, "invalid_grant"),
        (CODE, {"code_verifier": None}, "invalid_request"),
        (CODE, {"code_verifier": "v" * 42}, "invalid_grant"),
        (CODE, {"code_verifier": "v" * 129}, "invalid_grant"),
        (CODE, {"client_id": None}, "invalid_request"),
        (CODE, {"client_id": "mail"}, "invalid_client"),
        (CODE, {"client_secret": "s"}, "invalid_client"),
        (REFRESH, {"client_assertion": "s"}, "invalid_client"),
        (REFRESH, {"refresh_token": None}, "invalid_request"),
        (REFRESH, {"refresh_token": "a b"}, "invalid_grant"),
        (REFRESH, {"scope": "a  b"}, "invalid_scope"),
    ],
)
def test_any_other_token_request_is_refused(base: dict[str, str], change: dict[str, str | None], error: str) -> None:
    assert token_refusal(said(base, **change)) == error


def test_a_token_is_revoked_whatever_its_kind() -> None:
    found = read_revocation(said({"client_id": URL, "token": "ey.J.x", "token_type_hint": "nothing"}))
    assert (found.client_id, found.token) == (URL, "ey.J.x")
    assert "ey" not in repr(found)
    for change in ({"token": None}, {"client_id": None}, {"client_secret": "s"}):
        with pytest.raises(OAuthError):
            read_revocation(said({"client_id": URL, "token": "t"}, **change))


def test_unknown_scopes_are_dropped_and_none_are_those_that_only_read() -> None:
    known, read_only = ("email:read", "email:send"), ("email:read",)
    assert choose_scopes(("email:send", "admin", "email:send"), known, read_only) == ("email:send",)
    assert choose_scopes((), known, read_only) == ("email:read",)
    for asked, only in ((("admin",), read_only), ((), ())):
        with pytest.raises(OAuthError, match=r"^invalid_scope"):
            choose_scopes(asked, known, only)


def test_a_refresh_wins_no_scope() -> None:
    assert reduce_scopes((), ("a", "b")) == ("a", "b")
    assert reduce_scopes(("b",), ("a", "b")) == ("b",)
    with pytest.raises(OAuthError, match=r"^invalid_scope"):
        reduce_scopes(("a", "c"), ("a", "b"))


_VALUES = st.sampled_from(
    ["code", "S256", CHALLENGE, VERIFIER, URL, MAIL, "authorization_code", "refresh_token", "", "a b"]
)
_NAMES = st.sampled_from([*AUTHORIZE, *CODE, *REFRESH, "request", "client_secret", "x"])


@given(st.dictionaries(_NAMES, _VALUES | st.text(max_size=20), max_size=12))
def test_any_parameters_are_a_request_or_the_one_error(members: dict[str, str]) -> None:
    for base in (AUTHORIZE, CODE, REFRESH):
        said, resource = "", MAIL
        try:
            form = read_parameters(urlencode({**base, **members}, errors="replace").encode())
            resource = (authorize(form) if base is AUTHORIZE else read_grant(form, ENDPOINTS)).resource
        except OAuthError as error:
            said = error.detail
        assert said.isascii()
        assert resource in ENDPOINTS
