"""Requests to the authorization server, as OAuth 2.1 has them: authorize, token, revoke. No I/O.

An authorization request is read in two steps, since only errors of the second may be sent to the client:

- [who] `client_id` has the form of a client's id, and `redirect_uri` is there. Until it is known that the client has
  named this redirect URI (`clients`, `uris`), every refusal is shown to the person, and not redirected.
- [code] `response_type` is `code`, and the answer is in a query. A request given by reference or as a JWT (RFC 9101) is
  refused.
- [pkce] `code_challenge` is that of a SHA-256, and `code_challenge_method` says S256 (RFC 7636). Without it the method
  would be `plain`.
- [resource] `resource` (RFC 8707) is exactly one of the gateway's endpoints, apart from one slash at its end.
- [scope] `scope` is in the grammar of RFC 6749 section 3.3, within its bounds. `choose_scopes` decides which are
  granted.
- [state] `state` has at most `MAX_STATE_CHARS`.

A token request:

- [grant] `grant_type` is one of the two, with the parameters that it needs, each within its bounds. Clients are public
  ones, so a secret or a signed assertion is refused, and not ignored.
- [verifier] The SHA-256 of `code_verifier` is the challenge of the code (`fits`).

Codes and refresh tokens are random, and only their SHA-256 is kept. The store knows whether one is valid.
"""

import hashlib
import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Collection

from msgspec import Struct

from accredit.base.addresses import without_slash
from accredit.errors import OAuthError
from accredit.oauth.forms import Parameters
from accredit.oauth.uris import MAX_URI_CHARS, is_client_id
from accredit.tokens.access import Hidden

MAX_STATE_CHARS = 4_096
"""The most characters of `state`, which is returned in a URL. Known hosts use some 200, and up to 2,000 if it is
sealed."""
MAX_SCOPES = 100
"""The most scopes of one request. The person who is asked should be able to read them."""
MAX_SCOPE_CHARS = 200
"""The most characters of one scope."""
MAX_SECRET_CHARS = 128
"""The most characters of a code or a refresh token. Ours have 43."""

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
"""RFC 7636 section 4.1."""
_SCOPE = re.compile(rf"[!#-\[\]-~]{{1,{MAX_SCOPE_CHARS}}}")
_SECRET = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_SECRET_CHARS}}}")


class UncheckedClient(Hidden, Struct, frozen=True, kw_only=True):
    """The client that asks for authorization, and the address for the answer. None of this has been checked with the
    client yet."""

    client_id: str
    redirect_uri: str
    state: str


class Authorization(Hidden, Struct, frozen=True, kw_only=True):
    """A whole authorization request. `resource` is the endpoint as the gateway spells it; `scopes` are the requested
    ones."""

    client_id: str
    redirect_uri: str
    state: str
    challenge: str
    resource: str
    scopes: tuple[str, ...]


class CodeGrant(Hidden, Struct, frozen=True, kw_only=True):
    """A request for tokens with a code. `redirect_uri` may be "" (OAuth 2.1 section 4.1.3 leaves it out)."""

    client_id: str
    resource: str
    code: str
    verifier: str
    redirect_uri: str


class RefreshGrant(Hidden, Struct, frozen=True, kw_only=True):
    """A request for new tokens with a refresh token. Empty `scopes` mean all that were granted."""

    client_id: str
    resource: str
    refresh_token: str
    scopes: tuple[str, ...]


class Revocation(Hidden, Struct, frozen=True, kw_only=True):
    """A request to end the login that a token belongs to (RFC 7009 section 2.1)."""

    client_id: str
    token: str


def read_asked(query: Parameters, *, private: bool = False) -> UncheckedClient:
    """Return the client that asks, and its redirect URI ([who]). `private` is as in `is_client_id`. Raises
    `OAuthError`, which is shown to the person."""
    client_id = _client_id(query, "invalid_request", private=private)
    redirect_uri = query.require("redirect_uri")
    if len(redirect_uri) > MAX_URI_CHARS:
        raise OAuthError("invalid_request", f"redirect_uri has more than {MAX_URI_CHARS} characters")
    state = query.get("state")
    if len(state) > MAX_STATE_CHARS:  # sent to nobody: it could not be sent back
        raise OAuthError("invalid_request", f"state has more than {MAX_STATE_CHARS} characters")
    return UncheckedClient(client_id=client_id, redirect_uri=redirect_uri, state=state)


