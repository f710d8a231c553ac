"""What clients are told: only what is there, by the one issuer, in words of ours."""

from urllib.parse import parse_qs, urlsplit

import pytest

from accredit.errors import OAuthError
from accredit.oauth.answers import code_redirect, error_answer, error_redirect, server_metadata, status_of, token_answer

ISSUER = "https://mcp.example.com"


@pytest.mark.holds("oauth/answers", "metadata")
def test_the_metadata_names_what_is_there() -> None:
    found = server_metadata(ISSUER, ["email:send", "email:read"], registration=False)
    assert found["issuer"] == ISSUER
    assert found["authorization_endpoint"] == f"{ISSUER}/oauth/authorize"
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert found["scopes_supported"] == ["email:read", "email:send"]
    assert found["client_id_metadata_document_supported"] is True
    assert found["authorization_response_iss_parameter_supported"] is True
    assert "registration_endpoint" not in found
    assert server_metadata(ISSUER, [], registration=True)["registration_endpoint"] == f"{ISSUER}/oauth/register"


@pytest.mark.holds("oauth/answers", "iss")
@pytest.mark.parametrize(
    "uri", ["https://claude.ai/cb", "https://claude.ai/cb?x=1", "cursor://a/cb", "http://127.0.0.1:9"]
)
def test_each_answer_names_its_issuer(uri: str) -> None:
    for url in (
        code_redirect(uri, ISSUER, "s&iss=https://evil.example", "c"),
        error_redirect(uri, ISSUER, "s&iss=https://evil.example", OAuthError("access_denied", "the person said no")),
    ):
        assert url.startswith(uri)
        query = parse_qs(urlsplit(url).query)
        assert query["iss"] == [ISSUER]
        assert query["state"] == ["s&iss=https://evil.example"]
        assert query.get("code", query.get("error")) in (["c"], ["access_denied"])


def test_a_request_without_a_state_gets_none() -> None:
    assert "state" not in code_redirect("https://claude.ai/cb", ISSUER, "", "c")


@pytest.mark.holds("oauth/answers", "no-words")
def test_an_error_is_a_code_and_a_sentence() -> None:
    error = OAuthError("invalid_client", "no such client")
    assert error_answer(error) == {"error": "invalid_client", "error_description": "no such client"}
    assert [status_of(OAuthError(each, "")) for each in ("invalid_client", "invalid_grant", "server_error")] == [
        401,
        400,
        500,
    ]


def test_tokens_are_answered_as_the_specification_says() -> None:
    assert token_answer("a", 900, "r", ("x", "y")) == {
        "access_token": "a",
        "token_type": "Bearer",
        "expires_in": 900,
        "refresh_token": "r",
        "scope": "x y",
    }
