"""Texts that are tokens, and those that are not."""

import base64
import json

import pytest

from accredit.errors import InvalidToken
from accredit.limits import MAX_TOKEN_BYTES
from accredit.tokens.claims import take_apart


def part(value: object) -> str:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=").decode()


def token(header: object, claims: object = None, signature: bytes = b"signature") -> str:
    return ".".join((part(header), part(claims or {"iss": "i"}), part(signature)))


def reason_for(text: str) -> str:
    with pytest.raises(InvalidToken) as refused:
        take_apart(text)
    assert str(refused.value) == "the token is not valid"
    return refused.value.reason


def test_a_token_is_taken_apart() -> None:
    text = token({"alg": "ES256", "kid": "k", "typ": "JWT", "x5t": "z"}, b'{"iss":"i"}')
    found = take_apart(text)
    assert (found.algorithm, found.kid, found.claims, found.signature) == ("ES256", "k", b'{"iss":"i"}', b"signature")
    assert found.signed.decode() == text.rpartition(".")[0]
    assert "signature" not in f"{found!r} {found.__rich_repr__()}"
    assert take_apart(token({"alg": "RS256"})).kid is None


@pytest.mark.holds("tokens/claims", "size", "spelling")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not three parts"),
        ("a.b", "not three parts"),
        ("a.b.c.d", "not three parts"),
        ("a.b.c.d.e", "not three parts"),
        ("...", "not three parts"),
        ("..", "a part is not base64url"),
        ("e30..e30", "a part is not base64url"),
        ("e30.e30.", "a part is not base64url"),
        ("e30.e30.e", "a part is not base64url"),
        ("e30.e30.e31", "a part is not base64url"),  # bits that are not used
        ("e30=.e30.e30", "a part is not base64url"),
        ("e30.e30.e3 0", "a part is not base64url"),
        ("e30.e30.e30\n", "a part is not base64url"),
        ("e30.e30.+/+/", "a part is not base64url"),
        ("é.e30.e30", "not ASCII"),
        ("\ud800", "not ASCII"),
        ("a" * (MAX_TOKEN_BYTES + 1), "more characters than a token may have"),
        ("é" * (MAX_TOKEN_BYTES + 1), "more characters than a token may have"),
    ],
)
def test_what_is_no_compact_form_is_refused(text: str, reason: str) -> None:
    assert reason_for(text) == reason


@pytest.mark.holds("tokens/claims", "header")
@pytest.mark.parametrize(
    "header",
    [
        b"{",
        b"\xff",
        b"[]",
        b"[" * 10_000,
        b'"ES256"',
        {},
        {"alg": None},
        {"alg": ["ES256"]},
        {"alg": 7},
        {"alg": "ES256", "kid": 7},
        {"alg": "ES256", "kid": ["k"]},
    ],
)
def test_a_header_that_is_none_is_refused(header: object) -> None:
    assert reason_for(token(header)) == "the header is not one of a signed token"


@pytest.mark.holds("tokens/claims", "embedded-keys")
@pytest.mark.parametrize(
    ("name", "value"),
    [("jku", "https://evil.example/jwks"), ("x5u", "https://evil.example"), ("jwk", {"kty": "EC"}), ("jku", None)],
)
def test_a_header_that_brings_its_key_is_refused__keys_are_the_issuers(name: str, value: object) -> None:
    assert reason_for(token({"alg": "ES256", name: value})) == "the header brings its own key"


@pytest.mark.holds("tokens/claims", "extensions")
@pytest.mark.parametrize("value", [["b64"], ["exp"], [], "b64"])
def test_a_header_that_demands_an_extension_is_refused(value: object) -> None:
    assert reason_for(token({"alg": "ES256", "b64": False, "crit": value})) == "the header demands an extension"
