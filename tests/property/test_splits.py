"""Any split of a byte stream parses the same, and as a slow reader of the whole stream reads it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.errors import AnswerError, FrameError
from accredit.jsonrpc.lines import LineSplitter, encode_line, on_one_line
from accredit.jsonrpc.sse import Event, SseParser, encode_event

ENDS = st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"])
FIELDS = st.sampled_from(
    [b"data", b"data: ", b"data:", b"data:  x", b"event: message", b"event:", b"id: 7", b"id", b"id:\0"]
)
LINES = st.one_of(FIELDS, st.just(b""), st.sampled_from([b": comment", b"retry: 10", b"other", b"data\xff: y"]))
JSON_LINES = st.sampled_from(
    [b'data: {"a":1}', b"data: \xe2\x80\xa8", b"data: a:b", b" data: x", b"\xef\xbb\xbfdata: x"]
)
_STARTS = st.sampled_from([b"", b"", b"\xef\xbb\xbf", b"\xef\xbb"])
_BODIES = st.lists(st.tuples(LINES | JSON_LINES, ENDS).map(b"".join), max_size=14).map(b"".join)
streams = st.tuples(_STARTS, _BODIES).map(b"".join)
anything = st.binary(max_size=60) | st.text("\r\n:dat ei", max_size=60).map(str.encode)


@st.composite
def splits(draw: st.DrawFn, whole: bytes) -> list[bytes]:
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    return [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


def events_of(chunks: list[bytes], limit: int = 1 << 20) -> tuple[list[Event], bool]:
    """The events, and whether one was too long."""
    parser = SseParser(limit)
    events: list[Event] = []
    try:
        for chunk in chunks:
            events.extend(parser.feed(chunk))
    except AnswerError:
        return events, True
    return events, False


def read_slowly(stream: bytes) -> list[tuple[bytes | None, bytes | None, bytes | None]]:
    """Data, name and id of each event that has one, as the WHATWG algorithm finds them in the whole stream."""
    lines = re.split(rb"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf"))
    found: list[tuple[bytes | None, bytes | None, bytes | None]] = []
    data: list[bytes] = []
    name = id = None
    for line in lines[:-1]:
        if not line:
            if data or name is not None or id is not None:
                found.append((b"\n".join(data) if data else None, name, id))
            data, name, id = [], None, None
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
        elif field == b"id" and b"\0" not in value:
            id = value
    return found


def with_fields(events: list[Event]) -> list[tuple[bytes | None, bytes | None, bytes | None]]:
    seen = [(event.data, event.name, event.id) for event in events]
    return [fields for fields in seen if fields != (None, None, None)]


@given(st.data(), streams | anything)
def test_events_do_not_depend_on_how_a_stream_is_cut(data: st.DataObject, stream: bytes) -> None:
    events, _ = events_of(data.draw(splits(stream)))
    assert with_fields(events) == read_slowly(stream)


@given(st.data(), streams | anything)
def test_events_put_together_are_the_stream(data: st.DataObject, stream: bytes) -> None:
    parser = SseParser(1 << 20)
    raw = b"".join(event.raw for chunk in data.draw(splits(stream)) for event in parser.feed(chunk))
    body = stream.removeprefix(b"\xef\xbb\xbf")
    assert body.startswith(raw)
    assert parser.pending == (len(raw) < len(body))


@pytest.mark.slow
@given(st.data(), streams, st.integers(1, 12))
def test_the_good_events_before_one_that_is_too_long_come_out_however_it_is_cut(
    data: st.DataObject, stream: bytes, limit: int
) -> None:
    stream = stream.replace(b"\r", b"")  # an event that ends with a CR may or may not have the LF behind it
    whole, too_long = events_of([stream], limit)
    parts, parts_too_long = events_of(data.draw(splits(stream)), limit)
    assert (with_fields(parts), parts_too_long) == (with_fields(whole), too_long)


@given(st.binary(max_size=40).filter(lambda text: not set(text) & set(b"\r\n\0")), streams | anything)
def test_an_event_that_is_written_reads_back(id: bytes, payload: bytes) -> None:
    (event,) = SseParser(1 << 20).feed(encode_event(payload, id=id))
    assert event.name == b"message"
    assert event.id == id
    assert event.data == on_one_line(payload)


@given(st.data(), st.lists(st.binary(max_size=12), max_size=8).map(b"\n".join))
def test_lines_do_not_depend_on_how_a_stream_is_cut(data: st.DataObject, stream: bytes) -> None:
    splitter = LineSplitter(1 << 20)
    found = [line for chunk in data.draw(splits(stream)) for line in splitter.feed(chunk)]
    assert found == [line for part in stream.split(b"\n")[:-1] if (line := part.strip(b" \t\r"))]


@given(st.data(), st.lists(st.binary(max_size=12), max_size=8).map(b"\n".join), st.integers(1, 8))
def test_a_line_past_the_limit_is_one_error_however_it_is_cut(data: st.DataObject, stream: bytes, limit: int) -> None:
    splitter = LineSplitter(limit)
    found = [line for chunk in data.draw(splits(stream + b"\n")) for line in splitter.feed(chunk)]
    ended = stream.split(b"\n")
    expected = [
        None if len(part) > limit else line for part in ended if (line := part.strip(b" \t\r")) or len(part) > limit
    ]
    assert [None if isinstance(line, FrameError) else line for line in found] == expected


@given(st.binary(max_size=30))
def test_a_line_that_is_written_is_one_line(text: bytes) -> None:
    line = encode_line(text)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert line[:-1].translate(None, b" \r\n") == text.translate(None, b" \r\n")
