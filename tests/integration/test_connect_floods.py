"""A server that asks the host of `connect` without end in one call."""

import asyncio
import json
from pathlib import Path

import pytest
from tests.world.calls import chunk, compact, event, http
from tests.world.connected import Connected
from tests.world.raw_server import Connection, RawServer

from accredit.limits import MAX_DIALOGS, MAX_ROUNDS

pytestmark = [pytest.mark.slow, pytest.mark.holds("client/budgets", "call")]

ASKED = 2 * MAX_DIALOGS * MAX_ROUNDS


class Flood:
    """A legacy server that asks for roots again and again before it answers a call."""

    def __init__(self) -> None:
        self.refused = 0

    async def __call__(self, connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            message = json.loads(request.body) if request.method == "POST" else {}
            self.refused += message.get("error", {}).get("message") == "Too many requests for input"
            if message.get("method") == "initialize":
                said = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "flood", "version": "1"},
                }
                await connection.send(http(compact({"jsonrpc": "2.0", "id": message["id"], "result": said})))
            elif message.get("method") == "tools/call":
                await self._ask(connection, message["id"])
            else:
                await connection.send(http(b"", status="202 Accepted" if message else "405 No"))

    async def _ask(self, connection: Connection, call: int) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        await connection.send(head)
        for number in range(ASKED):
            asked = {"jsonrpc": "2.0", "id": f"ask-{number}", "method": "roots/list"}
            await connection.send(chunk(event(compact(asked))))
        done = {"jsonrpc": "2.0", "id": call, "result": {"content": []}}
        await connection.send(chunk(event(compact(done))))
        await connection.peer_closed()


async def test_one_call_asks_the_host_no_more_than_its_rounds_could__and_the_host_has_its_answer(
    tmp_path: Path,
) -> None:
    def host(url: str) -> int:
        with Connected(tmp_path, url) as connected:
            connected.initialize()
            connected.say(id=7, method="tools/call", params={"name": "t"})
            asked = 0
            while (heard := connected.hear()).get("id") != 7:
                assert heard["method"] == "roots/list"
                asked += 1
                connected.say(id=heard["id"], result={"roots": []})
            return asked

    async with RawServer(Flood()) as server:
        asked = await asyncio.to_thread(host, server.url)
    assert MAX_DIALOGS <= asked <= MAX_DIALOGS * MAX_ROUNDS
