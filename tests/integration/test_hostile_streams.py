"""Event streams of an upstream that break their rules, stop, go on for too long, or never move."""

import asyncio
import gzip
import zlib
from typing import Any

import brotli
import pytest
from tests.world.calls import (
    ERAS,
    LAST_CHUNK,
    SESSION,
    STREAM_HEAD,
    chunk,
    error,
    event,
    http,
    initialize,
    log_message,
    post,
    response,
    stream,
)
from tests.world.hostile import (
    INVALID,
    LEAKS,
    SOON,
    UNAVAILABLE,
    Hangs,
    Script,
    World,
    check_refused,
    error_event,
    refused,
    sends,
    sends_and_closes,
    sends_and_hangs,
)
from tests.world.raw_client import RawAnswer
from tests.world.raw_server import PATIENCE, Connection, RawRequest
from tests.world.running import run
from tests.world.steady_loop import SteadyLoop

from accredit.gateway.upstream.http import sse_relay
from accredit.jsonrpc.methods import Era

NO_RESPONSE = "the stream ended without a response"
NEWS = event(log_message())
ANSWER = event(response())


async def streams(era: Era, script: Script, expected: bytes, **settings: Any) -> RawAnswer:
    """The whole body that the client gets, to the byte; and then everything is well again."""
    async with World(script, **settings) as world:
        answer = await world.ask(post(era))
        assert answer.body == expected
        assert answer.status == 200
        assert answer.header("content-type") == "text/event-stream"
        await world.recovered(era)
        return answer


async def ends(
    era: Era, script: Script, before: bytes, detail: str, *, message: str = INVALID, status: int = 502, **settings: Any
) -> None:
    """The client gets the events `before`, then the error; or, where none of them has data, the clean error alone."""
    if b"data: {" in before:
        await streams(era, script, before + error_event(7, detail, message=message), **settings)
        return
    async with World(script, **settings) as world:
        check_refused(await world.ask(post(era)), status, refused(detail, message=message))
        await world.recovered(era)


# --- what passes ------------------------------------------------------------------------------------

COMMENT = b": a comment\n\n"
PASSES = {
    "one_answer": ANSWER,
    "news_before_it": NEWS + NEWS + ANSWER,
    "comments_and_retry": COMMENT + b"retry: 100\n\n" + b":\n\n" + NEWS + b":x\nretry: 5\n\n" + ANSWER,
    "an_error": NEWS + event(error()),
    "no_blank_after_the_colon": b"event:message\ndata:" + response() + b"\n\n",
    "crlf": NEWS.replace(b"\n", b"\r\n") + ANSWER.replace(b"\n", b"\r\n"),
    "json_over_several_lines": b'data: {"jsonrpc":"2.0",\ndata: "id":7,\ndata: "result":\ndata:{}}\n\n',
    "a_line_separator": 'data: {"jsonrpc":"2.0","id":7,"result":{"text":"a\u2028b\u0085c"}}\n\n'.encode(),
}


@pytest.mark.parametrize("split", [False, True], ids=["at_once", "byte_by_byte"])
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", PASSES)
def test_a_sound_stream_passes_byte_for_byte(era: Era, name: str, split: bool) -> None:
    text = PASSES[name]
    pieces = [bytes([byte]) for byte in text] if split else [text]
    run(streams(era, sends(stream(*pieces)), text))


@pytest.mark.holds("gateway/upstream/http/sse_relay", "utf-8")
def test_ids_and_the_priming_event_pass_in_the_legacy_era() -> None:
    text = b"id: 1\ndata:\n\n" + b"retry: 200\nid: 2\n\n" + event(log_message(), id="3") + event(response(), id="4")
    run(streams(Era.LEGACY, sends(stream(text)), text))


def test_ids_do_not_pass_in_the_modern_era__nothing_can_be_resumed_there() -> None:
    text = b"id: 2\n\n" + event(log_message(), id="3") + event(response(), id="4")
    run(streams(Era.MODERN, sends(stream(text)), NEWS + ANSWER))


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
async def test_a_compressed_stream_is_forwarded_plain(era: Era, coding: str) -> None:
    encode = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress}[coding]
    head = STREAM_HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: " + coding.encode() + b"\r\n\r\n")

    packed = encode(NEWS * 100 + ANSWER)
    pieces = [packed[at : at + 7] for at in range(0, len(packed), 7)]
    answer = await streams(era, sends(head, *map(chunk, pieces), LAST_CHUNK), NEWS * 100 + ANSWER)
    assert answer.header("content-encoding") is None


