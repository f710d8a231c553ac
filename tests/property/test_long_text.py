"""What is opened in steps is what is opened at one go, with the same reasons, wherever it is cut."""

import itertools
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.property.texts import deep, messages, mutated, numbers, values
from tests.world import hostile_frames

from accredit.base.steps import at_one_go
from accredit.errors import AnswerError, FrameError
from accredit.jsonrpc import long_text, responses, text
from accredit.jsonrpc.frames import MESSAGE, Request
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.objects import MAX_MEMBERS, pairs, unambiguous_members

pytestmark = [pytest.mark.slow, pytest.mark.holds("jsonrpc/long_text")]

Found = TypeVar("Found")
ASKED = Request(7, "tools/call", None, b"")


@pytest.fixture(autouse=True, scope="module", params=[True, False], ids=["one_pass", "no_one_pass"])
def small_slices(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_text, "_SLICE", 40)
        if not request.param:
            patch.setattr(long_text, "reads_well", never)
        yield


def never(data: bytes) -> bool:
    return False


def reason(read: Callable[[bytes], Found], data: bytes) -> tuple[object, ...]:
    try:
        return "read", read(data)
    except (AnswerError, FrameError) as error:
        return type(error), error.detail, error.bound


def opened_at_one_go(data: bytes) -> list[tuple[str, bytes]]:
    text.check_text(data)
    return [(name, bytes(value)) for name, value in pairs(data)]


def in_steps(data: bytes) -> list[tuple[str, bytes]]:
    return [(name, bytes(value)) for name, value in at_one_go(long_text.pairs_in_steps(data))]


def members_at_one_go(data: bytes) -> dict[str, bytes]:
    text.check_text(data)
    return {name: bytes(value) for name, value in unambiguous_members(data, MESSAGE).items()}


def members_in_steps(data: bytes) -> dict[str, bytes]:
    return {name: bytes(value) for name, value in at_one_go(long_text.members_in_steps(data, MESSAGE)).items()}


def same(data: bytes) -> None:
    assert reason(in_steps, data) == reason(opened_at_one_go, data)
    assert reason(members_in_steps, data) == reason(members_at_one_go, data)
    assert reason(lambda found: at_one_go(long_text.check_in_steps(found)), data) == reason(text.check_text, data)


@given(mutated(messages() | values | deep()))
def test_every_text_is_opened_alike(data: bytes) -> None:
    same(data)


PARTS = ["x" * 30, "\u20ac", "\U0001f600", "\\ud83d\\ude00", "\\\\", '\\"', "\\n", "\\u0041", "[", "}", ",", "a:"]
ODD_PARTS = ["\\ud800", "\\", "\n"]
long_strings = st.lists(st.sampled_from(PARTS * 4 + ODD_PARTS), max_size=40).map(
    lambda parts: '"' + "".join(parts) + '"'
)


@st.composite
def long_values(draw: st.DrawFn) -> str:
    """Values with much in them, several slices long."""
    part = draw(values | long_strings | numbers)
    kind = draw(st.integers(0, 4))
    times = draw(st.integers(1, 40))
    if kind == 0:
        return "[" + ",".join([part] * times) + "]"
    if kind == 1:
        return "{" + ",".join(f'"{index}": {part}' for index in range(times)) + "}"
    if kind == 2:
        return "[" * times + part + "]" * times
    if kind == 3:
        return "[" + (" " * times).join(['{"a":[', "1,", part, ',{"b":', draw(long_strings), "}]}"]) + "]"
    return part


@st.composite
def long_messages(draw: st.DrawFn) -> str:
    usual = st.sampled_from(['"id"', '"jsonrpc"', '"result"', '"a"', '"\\u0061"', '"Id"'])
    names = draw(st.lists(usual | long_strings, max_size=5))
    members = [f"{name}:{draw(long_values())}" for name in names]
    return "{" + draw(st.sampled_from([",", " , ", ",\n"])).join(members) + "}"


