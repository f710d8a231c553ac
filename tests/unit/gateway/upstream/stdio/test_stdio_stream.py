"""The messages for one answer: their order, what is kept of them, and for how long."""

import logging

import pytest
from tests.world.asgi import Told

from accredit.errors import AnswerError
from accredit.gateway.room import EqualShares
from accredit.gateway.settings import GatewaySettings, StdioUpstream
from accredit.gateway.upstream.large_answers import LargeAnswers
from accredit.gateway.upstream.stdio.stream import REPLAY_BYTES, REPLAY_EVENTS, Stream
from accredit.limits import EVENT_TIMES, LARGE_ANSWER_BYTES

MIB = 1 << 20
pytestmark = pytest.mark.holds("gateway/upstream/stdio/stream")


def event(text: str, id: str | None = None) -> bytes:
    head = "event: message\n" + (f"id: {id}\n" if id is not None else "")
    return f"{head}data: {text}\n\n".encode()


def test_the_last_response_that_is_due_ends_it() -> None:
    stream = Stream(due=2, batch=True)
    stream.answer(b"1")
    assert not stream.ended
    stream.answer(b"2")
    assert stream.ended
    assert stream.plain
    assert stream.whole() == b"[1,2]"


def test_a_batch_of_one_is_answered_with_an_array() -> None:
    stream = Stream(due=1, batch=True)
    stream.answer(b"1", status=404)
    assert (stream.whole(), stream.status) == (b"[1]", 200)


def test_anything_but_a_response_makes_it_a_stream_of_events() -> None:
    stream = Stream(due=1)
    stream.tell(b"news")
    stream.answer(b"1")
    assert not stream.plain
    assert stream.events(0) == (event("news") + event("1"), 2)


def test_a_failure_that_is_the_whole_answer_has_a_status_and_no_id() -> None:
    stream = Stream(due=1)
    stream.fail(7, AnswerError("bad"))
    assert stream.status == 502
    assert stream.whole() == (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Invalid upstream JSON-RPC response",'
        b'"data":"bad"}}'
    )


def test_a_failure_among_others_names_its_request() -> None:
    stream = Stream(due=1)
    stream.tell(b"news")
    stream.fail(7, AnswerError("bad"))
    assert b'"id":7' in stream.events(1)[0]


def test_events_have_ids_where_they_can_be_asked_for_again() -> None:
    stream = Stream(4)
    for text in (b"a", b"b", b"c"):
        stream.tell(text)
    assert stream.events(1) == (event("b", "4-2") + event("c", "4-3"), 3)
    assert stream.events(3) == (b"", 3)
    assert [stream.holds(position) for position in (-1, 0, 3, 4)] == [False, True, True, False]


def test_what_was_sent_stays_only_where_it_can_be_asked_for_again() -> None:
    gone, kept = Stream(), Stream(1)
    for stream in (gone, kept):
        stream.attach()
        stream.tell(b"a")
        stream.tell(b"bb")
        assert stream.unsent == 3
        stream.written(1)
        assert stream.unsent == 2
        stream.written(2)
    assert not gone.filled
    assert kept.events(0)[1] == 2
    assert kept.holds(0)


def test_what_was_sent_is_kept_within_bounds() -> None:
    stream = Stream(1)
    stream.attach()
    for number in range(1, 2 * REPLAY_EVENTS):
        stream.tell(b"x")
        stream.written(number)
    assert not stream.holds(REPLAY_EVENTS - 2)
    assert stream.holds(REPLAY_EVENTS - 1)


def test_the_newest_message_is_kept_until_it_was_sent_whatever_its_size__it_may_be_the_response() -> None:
    stream = Stream(1, due=1)
    stream.tell(b"small")
    stream.tell(b"x" * (2 * REPLAY_BYTES))
    assert not stream.holds(0)
    assert stream.holds(1)


