"""Which calls are traced: as often as is said, as callers have it, and never more than is bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.telemetry import Board, Metrics, SpanQueue, Tracer, trace_context
from accredit.telemetry.families import SPANS
from accredit.telemetry.tracing import (
    MAX_PARENT_SAMPLED,
    MAX_WAITING_SPANS,
    PARENT_SAMPLED_PER_SECOND,
    SPANS_AT_ONCE,
    Span,
    TraceContext,
)

PARENT = TraceContext("a" * 32, "b" * 16, True)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def tracer(rate: float, board: Board, clock: Clock | None = None) -> Tracer:
    metrics = Metrics(board.slot())
    return Tracer(rate, SpanQueue(metrics.spans), metrics.spans, clock=clock or Clock())


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
    board, clock = Board(), Clock()
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
