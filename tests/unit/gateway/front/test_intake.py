"""The way in without a carrier of the standard library's: a call is begun by stepping it, and costs nothing before."""

import asyncio

import pytest
from tests.world.asgi import MemoryAnswer, MemoryClient
from tests.world.calls import ERAS, post, response

from accredit.gateway.admission.gate import Gate
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.counters import Counters
from accredit.gateway.front.callers import PlainSessions
from accredit.gateway.front.endpoint import Endpoint
from accredit.gateway.front.exchange import Exchange
from accredit.gateway.headers import RawHeaders, RequestHead
from accredit.gateway.room import Rooms
from accredit.gateway.settings import GatewaySettings, HttpUpstream
from accredit.gateway.upstream.http.relay import HttpRelay
from accredit.jsonrpc.methods import Era

UPSTREAM = HttpUpstream("http://127.0.0.1:1/mcp")


class MemoryExchange(Exchange):
    """Bytes in memory: nothing of it ever waits."""

    def __init__(self, headers: RawHeaders, body: bytes) -> None:
        super().__init__(RequestHead("POST", "/mcp", headers), "127.0.0.1", Rooms(1 << 20, proving=False))
        self.told: tuple[int, bytes] | None = None
        self._text = body

    async def _piece(self) -> tuple[bytes, bool]:
        return self._text, False

    async def _send_whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        self.told = (status, body)

    async def _send_head(self, status: int, headers: RawHeaders) -> None:
        raise AssertionError

    async def write(self, chunk: bytes) -> None:
        raise AssertionError

    async def end(self) -> None:
        raise AssertionError

    def watch(self) -> None: ...

    def unwatch(self) -> bool:
        return False


class SlowClient(MemoryClient):
    """An upstream that answers when it is told to."""

    def __init__(self, answer: MemoryAnswer) -> None:
        super().__init__(answer)
        self.answers: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def send(
        self, method: str, headers: RawHeaders, body: bytes = b"", *, target: bytes | None = None, route: object = None
    ) -> MemoryAnswer:
        await self.answers
        return await super().send(method, headers, body, target=target, route=route)


@pytest.mark.holds("gateway/upstream/reply", "no-task")
@pytest.mark.holds("gateway/front/endpoint", "room")
@pytest.mark.parametrize("era", ERAS)
async def test_a_call_comes_to_its_wait_for_the_upstream_without_a_task_and_ends_in_the_next_step(era: Era) -> None:
    settings, loop = GatewaySettings(UPSTREAM), asyncio.get_running_loop()
    tools = ToolDirectory()
    relay = HttpRelay(settings, UPSTREAM, Counters(), tools)
    client = SlowClient(MemoryAnswer(200, [(b"content-type", b"application/json")], response()))
    relay.sender.client = client.as_client()
    asked = post(era)
    headers = [(name.lower().encode(), value.encode()) for name, value in asked.headers]
    exchange = MemoryExchange([(b"host", b"127.0.0.1"), *headers], asked.body)
    call = Endpoint(settings, Gate(settings, Counters(), tools), relay, PlainSessions()).serve(exchange)
    begun: asyncio.Future[object] = loop.create_future()

    def begin() -> None:
        assert asyncio.current_task() is None
        tasks = asyncio.all_tasks()
        begun.set_result((call.send(None), asyncio.all_tasks() - tasks))

    loop.call_soon(begin)
    assert await begun == (client.answers, set())
    client.answers.set_result(None)
    with pytest.raises(StopIteration):
        call.send(None)
    assert exchange.told == (200, response())
