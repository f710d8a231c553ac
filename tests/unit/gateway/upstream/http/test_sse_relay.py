"""Streams without sockets: any split is the same stream, and no bytes break the relay or reach the client unjudged."""

import asyncio
import json
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.world.asgi import MemoryAnswer, Told
from tests.world.calls import ERAS, compact, error, event, log_message, post, response

from accredit.errors import AccreditError, AnswerError, UpstreamUnavailable
from accredit.gateway.counters import Counters
from accredit.gateway.forwarding import Forwarding
from accredit.gateway.settings import GatewaySettings, HttpUpstream
from accredit.gateway.upstream.http.relay import whole_response
from accredit.gateway.upstream.http.sse_relay import EventRelay
from accredit.jsonrpc.encode import UPSTREAM_ERROR
from accredit.jsonrpc.frames import Failure, Request, Success, decode_frame
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import decode_request
from accredit.jsonrpc.responses import Expected
from accredit.jsonrpc.sse import SseParser

LIMIT = 2_000
SETS_A_COOKIE = (b"set-cookie", b"a=b")
SETTINGS = GatewaySettings(HttpUpstream("http://127.0.0.1:1/mcp"), max_event_bytes=LIMIT)
LONGER = GatewaySettings(HttpUpstream("http://127.0.0.1:1/mcp"), max_event_bytes=400_000)
OBSERVING = GatewaySettings(HttpUpstream("http://127.0.0.1:1/mcp"), max_event_bytes=LIMIT, enforce=False)


def relayed(era: Era, *pieces: bytes | Exception, hold: bool = False, settings: GatewaySettings = SETTINGS) -> Told:
    """What a client gets of a stream that answers its request 7."""
    request = decode_request(post(era).body)
    assert isinstance(request, Request)
    told = Told()

    async def case() -> None:
        answer = MemoryAnswer(200, [(b"content-type", b"text/event-stream"), SETS_A_COOKIE], *pieces)
        relay = EventRelay(
            told.exchange,
            answer.as_answer(),
            Expected(era, [request]),
            headers=Forwarding(listed_only=False).to_client(answer.as_answer().headers),
            settings=settings,
            counters=Counters(),
            learn=lambda frame: None,
            idle_seconds=3_600.0,
            hold=hold,
        )
        try:
            await relay.run()
        except AccreditError:
            assert not told.status  # it is raised only while the answer can still be another one
            raise

    asyncio.run(case())
    return told


EVENTS = [
    event(log_message()),
    event(log_message(), id="4"),
    event(response()),
    event(error()),
    event(error(None)),
    event(response(8)),
    b"data: {}\n\n",
    b"data: x\r\ndata: y\r\n\r\n",
    b": comment\r\r",
    b"retry: 5\n\n",
    b"id: 1\ndata:\n\n",
    b"event: odd\ndata: " + response() + b"\n\n",
    b"data: " + b"a" * LIMIT + b"\n\n",
    b"\xef\xbb\xbf",
    b"\xef\xbb\xbf\xef\xbb\xbf",
    b"\n\r\n\r",
    b"data: \xff\n\n",
    b"data: cut",
]
streams = st.lists(st.sampled_from(EVENTS), max_size=6).map(b"".join)
bytes_like_events = st.lists(
    st.one_of(
        st.sampled_from([b"data", b"event", b"id", b":", b"\n", b"\r", b"\r\n", b" ", response()]),
        st.binary(max_size=4),
    ),
    max_size=20,
).map(b"".join)


def pieces(text: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[begin:end] for begin, end in pairwise(places)]


@pytest.mark.slow
@pytest.mark.parametrize("hold", [False, True])
@pytest.mark.parametrize("era", ERAS)
@given(text=streams, cuts=st.lists(st.integers(0, 10_000), max_size=8))
def test_any_split_of_a_stream_is_the_same_stream(era: Era, hold: bool, text: bytes, cuts: list[int]) -> None:
    def outcome(parts: list[bytes]) -> tuple[int, bytes] | str:
        try:
            told = relayed(era, *parts, hold=hold)
        except AccreditError as refused:
            return str(refused)
        return told.status, told.body

    assert outcome(pieces(text, cuts)) == outcome([text] if text else [])


@pytest.mark.parametrize("era", ERAS)
@given(text=st.one_of(streams, bytes_like_events, st.binary(max_size=200)))
def test_whatever_comes_the_client_gets_sound_events_and_one_response(era: Era, text: bytes) -> None:
    try:
        told = relayed(era, *([text] if text else []))
    except AccreditError:  # the whole of it is replaced, and it says nothing of the upstream
        return
    assert told.whole
    assert (SETS_A_COOKIE in told.headers) == any(found.data for found in SseParser(1 << 20).feed(told.body))
    responses = 0
    resumable = False
    for found in SseParser(1 << 20).feed(told.body):
        resumable = resumable or bool(found.id)
        if found.data is None or (era is Era.LEGACY and not found.data):
            continue
        frame = decode_frame(found.data)
        json.loads(found.data)
        assert era is Era.LEGACY or not isinstance(frame, Request)
        if isinstance(frame, Success | Failure):
            assert frame.id == 7
            responses += 1
    assert responses == 1 or (responses == 0 and resumable and era is Era.LEGACY)
    assert era is Era.LEGACY or not resumable


