"""People who log in at an identity provider (OpenID Connect Core 1.0): the requests to it, and its answers. No I/O.

The code flow, with a client secret, as HTTP Basic:

- [metadata] The provider's metadata names exactly the configured issuer. The endpoints are https, or http on loopback
  for an issuer that is on loopback itself.
- [one-secret] Each login has a random secret. It is the verifier of PKCE (S256), and the nonce is derived from it. So a
  code or an id token of another login is of no use in this one.
- [issuer-named] `iss` in the provider's redirect (RFC 9207), if it is there, is the issuer. It has to be there if the
  metadata says so.
- [id-token] The id token is signed by a key of the provider, not with a symmetric algorithm. `iss` is the issuer, `aud`
  is this client alone, `azp` is no other client, `exp` and `iat` fit the clock, `sub` is there. `nonce` is that of the
  login; when groups are read again, there is no new nonce.
- [groups] The claim `groups` of the id token, a list of names, says which groups a person is in. Without it they are in
  none.
- [refresh-token] There is a refresh token at login, as otherwise groups could not be read again.

`groups` and `offline_access` are asked for if the provider's metadata has these scopes.

Not checked: `at_hash`, as no access token of the provider is used.
"""

import hashlib
import hmac
from typing import Annotated
from urllib.parse import urlencode

import msgspec
from msgspec import Meta, Struct

from accredit.errors import InvalidToken, KeySetError, OAuthError
from accredit.limits import MAX_SAFE_INTEGER, MAX_TOKEN_BYTES
from accredit.oauth.forms import Parameters
from accredit.oauth.requests import challenge_of
from accredit.tokens.access import Hidden
from accredit.tokens.claims import NOT_JSON, take_apart
from accredit.tokens.discovery import is_endpoint_of, read_key_set_url
from accredit.tokens.key_sets import KeySet
from accredit.tokens.verify import TOKEN_LEEWAY_SECONDS

MAX_PERSON_NAME_CHARS = 100
"""The most characters of a person's name that a page shows: what fits on a line or two."""

_NONCE = b"accredit login nonce 1"
_Text = Annotated[str, Meta(min_length=1)]
_Moment = Annotated[float, Meta(ge=0, le=MAX_SAFE_INTEGER)]


class Provider(Struct, frozen=True):
    """What an identity provider's metadata says."""

    authorization_endpoint: str
    token_endpoint: str
    scopes_supported: tuple[str, ...] = ()
    authorization_response_iss_parameter_supported: bool = False


class Person(Hidden, Struct, frozen=True):
    """Who has logged in. `subject` is a SHA-256, in hex, of issuer and `sub`. `name` is what the provider calls them,
    for a page; it may be "". `refresh_token` is the provider's; "" if it has not replaced it."""

    subject: str
    name: str
    groups: frozenset[str]
    refresh_token: str


class _Answer(Struct, frozen=True):
    id_token: Annotated[str, Meta(max_length=MAX_TOKEN_BYTES)]
    refresh_token: Annotated[str, Meta(max_length=MAX_TOKEN_BYTES)] = ""


class _Claims(Struct, frozen=True):
    iss: str
    sub: _Text
    aud: str | list[str]
    exp: _Moment
    iat: _Moment
    azp: str | None = None
    nonce: str = ""
    groups: list[str] = []
    preferred_username: str = ""
    email: str = ""


_read_provider = msgspec.json.Decoder(Provider).decode
_read_answer = msgspec.json.Decoder(_Answer).decode
_read_claims = msgspec.json.Decoder(_Claims).decode


def read_provider(body: bytes, issuer: str) -> Provider:
    """Return what a provider's metadata says ([metadata]). Raises `KeySetError`, which does not quote it."""
    read_key_set_url(body, issuer)
    try:
        provider = _read_provider(body)
    except NOT_JSON:
        raise KeySetError("no metadata with the endpoints of a login") from None
    if not all(is_endpoint_of(each, issuer) for each in (provider.authorization_endpoint, provider.token_endpoint)):
        raise KeySetError("an endpoint in its metadata is no https URL")
    return provider