@given(mutated(long_messages() | long_values()))
@example(b'{"a":[' + b"1," * 60 + b'{"b":[' + b"2," * 60 + b'0]},"x"],"b":' + b"[" * 30 + b"1," * 40 + b"1" + b"]" * 30)
@example(b'{"a":[' + b"1," * 60 + b'],"b":[' + b"1," * 60 + b"1,,1]}")
@example(b'{"a":[' + b" " * 200 + b"1" * 200 + b" " * 200 + b"2]}")
@example(b"{" + b"," * 60 + b'"a":1}')
@example(b'{"a":{"b":"' + b"\\ud83d\\ude00" * 30 + b'"},"c":"' + "\u20ac".encode() * 50 + b'"}')
@example(b'{"a":{"b":"' + b"\\" * 200 + b'","c":["' + b'\\"' * 100 + b'"]}}')
@example(b'{"a":[[' + b"1," * 60 + b"1]]]}")
@example(b'{"a":[{"x":' + b"1," * 60 + b"1}]}")
def test_every_long_text_is_opened_alike(data: bytes) -> None:
    same(data)


@settings(max_examples=40)
@given(st.lists(st.sampled_from([*'[]{}"\\,:1ea \xe9', "0" * 50, "\\a", '\\"']), max_size=120))
def test_every_heap_of_tokens_is_opened_alike(parts: list[str]) -> None:
    same("".join(parts).encode())
    same(b'{"a":[' + "".join(parts).encode() + b"]}")


@given(
    st.integers(0, 60),
    st.sampled_from(["1e999", "9" * 320, '"\\ud83d\\ude00"', "\u20ac", '"\\\\"', "tru", '{"a":1']),
)
def test_what_lies_across_two_slices_is_seen_like_what_does_not(offset: int, part: str) -> None:
    same(f'{{"a":[{"1," * 30}{" " * offset}{part},{"1," * 30}1]}}'.encode())
    same(f'{{"a":["{"x" * offset}{part}{"x" * 60}"]}}'.encode())


def test_hostile_frames_are_opened_alike() -> None:
    for _, data, _ in itertools.chain(hostile_frames.NOT_JSON, hostile_frames.NO_MESSAGE):
        if len(data) < 20_000:
            same(data)


def test_too_many_members_are_refused_alike() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_text, "_SLICE", 20_000)
        for end in (b"}", b",", b',"a":}'):
            same(b"{" + b",".join(b'"%x":0' % n for n in range(MAX_MEMBERS + 1)) + end)
            same(b'{"a":[' + b"[]," * 20_000 + b"0]," + b",".join(b'"%x":0' % n for n in range(MAX_MEMBERS)) + end)


@settings(max_examples=50)
@given(mutated(long_values()), st.sampled_from(Era))
@example(b'{"resultType":"complete","content":[' + b"1," * 60 + b"1]}", Era.MODERN)
@example(b'{"resultType":"complete","resultType":"x","content":[' + b"1," * 60 + b"1]}", Era.MODERN)
def test_an_answer_that_is_opened_in_steps_is_judged_alike(result: bytes, era: Era) -> None:
    data = b'{"jsonrpc":"2.0","id":7,"result":' + result + b"}"

    def body(text: bytes) -> bytes:
        return responses.Expected(era, [ASKED]).body(text)

    def event(text: bytes) -> bytes:
        return responses.Expected(era, [ASKED]).event(text)[0]

    expected = reason(body, data), reason(event, data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(responses, "LONG_ANSWER_BYTES", 60)
        assert (reason(body, data), reason(event, data)) == expected


@settings(max_examples=50)
@given(st.lists(mutated(long_values()), max_size=4))
def test_a_batch_that_is_opened_in_steps_is_judged_alike(results: list[bytes]) -> None:
    parts = [b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (id, result) for id, result in enumerate(results)]
    data = b"[" + b",".join(parts) + b"]"

    def body(text: bytes) -> bytes:
        asked = [Request(id, "tools/call", None, b"") for id in range(3)]
        return responses.Expected(Era.LEGACY, asked, batch=True).body(text)

    expected = reason(body, data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(responses, "LONG_ANSWER_BYTES", 60)
        assert reason(body, data) == expected


def test_a_long_text_is_opened_in_many_steps_and_none_is_much_of_it__a_step_is_what_others_wait_for() -> None:
    nested = b'{"jsonrpc":"2.0","id":7,"result":[' + (b"[" * 100 + b"]" * 100 + b",") * 200 + b"0]}"
    text_of_one = b'{"jsonrpc":"2.0","id":7,"result":{"a":"' + b"x" * 40_000 + b'"}}'
    members = b"{" + b",".join(b'"%d":[1,2]' % n for n in range(4_000)) + b"}"
    for data in (nested, text_of_one, members):
        assert len(list(long_text.pairs_in_steps(data))) > len(data) / 80
