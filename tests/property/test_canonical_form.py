"""For any values: C code writes what the library for RFC 8785 writes, and refuses what it refuses."""

import json
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from accredit.base.steps import at_one_go
from accredit.canonical import (
    MAX_REWRITTEN_NUMBERS,
    canonical,
    canonical_in_steps,
    decode_base64url,
    encode_base64url,
    has_wide_integer,
)

pytestmark = [pytest.mark.slow, pytest.mark.holds("canonical")]

MAX_SAFE = 2**53 - 1
texts = st.text(st.characters(codec="utf-8"), max_size=8)
odd_texts = st.sampled_from(
    [
        "\uffff",
        "\U0001f600",
        "\ue000",
        "\xff\xfe",
        "1234567890123456",
        ".0,",
        "1e-6",
        '",1e16,"',
        "-0.0]",
        "\\",
        '\\"',
        '"',
    ]
)
odd_numbers = st.sampled_from([0.0, -0.0, 1e16, 1e21, -1e20, 9.99e-6, -1e-6, 1e-7, 5e-324, 2.0**53, 2.0**60, MAX_SAFE])
numbers = (
    st.integers(-MAX_SAFE, MAX_SAFE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-999, 999).map(float)
    | st.tuples(st.integers(-(10**17), 10**17), st.integers(-40, 20)).map(lambda parts: parts[0] * 10.0 ** parts[1])
    | odd_numbers
)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts | odd_texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts | odd_texts, inner),
    max_leaves=25,
)


@pytest.mark.holds("canonical", "fractions", "exponents", "order")
@settings(max_examples=400)
@given(values)
@example({"\ue000": 1, "\U0001f600": [{"\uffff": 1, "\U00010000": -0.0}]})
@example([1e16, -1.5e17, 123456789012345680000.0, 1e-6, -2.5e-6, 1e21, 1.5e300, -0.0, "1e16,-0.0,"])
def test_the_form_of_any_value_is_the_librarys__or_a_proof_would_be_bound_to_another_call(value: Any) -> None:
    form = rfc8785.dumps(value)
    assert canonical(value) == form
    assert at_one_go(canonical_in_steps(value)) == form
    assert canonical(msgspec.json.decode(json.dumps(value))) == form


@settings(max_examples=200)
@given(st.integers(-(2**70), 2**70), texts | odd_texts, st.sampled_from([None, 1]))
def test_an_integer_that_doubles_confuse_is_refused_wherever_it_stands(
    number: int, name: str, indent: int | None
) -> None:
    value: dict[str, Any] = {name: [f"{2**60}", 0.12345678901234567, {"x": number}]}
    text = json.dumps(value, indent=indent).encode()
    assert has_wide_integer(text) is (abs(number) > MAX_SAFE)
    if abs(number) > MAX_SAFE:
        with pytest.raises(ValueError, match=r"2\^53-1"):
            canonical(value)
        value[name][2] = {"x": float(number)}
        assert canonical(msgspec.json.decode(text), wide_integers="as doubles") == rfc8785.dumps(value)
    else:
        assert canonical(value) == rfc8785.dumps(value)


@pytest.mark.holds("canonical", "exponents")
@pytest.mark.parametrize("number", [b"1e-6", b"1.5e17", b"12345678901234567"])
def test_numbers_that_are_written_one_by_one_are_bounded(number: bytes) -> None:
    most = msgspec.json.decode(b"[" + b",".join([number] * MAX_REWRITTEN_NUMBERS) + b"]")
    assert canonical(most, wide_integers="as doubles") == rfc8785.dumps([float(number)] * MAX_REWRITTEN_NUMBERS)
    with pytest.raises(ValueError, match="more"):
        canonical([*most, *most[:8000]], wide_integers="as doubles")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("\ud800", "surrogate"),
        ({"\ud800": 1}, "surrogate"),
        (object(), "no|not"),
        (int("9" * 400), "not finite"),
    ],
    ids=["text", "name", "object", "integer"],
)
def test_what_has_no_form_is_a_value_error_and_nothing_else(value: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        canonical([value], wide_integers="as doubles")


@given(st.binary(max_size=40), st.text("Aa0-_=+/ \n\xe9", max_size=6))
def test_base64url_has_one_spelling(data: bytes, text: str) -> None:
    assert decode_base64url(encode_base64url(data)) == data
    try:
        decoded = decode_base64url(text)
    except ValueError:
        return
    assert encode_base64url(decoded).decode() == text
