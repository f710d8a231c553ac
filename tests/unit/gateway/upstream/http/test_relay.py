"""Whatever an upstream answers, the client gets a sound answer or the relay raises an error of ours."""

import asyncio
import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.world.asgi import MemoryAnswer, MemoryClient, Told
from tests.world.calls import ERAS, Posted, error, event, initialize, initialized, notification, post, response

from accredit.errors import AccreditError, AnswerError, UpstreamUnavailable
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.counters import Counters
from accredit.gateway.headers import RawHeaders
from accredit.gateway.settings import GatewaySettings, HttpUpstream
from accredit.gateway.upstream.http.relay import HttpRelay
from accredit.jsonrpc.frames import Failure, Request, Success, decode_frame
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.requests import decode_request

pytestmark = pytest.mark.holds("gateway/upstream/http/client")

UPSTREAM = HttpUpstream("http://127.0.0.1:1/mcp")
SETTINGS = GatewaySettings(UPSTREAM, max_response_bytes=5_000, max_event_bytes=5_000)


def relay_to(answer: MemoryAnswer) -> tuple[HttpRelay, MemoryClient]:
    relay = HttpRelay(SETTINGS, UPSTREAM, Counters(), ToolDirectory())
    client = MemoryClient(answer)
    relay.sender.client = client.as_client()
    return relay, client


def answered(posted: Posted, era: Era, answer: MemoryAnswer) -> Told:
    """What the client gets; raises what the relay raises. The answer is closed either way."""
    told = Told("POST", [(name.lower().encode(), value.encode()) for name, value in posted.headers])
    relay, _ = relay_to(answer)

    async def case() -> None:
        try:
            await relay.post(told.exchange, decode_request(posted.body), era, {})
        finally:
            await relay.aclose()

    try:
        asyncio.run(case())
    finally:
        assert answer.closed
    return told


BODIES = st.one_of(
    st.sampled_from(
        [
            b"",
            response(),
            response(8),
            error(),
            error(None),
            b"{}",
            b"[" * 200,
            event(response()),
            gzip.compress(response()),
            gzip.compress(b"a" * 6_000),
            b"a" * 6_000,
        ]
    ),
    st.binary(max_size=100),
)
TYPES = st.sampled_from([None, b"application/json", b"text/event-stream", b"text/html", b"application/jsonx", b"\xff"])
CODINGS = st.sampled_from([None, b"gzip", b"br", b"identity", b"zstd", b""])


@pytest.mark.holds("gateway/upstream/http/answer_relay", "answers")
@pytest.mark.parametrize("era", ERAS)
@given(status=st.integers(200, 599), body=BODIES, content_type=TYPES, coding=CODINGS)
def test_a_request_gets_one_sound_answer_or_an_error_of_ours(
    era: Era, status: int, body: bytes, content_type: bytes | None, coding: bytes | None
) -> None:
    headers: RawHeaders = [(b"set-cookie", b"a=b")]
    headers += [(b"content-type", content_type)] if content_type is not None else []
    headers += [(b"content-encoding", coding)] if coding is not None else []
    try:
        told = answered(post(era), era, MemoryAnswer(status, headers, *([body] if body else [])))
    except AccreditError:
        return
    assert told.whole
    assert told.status == status
    told_headers = dict(told.headers)
    if content_type == b"application/json" and (status < 400 or told.body):
        text = told.body
        if told_headers.get(b"content-encoding") == b"gzip":
            text = gzip.decompress(text)
        elif told_headers.get(b"content-encoding") == b"br":
            return
        json.loads(text)
        frame = decode_frame(text)
        assert isinstance(frame, Success | Failure)
        assert frame.id == 7 or (status >= 400 and frame.id is None)
    elif status < 400:
        assert content_type == b"text/event-stream"


@pytest.mark.holds("gateway/upstream/http/answer_relay", "accepted")
@pytest.mark.parametrize("era", ERAS)
@given(status=st.integers(200, 599), body=BODIES, content_type=TYPES)
def test_a_notification_gets_no_body_but_an_error_s(
    era: Era, status: int, body: bytes, content_type: bytes | None
) -> None:
    headers = [(b"content-type", content_type)] if content_type is not None else []
    try:
        told = answered(notification(era), era, MemoryAnswer(status, headers, *([body] if body else [])))
    except AccreditError:
        return
    assert told.status == (status if status >= 400 else 202)
    assert status >= 400 or (status < 300 and not told.body)


