"""Clients that keep their connections cost no more than that: nothing is left of what they have asked for. A stranger
has as many connections as he likes, and a request may have 4 MiB."""

import gc
import tracemalloc
from contextlib import AsyncExitStack

import pytest
from tests.world.calls import Posted, post
from tests.world.raw_client import RawClient
from tests.world.running import RunningGateway, run

from accredit.gateway import GatewaySettings, HttpUpstream
from accredit.jsonrpc.methods import Era

pytestmark = pytest.mark.slow

LONG = 3_000_000
CLIENTS = 4


def request(era: Era, method: str) -> Posted:
    return post(era, method, {"name": "x", "arguments": {"text": "x" * LONG}})


@pytest.mark.parametrize("method", ["tools/call", "vendor/method", "notifications/message"])
@pytest.mark.parametrize("era", list(Era))
def test_a_connection_that_rests_keeps_nothing_of_its_last_request(era: Era, method: str) -> None:
    async def main() -> None:
        # Nobody is there: what a stranger is refused with is all the same.
        settings = GatewaySettings(HttpUpstream("http://127.0.0.1:9/mcp"))
        async with RunningGateway(settings) as gateway, AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(RawClient(gateway.port)) for _ in range(CLIENTS + 1)]
            for number, client in enumerate(clients):
                if number == 1:  # the first has had everything made that is made once
                    tracemalloc.start()
                posted = request(era, method)
                await client.ask("POST", "/mcp", posted.headers, posted.body)
                assert (await client.answer()).status >= 400
                del posted
            gc.collect()
            kept, _ = tracemalloc.get_traced_memory()
            assert kept < LONG
            assert not any(client.reader.at_eof() for client in clients)

    try:
        run(main())
    finally:
        tracemalloc.stop()
