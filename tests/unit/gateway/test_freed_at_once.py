"""What was answered is free at once. What only the collector of cycles frees takes no room, and piles up: of answers of
16 MiB, twenty."""

import asyncio
import gc
import sys
import weakref
from collections.abc import Callable, Generator

import pytest
from tests.unit.gateway.upstream.stdio.test_pending_calls import World
from tests.world.asgi import AsgiExchange, MemoryAnswer, Told
from tests.world.calls import event, post, response
from tests.world.raw_server import until

from accredit.errors import AnswerError
from accredit.gateway.counters import Counters
from accredit.gateway.room import Rooms
from accredit.gateway.settings import GatewaySettings, HttpUpstream
from accredit.gateway.upstream.http.sse_relay import EventRelay
from accredit.gateway.upstream.reply import WhileConnected
from accredit.jsonrpc.frames import Frame, Request, decode_frame
from accredit.jsonrpc.methods import Era
from accredit.jsonrpc.responses import Expected
from accredit.limits import LONG_ANSWER_BYTES

BEGUN = b'{"jsonrpc":"2.0","id":7,"result":{"a":'


def long_text() -> bytes:
    return b'"' + b"x" * 2 * LONG_ANSWER_BYTES + b'"'


@pytest.fixture(autouse=True)
def no_collector() -> Generator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    "made",
    [
        lambda: BEGUN + long_text() + b"}",
        lambda: BEGUN + long_text() + b"]}",
        lambda: BEGUN + b"[" * 200 + long_text() + b"]" * 200 + b"}}",
        lambda: BEGUN + b'"\\ud800","b":' + long_text() + b"}}",
        lambda: BEGUN + long_text() + b"," + b",".join(b'"%d":1' % number for number in range(100_000)) + b"}}",
    ],
    ids=["no end", "another end", "too deep", "no character", "too many members"],
)
def test_a_long_answer_that_is_refused_is_held_by_nothing(made: Callable[[], bytes]) -> None:
    text = made()
    asked = decode_frame(post(Era.MODERN).body)
    assert isinstance(asked, Request)
    before = sys.getrefcount(text)
    with pytest.raises(AnswerError) as refused:
        Expected(Era.MODERN, [asked]).body(text)
    refused.value.let_go()
    del refused
    assert sys.getrefcount(text) == before


async def test_a_call_that_a_child_has_answered_is_held_by_nothing() -> None:
    world = World(1)
    known = weakref.ref(world.calls.pop())
    assert world.judge('{"jsonrpc":"2.0","id":1,"result":{}}') is not None
    assert known() is None


async def test_an_exchange_whose_client_was_watched_is_held_by_nothing() -> None:
    class Client:
        def __init__(self) -> None:
            self.waits = asyncio.Event()

        async def receive(self) -> dict[str, str]:
            self.waits.set()
            await asyncio.Event().wait()
            return {}

        async def send(self, message: object) -> None:
            raise AssertionError(message)

    async def watched() -> weakref.ref[Client]:
        client = Client()
        scope = {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "headers": []}
        exchange = AsgiExchange(scope, client.receive, client.send, Rooms(1, proving=False))
        with WhileConnected(exchange):
            await client.waits.wait()
        return weakref.ref(client)

    known = await watched()
    await until(lambda: known() is None)


async def test_a_stream_that_stands_keeps_nothing_of_the_responses_that_went_by() -> None:
    expected = Expected(Era.LEGACY, resumed=True)

    seen: list[Frame] = []
    answer = MemoryAnswer(200, [(b"content-type", b"text/event-stream")], event(response()))
    relay = EventRelay(
        Told().exchange,
        answer.as_answer(),
        expected,
        headers=[],
        settings=GatewaySettings(HttpUpstream("http://127.0.0.1:1/mcp")),
        counters=Counters(),
        learn=seen.append,
        idle_seconds=None,
    )
    await relay.run()
    assert len(seen) == 1
    assert expected.answers.members == []
