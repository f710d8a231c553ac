"""HTTP+SSE of 2024-11-05 without sockets: where an endpoint may lead, and how much a session may hold."""

import asyncio
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.asgi import MemoryAnswer, MemoryClient, Told
from tests.world.calls import compact, post
from tests.world.raw_server import until
from tests.world.recorded import FailingRecords

from accredit.attest import CallDecision
from accredit.errors import AnswerError, RequestError
from accredit.gateway.admission.gate import Gate
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.counters import Counters
from accredit.gateway.front import legacy_sse
from accredit.gateway.front.callers import HttpAuthenticator, PlainSessions
from accredit.gateway.front.legacy_sse import LegacySse
from accredit.gateway.recording.recorder import Recorder
from accredit.gateway.room import Rooms
from accredit.gateway.settings import GatewaySettings, HttpUpstream, RecordSettings
from accredit.gateway.upstream.http.relay import HttpRelay
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.responses import Expected

URL = "http://upstream.example:9000/api/sse"


def sse_to(
    url: str = URL, answer: MemoryAnswer | None = None, recorder: Recorder | None = None
) -> tuple[LegacySse, MemoryClient]:
    settings = GatewaySettings(HttpUpstream(url))
    relay = HttpRelay(settings, HttpUpstream(url), Counters(), tools := ToolDirectory())
    client = MemoryClient(answer or MemoryAnswer(202, []))
    relay.sender.client = client.as_client()
    gate = Gate(settings, Counters(), tools, recorder=recorder)
    return LegacySse(settings, url, gate, relay, Counters(), HttpAuthenticator(None, PlainSessions())), client


@pytest.mark.parametrize(
    ("data", "target"),
    [
        (b"/messages?id=1", b"/messages?id=1"),
        (b"messages", b"/api/messages"),
        (b"http://upstream.example:9000/m", b"/m"),
        (b"HTTP://upstream.example:9000/m", b"/m"),
        (b"?id=1", b"/api/sse?id=1"),
        (b"", b"/api/sse"),
        (b"/m#fragment", b"/m"),
    ],
)
def test_an_endpoint_is_found_from_the_stream_s_own_url(data: bytes, target: bytes) -> None:
    assert legacy_sse._target(URL, data) == target


_pieces = st.sampled_from(
    [
        b"http:",
        b"//",
        b"/",
        b"upstream.example",
        b":9000",
        b"@",
        b"evil",
        b"?",
        b"#",
        b"\\",
        b" ",
        b"\r\n",
        b"[",
        b"%0d",
    ]
)


@given(st.one_of(st.binary(max_size=60), st.lists(_pieces, max_size=10).map(b"".join)))
def test_whatever_it_says_it_leads_to_a_path_of_the_upstream_or_nowhere(data: bytes) -> None:
    try:
        target = legacy_sse._target(URL, data)
    except AnswerError:
        return
    assert re.fullmatch(rb"/[!-~]*", target)


def test_the_stream_is_where_the_url_says_or_beside_it() -> None:
    for url, target in (
        ("http://a.example/sse", b"/sse"),
        ("http://a.example/x/sse?y=1", b"/x/sse?y=1"),
        ("http://a.example/mcp", b"/sse"),
        ("http://a.example/x/mcp", b"/x/sse"),
    ):
        sse, client = sse_to(url, MemoryAnswer(404, []))
        told = Told("GET")
        asyncio.run(sse.stream(told.exchange, ""))
        assert client.sent[0][3] == target
        assert told.status == 404


def test_the_requests_that_a_session_holds_are_bounded__and_their_texts_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(legacy_sse, "MAX_OPEN_REQUESTS", 2)
    sse, client = sse_to()
    expected = Expected(Era.LEGACY)
    sse._sessions["s"] = legacy_sse._Session(b"/m", "", expected, Told("GET").exchange, ("", ""))

    async def call(id: int) -> int:
        body = compact({"jsonrpc": "2.0", "id": id, "method": "x", "params": {"a": "a" * 1000}})
        told = Told("POST", [(b"content-type", b"application/json")], body, query=b"session_id=s")
        await sse.message(told.exchange)
        return told.status

    assert [asyncio.run(call(id)) for id in (1, 2)] == [202, 202]
    with pytest.raises(RequestError) as refused:
        asyncio.run(call(3))
    assert (refused.value.id, refused.value.status) == (3, 400)
    assert len(client.sent) == 2
    assert [request.text for request in expected.open.values()] == [b"", b""]


def test_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accredit.gateway.room.MAX_STREAMS", 1)
    sse, client = sse_to()
    rooms = Rooms(1, proving=False)
    with rooms.streams.held(Told("GET", rooms=rooms).exchange), pytest.raises(RequestError) as refused:
        asyncio.run(sse.stream(Told("GET", rooms=rooms).exchange, ""))
    assert refused.value.status == 503
    assert client.sent == []


@pytest.mark.holds("gateway/front/endpoint", "settled")
async def test_a_call_whose_stream_ends_while_it_is_decided_is_not_forwarded_and_not_left_open() -> None:
    class Slow(FailingRecords):
        async def begin(self, decided: CallDecision) -> None:
            await super().begin(decided)
            await ended.wait()

        async def write(self) -> None:
            pass

    ended = asyncio.Event()

    records = Slow()
    sse, client = sse_to(recorder=Recorder(records, RecordSettings("gate"), Counters()))
    sse._sessions["s"] = legacy_sse._Session(b"/m", "", Expected(Era.LEGACY), Told("GET").exchange, ("", ""))
    told = Told("POST", [(b"content-type", b"application/json")], post(Era.LEGACY).body, query=b"session_id=s")
    sending = asyncio.create_task(sse.message(told.exchange))
    await until(lambda: bool(records.begun))
    del sse._sessions["s"]  # as its stream does when it ends
    ended.set()
    with pytest.raises(RequestError) as refused:
        await sending
    assert (refused.value.status, client.sent) == (404, [])
    assert [outcome.status for outcome in records.outcomes] == ["error"]
