"""An event of many lines is read as they come, and keeps nobody waiting when it ends: as in `test_loop_steps_lists`.

Counted is what a step calls, not how long it takes: an event in 95,000 lines was split, read and written in one, at the
merged endpoint in one twice as long.
"""

import asyncio
from typing import cast

import pytest
from tests.integration.test_loop_steps import FACTOR, PROMISED, small_heap
from tests.integration.test_loop_steps_lists import MIB, Sent, answered, asking, gateway, many, result, server
from tests.world.measured_loop import CountingLoop, MeasuredLoop

from accredit.gateway.counters import Counters
from accredit.gateway.upstream.merged.ids import ProgressTokens, merged_ring
from accredit.gateway.upstream.merged.messages import ToClientMapper
from accredit.gateway.upstream.merged.replies import EventMapper
from accredit.jsonrpc.sse import MAX_EVENT_LINES
from accredit.rounds import KeyRing

pytestmark = pytest.mark.slow

__all__ = ["small_heap"]

EVENTS = b"text/event-stream"
LINES = MAX_EVENT_LINES - 5_000
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
STREAMS = {
    "an answer": lambda: (
        b'data: {"jsonrpc":"2.0","id":1,"result":{"content":[],"a":[' + b"\ndata: 1,1,1," * LINES + b"1]}}\n\n"
    ),
    "comments": lambda: b":xxxxxxxxxx\n" * LINES + b"data: " + ANSWER + b"\n\n",
}
"""What makes each: they are megabytes."""


@pytest.mark.holds("jsonrpc/sse")
@pytest.mark.parametrize(
    ("name", "merged"), [("an answer", False), ("an answer", True), ("comments", False), ("comments", True)]
)
def test_the_lines_of_an_event_are_read_as_they_come__not_all_of_them_when_it_ends(name: str, merged: bool) -> None:
    asked = asking("tools/call", modern=True, merged=merged)
    with server(Sent(STREAMS[name](), type=EVENTS)) as upstream:
        one = answered(gateway(upstream, merged=merged), asked, loop=CountingLoop)
    assert b'"result":{"content":[]' in asked.body
    assert one.step < LINES


@pytest.mark.holds("gateway/upstream/merged/replies", "event-ids")
def test_an_answer_with_an_id_on_a_resumed_stream_is_neither_searched_for_it_nor_opened_at_one_go() -> None:
    outward = ToClientMapper("mail", ProgressTokens(merged_ring(KeyRing([b"k" * 32])), "mail"))
    mapper = EventMapper(
        outward, lambda id: id, max_event_bytes=16 * MIB, counters=Counters(), may_answer=lambda id: id == 1
    )
    data = b"data: " + result(b'"content":[],"deep":[' + many(b"1", 15 * MIB) + b"]") + b"\n\n"

    async def main() -> float:
        loop = cast(MeasuredLoop, asyncio.get_running_loop())
        loop.longest = 0.0
        assert await mapper.feed(b"id: 1\n" + data) == b"id: 1\n" + data
        await asyncio.sleep(0)
        return loop.longest

    with asyncio.Runner(loop_factory=MeasuredLoop) as runner:
        assert runner.run(main()) < FACTOR * PROMISED