@pytest.mark.parametrize("broken", [UpstreamUnavailable("cut"), AnswerError("bad", bound=True)])
def test_a_broken_body_is_raised(broken: AccreditError) -> None:
    answer = MemoryAnswer(200, [(b"content-type", b"application/json")], b"{", broken)
    with pytest.raises(type(broken)):
        answered(post(Era.LEGACY), Era.LEGACY, answer)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_session_s_revision_is_learned_from_a_good_initialize_answer_alone(streamed: bool) -> None:
    for body, known in ((initialized(revision="2025-03-26"), "2025-03-26"), (initialized(8), None), (error(), None)):
        kind = b"text/event-stream" if streamed else b"application/json"
        headers = [(b"content-type", kind), (b"mcp-session-id", b"s")]
        relay, client = relay_to(MemoryAnswer(200, headers, event(body) if streamed else body))
        told = Told("POST", [(b"content-type", b"application/json")])
        learned: dict[bytes, str] = {}

        def learn(id: bytes, revision: str, replica: str, learned: dict[bytes, str] = learned) -> None:
            assert replica == ""
            learned[id] = revision

        told.exchange.learn_revision = learn

        async def case(relay: HttpRelay = relay, told: Told = told) -> None:
            try:
                await relay.post(told.exchange, decode_request(initialize().body), Era.LEGACY, {})
            except AnswerError:
                await asyncio.sleep(0)  # the session is ended upstream meanwhile
            await relay.aclose()

        asyncio.run(case())
        assert learned.get(b"s") == known
        ended = [method for method, _, _, _ in client.sent if method == "DELETE"]
        assert ended == (["DELETE"] if known is None and body != error() else [])


async def test_a_look_takes_no_result_with_a_status_that_means_no_answer() -> None:
    """Clients see none with 205, and a part of one with 206: what they see, the gateway must see."""
    request = decode_request(post(Era.MODERN, "tools/list", {}).body)
    assert isinstance(request, Request)
    told = Told("POST", [])

    async def asked(answer: MemoryAnswer) -> bytes | None:
        relay, _ = relay_to(answer)
        try:
            return await relay.ask(told.exchange, Era.MODERN, request)
        finally:
            await relay.aclose()

    for kind, body in ((b"application/json", response()), (b"text/event-stream", event(response()))):
        for status in (200, 201, 203, 202, 204, 205, 206, 226, 299, 302, 400, 404, 500):
            found = await asked(MemoryAnswer(status, [(b"content-type", kind)], body))
            assert found == (response() if status in (200, 201, 203) else None), (kind, status)
    for status in (200, 400, 404, 500):  # whoever asked is told why
        found = await asked(MemoryAnswer(status, [(b"content-type", b"application/json")], error()))
        assert found == error()
    twice = [(b"content-type", b"application/json"), (b"mcp-session-id", b"a"), (b"mcp-session-id", b"b")]
    assert await asked(MemoryAnswer(200, twice, response())) is None


async def test_the_end_of_a_session_reaches_the_server() -> None:
    relay, client = relay_to(MemoryAnswer(200, []))
    told = Told("DELETE", [(b"mcp-session-id", b"s")])

    await relay.delete(told.exchange)
    await relay.aclose()
    assert (told.status, told.body) == (200, b"")
    assert [sent[0] for sent in client.sent] == ["DELETE"]


async def test_what_goes_up_is_of_this_request__also_where_it_is_remembered_from_the_last_one() -> None:
    heads: list[list[tuple[bytes, bytes]]] = [
        [(b"mcp-session-id", b"a"), (b"traceparent", b"1")],
        [(b"mcp-session-id", b"a"), (b"traceparent", b"1")],
        [(b"mcp-session-id", b"b"), (b"traceparent", b"1")],
        [(b"traceparent", b"1"), (b"mcp-session-id", b"a")],
        [(b"mcp-session-id", b"a"), (b"traceparent", b"1"), (b"accept-encoding", b"gzip")],
        [(b"mcp-session-id", b"a"), (b"traceparent", b"1"), (b"accept-encoding", b"gzip")],
    ]
    relay, client = relay_to(MemoryAnswer(404, []))

    for number, raw in enumerate(heads):
        told = Told("POST", raw, query=b"q" if number < 2 else b"")
        if number == 5:  # where answers are joined, the gateway asks for what it can read
            told.exchange.head = told.exchange.head.with_field(b"accept-encoding", b"identity")
        await relay.post(told.exchange, decode_request(post(Era.LEGACY).body), Era.LEGACY, {})
    await relay.aclose()
    json = (b"content-type", b"application/json")
    sent = [(fields, target) for _, fields, _, target in client.sent]
    assert sent == [
        *([([*heads[0], json, (b"accept-encoding", b"identity")], b"/mcp?q")] * 2),
        ([*heads[2], json, (b"accept-encoding", b"identity")], b"/mcp"),
        ([*heads[3], json, (b"accept-encoding", b"identity")], b"/mcp"),
        ([*heads[0], json, (b"accept-encoding", b"gzip")], b"/mcp"),
        ([*heads[0], json, (b"accept-encoding", b"identity")], b"/mcp"),
    ]
