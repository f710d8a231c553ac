"""Observe mode: what would have been refused is forwarded as it is, counted and logged; bounds still hold."""

import gzip
import logging
from typing import Any

import pytest
from tests.world.calls import (
    ERAS,
    Posted,
    event,
    http,
    log_message,
    notification,
    post,
    response,
    stream,
)
from tests.world.hostile import (
    LEAKS,
    World,
    check_refused,
    error_event,
    refused,
    sends,
    sends_and_hangs,
)
from tests.world.raw_client import RawAnswer
from tests.world.running import run

from accredit.jsonrpc.methods import Era


def observe(posted: Posted, sent: bytes, **settings: Any) -> tuple[RawAnswer, dict[str, int]]:
    async def case() -> tuple[RawAnswer, dict[str, int]]:
        async with World(sends(sent), enforce=False, **settings) as world:
            answer = await world.ask(posted)
            counts = world.refused
            await world.recovered(Era.LEGACY)
            return answer, counts

    return run(case())


BAD = {
    "garbage": http(b"not json", headers=LEAKS),
    "another_id": http(response(8), headers=LEAKS),
    "two_results": http(response().replace(b'"result"', b'"result":1,"result"')),
    "html": http(b"<html>", "text/html", headers=LEAKS),
    "nothing": http(b"", headers=LEAKS),
    "202": http(b"", None, status="202 Accepted", headers=LEAKS),
    "a_redirect": http(b"", None, status="302 Found", headers=(("Location", "/x"),)),
    "a_bad_error": http(b"{}", status="500 No", headers=LEAKS),
    "an_unknown_coding": http(b"abc", headers=(("Content-Encoding", "zstd"),)),
    "damaged_gzip": http(gzip.compress(response())[:-4], headers=(("Content-Encoding", "gzip"),)),
}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", BAD)
def test_a_bad_answer_passes_as_it_is_and_is_counted(era: Era, name: str, caplog: pytest.LogCaptureFixture) -> None:
    head, _, body = BAD[name].partition(b"\r\n\r\n")
    with caplog.at_level(logging.WARNING, "accredit.gateway"):
        answer, counts = observe(post(era), BAD[name])
    assert (answer.status, answer.body) == (int(head.split(b" ")[1]), body)
    lines = [line.partition(": ") for line in head.decode().split("\r\n")[1:]]
    # Everything but what browsers are told, which is the gateway's to say, and a session where there are none.
    dropped = ("Access-Control-", "Mcp-Session-Id") if era is Era.MODERN else ("Access-Control-",)
    sent = [(key.lower(), value) for key, _, value in lines if not key.startswith(dropped)]
    assert sorted(answer.headers) == sorted(sent)
    assert counts == {"answer_refused_observed": 1}
    assert [record.message for record in caplog.records] == ["answer_refused_observed"]


def test_what_is_said_to_a_notification_is_nobody_s_here_either() -> None:
    answer, counts = observe(notification(Era.LEGACY), http(response(), headers=LEAKS))
    assert (answer.status, answer.body, answer.headers) == (202, b"", [("content-length", "0")])
    assert counts == {"answer_dropped": 1}


@pytest.mark.parametrize("era", ERAS)
def test_bad_events_pass_and_each_is_counted(era: Era) -> None:
    text = (
        event(b"{}")
        + event(log_message())
        + event(response(8))
        + b"data: x\n\n"
        + event(response())
        + event(response())
    )
    answer, counts = observe(post(era), stream(text))
    assert (answer.status, answer.body) == (200, text)
    assert counts == {"answer_refused_observed": 4}


@pytest.mark.parametrize("era", ERAS)
def test_a_stream_that_ends_without_a_response_just_ends(era: Era) -> None:
    text = event(log_message())
    answer, _ = observe(post(era), stream(text))
    assert (answer.status, answer.body) == (200, text)


# --- what holds all the same ------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("sent", "detail"),
    [
        (http(b"a" * 10_001, headers=LEAKS), "the answer is larger than 10000 bytes"),
        (
            http(gzip.compress(b"a" * 10_001), headers=(*LEAKS, ("Content-Encoding", "gzip"))),
            "decoded, the answer is larger than 10000 bytes",
        ),
        (http(b"[" * 5_000, headers=LEAKS), "nested more than 128 deep"),
    ],
)
def test_the_bounds_hold(era: Era, sent: bytes, detail: str) -> None:
    answer, counts = observe(post(era), sent, max_response_bytes=10_000)
    check_refused(answer, 502, refused(detail))
    assert counts == {"answer_refused": 1}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("bad", "detail"),
    [
        (b"data: " + b"a" * 10_000, "an event longer than 1000 bytes"),
        (event(b"[" * 500), "nested more than 128 deep"),
    ],
)
async def test_the_bounds_hold_in_a_stream(era: Era, bad: bytes, detail: str) -> None:
    script = sends_and_hangs(stream(event(log_message()), bad).removesuffix(b"0\r\n\r\n"))
    async with World(script, enforce=False, max_event_bytes=1_000) as world:
        answer = await world.ask(post(era))
        assert answer.body == event(log_message()) + error_event(7, detail)
        await world.recovered(era)
