"""Arrays are counted before they are split, however their elements hide their commas."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from accredit.errors import FrameError
from accredit.jsonrpc.arrays import RewrittenArray, check_values, elements
from accredit.jsonrpc.frames import Success, decode_frame

pytestmark = pytest.mark.holds("jsonrpc/arrays")

HIDING = st.sampled_from(["a,b", "\\", '"', '\\",', ",[", "],", '{"', "\u00e9,", "\\\\,"])
VALUES = st.recursive(
    st.integers() | HIDING | st.booleans(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(HIDING, inner, max_size=4),
    max_leaves=12,
)


def split(value: object, most: int) -> list[bytes]:
    text = Raw(json.dumps(value).encode())
    return [bytes(each) for each in elements(text, "items", most)]


@pytest.mark.slow
@given(st.lists(VALUES, max_size=12), st.integers(1, 12))
def test_an_array_passes_if_its_own_elements_are_not_too_many__whatever_is_in_them(
    value: list[object], most: int
) -> None:
    if len(value) > most:
        with pytest.raises(FrameError) as found:
            split(value, most)
        assert (found.value.detail, found.value.bound) == (f"items has more than {most} elements", True)
    else:
        assert [json.loads(each) for each in split(value, most)] == value


@pytest.mark.parametrize("piece", [b"1", b"[]", b'{"a":[1,2]}', b'"\\",[,"', b"[" * 60 + b"]" * 60])
@pytest.mark.parametrize("count", [65_536, 65_537])
def test_parts_of_a_long_array_are_counted_as_one(piece: bytes, count: int) -> None:
    text = Raw(b"[" + b",".join([piece] * count) + b"]")
    if count == 65_536:
        assert len(elements(text, "items")) == count
    else:
        with pytest.raises(FrameError):
            elements(text, "items")


def test_nothing_is_split_off_of_an_array_of_millions() -> None:
    text = Raw(b"[" + b"1," * 4_000_000 + b"1]")
    tracemalloc.start()
    try:
        with pytest.raises(FrameError):
            elements(text, "items")
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", [None, Raw(b"{}"), Raw(b'"[]"'), Raw(b"null")])
def test_what_is_no_array_is_none(value: Raw | None) -> None:
    with pytest.raises(FrameError, match="items is not an array"):
        elements(value, "items")


@pytest.mark.slow
@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4), st.lists(VALUES, max_size=4), st.booleans())
def test_an_array_that_is_written_anew_stands_where_the_old_one_did(
    more: dict[str, object], items: list[object], first: bool
) -> None:
    more = {name: value for name, value in more.items() if name != "items"}
    result = {"items": [0], **more} if first else {**more, "items": [0]}
    message = {"jsonrpc": "2.0", "result": result, "id": 7, "more": 1}
    frame = decode_frame(json.dumps(message).encode())
    assert isinstance(frame, Success)
    members = frame.members()
    edited = RewrittenArray("items", frame.message(), members, frame.id, 1_000_000)
    for each in items:
        edited.add(Raw(json.dumps(each).encode()))
    new = edited.end()
    expected = {**message, "result": {name: items if name == "items" else value for name, value in result.items()}}
    assert json.loads(new.text) == expected
    assert list(json.loads(new.text)["result"]) == list(result)
    assert json.loads(bytes(new.result)) == expected["result"]


@pytest.mark.parametrize("blanks", [b" ", b"\t\r\n"])
def test_an_array_in_an_answer_that_begins_with_blanks_is_written_anew__its_call_failed(blanks: bytes) -> None:
    frame = decode_frame(blanks + b'{"jsonrpc":"2.0","id":1,"result":{"items":[0]}}')
    assert isinstance(frame, Success)
    members = frame.members()
    edited = RewrittenArray("items", frame.message(), members, frame.id, 1_000)
    assert json.loads(edited.end().text) == {"jsonrpc": "2.0", "id": 1, "result": {"items": []}}


def test_what_it_becomes_is_bounded() -> None:
    frame = decode_frame(b'{"jsonrpc":"2.0","id":1,"result":{"items":[]}}')
    assert isinstance(frame, Success)
    edited = RewrittenArray("items", frame.message(), frame.members(), 1, 100)
    edited.add(Raw(b"1" * 40))
    with pytest.raises(FrameError) as found:
        edited.add(Raw(b"1" * 40))
    assert found.value.bound


def count(value: object) -> int:
    inner = value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()
    return 1 + sum(map(count, inner))


@given(VALUES, st.integers(1, 12))
def test_a_text_passes_if_its_values_are_not_too_many__at_all_levels_together(value: object, most: int) -> None:
    text = json.dumps(value).encode()
    empty = text.count(b"[]") + text.count(b"{}")  # which count as if there were a value in them
    if count(value) > most:
        with pytest.raises(FrameError, match=f"a message has more than {most} values"):
            check_values(text, "a message", most)
    elif count(value) + empty <= most:
        check_values(text, "a message", most)


def test_commas_and_brackets_in_strings_are_no_values() -> None:
    check_values(json.dumps({"text": '[{,\\"' * 100}).encode(), "a message", 2)
