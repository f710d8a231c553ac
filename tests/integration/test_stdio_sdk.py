"""The official SDK's client over HTTP, and its stdio server behind the gateway: everything works."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.subscriptions import ToolsListChanged
from tests.world.raw_server import PATIENCE
from tests.world.running import run
from tests.world.stdio_bridge import Bridge
from tests.world.warm import python

pytestmark = pytest.mark.slow

EVERYTHING = (str(Path(__file__).parents[1] / "conformance" / "everything_server.py"), "--stdio")
LEGACY, MODERN = "legacy", "2026-07-28"


def through_gateway(mode: str, case: Callable[[Client], Awaitable[None]], **callbacks: Any) -> None:
    async def main() -> None:
        async with Bridge(command=(python(), *EVERYTHING)) as bridge:
            made = Client(bridge.gateway.url, mode=mode, read_timeout_seconds=PATIENCE, **callbacks)
            async with made as client:
                await case(client)

    run(main())


def text_of(result: types.CallToolResult) -> str:
    content = result.content[0]
    assert isinstance(content, types.TextContent)
    return content.text


async def on_elicit(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"username": "ada", "email": "a@b.example", "name": "Ada"})


@pytest.mark.parametrize("mode", [LEGACY, MODERN, "auto"])
def test_lists_calls_and_progress(mode: str) -> None:
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async def case(client: Client) -> None:
        assert client.protocol_version == ("2025-11-25" if mode == LEGACY else MODERN)
        assert "test_simple_text" in {tool.name for tool in (await client.list_tools()).tools}
        assert "simple text" in text_of(await client.call_tool("test_simple_text"))
        await client.call_tool("test_tool_with_progress", progress_callback=on_progress)
        assert seen == [0, 50, 100]

    through_gateway(mode, case)


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
def test_calls_at_the_same_time_do_not_mix(mode: str) -> None:
    async def case(client: Client) -> None:
        names = ["test_simple_text", "test_tool_with_progress"] * 10
        told = await asyncio.gather(*[client.call_tool(name) for name in names])
        assert [("Reached" in text_of(result)) for result in told] == [False, True] * 10

    through_gateway(mode, case)


def test_a_legacy_server_asks_its_client() -> None:
    async def case(client: Client) -> None:
        assert "action=accept" in text_of(await client.call_tool("test_elicitation", {"message": "who?"}))

    through_gateway(LEGACY, case, elicitation_callback=on_elicit)


def test_a_modern_server_asks_for_input_first() -> None:
    async def case(client: Client) -> None:
        assert text_of(await client.call_tool("test_input_required_result_elicitation")) == "Hello, Ada!"

    through_gateway(MODERN, case, elicitation_callback=on_elicit)


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
def test_logs_of_a_call_arrive(mode: str) -> None:
    logs: list[object] = []

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        logs.append(params.data)

    async def case(client: Client) -> None:
        await client.call_tool("test_tool_with_logging")
        assert len(logs) == 3

    through_gateway(mode, case, logging_callback=on_log, log_level="debug")


def test_a_subscription_tells_what_changed() -> None:
    async def case(client: Client) -> None:
        async with client.listen(tools_list_changed=True) as subscription:
            await client.call_tool("test_trigger_tool_change")
            async with asyncio.timeout(PATIENCE):
                async for change in subscription:
                    assert isinstance(change, ToolsListChanged)
                    break

    through_gateway(MODERN, case)


def test_a_header_parameter_passes() -> None:
    async def case(client: Client) -> None:
        await client.list_tools()
        told = await client.call_tool("test_header_parameter", {"region": "eu \u20ac"})
        assert text_of(told) == "region=eu \u20ac"

    through_gateway(MODERN, case)
