"""For any values: the canonical form is the library's, and no bit of a log can change unnoticed."""

import contextlib
import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.world.records import Chained, gateway

from accredit.attest import (
    Envelope,
    Signature,
    canonical,
    decode_envelope,
    decode_statement,
    encode_envelope,
    signature_members,
    verify_envelope,
    verify_log,
)
from accredit.errors import AttestationError

pytestmark = pytest.mark.slow

MAX_SAFE = 2**53 - 1
texts = st.text(st.characters(codec="utf-8"))
odd_texts = st.sampled_from(["\uffff", "\U0001f600", "\ue000", "é", "1234567890123456", "a"])
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts | odd_texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts | odd_texts, inner),
    max_leaves=20,
)


def as_doubles(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: as_doubles(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [as_doubles(inner) for inner in value]
    return float(value) if isinstance(value, int) and abs(value) > MAX_SAFE else value


@settings(max_examples=200)
@given(values, st.booleans())
def test_the_canonical_form_is_that_of_the_library(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert canonical(text) == rfc8785.dumps(as_doubles(value))


LOG = [encode_envelope(envelope) for envelope in Chained().calls(2)]
KEYS = [gateway()[1]]


@settings(max_examples=150)
@given(st.integers(0, len(LOG) - 1), st.data())
def test_every_flipped_bit_of_an_export_is_found(line: int, data: st.DataObject) -> None:
    bit = data.draw(st.integers(0, 8 * len(LOG[line]) - 1))
    flipped = bytearray(LOG[line])
    flipped[bit // 8] ^= 1 << bit % 8
    assert not verify_log([*LOG[:line], bytes(flipped), *LOG[line + 1 :]], KEYS).valid


@settings(max_examples=100)
@given(st.permutations(range(len(LOG))), st.integers(1, len(LOG)))
def test_only_the_log_itself_verifies__no_other_order_and_no_part_but_its_beginning(
    order: list[int], length: int
) -> None:
    chosen = order[:length]
    assert verify_log([LOG[number] for number in chosen], KEYS).valid == (chosen == list(range(length)))


@settings(max_examples=200)
@given(st.dictionaries(texts | odd_texts | st.sampled_from(["keyid", "sig"]), values, min_size=1), st.booleans())
def test_what_a_signature_holds_survives_its_text__or_is_refused(members: dict[str, Any], indented: bool) -> None:
    try:
        kept = signature_members(members)
    except AttestationError:
        return
    envelope = Envelope(b"said", (Signature("other", b"signed", kept),))
    text = encode_envelope(envelope)
    if indented:
        text = json.dumps(json.loads(text), indent=2).encode()
    assert decode_envelope(text) == envelope
    assert {"keyid", "sig", *members} == json.loads(text)["signatures"][0].keys()


@settings(max_examples=100)
@given(st.lists(st.dictionaries(st.sampled_from(["keyid", "sig", "bundle", "ü"]), values | st.just("AAAA"))))
def test_no_signature_escapes_the_error_tree(signatures: list[object]) -> None:
    envelope = {"payload": "AAAA", "payloadType": "application/vnd.in-toto+json", "signatures": signatures}
    with contextlib.suppress(AttestationError):
        found = decode_envelope(json.dumps(envelope).encode())
        assert decode_envelope(encode_envelope(found)) == found
    assert not verify_log([json.dumps(envelope).encode()], KEYS).valid


@settings(max_examples=100)
@given(st.binary(max_size=200) | texts.map(str.encode) | values.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_escape_the_error_tree(data: bytes) -> None:
    for read in (lambda: verify_envelope(data, KEYS), lambda: decode_statement(data)):
        try:
            read()
        except AttestationError:
            continue
        raise AssertionError("it was taken for one of ours")
    assert not verify_log([data], KEYS).valid
    with contextlib.suppress(AttestationError):
        canonical(data)
