"""Events of one server's stream as the client of several gets them, however the stream is cut."""

import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accredit.gateway.counters import Counters
from accredit.gateway.upstream.merged.ids import ProgressTokens, merged_ring
from accredit.gateway.upstream.merged.messages import ToClientMapper
from accredit.gateway.upstream.merged.replies import EventMapper
from accredit.jsonrpc.frames import Notification
from accredit.jsonrpc.methods import META_SUBSCRIPTION
from accredit.jsonrpc.sse import Event, SseParser
from accredit.jsonrpc.tasks import without_state
from accredit.rounds import KeyRing

pytestmark = pytest.mark.holds("gateway/upstream/merged/replies")

MAIL = ToClientMapper("mail", ProgressTokens(merged_ring(KeyRing([b"k" * 32])), "mail"))
ANSWER = b'{"jsonrpc": "2.0", "id": 7, "result": {"x": [ 1.50 ]}}'
CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'


def mapper(**more: Any) -> EventMapper:
    more.setdefault("counters", Counters())
    return EventMapper(MAIL, lambda id: b"outer-" + id if len(id) < 9 else None, max_event_bytes=10_000, **more)


def fed(mapper: EventMapper, chunk: bytes) -> bytes:
    return asyncio.run(mapper.feed(chunk))


def events(text: bytes) -> list[Event]:
    return [event for event in SseParser(100_000).feed(text) if event.raw.strip()]


def note(method: str, params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


def about_no_task(told: Notification) -> Notification | None:
    return without_state(told) if told.method != "notifications/tasks/status" else None


STREAM = b"".join(
    [
        b": hello\r\n\r\n",
        b"id: 0\nretry: 500\ndata: \n\n",
        b"event: message\nid: 1\ndata: " + note("notifications/resources/updated", {"uri": "a:b"}) + b"\n\n",
        b"data: " + b'{"jsonrpc":"2.0","id":7,"method":"ping"}' + b"\r\rid: 2\r\n\r\n",
        b"id: 3\ndata: " + ANSWER + b"\n\n",
    ]
)


@pytest.mark.holds("gateway/upstream/merged/replies", "answers")
@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_however_a_stream_is_cut_its_events_are_the_same(cuts: list[int]) -> None:
    places = sorted({0, len(STREAM), *cuts})
    one = mapper()
    text = b"".join(fed(one, STREAM[start:end]) for start, end in pairwise(places))
    found = events(text)
    assert [event.id for event in found] == [None, b"outer-0", b"outer-1", None, b"outer-2", b"outer-3"]
    assert found[0].raw.startswith(b": hello")
    assert b"retry: 500" in found[1].raw
    assert json.loads(found[2].data or b"")["params"] == {"uri": "accredit+mail:a:b"}
    assert json.loads(found[3].data or b"")["id"] == "mail:7"
    assert found[5].data == ANSWER


@pytest.mark.holds("gateway/upstream/merged/replies", "event-ids")
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_no_id_of_a_server_reaches_the_client(end: bytes) -> None:
    for id, outer in ((b"1", b"outer-1"), (b"too long an id", None), (b"", None)):
        for data in (ANSWER, CHANGED, b""):
            raw = end.join([b"data: " + data, b"id: " + id, b"retry: 1", b"", b""])
            (event,) = events(fed(mapper(), raw))
            assert (event.id, event.data) == (outer, data)


@pytest.mark.holds("gateway/upstream/merged/replies", "dropped")
def test_what_is_told_of_another_task_or_to_another_subscription_is_dropped() -> None:
    counters = Counters()
    hears = mapper(hears=about_no_task, counters=counters)
    assert fed(hears, b"data: " + note("notifications/tasks/status", {"taskId": "1"}) + b"\n\n") == b""
    assert fed(hears, b"id: 5\ndata: " + note("notifications/tasks/status", {"taskId": "1"}) + b"\n\n") == (
        b"id: outer-5\n\n"
    )
    state = note("notifications/x", {"requestState": "raw", "y": 1})
    assert json.loads(events(fed(hears, b"data: " + state + b"\n\n"))[0].data or b"")["params"] == {"y": 1}
    mine = mapper(subscription=5)
    for id, passes in ((5, True), ("5", False), (6, False), (None, False)):
        told = note("notifications/tools/list_changed", {"_meta": {META_SUBSCRIPTION: id}})
        assert bool(fed(mine, b"data: " + told + b"\n\n")) == passes
    assert counters.counts["notifications_dropped"] == 2


@pytest.mark.holds("gateway/upstream/merged/replies", "shared-stream")
def test_on_a_shared_stream_no_answer_and_no_comment_goes_on() -> None:
    answers: list[bytes] = []
    shared = mapper(answered=answers.append)
    assert fed(shared, b": keep-alive\n\n") == b""
    assert fed(shared, b"data: " + ANSWER + b"\n\n") == b""
    assert fed(shared, b"id: 1\ndata: " + ANSWER + b"\n\n") == b"id: outer-1\n\n"
    assert fed(shared, b"id: 2\ndata: \n\n") == b"id: outer-2\n\n"
    assert answers == [ANSWER, ANSWER]
    assert events(fed(shared, b"data: " + CHANGED + b"\n\n"))[0].data == CHANGED


@pytest.mark.holds("gateway/upstream/merged/replies", "answers")
def test_a_resumed_stream_answers_its_own_request_and_no_other() -> None:
    resumed = mapper(may_answer=frozenset({7}).__contains__)
    assert events(fed(resumed, b"data: " + ANSWER + b"\n\n"))[0].data == ANSWER
    for id in (b"8", b'"7"', b"null"):
        other = b'{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"method"}}' % id
        assert fed(resumed, b"data: " + other + b"\n\n") == b""


@pytest.mark.parametrize(
    "text",
    [
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"_meta":{"progressToken":null}}}',
        b'{"jsonrpc":"2.0","method":7}',
    ],
)
def test_what_can_not_be_told_apart_is_dropped_and_the_stream_goes_on(text: bytes) -> None:
    counters = Counters()
    one = mapper(counters=counters)
    assert fed(one, b"id: 1\ndata: " + text + b"\n\n") == b"id: outer-1\n\n"
    assert fed(one, b"data: " + ANSWER + b"\n\n") == b"data: " + ANSWER + b"\n\n"
    assert counters.counts["notifications_dropped"] == 1