# --- the end of a request's stream ------------------------------------------------------------------


@pytest.mark.holds("gateway/upstream/http/sse_relay", "response")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("ends", [sends, sends_and_closes, sends_and_hangs])
@pytest.mark.parametrize(
    "after",
    [
        b"",
        ANSWER,
        event(response(text="second")),
        NEWS,
        event(error()),
        event(response(8)),
        b"data: {}\n\n",
        b"data: x",
    ],
)
def test_one_response_ends_the_stream__what_comes_after_it_is_dropped(era: Era, ends: object, after: bytes) -> None:
    script = ends(STREAM_HEAD, chunk(NEWS + ANSWER + after), b"" if ends is sends_and_hangs else LAST_CHUNK)  # type: ignore[operator]
    run(streams(era, script, NEWS + ANSWER))


@pytest.mark.holds("gateway/upstream/http/sse_relay", "broken")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "before",
    [b"", COMMENT, NEWS, NEWS + COMMENT + b"retry: 1\n\n", b"retry: 1\n\n"],
    ids=["nothing", "a_comment", "news", "more", "retry"],
)
def test_a_stream_that_ends_without_the_response_gets_an_error(era: Era, before: bytes) -> None:
    run(ends(era, sends(stream(before) if before else stream()), before, NO_RESPONSE))


def test_a_modern_stream_may_not_stop_after_an_event_id() -> None:
    run(streams(Era.MODERN, sends(stream(event(log_message(), id="x"))), NEWS + error_event(7, NO_RESPONSE)))


@pytest.mark.holds("gateway/upstream/http/sse_relay", "broken")
def test_a_legacy_stream_may_end_after_an_event_id__the_client_resumes() -> None:
    text = b"id: 1\ndata:\n\nretry: 10\n\n" + NEWS
    run(streams(Era.LEGACY, sends(stream(text)), text))


@pytest.mark.parametrize("id", ["id:\n", "id: \n", "id\n", "id: a\0b\n"])
def test_an_event_id_that_resumes_nothing_does_not_excuse_a_stream_that_stops(id: str) -> None:
    text = id.encode() + NEWS
    run(streams(Era.LEGACY, sends(stream(text)), text + error_event(7, NO_RESPONSE)))


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("reset", [False, True])
def test_a_stream_that_is_cut_off_gets_an_error(era: Era, reset: bool) -> None:
    cut = error_event(7, "the upstream's answer was cut off", message=UNAVAILABLE)

    async def script(connection: Connection, request: RawRequest) -> None:
        await connection.send(STREAM_HEAD, chunk(NEWS))
        if reset:
            await asyncio.sleep(0.05)  # what was sent would be lost with the connection
            connection.reset()
        raise ConnectionAbortedError

    run(streams(era, script, NEWS + cut))


# --- the head of a stream ---------------------------------------------------------------------------

LEAKING = b"\r\n".join([STREAM_HEAD[:-4], *(f"{name}: {value}".encode() for name, value in LEAKS)]) + b"\r\n\r\n"
SILENCE = b": one\n\nretry: 10\n\nid: 4\n\n"


@pytest.mark.parametrize(
    "before", [b"", COMMENT, SILENCE, b"id: 1\ndata:\n\n"], ids=["none", "comment", "more", "primed"]
)
@pytest.mark.parametrize("split", [False, True], ids=["at_once", "byte_by_byte"])
def test_a_bad_first_event_gives_away_nothing_of_the_upstream_s_head(before: bytes, split: bool) -> None:
    """Nothing was sent yet, so its client gets what it gets for a bad JSON body: status, error, no header."""
    text = before + event(response(8))
    pieces = [chunk(bytes([byte])) for byte in text] if split else [chunk(text)]
    script = sends_and_hangs(LEAKING, *pieces)
    run(ends(Era.LEGACY, script, b"", "a response to an id that was not asked for"))