def login_url(provider: Provider, client_id: str, redirect_uri: str, state: str, secret: str) -> str:
    """Return the URL at which a person logs in ([one-secret])."""
    known = [each for each in ("groups", "offline_access") if each in provider.scopes_supported]
    query = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": redirect_uri,
        "scope": " ".join(["openid", *known]),
        "state": state,
        "nonce": _nonce(secret),
        "code_challenge": challenge_of(secret),
        "code_challenge_method": "S256",
    }
    endpoint = provider.authorization_endpoint
    return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"


def read_code(provider: Provider, answer: Parameters, issuer: str) -> str:
    """Return the code that a provider's redirect carries ([issuer-named]). Raises `OAuthError`."""
    named = answer.get("iss")
    if named != issuer and (named or provider.authorization_response_iss_parameter_supported):
        raise OAuthError("access_denied", "the answer is that of another identity provider")
    if answer.get("error"):
        raise OAuthError("access_denied", "the identity provider has not let the person log in")
    return answer.require("code", "access_denied")


def code_form(code: str, redirect_uri: str, secret: str) -> bytes:
    """Return the form that brings a code to the provider."""
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri, "code_verifier": secret}
    return urlencode(form).encode("ascii")


def refresh_form(refresh_token: str) -> bytes:
    """Return the form that asks for a new id token."""
    return urlencode({"grant_type": "refresh_token", "refresh_token": refresh_token}).encode("ascii")


def read_tokens(body: bytes) -> tuple[str, str]:
    """Return the id token, and the refresh token or "", of a provider's answer. Raises `OAuthError`."""
    try:
        answer = _read_answer(body)
    except NOT_JSON:
        raise OAuthError("access_denied", "the identity provider has given no id token") from None
    return answer.id_token, answer.refresh_token


def key_id_of(id_token: str) -> str | None:
    """Return the id of the key with which an id token claims to be signed. Raises `OAuthError`."""
    try:
        return take_apart(id_token).kid
    except InvalidToken:
        raise _bad("it is no signed token") from None


def read_person(
    tokens: tuple[str, str], issuer: str, client_id: str, keys: KeySet, now: int, *, secret: str | None
) -> Person:
    """Return whom an id token names ([id-token] and [groups]). `secret` is that of a login ([one-secret] and
    [refresh-token]), or None if only groups are read again. `now` is in unix seconds. Raises `OAuthError`."""
    text, refresh_token = tokens
    try:
        compact = take_apart(text)
        claims = _read_claims(compact.claims)
    except (InvalidToken, *NOT_JSON):
        raise _bad("it is no signed token with the claims of one") from None
    try:
        keys.check_signature(compact)
    except InvalidToken:
        raise _bad("the signature is not good") from None
    if claims.iss != issuer:
        raise _bad("it is of another issuer")
    if {*([claims.aud] if isinstance(claims.aud, str) else claims.aud)} != {client_id}:
        raise _bad("it is not for this client alone")
    if claims.azp not in (None, client_id):
        raise _bad("it was given to another client")
    if claims.exp + TOKEN_LEEWAY_SECONDS <= now or claims.iat > now + TOKEN_LEEWAY_SECONDS:
        raise _bad("it is over, or of the future")
    if secret is not None and not hmac.compare_digest(claims.nonce.encode("utf-8", "replace"), _nonce(secret).encode()):
        raise _bad("it is of another login")
    if secret is not None and not refresh_token:
        raise OAuthError(
            "access_denied", "the identity provider has given no refresh token, so groups could not be read again"
        )
    name = (claims.preferred_username or claims.email)[:MAX_PERSON_NAME_CHARS]
    return Person(_subject(issuer, claims.sub), name, frozenset(claims.groups), refresh_token)


def _nonce(secret: str) -> str:
    return hashlib.sha256(_NONCE + secret.encode("ascii")).hexdigest()


def _subject(issuer: str, sub: str) -> str:
    return hashlib.sha256(msgspec.json.encode([issuer, sub])).hexdigest()


def _bad(why: str) -> OAuthError:
    return OAuthError("access_denied", f"the id token is not good: {why}")
