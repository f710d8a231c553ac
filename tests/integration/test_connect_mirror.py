"""Whatever a server offers comes through `accredit connect` as it is: the official SDK's client and its server."""

import asyncio
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.subscriptions import ToolsListChanged
from tests.integration.conftest import SdkServer
from tests.world.agents import agent_files, guard_any_tool
from tests.world.authorization import Trust
from tests.world.calls import compact, http, meta
from tests.world.command import Serving
from tests.world.connected import Connected
from tests.world.raw_server import PATIENCE, Connection, RawServer
from tests.world.sdk import EVERYTHING, MODERN, host, on_elicit, on_sample, text_of

pytestmark = pytest.mark.slow


async def test_what_is_offered_in_the_legacy_era(sdk_server: SdkServer) -> None:
    seen: list[float] = []
    logs: list[object] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        logs.append(params.data)

    callbacks: dict[str, Any] = {
        "elicitation_callback": on_elicit,
        "sampling_callback": on_sample,
        "logging_callback": on_log,
    }
    async with host(sdk_server.url, **callbacks) as client:
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


async def test_what_is_offered_in_the_modern_era(sdk_server: SdkServer) -> None:
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with host(sdk_server.url, mode=MODERN, elicitation_callback=on_elicit) as client:
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


@pytest.mark.slow
async def test_what_a_server_asks_of_its_client_comes_through_proofs__each_round_with_one_of_its_own(
    tmp_path: Path,
) -> None:
    files = agent_files(tmp_path, Trust(), "mcp:tool")
    guard_any_tool(tmp_path, EVERYTHING)

    with Serving("--config", "accredit.toml", folder=tmp_path) as serving:
        url = serving.url
        async with host(url, *files.options, elicitation_callback=on_elicit) as client:
            assert "action=accept" in text_of(await client.call_tool("test_elicitation", {"message": "who?"}))
        async with host(url, *files.options, mode=MODERN, elicitation_callback=on_elicit) as client:
            assert text_of(await client.call_tool("test_input_required_result_elicitation")) == "Hello, Ada!"


# --- cancellation -----------------------------------------------------------------------------------


async def test_what_a_server_breaks_is_an_error_and_no_end(tmp_path: Path) -> None:
    last = (("Connection", "close"),)  # or the next request might meet the end of this connection
    listed = compact({"jsonrpc": "2.0", "id": 7, "result": {"tools": []}})
    answers = [b"", http(b"nonsense", headers=last), http(listed, headers=last)]

    async def serve(connection: Connection) -> None:
        if await connection.request() is not None and (answer := answers.pop(0)):
            await connection.send(answer)

    async with RawServer(serve) as raw:
        with Connected(tmp_path, raw.url) as connected:
            told = [await asyncio.to_thread(connected.ask, "tools/list", {"_meta": meta()}) for _ in range(3)]
            assert ["error" in message for message in told] == [True, True, False]
            assert "nonsense" not in connected.stderr
            connected.close_input()
            assert await asyncio.to_thread(connected.wait) == 0
