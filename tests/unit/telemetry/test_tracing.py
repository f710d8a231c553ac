"""Which calls are traced: as often as is said, as callers have it, and never more than is bounded."""

import weakref
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.virtual_time import Clock

from accredit.jsonrpc.requests import decode_request
from accredit.telemetry.board import Board
from accredit.telemetry.families import SPANS
from accredit.telemetry.metrics import Metrics
from accredit.telemetry.tracing import (
    MAX_PARENT_SAMPLED,
    MAX_WAITING_SPANS,
    PARENT_SAMPLED_PER_SECOND,
    SPANS_AT_ONCE,
    Span,
    SpanQueue,
    TraceContext,
    Tracer,
    current_message,
    set_current_message,
    trace_context,
    trace_id,
)

PARENT = TraceContext("a" * 32, "b" * 16, True)


def tracer(rate: float, board: Board, clock: Clock | None = None) -> Tracer:
    metrics = Metrics(board.slot())
    return Tracer(rate, SpanQueue(metrics.spans), metrics.spans, clock=clock or Clock(0.0))


@pytest.mark.parametrize("rate", [0.0, 0.01, 0.2, 1.0])
def test_as_many_calls_are_traced_as_the_rate_says(rate: float) -> None:
    of = tracer(rate, Board())
    traced = sum(of.begin(None) is not None for _ in range(50_000))
    assert abs(traced / 50_000 - rate) <= 4 * (rate * (1 - rate) / 50_000) ** 0.5


def test_a_caller_decides__sampled_goes_on_and_not_sampled_does_not() -> None:
    never, always = tracer(0.0, Board()), tracer(1.0, Board())
    begun = never.begin(PARENT)
    assert begun is not None
    assert (begun.trace_id, begun.sampled) == (PARENT.trace_id, True)
    assert begun.span_id != PARENT.span_id
    assert always.begin(PARENT._replace(sampled=False)) is None


def test_who_has_everything_sampled_gets_no_more_than_is_bounded() -> None:
    board, clock = Board(), Clock(0.0)
    of = tracer(0.0, board, clock)
    assert sum(of.begin(PARENT) is not None for _ in range(10_000)) == MAX_PARENT_SAMPLED
    assert board.totals()[SPANS] == {("not_forced",): [10_000 - MAX_PARENT_SAMPLED]}
    clock.now += 1
    assert sum(of.begin(PARENT) is not None for _ in range(10_000)) == PARENT_SAMPLED_PER_SECOND
    clock.now += 10_000
    assert sum(of.begin(PARENT) is not None for _ in range(10_000)) == MAX_PARENT_SAMPLED


def test_spans_that_nobody_takes_are_dropped_and_counted__and_who_takes_is_told() -> None:
    board, told = Board(), list[int]()
    queue = SpanQueue(Metrics(board.slot()).spans)
    queue.wake = lambda: told.append(len(queue))
    span = Span("server", "ping", PARENT, None, 0, 1, {}, False, None)
    for _ in range(MAX_WAITING_SPANS + 7):
        queue.put(span)
    assert len(queue) == MAX_WAITING_SPANS
    assert board.totals()[SPANS] == {("dropped",): [7]}
    assert told == [SPANS_AT_ONCE]
    assert len(queue.take()) == SPANS_AT_ONCE


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (f"00-{'a' * 32}-{'b' * 16}-01", True),
        (f"00-{'a' * 32}-{'b' * 16}-00", False),
        (f"00-{'a' * 32}-{'b' * 16}-03", True),
        (f"cc-{'a' * 32}-{'b' * 16}-01-what comes later", True),
    ],
)
def test_a_context_is_read(text: str, sampled: bool) -> None:
    assert trace_context(text) == TraceContext("a" * 32, "b" * 16, sampled)


@pytest.mark.parametrize(
    "text",
    [
        "", "00", f"ff-{'a' * 32}-{'b' * 16}-01", f"00-{'0' * 32}-{'b' * 16}-01", f"00-{'a' * 32}-{'0' * 16}-01",
        f"00-{'A' * 32}-{'b' * 16}-01", f"00-{'a' * 32}-{'b' * 16}-01-x", f"00-{'a' * 32}-{'b' * 16}-01\n",
    ],
)  # fmt: skip
def test_what_is_none_is_none(text: str) -> None:
    assert trace_context(text) is None


@given(st.text(max_size=80))
def test_any_text_is_a_context_or_none(text: str) -> None:
    trace_context(text)


TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.fixture(autouse=True)
def nothing_current() -> Iterator[None]:
    set_current_message(None)
    yield
    set_current_message(None)


def traced_by(params: str, id: str = '"id":7,') -> str | None:
    asked = decode_request(f'{{"jsonrpc":"2.0",{id}"method":"x","params":{params}}}'.encode())
    set_current_message(asked)
    return trace_id()


@pytest.mark.parametrize("id", ['"id":7,', ""])
def test_it_is_read_from_the_message(id: str) -> None:
    assert traced_by(f'{{"_meta":{{"traceparent":"{TRACEPARENT}"}}}}', id) == TRACE


def test_a_later_version_may_say_more_than_we_understand() -> None:
    assert traced_by(f'{{"_meta":{{"traceparent":"cc{TRACEPARENT[2:]}-more"}}}}') == TRACE


@pytest.mark.parametrize(
    "params",
    [
        "{}",
        '{"_meta":{}}',
        '{"_meta":5}',
        '{"_meta":{"traceparent":5}}',
        '{"_meta":{"traceparent":"x"}}',
        f'{{"_meta":{{"traceparent":"{TRACEPARENT}x"}}}}',
        f'{{"_meta":{{"traceparent":"{TRACEPARENT.upper()}"}}}}',
        f'{{"_meta":{{"traceparent":"{TRACEPARENT}\\n"}}}}',
        f'{{"_meta":{{"traceparent":"{TRACEPARENT}-more"}}}}',
        f'{{"_meta":{{"traceparent":"ff{TRACEPARENT[2:]}"}}}}',
        f'{{"_meta":{{"traceparent":"00-{"0" * 32}-b7ad6b7169203331-01"}}}}',
        f'{{"_meta":{{"traceparent":"00-{TRACE}-{"0" * 16}-01"}}}}',
    ],
)
def test_what_is_no_trace_parent_is_none__it_would_be_a_stranger_s_text_in_our_log(params: str) -> None:
    assert traced_by(params) is None


def test_without_a_message_there_is_none() -> None:
    assert trace_id() is None
    for text in (b'{"jsonrpc":"2.0","id":7,"result":{}}', b'{"jsonrpc":"2.0","method":"x"}'):
        asked = decode_request(text)
        set_current_message(asked)
        assert trace_id() is None


def test_it_keeps_no_message__each_timer_that_was_set_meanwhile_would_keep_it_too() -> None:
    asked = decode_request(b'{"jsonrpc":"2.0","id":7,"method":"x"}')
    set_current_message(asked)
    assert current_message() is asked
    gone = weakref.ref(asked)
    del asked
    assert gone() is None
    assert current_message() is None
