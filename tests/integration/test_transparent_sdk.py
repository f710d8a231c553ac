"""The official SDK's client and server, with the gateway between them, over HTTP and on stdio: everything works as
without it."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.subscriptions import ToolsListChanged
from mcp.shared.exceptions import MCPError
from tests.integration.conftest import SdkServer
from tests.world.raw_server import PATIENCE, until
from tests.world.running import RunningGateway
from tests.world.sdk import EVERYTHING, LEGACY, MODERN, on_elicit, on_roots, on_sample, text_of

from accredit.gateway import GatewaySettings, HttpUpstream, StdioUpstream

pytestmark = pytest.mark.slow

Upstream = HttpUpstream | StdioUpstream


@pytest.fixture(params=["http", "stdio"])
def upstream(request: pytest.FixtureRequest, sdk_server: SdkServer) -> Upstream:
    return HttpUpstream(sdk_server.url) if request.param == "http" else StdioUpstream(EVERYTHING)


@asynccontextmanager
async def through_gateway(upstream: Upstream, mode: str, **callbacks: Any) -> AsyncGenerator[Client]:
    async with RunningGateway(GatewaySettings(upstream)) as gateway:
        async with Client(gateway.url, mode=mode, read_timeout_seconds=PATIENCE, **callbacks) as client:
            yield client
        await until(lambda: not gateway.state.tasks)


@pytest.mark.parametrize("mode", [LEGACY, MODERN, "auto"])
async def test_lists_calls_progress_resources_and_prompts(upstream: Upstream, mode: str) -> None:
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with through_gateway(upstream, mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == LEGACY else MODERN)
        assert "test_simple_text" in {tool.name for tool in (await client.list_tools()).tools}
        assert "simple text" in text_of(await client.call_tool("test_simple_text"))
        assert (await client.call_tool("test_error_handling")).is_error
        await client.call_tool("test_tool_with_progress", progress_callback=on_progress)
        assert seen == [0, 50, 100]
        read = (await client.read_resource("test://static-text")).contents[0]
        assert isinstance(read, types.TextResourceContents)
        prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "x", "arg2": "y"})
        assert "x" in str(prompt.messages[0].content)
        with pytest.raises(MCPError) as refused:
            await client.call_tool("no_such_tool")
        assert refused.value.error.code == types.INVALID_PARAMS


async def test_requests_of_a_legacy_server_reach_the_client_and_its_answers_go_back(upstream: Upstream) -> None:
    async with through_gateway(upstream, LEGACY, elicitation_callback=on_elicit, sampling_callback=on_sample) as client:
        sampled = text_of(await client.call_tool("test_sampling", {"prompt": "capital?"}))
        assert "LLM response: forty-two" in sampled
        assert "action=accept" in text_of(await client.call_tool("test_elicitation", {"message": "who?"}))


ASKS = {
    "elicitation": "Hello, Ada!",
    "sampling": "The model answered.",
    "list_roots": "file:///srv",
    "request_state": "state-ok",
    "multiple_inputs": "All answered.",
    "multi_round": "Both steps are done.",
}


async def test_a_modern_server_may_ask_for_input_first(upstream: Upstream) -> None:
    answers = {
        "elicitation_callback": on_elicit, "sampling_callback": on_sample, "list_roots_callback": on_roots,
    }  # fmt: skip
    async with through_gateway(upstream, MODERN, **answers) as client:
        told = {each: text_of(await client.call_tool(f"test_input_required_result_{each}")) for each in ASKS}
    assert told == ASKS


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_logs_of_a_call_arrive(upstream: Upstream, mode: str) -> None:
    logs: list[object] = []

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        logs.append(params.data)

    async with through_gateway(upstream, mode, logging_callback=on_log, log_level="debug") as client:
        await client.call_tool("test_tool_with_logging")
        assert len(logs) == 3


@pytest.mark.parametrize("upstream", ["http"], indirect=True)
async def test_a_legacy_stream_that_the_server_closed_is_resumed(upstream: Upstream) -> None:
    async with through_gateway(upstream, LEGACY) as client:
        assert text_of(await client.call_tool("test_reconnection")) == "The stream was resumed."


async def test_a_subscription_tells_what_changed(upstream: Upstream) -> None:
    async with through_gateway(upstream, MODERN) as client, client.listen(tools_list_changed=True) as subscription:
        await client.call_tool("test_trigger_tool_change")
        async with asyncio.timeout(PATIENCE):
            assert isinstance(await anext(subscription), ToolsListChanged)


async def test_a_header_parameter_passes(upstream: Upstream) -> None:
    async with through_gateway(upstream, MODERN) as client:
        await client.list_tools()
        told = await client.call_tool("test_header_parameter", {"region": "eu \u20ac"})
        assert text_of(told) == "region=eu \u20ac"


@pytest.fixture
def sse_server() -> Generator[str]:
    """The URL of a server of revision 2024-11-05."""
    script = Path(__file__).parent.parent / "world" / "sse_server.py"
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@pytest.mark.slow
async def test_http_sse_of_2024_works_through_the_gateway(sse_server: str) -> None:
    async with RunningGateway(GatewaySettings(HttpUpstream(sse_server))) as gateway:
        transport = sse_client(gateway.url.replace("/mcp", "/sse"))
        async with Client(transport, mode=LEGACY, read_timeout_seconds=PATIENCE) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["add"]
            assert text_of(await client.call_tool("add", {"a": 2, "b": 3})) == "5"