@pytest.mark.slow
@pytest.mark.holds("gateway/upstream/http/relay")
@pytest.mark.parametrize("era", ERAS)
@given(text=st.one_of(streams, bytes_like_events))
@example(text=b"id: 1\ndata:\n\n" + event(response()))
def test_what_the_gateway_reads_for_itself_is_what_a_client_is_given(era: Era, text: bytes) -> None:
    request = decode_request(post(era).body)
    assert isinstance(request, Request)
    answer = MemoryAnswer(200, [(b"content-type", b"text/event-stream")], *([text] if text else []))
    try:
        own = asyncio.run(whole_response(answer.as_answer(), era, request, SETTINGS))
    except AnswerError:
        own = None
    try:
        told = relayed(era, *([text] if text else []))
    except AccreditError:
        assert own is None
        return
    given = [found.data for found in SseParser(1 << 20).feed(told.body) if found.data]
    answered = [data for data in given if isinstance(decode_frame(data), Success | Failure)]
    refused = [data for data in answered if json.loads(data).get("error", {}).get("code") == UPSTREAM_ERROR]
    assert [data for data in answered if data not in refused] == ([own] if own is not None else [])


@given(text=st.one_of(streams, bytes_like_events))
def test_while_it_observes_a_bound_alone_stops_it(text: bytes) -> None:
    stopped: AnswerError | None = None
    try:
        told = relayed(Era.LEGACY, text, settings=OBSERVING)
    except AnswerError as error:
        stopped = error
    else:
        assert told.whole
        assert told.status == 200
    assert stopped is None or stopped.bound


@pytest.mark.parametrize("era", ERAS)
def test_what_was_good_before_a_break_is_the_client_s(era: Era) -> None:
    told = relayed(era, event(log_message()), UpstreamUnavailable("cut"))
    assert told.body.startswith(event(log_message()))
    assert b'"data":"cut"' in told.body


def test_a_held_stream_that_breaks_tells_nothing() -> None:
    request_error: AccreditError | None = None
    try:
        relayed(Era.LEGACY, event(log_message()), UpstreamUnavailable("cut"), hold=True)
    except AccreditError as found:
        request_error = found
    assert isinstance(request_error, UpstreamUnavailable)


GOOD = event(response())
LONG = compact({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "é" * 40_000}})
NOT_UTF8 = {
    "a_comment": b": \xff\n\n",
    "a_comment_before_data": b": caf\xe9\n" + GOOD,
    "a_field_s_name": b"x\xff: 1\n" + GOOD,
    "an_id": b"id: \xe9\n\n",
    "an_id_before_data": b"id: \xe9\n" + GOOD,
    "a_retry": b"retry: 1\xc3\n\n",
    "half_a_character_on_each_side_of_long_data": b": \xc3\ndata: " + LONG + b"\n: \xa9\n\n",
    "half_a_character_around_a_copy_of_the_data": b":\xc3" + LONG + b"\xa9\ndata: " + LONG + b"\n\n",
    "beside_long_data_of_two_lines": b": \xff\ndata: " + LONG.replace(b",", b",\ndata: ", 1) + b"\n\n",
}


@pytest.mark.holds("gateway/upstream/http/sse_relay", "utf-8")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", NOT_UTF8)
def test_no_byte_of_a_stream_is_other_than_utf_8__a_strict_reader_of_it_would_end_there(name: str, era: Era) -> None:
    with pytest.raises(AnswerError, match="not UTF-8"):
        relayed(era, NOT_UTF8[name], GOOD, settings=LONGER)
    after_a_good_one = relayed(era, event(log_message()), NOT_UTF8[name], GOOD, settings=LONGER)
    after_a_good_one.body.decode("utf-8")
    assert b"not UTF-8" in after_a_good_one.body
    assert b"sound" not in after_a_good_one.body


@pytest.mark.holds("gateway/upstream/http/sse_relay", "utf-8")
@pytest.mark.parametrize("era", ERAS)
def test_what_is_utf_8_passes_beside_the_data_too(era: Era) -> None:
    text = ": café\n".encode() + b"data: " + LONG + b"\n\n"
    assert relayed(era, text, GOOD, settings=LONGER).body == text + GOOD


@pytest.mark.parametrize("era", ERAS)
def test_nor_does_a_look_read_such_a_stream(era: Era) -> None:
    request = decode_request(post(era, "tools/list", {}).body)
    assert isinstance(request, Request)
    answer = MemoryAnswer(200, [(b"content-type", b"text/event-stream")], b": \xff\n\n" + GOOD)
    with pytest.raises(AnswerError, match="not UTF-8"):
        asyncio.run(whole_response(answer.as_answer(), era, request, SETTINGS))
