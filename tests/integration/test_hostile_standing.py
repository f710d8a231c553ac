"""Streams that begin a session, that stand for ever, or that go on where another ended: hostile ones."""

from typing import Any

import pytest
from tests.world.calls import (
    LAST_CHUNK,
    SESSION,
    STREAM_HEAD,
    chunk,
    compact,
    error,
    event,
    http,
    initialize,
    initialized,
    log_message,
    post,
    response,
    stream,
)
from tests.world.hostile import (
    HOSTILE,
    LEAKS,
    SOON,
    UNAVAILABLE,
    Script,
    World,
    check_refused,
    error_event,
    refused,
    sends,
    sends_and_closes,
    sends_and_hangs,
)
from tests.world.running import run

from accredit.jsonrpc.methods import Era

NO_RESPONSE = "the stream ended without a response"
NEWS = event(log_message())
ANSWER = event(response())
COMMENT = b": a comment\n\n"

# --- initialize over a stream -----------------------------------------------------------------------

SESSION_HEADERS = b"\r\nMcp-Session-Id: new-session\r\n\r\n"
SESSION_STREAM = STREAM_HEAD.replace(b"\r\n\r\n", SESSION_HEADERS)
_REST = "the stream ended without a response"
BAD_INITIALIZE = {
    "a_bad_event": (sends_and_hangs(SESSION_STREAM, chunk(NEWS + b"data: {}\n\n")), '"jsonrpc" is not "2.0"'),
    "nothing": (sends(SESSION_STREAM, LAST_CHUNK), _REST),
    "a_cut": (sends_and_closes(SESSION_STREAM, chunk(NEWS)), "the upstream's answer was cut off"),
    "an_endless_event": (sends_and_hangs(SESSION_STREAM, chunk(b"a" * 20_000)), "an event longer than 10000 bytes"),
    "endless_news": (
        sends_and_hangs(SESSION_STREAM, *[chunk(NEWS * 100)] * 20),
        "more than 10000 bytes before the response",
    ),
    "silence": (sends_and_hangs(SESSION_STREAM), f"no event for {SOON:g} s"),
}


@pytest.mark.parametrize("name", BAD_INITIALIZE)
async def test_a_session_that_a_bad_stream_announced_is_ended_and_never_given_away(name: str) -> None:
    script, detail = BAD_INITIALIZE[name]
    patience: dict[str, Any] = {"upstream_timeout_seconds": SOON} if name == "silence" else {}

    async with World(script, max_event_bytes=10_000, **patience) as world:
        answer = await world.ask(initialize())
        assert answer.status in (502, 504)
        message = UNAVAILABLE if name in ("a_cut", "silence") else "Invalid upstream JSON-RPC response"
        check_refused(answer, answer.status, refused(detail, message=message))
        await world.upstream.until(lambda _: world.ended_sessions() == ["new-session"])
        await world.recovered(Era.LEGACY)


@pytest.mark.parametrize("split", [False, True])
async def test_a_good_initialize_stream_passes_with_its_session(split: bool) -> None:
    text = b"id: 1\ndata:\n\n" + NEWS + COMMENT + event(initialized(), id="2")
    pieces = [chunk(bytes([byte])) for byte in text] if split else [chunk(text)]

    async with World(sends(SESSION_STREAM, *pieces, LAST_CHUNK)) as world:
        answer = await world.ask(initialize())
        assert (answer.status, answer.body) == (200, text)
        assert answer.header("mcp-session-id") == "new-session"
        await world.recovered(Era.LEGACY)
        assert world.ended_sessions() == []


# --- standing streams -------------------------------------------------------------------------------


async def stands(script: Script, expected: bytes, *, status: int = 200, resumes: bool = False) -> None:
    async with World(script) as world:
        async with world.client() as client:
            headers = [("Accept", "text/event-stream"), ("Mcp-Session-Id", SESSION), HOSTILE]
            headers += [("Last-Event-ID", "3")] if resumes else []
            await client.ask("GET", "/mcp", headers)
            answer = await client.answer()
            assert (answer.status, answer.body) == (status, expected)
        await world.recovered(Era.LEGACY)


def test_a_standing_stream_passes_until_the_upstream_ends_it() -> None:
    asked = event(compact({"jsonrpc": "2.0", "id": "s1", "method": "roots/list"}), id="9")
    text = COMMENT + NEWS + asked + b"id: 10\ndata:\n\n"
    run(stands(sends(stream(text)), text))


@pytest.mark.parametrize("bad", [b"data: {}\n\n", b"data: x\n\n", ANSWER, event(error()), event(error(None))])
def test_a_bad_event_ends_a_standing_stream__nobody_is_owed_an_error(bad: bytes) -> None:
    run(stands(sends_and_hangs(STREAM_HEAD, chunk(NEWS + bad + NEWS)), NEWS))


@pytest.mark.parametrize(
    "sent",
    [
        http(response(), headers=LEAKS),
        http(b"<html>", "text/html", headers=LEAKS),
        http(b"", None, headers=LEAKS),
        http(b"", None, status="202 Accepted"),
        STREAM_HEAD.replace(b"200 OK", b"201 Created") + chunk(NEWS) + LAST_CHUNK,
    ],
)
def test_what_is_no_stream_does_not_answer_a_get(sent: bytes) -> None:
    run(stands(sends(sent), refused("neither an event stream nor an error in answer to GET"), status=502))


def test_nor_does_a_redirect__and_whoever_reads_it_is_told_where_to() -> None:
    sent = http(b"", None, status="302 Found", headers=(("Location", "/x"),))
    told = "status 302 to /* (upstream.url has to name it): a redirect to another path of the server"
    run(stands(sends(sent), refused(told), status=502))


@pytest.mark.parametrize("status", ["405 Method Not Allowed", "404 Not Found"])
def test_an_error_in_answer_to_a_get_passes(status: str) -> None:
    run(stands(sends(http(b"no", "text/plain", status=status)), b"no", status=int(status[:3])))


@pytest.mark.parametrize("bad", [b"data: {}\n\n", event(response(8))])
async def test_a_bad_event_ends_a_subscription_with_an_error(bad: bytes) -> None:
    async with World(sends_and_hangs(STREAM_HEAD, chunk(NEWS + bad))) as world:
        answer = await world.ask(post(Era.MODERN, "subscriptions/listen", {"notifications": {}}))
        assert answer.status == 200
        assert answer.body.startswith(NEWS + b"event: message\ndata: " + b'{"jsonrpc":"2.0","id":7,"error":')
        await world.recovered(Era.MODERN)


@pytest.mark.parametrize("cut", [False, True])
async def test_a_subscription_that_stops_gets_an_error(cut: bool) -> None:
    script = sends_and_closes(STREAM_HEAD, chunk(NEWS)) if cut else sends(stream(NEWS))

    async with World(script) as world:
        answer = await world.ask(post(Era.MODERN, "subscriptions/listen", {"notifications": {}}))
        expected = (
            error_event(7, "the upstream's answer was cut off", message=UNAVAILABLE)
            if cut
            else error_event(7, NO_RESPONSE)
        )
        assert answer.body == NEWS + expected
        await world.recovered(Era.MODERN)
