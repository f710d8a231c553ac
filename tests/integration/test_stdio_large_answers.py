"""Large answers of a server on stdio take room, as those of a server behind HTTP do: whoever reads slowly, or not at
all, keeps no more of them in memory than that."""

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest
from tests.world.asgi import Told
from tests.world.calls import post
from tests.world.raw_server import until
from tests.world.stdio_bridge import Bridge
from tests.world.stdio_processes import raw_command

from accredit.gateway import GatewaySettings, StdioUpstream, create_app
from accredit.jsonrpc.methods import Era
from accredit.limits import LARGE_ANSWER_BYTES

pytestmark = pytest.mark.slow

CALLERS = 6
FIT = 4


class Slow(Told):
    """A client that reads nothing of its answer but the head until it `reads`."""

    def __init__(self) -> None:
        params = {"name": "echo", "arguments": {"text": "x" * 2 * LARGE_ANSWER_BYTES}}
        posted = post(Era.MODERN, "tools/call", params)
        headers = [("Host", "127.0.0.1"), *posted.headers]
        super().__init__("POST", [(name.lower().encode(), value.encode()) for name, value in headers], posted.body)
        self.reads = asyncio.Event()

    async def send(self, message: Any) -> None:
        if message["type"] != "http.response.start":
            await self.reads.wait()
        await super().send(message)


@pytest.mark.holds("gateway/upstream/large_answers", "wait")
async def test_no_more_large_answers_of_a_child_wait_for_their_clients_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.large_answers.MAX_ANSWERS_BYTES", 0)
    # There is room for two of the largest; up to `LARGE_ANSWER_BYTES` an answer takes none.
    largest = FIT * (LARGE_ANSWER_BYTES + 65_536) // 2

    upstream = StdioUpstream(raw_command())
    app = create_app(GatewaySettings(upstream, max_response_bytes=largest, max_event_bytes=largest))
    callers = [Slow() for _ in range(CALLERS)]
    asked = [asyncio.create_task(app(each.scope, each.receive, each.send)) for each in callers]
    await until(lambda: all(each.status for each in callers))
    refused = [each for each in callers if each.status != 200]
    assert len(refused) == CALLERS - FIT
    for each in callers:
        each.reads.set()
    await asyncio.gather(*asked)
    assert all(b"too many large answers of this server at once" in each.body for each in refused)
    later = Slow()
    later.reads.set()
    await app(later.scope, later.receive, later.send)
    assert later.status == 200
    await app.aclose()


@pytest.mark.holds("gateway/upstream/large_answers", "wait")
async def test_no_more_answers_that_have_come_in_part_are_kept_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("accredit.gateway.upstream.large_answers.MAX_ANSWERS_BYTES", 0)
    caplog.set_level("INFO")
    size = 6 * LARGE_ANSWER_BYTES
    taken = size - LARGE_ANSWER_BYTES  # and some of it may be on its way
    largest = FIT * (taken + 65_536) // 2

    def halves() -> int:
        return sum(record.__dict__.get("accredit_fields", {}).get("line") == "half" for record in caplog.records)

    async with Bridge(max_response_bytes=largest, max_event_bytes=largest) as bridge:
        sessions = [await bridge.session() for _ in range(CALLERS)]
        asked = [asyncio.create_task(each.call("halves", bytes=size)) for each in sessions]
        await until(lambda: halves() == CALLERS)
        for each in sessions:
            assert (await each.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})).status == 202
        answers = [await each for each in asked]
        refused = [message["error"]["data"] for status, message in answers if status != 200]
        assert refused == ["too many large answers of this server at once"] * (CALLERS - FIT)
        assert (await sessions[0].call("huge", bytes=size))[0] == 200  # all of it was given back


async def test_a_session_that_rests_keeps_no_long_message_for_a_client_that_never_listens(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Bridge(max_request_bytes=16_777_216) as bridge:
        text = "x" * 6 * LARGE_ANSWER_BYTES
        news = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "news"}}
        long = {**news, "params": {"level": "info", "data": text}}
        sessions = [await bridge.session() for _ in range(4)]
        tracemalloc.start()
        try:
            for session in sessions:
                await bridge.send(session.posted("tell", message=news, after=long))
            await until(lambda: sum(each.message == "messages_dropped" for each in caplog.records) == len(sessions))
            gc.collect()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert kept < 2 * len(text)


async def test_a_session_that_rests_keeps_nothing_of_its_last_answer__a_hundred_of_them_would_keep_as_many() -> None:
    async with Bridge(max_request_bytes=16_777_216) as bridge:
        text = "x" * 6 * LARGE_ANSWER_BYTES
        sessions = [await bridge.session() for _ in range(4)]
        assert (await sessions[0].call("echo", text=text))[0] == 200
        tracemalloc.start()
        try:
            for session in sessions[1:]:
                assert (await session.call("echo", text=text))[0] == 200
            gc.collect()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert kept < len(text), "what three sessions keep, of their last requests and of the answers to them"
