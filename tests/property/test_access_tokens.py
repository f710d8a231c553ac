"""Whatever an authorization server answers: a token that a header can bring, or one error, which quotes nothing."""

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from accredit.errors import AccessTokenError
from accredit.limits import MAX_TOKEN_BYTES
from accredit.tokens.access import MAX_TOLD_TOKEN_SECONDS, AccessGrant, SubjectToken, error_word, read_access_token

SUBJECT = SubjectToken("caller-s-own-token", b"k")
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_NEAR = st.fixed_dictionaries(
    {},
    optional={
        "access_token": st.sampled_from(["abc", SUBJECT.text, "a\r\nb", "é", "=", ""]) | st.text(max_size=30) | _JSON,
        "token_type": st.sampled_from(["Bearer", "bearer", "mac"]) | _JSON,
        "expires_in": st.integers(-2, 4000) | _JSON,
        "issued_token_type": st.sampled_from(["urn:ietf:params:oauth:token-type:access_token", "x"]) | _JSON,
        "error": st.sampled_from(["invalid_grant", "secret words"]) | _JSON,
    },
)


def check(body: bytes, subject: SubjectToken | None) -> None:
    assert re.fullmatch("[a-z_]*", error_word(body))
    token, said = None, ""
    try:
        token = read_access_token(body, subject)
    except AccessTokenError as error:
        said = str(error)
    if token is None:
        assert re.fullmatch(r"the answer('s \w+)? is [a-zA-Z' _]+", said)
        return
    assert re.fullmatch(rb"Authorization: Bearer [A-Za-z0-9._~+/=-]+\r\n", token.line)
    assert len(token.text) <= MAX_TOKEN_BYTES
    assert 1 <= token.seconds <= MAX_TOLD_TOKEN_SECONDS
    assert subject is None or token.text != subject.text


@given(st.binary(max_size=200), st.sampled_from([None, SUBJECT]))
def test_any_bytes_are_a_token_or_an_error(body: bytes, subject: SubjectToken | None) -> None:
    check(body, subject)


@given(_NEAR, st.sampled_from([None, SUBJECT]))
def test_what_is_nearly_an_answer_is_a_token_or_an_error(said: dict[str, Any], subject: SubjectToken | None) -> None:
    check(json.dumps(said).encode(), subject)


@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=30))
def test_no_id_or_secret_breaks_out_of_the_header_or_the_form(client: str, secret: str, audience: str) -> None:
    encodable = [text.encode("utf-8", "replace").decode() for text in (client, secret, audience)]
    grant = AccessGrant("token_exchange", "https://idp.example", *encodable)
    assert re.fullmatch(r"Basic [A-Za-z0-9+/=]+", grant.authorization)
    assert re.fullmatch(rb"[A-Za-z0-9%&=._*+~-]+", grant.form(SUBJECT))
