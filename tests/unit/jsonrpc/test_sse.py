"""Server-sent events: parsed as they come, their bytes kept, all bounded."""

import pytest

from accredit.errors import AnswerError
from accredit.jsonrpc.sse import KEEP_ALIVE, MAX_EVENT_LINES, Event, SseParser, encode_event


def parse(*chunks: bytes, limit: int = 1000) -> list[Event]:
    parser = SseParser(limit)
    return [event for chunk in chunks for event in parser.feed(chunk)]


def data_of(*chunks: bytes) -> list[bytes | None]:
    return [event.data for event in parse(*chunks)]


def test_an_event_has_its_fields_and_its_bytes() -> None:
    raw = b"id: 5\nevent: message\ndata: {}\nretry: 100\n: note\nother: x\n\n"
    assert parse(raw) == [Event(raw, b"{}", b"message", b"5")]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_lines_end_in_three_ways(end: bytes) -> None:
    assert data_of(end.join([b"data: a", b"data: b", b"", b"data: c", b"", b""])) == [b"a\nb", b"c"]


def test_an_event_is_there_once_its_blank_line_is__a_client_must_not_wait_for_the_next_one() -> None:
    parser = SseParser(100)
    assert not list(parser.feed(b"data: a\r\n"))
    assert parser.pending
    assert [event.raw for event in parser.feed(b"\r")] == [b"data: a\r\n\r"]
    assert [event.raw for event in parser.feed(b"\ndata: b\n\n")] == [b"\n", b"data: b\n\n"]
    assert not parser.pending


def test_a_cr_may_be_half_of_a_crlf_in_two_chunks__else_each_line_would_end_an_event() -> None:
    assert data_of(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [b"a\nb", None]


@pytest.mark.parametrize(
    ("line", "data"),
    [
        (b"data", b""),
        (b"data:", b""),
        (b"data: ", b""),
        (b"data:  a", b" a"),
        (b"data:a:b", b"a:b"),
        (b" data: a", None),
        (b"DATA: a", None),
    ],
)
def test_the_value_of_a_field_loses_one_space(line: bytes, data: bytes | None) -> None:
    assert data_of(line + b"\n\n") == [data]


def test_comments_and_retry_have_no_data() -> None:
    assert data_of(KEEP_ALIVE, b"retry: 10\n\n", b"id: 1\n\n") == [None, None, None]


def test_an_id_with_nul_is_ignored__it_could_not_come_back_in_a_header() -> None:
    (event,) = parse(b"id: 1\nid: a\0b\ndata: x\n\n")
    assert event.id == b"1"


def test_an_empty_id_and_name_are_there() -> None:
    assert parse(b"id\nevent:\n\n")[0] == Event(b"id\nevent:\n\n", None, b"", b"")


@pytest.mark.parametrize(
    "chunks",
    [[b"\xef\xbb\xbfdata: a\n\n"], [b"\xef", b"\xbb", b"\xbfdata: a\n\n"], [b"", b"\xef\xbb\xbf", b"data: a\n\n"]],
)
def test_a_byte_order_mark_is_skipped_at_the_start_only(chunks: list[bytes]) -> None:
    assert data_of(*chunks) == [b"a"]
    assert data_of(b"data: a\n\n\xef\xbb\xbfdata: b\n\n") == [b"a", None]
    assert data_of(b"\xef\xbbdata: a\n\n") == [None]


def test_line_separators_of_unicode_do_not_end_lines() -> None:
    text = "data: \u2028\u0085\x0b\x0c".encode()
    assert data_of(text + b"\n\n") == [text[6:]]


def test_an_event_that_is_cut_off_is_pending_and_never_comes_out() -> None:
    parser = SseParser(100)
    assert not list(parser.feed(b"data: a\n"))
    assert parser.pending


@pytest.mark.parametrize(
    "text", [b"data: " + b"x" * 200, b"data: x\n" * 30, b"data: " + b"x" * 200 + b"\n\n", b": " + b"x" * 200]
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_event_past_the_limit_is_refused_ended_or_not__it_would_fill_the_memory(text: bytes, size: int) -> None:
    chunks = [text[start : start + size] for start in range(0, len(text), size)]
    with pytest.raises(AnswerError, match="an event longer than 100 bytes") as error:
        parse(*chunks, limit=100)
    assert error.value.bound


def test_blank_lines_in_a_row_are_one_empty_event_of_any_length__a_peer_can_send_millions() -> None:
    assert [event.raw for event in parse(b"\n\r\n\rdata: a\n\n\n")] == [b"\n\r\n\r", b"data: a\n\n", b"\n"]
    assert b"".join(event.raw for event in parse(b"\n" * 250, limit=100)) == b"\n" * 250


def test_good_events_before_one_that_is_too_long_come_out_of_the_same_chunk() -> None:
    parser = SseParser(100)
    events = parser.feed(b"data: a\n\n" + b"data: " + b"x" * 200)
    assert next(events).data == b"a"
    with pytest.raises(AnswerError):
        next(events)


def test_an_event_of_exactly_the_limit_passes() -> None:
    assert len(parse(b"data: " + b"x" * 92 + b"\n\n", limit=100)) == 1


def test_an_event_of_too_many_lines_is_refused__lines_of_one_byte_cost_more_than_any_other_input() -> None:
    assert len(parse(b"a\n" * MAX_EVENT_LINES + b"\n", limit=1 << 20)) == 1
    with pytest.raises(AnswerError, match="an event of more than 100000 lines") as error:
        parse(b"a\n" * (MAX_EVENT_LINES + 1), limit=1 << 20)
    assert error.value.bound


def test_an_event_is_written_with_a_name_and_perhaps_an_id() -> None:
    assert encode_event(b"{}") == b"event: message\ndata: {}\n\n"
    assert encode_event(b"{}", id=b"7") == b"event: message\nid: 7\ndata: {}\n\n"
    assert encode_event(b"{}", name=None) == b"data: {}\n\n"
    assert encode_event(b"", name=b"endpoint") == b"event: endpoint\ndata: \n\n"


def test_json_of_several_lines_is_written_on_one__else_its_rest_would_be_read_as_other_fields() -> None:
    assert encode_event(b'{\r\n"a":1\n}\r', name=None) == b'data: {  "a":1 } \n\n'


@pytest.mark.parametrize(
    "chunk",
    [
        b"data: x\n\n", b"event: message\ndata: x\n\n", b"data: x\n\ndata: y\n\n", b"data: \n\n", b"data:  x \n\n",
        b"data: x\ny\n\n", b"data: x\r\n\n", b"data: x\n\r", b"data: x\n", b"data: x", b"data: x\n\n\n",
        b"event: message\ndata: x\nid: 1\n\n", b"event: message\ndata: x\ndata: y\n\n", b"event: message\ndata: \n\n",
    ],
)  # fmt: skip
def test_an_event_of_the_usual_form_in_one_piece_is_the_one_that_comes_byte_by_byte(chunk: bytes) -> None:
    whole, split = SseParser(1_000), SseParser(1_000)
    for _ in range(2):
        read = [each for byte in chunk for each in split.feed(bytes([byte]))]
        assert [each for each in whole.feed(chunk) if each.raw.strip()] == [each for each in read if each.raw.strip()]
        assert whole.pending == split.pending


def test_an_event_of_the_usual_form_is_bounded_like_any_other() -> None:
    assert len(list(SseParser(9).feed(b"data: x\n\n"))) == 1
    with pytest.raises(AnswerError):
        list(SseParser(8).feed(b"data: x\n\n"))
