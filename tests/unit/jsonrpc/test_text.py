"""Strict JSON text: each rule, and the harm that it prevents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.errors import FrameError, JsonError
from accredit.jsonrpc import text
from accredit.jsonrpc.text import (
    MAX_ANSWER_STRUCTURES,
    MAX_EXTREME_NUMBERS,
    check_structures,
    check_text,
    check_utf8,
    count_members,
    depth_exceeds,
    numbers_are_finite,
    outside_strings,
)
from accredit.limits import MAX_DEPTH


def test_plain_json_passes() -> None:
    check_text(b'{"a": [1, -2.5e-3, "x \\" \\u00e9 \xc3\xa9", true, null, {}]}')


@pytest.mark.holds("jsonrpc/text", "utf-8")
def test_a_byte_order_mark_is_refused__some_parsers_fail_on_it_and_some_skip_it() -> None:
    with pytest.raises(JsonError, match="byte order mark"):
        check_text(b'\xef\xbb\xbf{"a":1}')


@pytest.mark.holds("jsonrpc/text", "utf-8")
@pytest.mark.parametrize(
    "part",
    [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc3", b"\xe2\x82"],
    ids=["no_lead_byte", "overlong", "surrogate", "past_unicode", "cut_2", "cut_3"],
)
def test_invalid_utf8_is_refused__strict_clients_crash_and_lenient_ones_see_other_text(part: bytes) -> None:
    with pytest.raises(JsonError, match="not UTF-8"):
        check_text(b'{"a":"' + part + b'"}')


def test_utf16_is_refused__a_parser_that_guesses_encodings_would_read_it() -> None:
    with pytest.raises(JsonError, match="not UTF-8"):
        check_text('{"a":1}'.encode("utf-16"))


def test_a_character_across_two_slices_is_whole() -> None:
    check_utf8(b"x" * ((1 << 18) - 1) + "\u20ac".encode() * 10)


def test_nesting_up_to_the_limit_passes() -> None:
    check_text(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)


@pytest.mark.holds("jsonrpc/text", "depth")
@pytest.mark.parametrize(
    "text",
    [
        b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
        b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1),
        b'[{"a":' * 65 + b"1" + b"}]" * 65,
        b"[" * 100_000 + b"]" * 100_000,
        b"[" * 100_000,
    ],
    ids=["arrays", "objects", "both", "100000", "100000_never_closed"],
)
def test_deeper_nesting_is_refused__parsers_that_recurse_crash(text: bytes) -> None:
    with pytest.raises(JsonError, match="nested more than 128 deep") as error:
        check_text(text)
    assert error.value.bound


def test_deep_nesting_hidden_behind_an_escape_is_refused__a_miscounted_quote_would_turn_brackets_into_text() -> None:
    with pytest.raises(JsonError, match="nested"):
        check_text(b'["\\n\\"",' + b"[" * 200 + b"]" * 200 + b',"\\n\\""]')


@pytest.mark.parametrize("string", [b'"["', b'"\\"["', b'"\\\\"', b'"\\n\\"[\\""', b'"[\\\\\\"["'])
def test_brackets_in_strings_do_not_count__else_a_file_of_code_would_be_refused(string: bytes) -> None:
    check_text(b"[" + b",".join([string] * 201) + b"]")


def test_many_siblings_are_not_deep() -> None:
    check_text(b"[" + b",".join([b'{"a":[]}'] * 100_000) + b"]")


def test_many_siblings_with_words_and_escapes_are_not_deep() -> None:
    check_text(b"[" + b",".join([b'{"a":[true,null,"\\n\\u00e9"]}'] * (2 * MAX_DEPTH)) + b"]")


def test_a_number_in_a_string_may_look_as_if_it_overflowed__base64_does_all_the_time() -> None:
    check_text(b'{"a":"AB0e999/+1E400==","b":"\\"1e999","c":true}')


def test_depth_is_carried_from_slice_to_slice() -> None:
    text = b"[" * 100 + b"[]," * 200_000 + b"[" * 50 + b"]" * 150
    assert depth_exceeds(text, 149)
    assert not depth_exceeds(text, 150)


@pytest.mark.holds("jsonrpc/text", "finite")
@pytest.mark.parametrize(
    "number",
    [b"1e999", b"-1E999", b"1e+309", b"9" * 310, b"1.8e308", b"0.1e310", b"1" + b"0" * 250 + b"e99", b"1e0000309"],
)
def test_a_number_that_overflows_is_refused__some_parsers_read_infinity(number: bytes) -> None:
    with pytest.raises(JsonError, match="a number is too large"):
        check_text(b'{"a":[' + number + b"]}")


@pytest.mark.parametrize(
    "value",
    [
        b"1e308",
        b"1e-999",
        b"1e-" + b"9" * 400,
        b"0e999",
        b"9" * 308,
        b"0." + b"0" * 400 + b"1e400",
        b"1" + b"0" * 400 + b"e-200",
        b'"1e999"',
    ],
)
def test_a_number_that_does_not_overflow_passes_however_it_is_written(value: bytes) -> None:
    check_text(b'{"a":[' + value + b"]}")


@pytest.mark.parametrize("before", range(1, 6))
def test_a_number_across_two_slices_is_seen(before: int) -> None:
    with pytest.raises(JsonError, match="a number is too large"):
        check_text(b"[" + b" " * ((1 << 18) - 1 - before) + b"1e999]")


def test_too_many_extreme_numbers_are_refused__each_costs_a_conversion() -> None:
    assert numbers_are_finite(b"[" + b",".join([b"1e300"] * MAX_EXTREME_NUMBERS) + b"]")
    assert not numbers_are_finite(b"[" + b",".join([b"1e300"] * (MAX_EXTREME_NUMBERS + 1)) + b"]")
    assert numbers_are_finite(b"[" + b",".join([b"0." + b"0" * 200] * (MAX_EXTREME_NUMBERS + 1)) + b"]")


def test_members_are_counted_outside_strings_only() -> None:
    assert count_members(b'{"a:b":{"c":":\\":","d":[{"e":1}]}}') == 4


@pytest.mark.slow
def test_as_many_arrays_and_objects_as_may_be_pass__and_any_number_in_strings() -> None:
    most = b"[" + b"[]," * (MAX_ANSWER_STRUCTURES - 1) + b"0]"
    check_structures(most)
    check_structures(b'{"a":"' + b"[{" * (MAX_ANSWER_STRUCTURES + 1) + b'"}')
    with pytest.raises(FrameError, match="arrays and objects"):
        check_structures(b"[" + most + b"]")


@given(st.binary(max_size=200) | st.lists(st.sampled_from([b'"', b"\\", b"n", b"[", b"}", b",", b"1"])).map(b"".join))
def test_what_is_outside_strings_is_the_same_wherever_a_slice_ends(data: bytes) -> None:
    whole = b"".join(outside_strings(data)), b"".join(outside_strings(data, b"[]{}"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_SLICE", 3)
        assert (b"".join(outside_strings(data)), b"".join(outside_strings(data, b"[]{}"))) == whole


@pytest.mark.parametrize("last", [b"1e308", b"1e309"])
def test_a_number_is_judged_whole__wherever_a_slice_ends(last: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_SLICE", 3)
        for data in (b"[1e3," + last + b"]", last, b'["1e999",' + last + b" ]"):
            assert numbers_are_finite(data) == (last == b"1e308")