async def test_a_good_first_event_brings_the_head_as_it_came() -> None:
    async with World(sends_and_hangs(LEAKING, chunk(SILENCE + NEWS), chunk(ANSWER))) as world:
        answer = await world.ask(post(Era.LEGACY))
        assert (answer.status, answer.body) == (200, SILENCE + NEWS + ANSWER)
        for name, value in LEAKS:
            if name.startswith("Access-Control-"):  # what browsers are told is ours to say
                assert answer.header(name.lower()) is None
            else:
                assert value in (answer.header(name.lower()) or "")
        await world.recovered(Era.LEGACY)


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("busy", [False, True], ids=["silent", "busy"])
async def test_a_head_that_is_sent_unjudged_says_nothing_that_lasts(era: Era, busy: bool) -> None:
    """After a second without an event a client is told that a stream has begun, and no more: neither a cookie nor
    another session, nothing to keep."""
    go_on = asyncio.Event()

    async def script(connection: Connection, request: RawRequest) -> None:
        await connection.send(LEAKING, chunk(COMMENT))
        while busy and not go_on.is_set():
            await connection.send(chunk(COMMENT))
            await asyncio.sleep(0.02)
        await go_on.wait()
        await connection.send(chunk(event(response(8))))
        raise Hangs

    async with World(script) as world:
        async with world.client() as client:
            await world.send(client, post(era))
            status, headers = await client.head()
            go_on.set()
            assert status == 200
            assert {name.lower() for name, _ in headers} <= {
                "content-type", "transfer-encoding", "date", "connection"
            }  # fmt: skip
            rest = await client.rest()
        assert rest.replace(COMMENT, b"") == error_event(7, "a response to an id that was not asked for")
        await world.recovered(era)


@pytest.mark.slow
def test_the_session_that_a_client_is_in_stays_in_an_unjudged_head__another_one_does_not() -> None:
    async def case(session: str, shown: list[str]) -> None:
        head = STREAM_HEAD[:-2] + f"Mcp-Session-Id: {session}\r\n\r\n".encode()
        async with World(sends_and_hangs(head)) as world:
            async with world.client() as client:
                await world.send(client, post(Era.LEGACY))
                _, headers = await client.head()
                assert [value for name, value in headers if name.lower() == "mcp-session-id"] == shown
            await world.recovered(Era.LEGACY)

    run(case(SESSION, [SESSION]))
    run(case("another", []))


@pytest.mark.slow
async def test_the_head_of_an_answer_to_initialize_waits_until_it_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_relay, "UNJUDGED_HEAD_SECONDS", 0.0)
    monkeypatch.setattr(sse_relay, "KEEP_ALIVE_SECONDS", 0.01)

    async def script(connection: Connection, request: RawRequest) -> None:
        if request.method == "DELETE":
            await connection.send(http(b"", None, status="204 No Content"))
            return
        await connection.send(LEAKING, chunk(COMMENT + NEWS))
        await asyncio.sleep(0.1)
        await connection.send(chunk(event(response(8))))
        raise Hangs

    async with World(script) as world:
        answer = await world.ask(initialize())
        check_refused(answer, 502, refused("a response to an id that was not asked for"))
        await world.recovered(Era.LEGACY)


async def test_a_client_that_goes_while_the_head_waits_is_noticed() -> None:
    cancelled = asyncio.Event()

    async def script(connection: Connection, request: RawRequest) -> None:
        await connection.send(STREAM_HEAD, chunk(COMMENT))
        await connection.peer_closed()
        cancelled.set()
        raise ConnectionAbortedError

    async with World(script) as world:
        async with world.client() as client:
            await world.send(client, post(Era.LEGACY))
            await world.upstream.until(lambda server: len(server.requests) == 1)
        await asyncio.wait_for(cancelled.wait(), PATIENCE)
        await world.recovered(Era.LEGACY)


@pytest.mark.parametrize(
    ("script", "status", "detail", "message"),
    [
        (sends_and_closes(STREAM_HEAD), 502, "the upstream's answer was cut off", UNAVAILABLE),
        (sends_and_closes(STREAM_HEAD, chunk(COMMENT)), 502, "the upstream's answer was cut off", UNAVAILABLE),
        (sends_and_hangs(STREAM_HEAD), 504, "no event for 0.5 s", UNAVAILABLE),
    ],
    ids=["cut_off", "cut_off_after_a_comment", "silent"],
)
@pytest.mark.parametrize("era", ERAS)
def test_a_stream_that_fails_before_its_first_event_fails_as_a_body_does(
    era: Era, script: Script, status: int, detail: str, message: str
) -> None:
    run(ends(era, script, b"", detail, message=message, status=status, upstream_timeout_seconds=0.5))


