"""No bytes escape the error tree, only what was signed is good, and nothing of a token stays in a request."""

import json
from typing import Any

import jwt
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.property.texts import mutated, values
from tests.world.issuer import AUDIENCE, NOW, IssuerKey, claims, key_set_text

from accredit.errors import AmbiguousToken, InvalidToken, KeySetError
from accredit.tokens.carried import FoundTokens, declares_token, find_tokens, without_tokens
from accredit.tokens.challenges import challenge
from accredit.tokens.claims import VerifiedToken
from accredit.tokens.key_sets import read_key_set, read_public_key
from accredit.tokens.verify import Issuer, TokenVerifier

KEY = IssuerKey()
RSA = IssuerKey("rsa", "PS256")
ED = IssuerKey("ed", "EdDSA")
KEYS = read_key_set(key_set_text(KEY, RSA, ED))
ISSUER = Issuer("https://issuer.example", AUDIENCE, ("ES256", "PS256", "EdDSA"))
GOOD = [key.sign(claims()) for key in (KEY, RSA, ED)]
_ALPHABET = "ABCxyz019-_.=+/ \n\0é"


def judged(text: str) -> VerifiedToken | None:
    """What a text says as a token, or None where it is refused as it should be."""
    verifier = TokenVerifier([ISSUER])
    try:
        return verifier.verify(verifier.read(text), KEYS, NOW)
    except InvalidToken as error:
        refused = error
    assert str(refused).isascii()
    assert len(refused.reason) < 250
    return None


@given(st.text() | st.text(_ALPHABET, max_size=300))
@example("." * 100_000)
@example("a" * 100_000)
@example("\ud800.\ud800.\ud800")
def test_a_text_that_nobody_signed_is_refused(text: str) -> None:
    assert judged(text) is None


@given(st.sampled_from(GOOD), st.integers(0, 2_000), st.sampled_from(_ALPHABET), st.booleans())
def test_a_token_with_one_change_is_refused(text: str, at: int, char: str, insert: bool) -> None:
    at %= len(text) + 1
    changed = text[:at] + char + text[at + (0 if insert else 1) :]
    assert (judged(changed) is not None) is (changed == text)


_CLAIMS = st.dictionaries(
    st.sampled_from(
        ["iss", "sub", "aud", "exp", "nbf", "iat", "jti", "scope", "scp", "allowed_tools", "policy_digest", "x"]
    ),
    st.none()
    | st.booleans()
    | st.integers(-5, 5).map(lambda distance: NOW + 20 * distance)
    | st.sampled_from(["", "a b", AUDIENCE, ISSUER.issuer, [], [AUDIENCE], ["a", 7], {}, 1e300, NOW + 0.5]),
    max_size=4,
)


@pytest.mark.slow
@given(st.sampled_from([KEY, RSA, ED]), _CLAIMS)
@settings(max_examples=100)
def test_what_is_good_here_is_good_to_a_peer(key: IssuerKey, changes: dict[str, Any]) -> None:
    found = {**claims(), **changes}
    text = jwt.PyJWS().encode(json.dumps(found).encode(), key.private, key.algorithm, {"kid": key.kid})
    token = judged(text)
    if token is None:
        return
    options: Any = {"verify_exp": False, "verify_iat": False, "verify_nbf": False, "verify_jti": False}
    said = jwt.decode(text, key.private.public_key(), [key.algorithm], options, audience=AUDIENCE, issuer=ISSUER.issuer)
    assert (token.subject, token.expires_at, token.jti) == (said["sub"], int(said["exp"]), said.get("jti"))
    assert said["exp"] + 30 > NOW
    assert max(said.get("nbf", 0), said.get("iat", 0)) <= NOW + 30


@given(mutated(st.just(key_set_text(KEY, RSA, ED).decode())) | mutated(values) | st.binary(max_size=100))
def test_whatever_an_issuer_publishes_is_a_set_or_none(data: bytes) -> None:
    try:
        for key in read_key_set(data).keys:
            assert key.algorithms <= {"ES256", "PS256", "EdDSA", *KEYS.keys[1].algorithms}
    except KeySetError:
        pass


@given(st.binary(max_size=200))
def test_whatever_is_in_a_file_is_a_key_or_none(data: bytes) -> None:
    try:
        read_public_key(b"-----BEGIN PUBLIC KEY-----\n" + data)
    except KeySetError:
        pass
    else:
        raise AssertionError


_NAMES = st.sampled_from(["_token", "token", "arguments", "_meta", "a"])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=6,
)
_PARAMS = st.dictionaries(_NAMES, _JSON, max_size=4)
_HEADERS = st.lists(
    st.tuples(
        st.sampled_from([b"authorization", b"Authorization", b"cookie"]),
        st.binary(max_size=10) | st.binary(max_size=10).map(lambda value: b"Bearer " + value),
    ),
    max_size=3,
)


@given(_HEADERS, _PARAMS, st.booleans())
def test_nothing_of_a_token_stays_in_the_params_and_all_else_does(
    headers: list[tuple[bytes, bytes]], params: dict[str, Any], tools: bool
) -> None:
    raw = msgspec.json.decode(json.dumps(params), type=dict[str, Raw])
    try:
        find_tokens(headers, raw)
    except AmbiguousToken:
        assert len([name for name, _ in headers if name.lower() == b"authorization"]) > 1
    left = without_tokens(raw, argument_is_the_tools=tools)
    found = find_tokens((), left)
    assert found.meta is None
    assert found.argument is None or tools
    assert tools or found == FoundTokens()
    expected = {
        name: {key: inner for key, inner in value.items() if key != dropped.get(name)}
        if isinstance(value, dict) and name in dropped and not (tools and name == "arguments")
        else value
        for name, value in params.items()
        for dropped in ({"arguments": "_token", "_meta": "token"},)
    }
    assert json.loads(msgspec.json.encode(left)) == expected


@pytest.mark.slow
@given(mutated(values) | st.binary(max_size=50))
def test_any_schema_declares_the_argument_or_not(schema: bytes) -> None:
    assert isinstance(declares_token(schema), bool)


@given(st.text(max_size=50))
def test_a_challenge_is_one_header_whatever_it_quotes(text: str) -> None:
    value = challenge(InvalidToken("reason", text), "https://gate.example/m")
    assert value.isascii()
    assert value.isprintable()
    assert len(value.replace("\\\\", "").replace('\\"', "").split('"')) == 7
