"""Whatever a server offers comes through `accredit connect` as it is: the official SDK's client and its server."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters
from mcp.client import ClientRequestContext
from mcp.client.subscriptions import ToolsListChanged
from tests.integration.conftest import SdkServer
from tests.world.agents import agent_files
from tests.world.authorization import Trust
from tests.world.calls import compact, http, initialized, meta
from tests.world.command import Serving, environment
from tests.world.connected import Connected
from tests.world.raw_server import PATIENCE, Connection, RawServer
from tests.world.running import run
from tests.world.warm import python

pytestmark = pytest.mark.slow

LEGACY, MODERN = "legacy", "2026-07-28"


EVERYTHING = (str(Path(__file__).parents[1] / "conformance" / "everything_server.py"), "--stdio")
GUARDED = """
[gateway]
id = "everything"
[upstream]
command = {command}
[proofs]
mode = "required"
binding = "required"
default_tool_scope = "mcp:tool"
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[store]
url = "memory:"
"""


@asynccontextmanager
async def host(url: str, mode: str, *options: str, **callbacks: Any) -> AsyncGenerator[Client]:
    """A host that starts `accredit connect`, without a key if no options name one."""
    arguments = ["-m", "accredit", "connect", url, "--log-level", "error", *options]
    command = StdioServerParameters(command=python(), args=arguments, env=environment())
    async with Client(command, mode=mode, read_timeout_seconds=PATIENCE, **callbacks) as client:
        yield client


def text_of(result: types.CallToolResult) -> str:
    return " ".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def on_elicit(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"username": "ada", "email": "a@b.example", "name": "Ada"})


async def on_sample(
    context: ClientRequestContext, params: types.CreateMessageRequestParams
) -> types.CreateMessageResult:
    return types.CreateMessageResult(
        role="assistant", content=types.TextContent(type="text", text="forty-two"), model="m"
    )


def test_what_is_offered_in_the_legacy_era(sdk_server: SdkServer) -> None:
    seen: list[float] = []
    logs: list[object] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        logs.append(params.data)

    async def main() -> None:
        callbacks = {
            "elicitation_callback": on_elicit,
            "sampling_callback": on_sample,
            "logging_callback": on_log,
        }
        async with host(sdk_server.url, LEGACY, **callbacks) as client:
            assert client.protocol_version == "2025-11-25"
            assert "test_simple_text" in {tool.name for tool in (await client.list_tools()).tools}
            assert (await client.list_resources()).resources
            assert (await client.list_resource_templates()).resource_templates
            assert (await client.list_prompts()).prompts
            await client.call_tool("test_tool_with_progress", progress_callback=on_progress)
            assert seen == [0, 50, 100]
            await client.call_tool("test_tool_with_logging")
            assert len(logs) == 3
            assert "action=accept" in text_of(await client.call_tool("test_elicitation", {"message": "who?"}))
            assert "forty-two" in text_of(await client.call_tool("test_sampling", {"prompt": "what?"}))

    run(main())


def test_what_is_offered_in_the_modern_era(sdk_server: SdkServer) -> None:
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async def main() -> None:
        async with host(sdk_server.url, MODERN, elicitation_callback=on_elicit) as client:
            assert client.protocol_version == MODERN
            await client.list_tools()
            told = await client.call_tool("test_header_parameter", {"region": "eu \u20ac"})
            assert text_of(told) == "region=eu \u20ac"
            assert text_of(await client.call_tool("test_input_required_result_elicitation")) == "Hello, Ada!"
            await client.call_tool("test_tool_with_progress", progress_callback=on_progress)
            assert seen == [0, 50, 100]
            async with client.listen(tools_list_changed=True) as subscription:
                await client.call_tool("test_trigger_tool_change")
                async with asyncio.timeout(PATIENCE):
                    async for change in subscription:
                        assert isinstance(change, ToolsListChanged)
                        break

    run(main())


@pytest.mark.slow
def test_what_a_server_asks_of_its_client_comes_through_proofs__each_round_with_one_of_its_own(tmp_path: Path) -> None:
    files = agent_files(tmp_path, Trust(), "mcp:tool")
    (tmp_path / "accredit.toml").write_text(GUARDED.format(command=json.dumps([python(), *EVERYTHING])), "utf-8")

    async def main(url: str) -> None:
        async with host(url, LEGACY, *files.options, elicitation_callback=on_elicit) as client:
            assert "action=accept" in text_of(await client.call_tool("test_elicitation", {"message": "who?"}))
        async with host(url, MODERN, *files.options, elicitation_callback=on_elicit) as client:
            assert text_of(await client.call_tool("test_input_required_result_elicitation")) == "Hello, Ada!"

    with Serving("--config", "accredit.toml", folder=tmp_path) as serving:
        run(main(serving.url))


# --- cancellation -----------------------------------------------------------------------------------


class Waiting:
    """A server whose tools never answer; `ended` tells what became of a call."""

    def __init__(self) -> None:
        self.calls: asyncio.Queue[Any] = asyncio.Queue()
        self.ended: asyncio.Queue[Any] = asyncio.Queue()

    async def __call__(self, connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            message = json.loads(request.body or b"{}")
            match message.get("method"):
                case "initialize":
                    await connection.send(http(initialized(message["id"]), headers=(("Mcp-Session-Id", "s"),)))
                case "tools/call":
                    self.calls.put_nowait(message)
                    await connection.peer_closed()
                    self.ended.put_nowait("closed")
                    return
                case "notifications/cancelled":
                    self.ended.put_nowait(message["params"]["requestId"])
                    await connection.send(http(b"", None, status="202 Accepted"))
                case _ if request.method == "POST":
                    await connection.send(http(b"", None, status="202 Accepted"))
                case _:
                    await connection.send(http(b"", None, status="405 Method Not Allowed"))


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_call_that_the_host_cancels_is_cancelled_at_the_server(era: str, tmp_path: Path) -> None:
    async def main() -> None:
        server = Waiting()
        async with RawServer(server) as raw:
            with Connected(tmp_path, raw.url) as connected:
                params: dict[str, Any] = {"name": "wait", "arguments": {}}
                if era == "legacy":
                    await asyncio.to_thread(connected.initialize)
                else:
                    params["_meta"] = meta()
                connected.say(id=7, method="tools/call", params=params)
                async with asyncio.timeout(PATIENCE):
                    assert (await server.calls.get())["id"] == 7
                    connected.say(method="notifications/cancelled", params={"requestId": 7})
                    assert await server.ended.get() == (7 if era == "legacy" else "closed")
                connected.close_input()
                assert await asyncio.to_thread(connected.wait) == 0
                assert b'"id":7' not in connected.rest()

    run(main())


def test_what_a_server_breaks_is_an_error_and_no_end(tmp_path: Path) -> None:
    last = (("Connection", "close"),)  # or the next request might meet the end of this connection
    listed = compact({"jsonrpc": "2.0", "id": 7, "result": {"tools": []}})
    answers = [b"", http(b"nonsense", headers=last), http(listed, headers=last)]

    async def serve(connection: Connection) -> None:
        if await connection.request() is not None and (answer := answers.pop(0)):
            await connection.send(answer)

    async def main() -> None:
        async with RawServer(serve) as raw:
            with Connected(tmp_path, raw.url) as connected:
                told = [await asyncio.to_thread(connected.ask, "tools/list", {"_meta": meta()}) for _ in range(3)]
                assert ["error" in message for message in told] == [True, True, False]
                assert "nonsense" not in connected.stderr
                connected.close_input()
                assert await asyncio.to_thread(connected.wait) == 0

    run(main())
