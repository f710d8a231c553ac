"""What strangers who ask whether a gateway is ready make it do."""

import asyncio
import json
from typing import Any

import pytest
from tests.world.asgi import Told

from accredit.gateway import GatewaySettings, HttpUpstream, create_app
from accredit.gateway.front import health
from accredit.stores import MemoryStore

pytestmark = pytest.mark.holds("gateway/front/health")

HOST = [(b"host", b"127.0.0.1")]


class Watched(MemoryStore):
    """A store that counts who asks whether it answers, and lets the first wait until `answers`."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.is_up = True
        self.answers = asyncio.Event()

    async def ready(self) -> bool:
        self.asked += 1
        await self.answers.wait()
        return self.is_up


class Clock:
    """The clock of what was found."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def asked(app: Any, query: bytes = b"scope=gateway") -> tuple[int, dict[str, Any]]:
    told = Told("GET", HOST, path="/readyz", query=query)
    await app(told.scope, told.receive, told.send)
    return told.status, json.loads(told.body)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(health, "monotonic", clock)
    return clock


@pytest.mark.holds("gateway/front/health", "shared")
async def test_however_many_ask_at_once_one_look_answers_all__and_it_is_believed_for_no_longer_than_said(
    clock: Clock,
) -> None:
    store = Watched()
    app = create_app(GatewaySettings(HttpUpstream("http://127.0.0.1:9/mcp")), store=store)
    asking = [asyncio.create_task(asked(app)) for _ in range(50)]
    while not store.asked:
        await asyncio.sleep(0)
    asking[0].cancel()  # who made it look goes away, and the next one does
    store.answers.set()
    assert await asyncio.gather(*asking[1:]) == [(200, {"status": "ok", "store": True})] * 49
    assert store.asked == 2
    store.is_up = False
    clock.now += health.FOUND_SECONDS / 2
    assert (await asked(app))[0] == 200
    clock.now += health.FOUND_SECONDS / 2
    assert await asked(app) == (503, {"status": "not ready", "store": False})
    assert store.asked == 3


async def test_a_gateway_that_drains_says_so_at_once(clock: Clock) -> None:
    store = Watched()
    store.answers.set()
    app = create_app(GatewaySettings(HttpUpstream("http://127.0.0.1:9/mcp")), store=store)
    assert (await asked(app))[0] == 200
    app.drain()
    assert await asked(app) == (503, {"status": "draining", "store": True})
    assert store.asked == 1
