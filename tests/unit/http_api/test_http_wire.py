"""The header with a proof has one spelling; refusals say over HTTP what they say in MCP."""

import json
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.errors import ProofRefused
from accredit.http_api.wire import (
    MAX_PROOF_HEADER_BYTES,
    authenticate,
    decode_proof_header,
    encode_proof_header,
    problem,
    retry_after,
    status_of,
)
from accredit.limits import MAX_PROOF_BUNDLE_BYTES
from accredit.refusals import BY_WORD


@given(st.binary(min_size=1, max_size=100))
def test_a_bundle_comes_back_as_it_was(bundle: bytes) -> None:
    assert decode_proof_header(encode_proof_header(bundle)) == bundle


@pytest.mark.holds("http_api/wire", "header")
@given(st.binary(max_size=60))
def test_no_other_text_is_the_same_proof(value: bytes) -> None:
    decoded = decode_proof_header(value)
    assert decoded is None or encode_proof_header(decoded) == value


@pytest.mark.holds("http_api/wire", "header")
@pytest.mark.parametrize(
    "value", [b"", b"e30=", b"e3", b"e31", b"e+0", b"e/0", b" e30", b"e30\n", b"e", b"\xff", b"e30,e30"]
)
def test_another_spelling_is_none(value: bytes) -> None:
    assert decode_proof_header(b"e30") == b"{}"
    assert decode_proof_header(value) is None


def test_the_longest_bundle_is_read__and_none_that_is_longer() -> None:
    longest = encode_proof_header(bytes(MAX_PROOF_BUNDLE_BYTES))
    assert len(longest) == MAX_PROOF_HEADER_BYTES
    assert decode_proof_header(longest) == bytes(MAX_PROOF_BUNDLE_BYTES)
    assert decode_proof_header(urlsafe_b64encode(bytes(MAX_PROOF_BUNDLE_BYTES + 1)).rstrip(b"=")) is None


@pytest.mark.holds("http_api/wire", "status")
@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("missing_ratify_proof", 401),
        ("ratify_challenge_required", 401),
        ("ratify_replayed", 401),
        ("ratify_expired", 401),
        ("ratify_revoked", 403),
        ("ratify_scope_denied", 403),
        ("ratify_invalid", 403),
        ("ratify_constraint_denied", 403),
        ("ratify_untrusted_root", 403),
        ("unknown_route", 403),
        ("too_many_challenges", 429),
        ("quota_exceeded", 429),
        ("record_unavailable", 503),
    ],
)
def test_each_refusal_has_its_status(word: str, status: int) -> None:
    assert status_of(ProofRefused({"error": word}, "x", BY_WORD[word].code)) == status


@pytest.mark.holds("http_api/wire", "status")
def test_what_could_not_be_decided_is_the_gateways_fault() -> None:
    data = {"error": "ratify_invalid", "reason": "store_unavailable: the decision could not be made"}
    assert status_of(ProofRefused(data)) == 503


@pytest.mark.holds("http_api/wire", "problem")
def test_a_problem_says_what_the_refusal_says() -> None:
    data = {"error": "quota_exceeded", "retry_after_seconds": 5, "_meta": {}}
    told = json.loads(problem(429, -31013, "quota_exceeded: later", data))
    assert told == {
        "type": "about:blank",
        "status": 429,
        "detail": "quota_exceeded: later",
        "code": -31013,
        "error": "quota_exceeded",
        "data": data,
    }
    assert json.loads(problem(400, -32600, "no", None))["error"] == ""
    assert retry_after(ProofRefused(data)) == 5
    assert retry_after(ProofRefused({"retry_after_seconds": None})) is None


def test_a_challenge_says_all_that_a_proof_needs__and_nothing_breaks_its_quotes() -> None:
    data = {
        "error": "ratify_challenge_required",
        "required_scope": 'a"b\\c\r\nd',
        "_meta": {"ratify_challenge": {"challenge": "AAA="}},
    }
    assert authenticate(data, "gw/mail", "accredit/http/v1") == (
        b'Ratify error="ratify_challenge_required", challenge="AAA=", verifier="gw/mail",'
        b' workspace="accredit/http/v1", scope="a\\"b\\\\c??d", binding="required"'
    )
    assert b"challenge" not in authenticate({"error": "x"}, "gw", "w")