def test_while_nobody_reads_the_stream_that_stands_nothing_long_waits_there__its_client_may_never_come() -> None:
    stream = Stream(0)
    stream.tell(b"x" * (2 * REPLAY_BYTES))
    assert not stream.filled
    stream.attach()
    stream.tell(b"x" * (2 * REPLAY_BYTES))
    assert stream.filled
    stream.release()
    assert not stream.filled


def test_what_a_server_tells_takes_room_as_its_responses_do__and_is_not_told_where_there_is_none() -> None:
    large = LargeAnswers(GatewaySettings(StdioUpstream(("server",)), max_event_bytes=16 * MIB), EqualShares(8))
    streams = [Stream(1, due=1, held=large.of(Told().exchange)) for _ in range(4)]
    for stream in streams:
        stream.attach()
        stream.tell(b"x" * (LARGE_ANSWER_BYTES - 9))
    assert large.room.taken == 0
    fits, *others = streams
    fits.tell(b"x" * 12 * MIB)
    for other in others:
        with pytest.raises(AnswerError, match="too many large answers"):
            other.tell(b"x" * 12 * MIB)
        assert other.unsent == LARGE_ANSWER_BYTES - 9
    fits.written(2)
    assert large.room.taken == 0
    others[0].tell(b"x" * 12 * MIB)


def test_a_stream_whose_messages_are_short_keeps_no_room_for_a_client_that_may_resume() -> None:
    large = LargeAnswers(GatewaySettings(StdioUpstream(("server",))), EqualShares())
    stream = Stream(1, due=1, held=large.of(Told().exchange))
    stream.tell(b"news")
    stream.make_room(LARGE_ANSWER_BYTES - 9)
    stream.answer(b"x" * (LARGE_ANSWER_BYTES - 9))
    assert large.room.taken == 0


def test_a_long_response_is_kept_until_it_was_sent__each_stream_of_each_session_would_keep_one() -> None:
    large = LargeAnswers(GatewaySettings(StdioUpstream(("server",))), EqualShares())
    stream = Stream(1, due=1, held=large.of(Told().exchange))
    stream.tell(b"news")
    stream.make_room(2 * REPLAY_BYTES)
    stream.answer(b"x" * (2 * REPLAY_BYTES))
    assert stream.holds(1)
    assert large.room.taken == EVENT_TIMES * (2 * REPLAY_BYTES + 4) - LARGE_ANSWER_BYTES
    stream.written(2)
    assert not stream.holds(1)
    assert large.room.taken == 0


def test_nothing_is_lost_while_a_client_is_slow__its_child_waits_instead() -> None:
    stream = Stream(1)
    stream.attach()
    for _ in range(2 * REPLAY_EVENTS):
        stream.tell(b"x")
    assert stream.holds(0)
    stream.release()
    assert not stream.holds(0)


def test_while_nobody_reads_the_oldest_are_dropped_and_that_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "accredit.gateway.stdio")
    stream = Stream(0)
    for number in range(1, REPLAY_EVENTS + 10):
        stream.tell(b"%d" % number)
    first, last = stream.events(stream.sent)
    assert first.startswith(event("10", "0-10"))
    assert last == REPLAY_EVENTS + 9
    assert len(caplog.records) == 1


def test_the_priming_event_names_the_place_where_the_answer_begins() -> None:
    stream = Stream(3)
    assert stream.priming() == b"id: 3-0\nretry: 1000\ndata: \n\n"
    stream.attach()
    stream.tell(b"a")
    stream.written(1)
    assert stream.priming().startswith(b"id: 3-1\n")


def test_a_second_writer_sends_the_first_away() -> None:
    stream = Stream(0)
    first = stream.attach()
    second = stream.attach()
    assert stream.reader is second
    assert stream.reader is not first


async def test_changes_wake_whoever_waits() -> None:
    stream = Stream(due=1)
    assert not await stream.changed(0.001)
    for change in (stream.attach, stream.release, stream.end, lambda: stream.tell(b"x")):
        waiting = stream.changed(5)
        waiting.send(None)  # it waits now
        change()
        with pytest.raises(StopIteration) as woken:
            waiting.send(None)
        assert woken.value.value is True