def read_authorization(query: Parameters, asked: UncheckedClient, endpoints: Collection[str]) -> Authorization:
    """Return the request of a client that named this redirect URI ([code] to [scope]). Raises `OAuthError`, which goes
    to the client."""
    for elsewhere in ("request", "request_uri"):
        if query.get(elsewhere):
            raise OAuthError(f"{elsewhere}_not_supported", "a request is taken only as parameters")
    if query.require("response_type") != "code":
        raise OAuthError("unsupported_response_type", "response_type is not code")
    if query.get("response_mode") not in ("", "query"):
        raise OAuthError("invalid_request", "response_mode is not query")
    challenge = query.require("code_challenge")
    if query.get("code_challenge_method") != "S256":
        raise OAuthError("invalid_request", "code_challenge_method is not S256")
    if not _CHALLENGE.fullmatch(challenge):
        raise OAuthError("invalid_request", "code_challenge is not that of a SHA-256")
    return Authorization(
        client_id=asked.client_id,
        redirect_uri=asked.redirect_uri,
        state=asked.state,
        challenge=challenge,
        resource=find_endpoint(query, endpoints),
        scopes=_scopes(query),
    )


def read_grant(form: Parameters, endpoints: Collection[str], *, private: bool = False) -> CodeGrant | RefreshGrant:
    """Return the content of a token request ([grant] and [resource]). Raises `OAuthError`."""
    kind = form.require("grant_type")
    if kind not in ("authorization_code", "refresh_token"):
        raise OAuthError("unsupported_grant_type", "grant_type is neither authorization_code nor refresh_token")
    client_id = _public_client(form, private=private)
    resource = find_endpoint(form, endpoints)
    if kind == "refresh_token":
        secret, scopes = _secret(form, "refresh_token"), _scopes(form)
        return RefreshGrant(client_id=client_id, resource=resource, refresh_token=secret, scopes=scopes)
    verifier = form.require("code_verifier")
    if not _VERIFIER.fullmatch(verifier):
        raise OAuthError("invalid_grant", "code_verifier is not one of RFC 7636")
    return CodeGrant(
        client_id=client_id,
        resource=resource,
        code=_secret(form, "code"),
        verifier=verifier,
        redirect_uri=form.get("redirect_uri"),
    )


def read_revocation(form: Parameters, *, private: bool = False) -> Revocation:
    """Return the token to revoke. Raises `OAuthError`. `token_type_hint` is ignored (RFC 7009 section 2.1)."""
    return Revocation(client_id=_public_client(form, private=private), token=form.require("token"))


def fits(verifier: str, challenge: str) -> bool:
    """Return whether a verifier matches a code's challenge ([verifier])."""
    return hmac.compare_digest(challenge_of(verifier), challenge)


def challenge_of(verifier: str) -> str:
    """Return the challenge (S256) of a verifier."""
    return urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode("ascii")


def find_endpoint(parameters: Parameters, endpoints: Collection[str]) -> str:
    """Return the endpoint that `resource` names ([resource]), as the gateway spells it. Raises `OAuthError`."""
    resource = parameters.require("resource", "invalid_target")
    found = next((each for each in endpoints if without_slash(each) == without_slash(resource)), None)
    if found is None:
        raise OAuthError("invalid_target", "resource is no endpoint of this gateway")
    return found


def choose_scopes(asked: Collection[str], known: Collection[str], read_only: Collection[str]) -> tuple[str, ...]:
    """Return the scopes to ask a person for: the requested ones that are `known` or, if none was requested, those of
    read-only tools. Raises `OAuthError` if there are none."""
    wanted = asked or read_only
    chosen = tuple(dict.fromkeys(scope for scope in wanted if scope in known))
    if not chosen:
        raise OAuthError("invalid_scope", "none of the scopes is one that can be granted here")
    return chosen


def reduce_scopes(asked: Collection[str], granted: Collection[str]) -> tuple[str, ...]:
    """Return the scopes of a new access token: the requested ones, which must have been granted (RFC 6749 section 6)
    or, if none was requested, all granted ones. Raises `OAuthError`."""
    if not set(asked) <= set(granted):
        raise OAuthError("invalid_scope", "more than was granted")
    return tuple(dict.fromkeys(asked or granted))


def _public_client(form: Parameters, *, private: bool) -> str:
    for secret in ("client_secret", "client_assertion", "client_assertion_type"):
        if form.get(secret):
            raise OAuthError("invalid_client", "clients are public ones here: none has a secret or a key")
    return _client_id(form, "invalid_client", private=private)


def _client_id(parameters: Parameters, error: str, *, private: bool) -> str:
    client_id = parameters.require("client_id")
    if not is_client_id(client_id, private=private):
        raise OAuthError(error, "client_id is neither the URL of a metadata document nor an id that was given out")
    return client_id


def _scopes(parameters: Parameters) -> tuple[str, ...]:
    scopes = parameters.get("scope").split(" ") if parameters.get("scope") else []
    if len(scopes) > MAX_SCOPES or not all(map(_SCOPE.fullmatch, scopes)):
        raise OAuthError("invalid_scope", f"scope is not a list of at most {MAX_SCOPES} scopes")
    return tuple(dict.fromkeys(scopes))


def _secret(form: Parameters, name: str) -> str:
    secret = form.require(name)
    if not _SECRET.fullmatch(secret):
        raise OAuthError("invalid_grant", f"{name} is none that was given out here")
    return secret
