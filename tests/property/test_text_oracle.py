"""The fast passes over a text against slow ones: nesting, numbers, UTF-8, members."""

import json
import math
import re
from itertools import accumulate

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.property import oracle
from tests.property.texts import deep, mutated, numbers, objects, strings, values

from accredit.base.text import excerpt
from accredit.errors import FrameError, JsonError
from accredit.jsonrpc import text as fast
from accredit.jsonrpc.objects import MAX_BATCH_MEMBERS, members, pairs, split_batch

pytestmark = pytest.mark.slow

texts = mutated(values | deep())


def parsed(text: bytes) -> object:
    try:
        return oracle.parse(text)
    except oracle.Refused:
        return oracle.Refused


@given(texts, st.integers(0, 5) | st.just(128))
@example(b'["\\n\\"",' + b"[" * 200 + b"]" * 200 + b',"\\n\\""]', 128)
@example(b'["\\\\",[[[]]],"\\\\\\""]', 3)
def test_nesting_is_as_deep_as_a_loop_finds_it(text: bytes, limit: int) -> None:
    try:
        value = text.decode()
        json.loads(value)
    except (ValueError, RecursionError):
        return
    assert fast.depth_exceeds(text, limit) == (oracle.depth_of(value) > limit)


@given(st.lists(st.sampled_from([b"[", b"]", b"{", b"}", b"[]", b"{[]}", b"[[]", b"1,"])), st.integers(0, 5))
@example([b"["] * 128, 128)
@example([b"]"] * 9 + [b"["] * 3, 2)
def test_nesting_of_any_brackets_is_the_most_that_are_open_at_once(parts: list[bytes], limit: int) -> None:
    text = b"".join(parts)
    steps = [1 if byte in b"[{" else -1 for byte in text if byte in b"[]{}"]
    assert fast.depth_exceeds(text, limit) == (max(accumulate(steps, initial=0)) > limit)


@given(st.lists(strings | numbers, max_size=6), st.sampled_from([",", ", ", "\n,"]))
@example(["1e" + "0" * 400 + "1"], ",")
@example(["1" + "0" * 400 + "e-200", "0." + "0" * 400 + "1e400", "-" + "9" * 309], ",")
def test_a_number_is_finite_when_a_float_of_it_is(parts: list[str], comma: str) -> None:
    text = f"[{comma.join(parts)}]"
    try:
        found: list[object] = json.loads(text, parse_int=float, parse_float=float)
    except ValueError:
        return
    finite = all(not isinstance(value, float) or math.isfinite(value) for value in found)
    assert fast.numbers_are_finite(text.encode("utf-8", "surrogatepass")) == finite


@given(st.binary(max_size=20), st.integers(1, 8))
def test_utf8_is_what_a_decoder_says_also_where_a_slice_ends_in_a_character(part: bytes, repeated: int) -> None:
    data = b"\xf0\x9f\x98\x80" * ((fast._SLICE // 4) - 1) + part * repeated
    try:
        data.decode()
        valid = True
    except UnicodeDecodeError:
        valid = False
    try:
        fast.check_utf8(data)
        assert valid
    except JsonError:
        assert not valid


@given(st.integers(-12, 12), st.sampled_from([b"1e999", b'"\\\\"', b'"[[\\"[["', b"9" * 320]))
def test_what_lies_across_two_slices_is_seen_like_what_does_not(offset: int, part: bytes) -> None:
    filling = b" " * (fast._SLICE + offset - len(part))
    text = b"[" * 128 + filling + part + b"]" * 128
    near = b"[" * 128 + part + b"]" * 128
    assert accepted(text) == accepted(near)


def accepted(text: bytes) -> bool:
    try:
        fast.check_text(text)
    except JsonError:
        return False
    return True


@given(texts)
def test_members_are_counted_at_every_depth(text: bytes) -> None:
    value = parsed(text)
    if value is not oracle.Refused:
        assert fast.count_members(text) == count(value)


def count(value: object) -> int:
    if isinstance(value, oracle.Members):
        return sum(1 + count(inner) for _, inner in value)
    return sum(map(count, value)) if isinstance(value, list) else 0


@given(mutated(objects(strings, values)))
def test_pairs_are_all_members_in_their_order_with_their_texts(text: bytes) -> None:
    value = parsed(text)
    try:
        fast.check_text(text)
        found = pairs(text)
    except FrameError:
        assert not isinstance(value, oracle.Members)
        return
    assert [(name, parsed(bytes(raw))) for name, raw in found] == value
    assert dict(found).keys() == members(text).keys()
    assert members(text) == dict(found)


@given(mutated(st.lists(values, max_size=3).map(lambda parts: "[" + " , ".join(parts) + "]")))
@example(b"[" + b",".join([b"{}"] * MAX_BATCH_MEMBERS) + b"]")
@example(b"[" + b",".join([b"{}"] * (MAX_BATCH_MEMBERS + 1)) + b"]")
def test_a_batch_is_split_into_its_elements(text: bytes) -> None:
    value = parsed(text)
    try:
        fast.check_text(text)
        parts = split_batch(text)
    except FrameError:
        assert (
            not isinstance(value, list) or not 0 < len(value) <= MAX_BATCH_MEMBERS or isinstance(value, oracle.Members)
        )
        return
    assert [oracle.parse(part) for part in parts] == value


@given(st.text() | st.binary())
def test_an_excerpt_is_short_printable_ascii(text: str | bytes) -> None:
    assert re.fullmatch(r"[ -~]{0,100}", excerpt(text))
