"""The official SDK's client and server, with the gateway between them: everything works as without it."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.subscriptions import ToolsListChanged
from mcp.shared.exceptions import MCPError
from tests.integration.conftest import SdkServer
from tests.world.calls import initialize, post
from tests.world.raw_client import RawClient
from tests.world.raw_server import PATIENCE, until
from tests.world.running import RunningGateway, run

from accredit.gateway import GatewaySettings, HttpUpstream
from accredit.jsonrpc.methods import Era

pytestmark = pytest.mark.slow

LEGACY, MODERN = "legacy", "2026-07-28"
MODES = (LEGACY, MODERN, "auto")
Case = Callable[[Client], Awaitable[None]]


def through_gateway(server: SdkServer, mode: str, case: Case, **callbacks: Any) -> None:
    async def main() -> None:
        async with RunningGateway(GatewaySettings(HttpUpstream(server.url))) as gateway:
            async with Client(gateway.url, mode=mode, read_timeout_seconds=PATIENCE, **callbacks) as client:
                await case(client)
            await until(lambda: not gateway.state.tasks)

    run(main())


def text_of(result: types.CallToolResult) -> str:
    content = result.content[0]
    assert isinstance(content, types.TextContent)
    return content.text


async def on_elicit(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"username": "ada", "email": "a@b.example", "name": "Ada"})


async def on_sample(_: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    said = types.TextContent(type="text", text="Paris")
    return types.CreateMessageResult(role="assistant", content=said, model="test")


async def on_roots(_: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///home", name="home")])  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", MODES)
def test_lists_calls_resources_and_prompts(sdk_server: SdkServer, mode: str) -> None:
    async def case(client: Client) -> None:
        assert client.protocol_version == ("2025-11-25" if mode == LEGACY else MODERN)
        assert "test_simple_text" in {tool.name for tool in (await client.list_tools()).tools}
        assert "simple text" in text_of(await client.call_tool("test_simple_text"))
        assert (await client.call_tool("test_error_handling")).is_error
        read = (await client.read_resource("test://static-text")).contents[0]
        assert isinstance(read, types.TextResourceContents)
        prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "x", "arg2": "y"})
        assert "x" in str(prompt.messages[0].content)
        with pytest.raises(MCPError) as refused:
            await client.call_tool("no_such_tool")
        assert refused.value.error.code == types.INVALID_PARAMS

    through_gateway(sdk_server, mode, case)


@pytest.mark.parametrize("mode", MODES)
def test_progress_arrives_before_the_result(sdk_server: SdkServer, mode: str) -> None:
    async def case(client: Client) -> None:
        seen: list[float] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            seen.append(progress)

        await client.call_tool("test_tool_with_progress", progress_callback=on_progress)
        assert seen == [0, 50, 100]

    through_gateway(sdk_server, mode, case)


@pytest.mark.slow
def test_calls_at_the_same_time_do_not_mix(sdk_server: SdkServer) -> None:
    async def case(client: Client) -> None:
        names = ["test_simple_text", "test_tool_with_progress"] * 10
        told = await asyncio.gather(*[client.call_tool(name) for name in names])
        assert [("Reached" in text_of(result)) for result in told] == [False, True] * 10

    for mode in (LEGACY, MODERN):
        through_gateway(sdk_server, mode, case)


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("test_sampling", {"prompt": "capital?"}, "LLM response: Paris"),
        ("test_elicitation", {"message": "who?"}, "action=accept"),
    ],
)
def test_requests_of_a_legacy_server_reach_the_client_and_its_answers_go_back(
    sdk_server: SdkServer, tool: str, arguments: dict[str, Any], expected: str
) -> None:
    async def case(client: Client) -> None:
        assert expected in text_of(await client.call_tool(tool, arguments))

    through_gateway(sdk_server, LEGACY, case, elicitation_callback=on_elicit, sampling_callback=on_sample)


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("test_input_required_result_elicitation", "Hello, Ada!"),
        ("test_input_required_result_sampling", "The model answered."),
        ("test_input_required_result_list_roots", "file:///home"),
        ("test_input_required_result_request_state", "state-ok"),
        ("test_input_required_result_multiple_inputs", "All answered."),
        ("test_input_required_result_multi_round", "Both steps are done."),
    ],
)
def test_a_modern_server_may_ask_for_input_first(sdk_server: SdkServer, tool: str, expected: str) -> None:
    async def case(client: Client) -> None:
        assert text_of(await client.call_tool(tool)) == expected

    through_gateway(
        sdk_server,
        MODERN,
        case,
        elicitation_callback=on_elicit,
        sampling_callback=on_sample,
        list_roots_callback=on_roots,
    )


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
def test_logs_of_a_call_arrive(sdk_server: SdkServer, mode: str) -> None:
    logs: list[object] = []

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        logs.append(params.data)

    async def case(client: Client) -> None:
        await client.call_tool("test_tool_with_logging")
        assert len(logs) == 3

    through_gateway(sdk_server, mode, case, logging_callback=on_log, log_level="debug")


def test_a_legacy_stream_that_the_server_closed_is_resumed(sdk_server: SdkServer) -> None:
    async def case(client: Client) -> None:
        assert text_of(await client.call_tool("test_reconnection")) == "The stream was resumed."

    through_gateway(sdk_server, LEGACY, case)


def test_a_subscription_tells_what_changed(sdk_server: SdkServer) -> None:
    async def case(client: Client) -> None:
        async with client.listen(tools_list_changed=True) as subscription:
            await client.call_tool("test_trigger_tool_change")
            async with asyncio.timeout(PATIENCE):
                async for change in subscription:
                    assert isinstance(change, ToolsListChanged)
                    break

    through_gateway(sdk_server, MODERN, case)


def test_a_header_parameter_passes(sdk_server: SdkServer) -> None:
    async def case(client: Client) -> None:
        await client.list_tools()
        told = await client.call_tool("test_header_parameter", {"region": "eu \u20ac"})
        assert text_of(told) == "region=eu \u20ac"

    through_gateway(sdk_server, MODERN, case)


def test_the_end_of_a_session_ends_it_on_the_server(sdk_server: SdkServer) -> None:
    async def main() -> None:
        async with (
            RunningGateway(GatewaySettings(HttpUpstream(sdk_server.url))) as gateway,
            RawClient(gateway.port) as client,
        ):
            asked = initialize()
            await client.ask("POST", "/mcp", asked.headers, asked.body)
            begun = await client.answer()
            session = begun.header("mcp-session-id")
            assert begun.status == 200
            assert session is not None
            own = [("Mcp-Session-Id", session), ("MCP-Protocol-Version", "2025-11-25")]
            listing = post(Era.LEGACY, "tools/list").without_header("Mcp-Session-Id")
            for ended, status in ((False, 200), (True, 404)):
                if ended:
                    await client.ask("DELETE", "/mcp", own)
                    assert (await client.answer()).status == 200
                await client.ask("POST", "/mcp", [*listing.headers, own[0]], listing.body)
                assert (await client.answer()).status == status

    run(main())


def test_an_unsupported_version_is_the_server_s_to_refuse(sdk_server: SdkServer) -> None:
    async def main() -> None:
        async with (
            RunningGateway(GatewaySettings(HttpUpstream(sdk_server.url))) as gateway,
            RawClient(gateway.port) as client,
        ):
            asked = post(Era.MODERN, "tools/list").without_header("MCP-Protocol-Version")
            body = asked.body.replace(b"2026-07-28", b"2099-01-01")
            await client.ask("POST", "/mcp", [*asked.headers, ("MCP-Protocol-Version", "2099-01-01")], body)
            answer = await client.answer()
            assert answer.status == 400
            assert json.loads(answer.body)["error"]["data"]["requested"] == "2099-01-01"

    run(main())


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
def test_http_sse_of_2024_works_through_the_gateway(sse_server: str) -> None:
    async def main() -> None:
        async with RunningGateway(GatewaySettings(HttpUpstream(sse_server))) as gateway:
            transport = sse_client(gateway.url.replace("/mcp", "/sse"))
            async with Client(transport, mode=LEGACY, read_timeout_seconds=PATIENCE) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == ["add"]
                assert text_of(await client.call_tool("add", {"a": 2, "b": 3})) == "5"

    run(main())
