"""What a client owes to who waits for it: an end in its time, and an error in few words."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from tests.world.calls import chunk, compact, event, http
from tests.world.command import accredit
from tests.world.impostor import Impostor
from tests.world.raw_server import PATIENCE, Connection, RawServer

from accredit.client import AccreditedClient
from accredit.errors import RequestTimeout

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
CAPABILITIES = {"tools": {}, "resources": {}, "prompts": {}}
BEGUN = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": {"name": "s", "version": "1"}}
SHORT = 0.5
"""Seconds that the client gives."""

Asking = Callable[[AccreditedClient], Any]
ASKED: dict[str, Asking] = {
    "tools/call": lambda client: client.call_tool("t"),
    "resources/read": lambda client: client.read_resource("a://b"),
    "prompts/get": lambda client: client.get_prompt("p"),
    "tools/list": lambda client: client.list_tools(),
    "resources/list": lambda client: client.list_resources(),
    "resources/templates/list": lambda client: client.list_resource_templates(),
    "prompts/list": lambda client: client.list_prompts(),
}
LISTS = sorted(method for method in ASKED if method.endswith("/list"))


def result(asked: Mapping[str, Any], value: object) -> bytes:
    return compact({"jsonrpc": "2.0", "id": asked["id"], "result": value})


class Chatty:
    """A legacy server that answers `method` with notifications, and no end."""

    def __init__(self, method: str) -> None:
        self._method = method

    async def __call__(self, connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            message = json.loads(request.body) if request.method == "POST" else {}
            if message.get("method") == self._method:
                told = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
                await connection.send(STREAM)
                while True:
                    await connection.send(chunk(event(compact(told))))
                    await asyncio.sleep(0.01)
            elif message.get("method") == "initialize":
                await connection.send(http(result(message, BEGUN)))
            else:
                await connection.send(http(b"", status="202 Accepted" if message else "405 No"))


@pytest.mark.parametrize("method", ["initialize", *LISTS])
async def test_a_server_that_never_stops_talking_keeps_nobody_waiting_who_connects_or_lists(method: str) -> None:
    async with RawServer(Chatty(method)) as server:
        with anyio.fail_after(PATIENCE), pytest.raises(RequestTimeout):
            async with AccreditedClient(server.url, mode="legacy", timeout=SHORT) as client:
                await ASKED[method](client)


@pytest.mark.parametrize("method", LISTS)
async def test_a_list_has_the_time_that_is_named_with_it(method: str) -> None:
    async with RawServer(Chatty(method)) as server, AccreditedClient(server.url, mode="legacy") as client:
        name = {"resources/templates/list": "list_resource_templates"}.get(method, f"list_{method.split('/')[0]}")
        with anyio.fail_after(PATIENCE), pytest.raises(RequestTimeout, match=f"{SHORT} s"):
            await getattr(client, name)(timeout=SHORT)


@pytest.mark.slow
async def test_nor_does_it_keep_accredit_call_waiting__page_after_page(tmp_path: Path) -> None:
    async def serve(connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            message = json.loads(request.body) if request.method == "POST" else {}
            match message.get("method"):
                case "initialize":
                    await connection.send(http(result(message, BEGUN)))
                case "tools/list":
                    await asyncio.sleep(SHORT / 4)
                    await connection.send(http(result(message, {"tools": [], "nextCursor": "more"})))
                case _ if "id" in message:
                    error = {"code": -32601, "message": "Method not found"}
                    await connection.send(http(compact({"jsonrpc": "2.0", "id": message["id"], "error": error})))
                case _:
                    await connection.send(http(b"", status="202 Accepted" if message else "405 No"))

    async with RawServer(serve) as server:
        options = ("--url", server.url, "--timeout", "2")
        done = await asyncio.to_thread(accredit, "call", "t", *options, folder=tmp_path)
        assert (done.returncode, "no answer within 2 s" in done.stderr) == (1, True)


@pytest.mark.parametrize("resumes", [True, False], ids=["in-the-midst", "of-another-try"])
async def test_the_stream_of_a_call_that_was_given_up_is_resumed_no_more__it_was_thirty_times_a_second(
    resumes: bool,
) -> None:
    """In the older era a stream outlives its request: what is resumed has to be ended with it."""
    left = asyncio.Event()

    async def serve(connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            message = json.loads(request.body) if request.method == "POST" else {}
            if message.get("method") == "initialize":
                await connection.send(http(result(message, BEGUN)))
            elif message.get("method") == "tools/call":
                await connection.send(http(b"retry: 0\n" + event(b"", id="1"), "text/event-stream"))
            elif request.header("last-event-id"):
                if resumes:
                    await connection.send(STREAM, chunk(b": wait\n\n"))
                await connection.peer_closed()
                left.set()
                return
            else:
                await connection.send(http(b"", status="202 Accepted" if message else "405 No"))

    async with RawServer(serve) as server, AccreditedClient(server.url, mode="legacy") as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("t", timeout=SHORT)
        async with asyncio.timeout(PATIENCE):
            await left.wait()


@asynccontextmanager
async def carried(road: str, url: str) -> AsyncGenerator[AccreditedClient]:
    bridge = StdioServerParameters(command=sys.executable, args=["-c", BRIDGE, url])
    target = {"url": url, "transport": streamable_http_client(url), "stdio": bridge}[road]
    async with AccreditedClient(target, mode="legacy") as client:
        yield client


BRIDGE = """
import sys, urllib.request
for line in sys.stdin:
    with urllib.request.urlopen(urllib.request.Request(sys.argv[1], line.encode())) as answer:
        if text := answer.read().decode():
            print(text, flush=True)
"""
FAULTS = 3_000
MEMBERS = {
    "tools/call": "content",
    "resources/read": "contents",
    "prompts/get": "messages",
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}


def odd(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """Sound answers, but for what is asked for: each of its blocks has several faults."""
    if asked.get("method") == "initialize":
        return {"result": BEGUN}
    return {"result": {MEMBERS[asked["method"]]: [{"type": "text"}] * FAULTS} if "id" in asked else {}}


def is_short(error: MCPError) -> bool:
    """Whether an error has few words, says what is wrong, and holds no other."""
    said = f"{error} {error!r} {error.error}"
    return len(said) < 1_000 and "not what MCP says" in said and error.__context__ is None


@pytest.mark.holds("client/legs", "one-error")
@pytest.mark.parametrize("method", ASKED)
@pytest.mark.parametrize("road", ["url", "transport", "stdio"])
async def test_an_answer_with_thousands_of_faults_is_one_error_in_few_words(road: str, method: str) -> None:
    with Impostor(odd) as server:
        async with carried(road, server.url) as client:
            with pytest.raises(MCPError, match="Invalid upstream") as raised:
                await ASKED[method](client)
            assert is_short(raised.value)


@pytest.mark.holds("client/legs", "one-error")
@pytest.mark.parametrize("road", ["url", "transport", "stdio"])
async def test_nor_has_one_of_whoever_connects_more(road: str) -> None:
    with Impostor(lambda _: {"result": {"capabilities": dict.fromkeys(CAPABILITIES, 1)}}) as server:
        with pytest.raises(MCPError, match="Invalid upstream") as raised:
            async with carried(road, server.url):
                pass
        assert is_short(raised.value)
