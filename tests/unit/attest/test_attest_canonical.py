"""Digests that anybody can compute again, and that hold no secret."""

import hashlib
import json

import pytest
import rfc8785
from tests.world.records import SECRET

from accredit.attest import canonical, recorded_chain, recorded_params, result_digest
from accredit.attest.canonical import MAX_CANONICAL_RESULT_BYTES
from accredit.errors import AttestationError

pytestmark = pytest.mark.holds("attest/canonical")


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (b'{"b": 1, "a": [true, null]}', b'{"a":[true,null],"b":1}'),
        (b"[1.0, -0.0, -0, 1e2, 0.000001, 1e-7, 1e21, 123456789012345680000]",
         b"[1,0,0,100,0.000001,1e-7,1e+21,123456789012345680000]"),
        (b"[9007199254740993, 18446744073709551616]", b"[9007199254740992,18446744073709552000]"),
        (b"[1.5e-6, -9.99e-6, 1e-5, 5e-7]", b"[0.0000015,-0.00000999,0.00001,5e-7]"),
        (b"[5e-324, 1.7976931348623157e308, 4.35, 9007199254740991]",
         b"[5e-324,1.7976931348623157e+308,4.35,9007199254740991]"),
        ('{"\uffff": 1, "\U0001f600": 2}'.encode(), '{"\U0001f600":2,"\uffff":1}'.encode()),
        (b'"\\u001f\\b\\/\\u20ac"', '"\\u001f\\b/€"'.encode()),
        (b'{"1234567890123456": "1234567890123456"}', b'{"1234567890123456":"1234567890123456"}'),
    ],
)  # fmt: skip
def test_the_form_is_that_of_rfc_8785(text: bytes, form: bytes) -> None:
    assert canonical(text) == form


@pytest.mark.parametrize("text", [b'"\\ud800"', b"[1e400]", b"{", b"", b"\xff", b"[" * 5000])
def test_a_text_without_a_canonical_form_is_refused__not_recorded_as_something_else(text: bytes) -> None:
    with pytest.raises(AttestationError):
        canonical(text)


def test_meta_and_the_tokens_argument_never_reach_a_record() -> None:
    params = {"name": "x", "arguments": {"_token": SECRET, "to": "bob"}, "_meta": {"token": SECRET}}
    recorded = recorded_params(json.dumps(params).encode(), token_argument=True, full=True)
    assert recorded.text == b'{"arguments":{"to":"bob"},"name":"x"}'
    assert recorded.sha256 == hashlib.sha256(recorded.text).hexdigest()


def test_a_member_of_that_name_that_is_no_token_is_recorded__the_upstream_gets_it_too() -> None:
    recorded = recorded_params(b'{"arguments": {"_token": "a"}}', token_argument=False, full=True)
    assert recorded.text == b'{"arguments":{"_token":"a"}}'


def test_a_misspelt_meta_is_meta__an_escape_must_not_hide_a_secret() -> None:
    recorded = recorded_params(b'{"\\u005fmeta": {"token": "a"}}', token_argument=True, full=True)
    assert recorded.text == b"{}"


@pytest.mark.parametrize("params", [b"[1]", b'{"arguments": [1]}', None])
def test_params_of_other_shapes_are_recorded_too(params: bytes | None) -> None:
    recorded = recorded_params(params, token_argument=True)
    assert recorded.sha256 == hashlib.sha256(rfc8785.dumps(json.loads(params or b"{}"))).hexdigest()
    assert recorded.text is None


def test_a_result_is_digested_in_its_canonical_form__whoever_has_the_value_can_check() -> None:
    assert result_digest(b'{"b": 1, "a": 2.0}') == {"rfc8785-sha256": hashlib.sha256(b'{"a":2,"b":1}').hexdigest()}


def test_a_long_result_is_digested_as_it_is__no_call_holds_all_others_up() -> None:
    result = b'"' + b"a" * MAX_CANONICAL_RESULT_BYTES + b'"'
    assert result_digest(result) == {"sha256": hashlib.sha256(result).hexdigest()}


def test_a_result_without_canonical_form_is_digested_as_it_is__it_was_answered_all_the_same() -> None:
    assert result_digest(b'"\\ud800"') == {"sha256": hashlib.sha256(b'"\\ud800"').hexdigest()}


def test_a_chain_is_digested_as_one_array() -> None:
    chain = recorded_chain([b'{"b": 1, "a": 2}', b"{}"])
    assert chain.text == b'[{"a":2,"b":1},{}]'
    assert chain.sha256 == hashlib.sha256(chain.text).hexdigest()
