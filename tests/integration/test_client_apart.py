"""A client's connection lives in a task of its own: what fails or lies there is an error in few words, and cancels
nobody."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import MCPError, StdioServerParameters
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse
from tests.integration.test_client_given_up import BEGUN, SHORT, STREAM, carried, result
from tests.world.calls import chunk, compact, event, http
from tests.world.command import accredit
from tests.world.impostor import Impostor
from tests.world.raw_server import PATIENCE, Connection, RawServer
from tests.world.running import run

from accredit.client import AccreditedClient
from accredit.errors import RequestTimeout, UnsupportedRevision

pytestmark = pytest.mark.holds("client/apart")

LONG = 100_000


@asynccontextmanager
async def failing(at: str) -> AsyncGenerator[Any]:
    """A transport, as a caller may write one, whose own task fails when it is to carry a request of that method."""
    told, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, asked = anyio.create_memory_object_stream[SessionMessage](0)

    async def carry() -> None:
        async for item in asked:
            message: Any = item.message
            if message.method == at:
                raise ValueError("the transport's own")
            if message.method == "initialize":
                await told.send(SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=message.id, result=BEGUN)))

    async with told, read, write, asked, anyio.create_task_group() as tasks:
        tasks.start_soon(carry)
        yield read, write
        tasks.cancel_scope.cancel()


def test_a_transport_that_fails_ends_its_calls_and_cancels_nothing_that_the_host_does() -> None:
    async def main() -> str:
        async with AccreditedClient(failing("tools/call"), mode="legacy") as client:
            for _ in range(2):
                with pytest.raises(MCPError, match="Connection closed"):
                    await client.call_tool("t", timeout=PATIENCE)
            await asyncio.sleep(0)  # it was here, and wherever else the host awaits something
            return "the host's own work"

    assert run(main()) == "the host's own work"


async def test_nor_does_one_that_fails_while_it_connects() -> None:
    with pytest.raises(ValueError, match="the transport's own"):
        async with AccreditedClient(failing("initialize"), mode="legacy"):
            pass
    await asyncio.sleep(0)


@pytest.mark.slow
async def test_who_is_cancelled_while_it_connects_or_inside_leaves_no_task_and_no_process() -> None:
    mute = StdioServerParameters(command=sys.executable, args=["-c", "import sys; sys.stdin.read()"])
    for target in (mute, failing("nothing"), mute):
        with anyio.move_on_after(SHORT) as deadline:
            async with AccreditedClient(target, mode="2026-07-28" if target is mute else "legacy"):
                await anyio.sleep_forever()
        assert deadline.cancelled_caught
    with pytest.raises(RequestTimeout):
        async with AccreditedClient(mute, mode="legacy", timeout=SHORT):
            pass
    assert asyncio.all_tasks() == {asyncio.current_task()}


def of_no_revision(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    if asked["method"] == "server/discover":
        return {"error": {"code": -32601, "message": "Method not found"}}
    return {"result": {**BEGUN, "protocolVersion": "1999\x1b[2J" + "x" * LONG}}


@pytest.mark.parametrize("road", ["url", "transport", "stdio"])
async def test_a_server_of_no_known_revision_says_so_in_few_words_that_steer_nothing(road: str) -> None:
    with Impostor(of_no_revision) as server:
        with pytest.raises(UnsupportedRevision, match="from the server: 1999") as raised:
            async with carried(road, server.url):
                pass
        assert len(str(raised.value)) <= 100
        assert str(raised.value).isprintable()
        assert raised.value.__context__ is None


def of_few_words(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    known = {"initialize": BEGUN, "tools/call": {"content": []}}
    if asked["method"] not in known:
        return {"error": {"code": -32601, "message": "Method not found"}}
    return {"result": known[asked["method"]]}


@pytest.mark.parametrize("road", ["url", "transport", "stdio"])
async def test_a_call_with_half_a_surrogate_pair_fails_alone__a_language_model_writes_such_texts(road: str) -> None:
    with Impostor(of_few_words) as server:
        async with carried(road, server.url) as client:
            with pytest.raises(MCPError, match="half of a surrogate pair") as raised:
                await client.call_tool("t", {"text": "\ud83d"}, timeout=PATIENCE)
            assert raised.value.error.code == -32602
            assert (await client.call_tool("t", {"text": "\U0001f600"}, timeout=PATIENCE)).content == []


async def test_a_client_that_is_not_entered_or_is_left_says_so() -> None:
    client = AccreditedClient(failing("nothing"), mode="legacy")
    with pytest.raises(RuntimeError, match="outside of `async with`"):
        await client.call_tool("t")
    async with client:
        pass
    with pytest.raises(RuntimeError, match="outside of `async with`"):
        await client.call_tool("t")


async def test_an_option_that_no_call_has_is_refused__a_misspelt_timeout_would_be_none() -> None:
    async with AccreditedClient(failing("nothing"), mode="legacy") as client:
        for call in (client.call_tool, client.get_prompt, client.read_resource):
            misspelt: Any = {"max_total_time": 1}
            with pytest.raises(TypeError, match="max_total_time"):
                await call("t", **misspelt)


def test_accredit_call_says_which_revision_it_does_not_speak(tmp_path: Path) -> None:
    with Impostor(of_no_revision) as server:
        done = accredit("call", "t", "--url", server.url, folder=tmp_path)
    assert done.returncode == 1
    assert "Unsupported protocol version from the server: 1999?[2J" in done.stderr
    assert len(done.stderr) < LONG


@pytest.mark.slow
async def test_a_call_of_accredit_call_has_the_time_that_is_named(tmp_path: Path) -> None:
    async def serve(connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            message = json.loads(request.body) if request.method == "POST" else {}
            match message.get("method"):
                case "initialize":
                    await connection.send(http(result(message, BEGUN)))
                case "tools/list":
                    tool = {"name": "t", "inputSchema": {"type": "object"}}
                    await connection.send(http(result(message, {"tools": [tool]})))
                case "tools/call":
                    told = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}
                    await connection.send(STREAM)
                    while True:
                        await connection.send(chunk(event(compact(told))))
                        await asyncio.sleep(SHORT / 10)
                case _ if "id" in message:
                    error = {"code": -32601, "message": "Method not found"}
                    await connection.send(http(compact({"jsonrpc": "2.0", "id": message["id"], "error": error})))
                case _:
                    await connection.send(http(b"", status="202 Accepted" if message else "405 No"))

    async with RawServer(serve) as server:
        asked = ("call", "t", "--url", server.url, "--timeout", "2")
        done = await anyio.to_thread.run_sync(lambda: accredit(*asked, folder=tmp_path))
    assert done.returncode == 1
    assert "no answer within 2 s" in done.stderr
