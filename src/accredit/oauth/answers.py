"""The authorization server's answers: its metadata, redirects to clients, and tokens. No I/O.

- [metadata] The document of RFC 8414 names only features that exist.
- [iss] Each answer to a client's redirect URI names the issuer (RFC 9207), so that a client of several servers can't be
  made to send one server's code to another.
- [no-words] An error for a client has a code of the specification and a sentence of ours, which never quotes the
  request.
"""

from collections.abc import Iterable
from urllib.parse import urlencode

from accredit.errors import OAuthError

METADATA_PATH = "/.well-known/oauth-authorization-server"
AUTHORIZE_PATH = "/oauth/authorize"
TOKEN_PATH = "/oauth/token"  # noqa: S105 - a path
LOGIN_PATH = "/oauth/login"
"""Where an identity provider sends the browser back to."""
REVOKE_PATH = "/oauth/revoke"
REGISTER_PATH = "/oauth/register"
ASKED_PATH = "/oauth/asked/"
"""Below the public URL, the page about a call that waits for a person: its code follows."""

_STATUS = {"invalid_client": 401, "server_error": 500, "temporarily_unavailable": 503}


def server_metadata(issuer: str, scopes: Iterable[str], *, registration: bool) -> dict[str, object]:
    """Return the metadata of an authorization server ([metadata]). `issuer` is its URL, without a path."""
    document: dict[str, object] = {
        "issuer": issuer,
        "authorization_endpoint": issuer + AUTHORIZE_PATH,
        "token_endpoint": issuer + TOKEN_PATH,
        "revocation_endpoint": issuer + REVOKE_PATH,
        "scopes_supported": sorted(scopes),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": True,
    }
    return {**document, "registration_endpoint": issuer + REGISTER_PATH} if registration else document


def code_redirect(redirect_uri: str, issuer: str, state: str, code: str) -> str:
    """Return the redirect URL that carries a client's code ([iss]). `state` is "" if the request had none."""
    return _redirect(redirect_uri, {"code": code, "state": state, "iss": issuer})


def error_redirect(redirect_uri: str, issuer: str, state: str, error: OAuthError) -> str:
    """Return the redirect URL that carries an error ([iss] and [no-words])."""
    return _redirect(redirect_uri, {**error_answer(error), "state": state, "iss": issuer})


def error_answer(error: OAuthError) -> dict[str, str]:
    """Return an endpoint's error answer to a client ([no-words])."""
    return {"error": error.error, "error_description": error.detail}


def status_of(error: OAuthError) -> int:
    """Return the HTTP status of an error of the token endpoint (RFC 6749 section 5.2)."""
    return _STATUS.get(error.error, 400)


def token_answer(access_token: str, seconds: int, refresh_token: str, scopes: Iterable[str]) -> dict[str, object]:
    """Return the answer that carries a client's tokens (RFC 6749 section 5.1)."""
    return {
        "access_token": access_token,
        "token_type": "Bearer",
        "expires_in": seconds,
        "refresh_token": refresh_token,
        "scope": " ".join(scopes),
    }


def _redirect(redirect_uri: str, parameters: dict[str, str]) -> str:
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{redirect_uri}{'&' if '?' in redirect_uri else '?'}{query}"
