"""What is accepted means the same after it is written again, and what is not changed keeps its bytes."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property import oracle
from tests.property.texts import messages, mutated

from accredit.errors import AnswerError, FrameError, RequestError
from accredit.jsonrpc.encode import with_members
from accredit.jsonrpc.era import decode_header
from accredit.jsonrpc.frames import Failure, Request, Success, decode_frame
from accredit.jsonrpc.lines import LineSplitter, encode_line
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.objects import members, pairs
from accredit.jsonrpc.param_headers import encode_header
from accredit.jsonrpc.requests import decode_request
from accredit.jsonrpc.responses import Expected
from accredit.jsonrpc.sse import SseParser, encode_event

pytestmark = pytest.mark.slow


def accepted(text: bytes) -> bool:
    try:
        decode_frame(text)
    except FrameError:
        return False
    return True


@given(mutated(messages()))
def test_the_members_of_a_frame_written_again_mean_the_same(text: bytes) -> None:
    if accepted(text):
        again = with_members(members(text), {})
        assert oracle.parse(again) == oracle.parse(text)
        assert accepted(again)


@given(mutated(messages()))
def test_a_changed_member_leaves_the_text_of_all_others(text: bytes) -> None:
    if accepted(text):
        changed = with_members(members(text), {"id": '\u00e9"\n'})
        before, after = dict(pairs(text)), dict(pairs(changed))
        assert decode_frame(changed)
        assert {name: bytes(raw) for name, raw in after.items() if name != "id"} == {
            name: bytes(raw) for name, raw in before.items() if name != "id"
        }


@given(mutated(messages()))
def test_a_frame_survives_both_framings(text: bytes) -> None:
    if accepted(text):
        (line,) = LineSplitter(1 << 20).feed(encode_line(text))
        (event,) = SseParser(1 << 20).feed(encode_event(text))
        assert isinstance(line, bytes)
        assert event.data is not None
        assert oracle.parse(line) == oracle.parse(event.data) == oracle.parse(text)


@given(mutated(messages()))
def test_an_accepted_message_keeps_its_bytes(text: bytes) -> None:
    try:
        frame = decode_request(text)
    except RequestError:
        return
    assert not isinstance(frame, list)
    assert frame.text is text


@pytest.mark.slow
@given(mutated(messages()), st.integers() | st.text())
def test_an_answer_that_is_forwarded_names_the_request(text: bytes, id: int | str) -> None:
    for asked in (7, "7", id):
        try:
            forwarded = Expected(Era.LEGACY, [Request(asked, "ping", None, b"")]).body(text)
        except AnswerError:
            continue
        frame = decode_frame(forwarded)
        assert isinstance(frame, Success | Failure)
        assert frame.id == asked
        assert type(frame.id) is type(asked)


@given(st.text())
def test_a_header_value_in_its_sentinel_form_is_its_text(text: str) -> None:
    value = b"=?base64?" + base64.b64encode(text.encode()) + b"?="
    assert decode_header(value) == text


@given(st.text() | st.text(" =?base64\t\r\n", max_size=12))
def test_a_header_value_that_the_gateway_writes_means_its_text(text: str) -> None:
    value = encode_header(text)
    assert decode_header(value) == text
    assert value.isascii()
    assert not set(value) & set(b"\r\n\0")


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_a_plain_header_value_is_its_text_without_blanks_around_it(text: str) -> None:
    if not text.strip().startswith("=?base64?"):
        assert decode_header(text.encode()) == text.strip()