# --- events that are none ---------------------------------------------------------------------------

_JSON = "not valid JSON"
BAD_EVENTS = {
    "text": (b"data: hello\n\n", _JSON),
    "a_response_by_another_name": (b"event: answer\ndata: " + response() + b"\n\n", "an event that is no message"),
    "two_responses_in_one": (b"data: " + response() + b"\ndata: " + response() + b"\n\n", _JSON),
    "not_utf8": (b'data: {"jsonrpc":"2.0","id":7,"result":{"t":"\xff"}}\n\n', "the body is not UTF-8"),
    "done": (b"data: [DONE]\n\n", "not a JSON object"),
    # If it became the first that a client sees, that would pass over the mark, and read the rest.
    "a_second_byte_order_mark": (b"\xef\xbb\xbfdata: not judged\n\n", "a byte order mark within the stream"),
}


@pytest.mark.holds("gateway/upstream/http/sse_relay", "frames")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", BAD_EVENTS)
def test_a_bad_event_is_replaced_by_an_error_and_ends_the_stream(era: Era, name: str) -> None:
    bad, detail = BAD_EVENTS[name]
    script = sends_and_hangs(STREAM_HEAD, chunk(NEWS + bad + ANSWER))
    run(streams(era, script, NEWS + error_event(7, detail)))


LIMIT = 10_000
TOO_LONG = {
    "a_line_without_an_end": b"data: " + b"a" * 100_000,
    "a_comment_without_an_end": b":" + b"a" * 100_000,
    "a_response_just_too_long": event(response(text="a" * LIMIT)),
}


@pytest.mark.parametrize("split", [False, True], ids=["at_once", "in_pieces"])
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", TOO_LONG)
def test_an_event_longer_than_the_bound_ends_the_stream__it_would_fill_the_memory(
    era: Era, name: str, split: bool
) -> None:
    text = TOO_LONG[name]
    step = 1_000 if split else len(text)
    pieces = [chunk(text[at : at + step]) for at in range(0, len(text), step)]
    script = sends_and_hangs(STREAM_HEAD, chunk(NEWS), *pieces)
    too_long = error_event(7, f"an event longer than {LIMIT} bytes")
    run(streams(era, script, NEWS + too_long, max_event_bytes=LIMIT))


# --- compressed streams -----------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_a_compressed_stream_that_is_cut_off_gets_an_error(era: Era) -> None:
    head = STREAM_HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")
    cut = gzip.compress(NEWS + b":" + b"a" * 1000)[:-4]
    await streams(era, sends(head, chunk(cut), LAST_CHUNK), NEWS + error_event(7, "a compressed body that is cut off"))


# --- time -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("trickle", [b"", b"d", b":"])
def test_a_stream_without_an_event_for_too_long_gets_an_error__also_one_of_a_byte_at_a_time(
    era: Era, trickle: bytes
) -> None:
    late = error_event(7, f"no event for {SOON:g} s", message=UNAVAILABLE)

    async def script(connection: Connection, request: RawRequest) -> None:
        await connection.send(STREAM_HEAD, chunk(NEWS))
        closed = asyncio.ensure_future(connection.peer_closed())
        while not closed.done():
            if trickle:
                await connection.send(chunk(trickle))
            await asyncio.wait([closed], timeout=0.02)

    run(streams(era, script, NEWS + late, upstream_timeout_seconds=SOON))


@pytest.mark.parametrize("era", ERAS)
def test_comments_of_the_upstream_keep_a_slow_call_alive(era: Era) -> None:
    async def script(connection: Connection, request: RawRequest) -> None:
        await connection.send(STREAM_HEAD)
        for _ in range(12):
            await connection.send(chunk(COMMENT))
            await asyncio.sleep(0.05)
        await connection.send(chunk(ANSWER), LAST_CHUNK)

    run(streams(era, script, COMMENT * 12 + ANSWER, upstream_timeout_seconds=0.3), SteadyLoop)
