"""`--timeout` on the command line of `serve` and `connect`, headers named there, and calls that are taken back.

(`wrap` and its `--timeout`: `test_wrap.py`. What counts as a word: `tests/unit/client/test_renewing.py` and
`tests/unit/gateway/upstream/stdio/test_stdio_deadline.py`.)
"""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.world.calls import http
from tests.world.command import Serving
from tests.world.connected import Connected
from tests.world.raw_server import Connection, RawServer, until
from tests.world.stdio_processes import raw_command

pytestmark = pytest.mark.slow

MUTE: dict[str, Any] = {"name": "mute", "arguments": {}}
READ: dict[str, Any] = {"name": "read", "arguments": {}}


class Silent:
    """A legacy server without sessions that never answers a call. With `comments` it keeps its streams open."""

    def __init__(self, *, comments: bool = False) -> None:
        self.messages: list[dict[str, Any]] = []
        self._comments = comments

    async def __call__(self, connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            if request.method != "POST":
                await connection.send(http(b"", None, status="405 Method Not Allowed"))
                continue
            message = json.loads(request.body)
            self.messages.append(message)
            match message.get("method"):
                case "initialize":
                    info = {"name": "silent", "version": "1"}
                    result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
                    body = {"jsonrpc": "2.0", "id": message["id"], "result": result}
                    await connection.send(http(json.dumps(body).encode()))
                case "tools/call":
                    await self._keep(connection)
                    return
                case _:
                    await connection.send(http(b"", None, status="202 Accepted"))

    async def _keep(self, connection: Connection) -> None:
        if not self._comments:
            await connection.peer_closed()
            return
        await connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:
                await connection.send(b": still here\n\n")
                await asyncio.sleep(0.05)

    def taken_back(self) -> list[Any]:
        """The ids of the requests that were taken back."""
        found = [each["params"] for each in self.messages if each.get("method") == "notifications/cancelled"]
        return [params["requestId"] for params in found]


def test_serve_gives_up_a_stdio_server_that_is_silent_for_the_time_that_is_named__and_takes_the_call_back(
    tmp_path: Path,
) -> None:
    with (
        Serving("--timeout", "0.5", "--", *raw_command(), folder=tmp_path) as gateway,
        Connected(tmp_path, gateway.url) as host,
    ):
        host.initialize()
        assert host.ask("tools/call", MUTE)["error"]["message"] == "Upstream unavailable"
        assert "notifications/cancelled" in json.dumps(host.ask("tools/call", READ, id=8))


async def test_serve_gives_up_a_server_behind_http_after_the_time_that_is_named(tmp_path: Path) -> None:
    server = Silent()
    async with RawServer(server) as raw:
        with (
            Serving("--timeout", "0.5", raw.url, folder=tmp_path) as gateway,
            Connected(tmp_path, gateway.url) as host,
        ):
            await asyncio.to_thread(host.initialize)
            told = await asyncio.to_thread(host.ask, "tools/call", MUTE)
            assert told["error"]["message"] == "Upstream unavailable"


@pytest.mark.parametrize("comments", [True, False])
async def test_connect_gives_up_a_call_after_the_time_that_is_named__comments_are_no_word(
    comments: bool, tmp_path: Path
) -> None:
    server = Silent(comments=comments)
    async with RawServer(server) as raw:
        with Connected(tmp_path, raw.url, "--timeout", "0.5", "--header", "X-Team=mail") as host:
            await asyncio.to_thread(host.initialize)
            told = await asyncio.to_thread(host.ask, "tools/call", MUTE)
            assert told["error"]["message"].startswith("Upstream unavailable")
            assert "did not answer in time" in told["error"]["data"]
            if comments:
                await until(lambda: server.taken_back() == [7])
        assert {each.header("x-team") for each in raw.requests} == {"mail"}


def read(host: Connected) -> list[dict[str, Any]]:
    """Every line that the raw server has read."""
    told = host.ask("tools/call", READ, id="read")
    return [json.loads(line) for line in json.loads(told["result"]["content"][0]["text"])]
