"""The official SDK's client and its servers, of both eras, several of them as one: everything works."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.subscriptions import ToolsListChanged
from tests.world.merged import HTTP, STDIO, Merged
from tests.world.raw_server import PATIENCE
from tests.world.running import run
from tests.world.warm import python

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("gateway/upstream/merged/sessions"),
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]
EVERYTHING = (python(), str(Path(__file__).parents[1] / "conformance" / "everything_server.py"), "--stdio")
LEGACY, MODERN = "legacy", "2026-07-28"
NAMES = {"mail": HTTP, "files": STDIO}
MODES = pytest.mark.parametrize("mode", [LEGACY, MODERN])


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that take their time to start, beside other tests, are waited for."""
    for module in ("members", "answers", "streams"):
        monkeypatch.setattr(f"accredit.gateway.upstream.merged.{module}.MERGED_ASK_SECONDS", PATIENCE)


def merged(mode: str, case: Callable[[Client], Awaitable[None]], **callbacks: Any) -> None:
    async def main() -> None:
        async with Merged(NAMES, commands=dict.fromkeys(NAMES, EVERYTHING)) as all_of_them:
            made = Client(all_of_them.gateway.url, mode=mode, read_timeout_seconds=PATIENCE, **callbacks)
            async with made as client:
                await case(client)

    run(main())


def text_of(result: types.CallToolResult) -> str:
    content = result.content[0]
    assert isinstance(content, types.TextContent)
    return content.text


@MODES
def test_lists_calls_and_progress(mode: str) -> None:
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async def case(client: Client) -> None:
        assert client.protocol_version == ("2025-11-25" if mode == LEGACY else MODERN)
        names = {tool.name for tool in (await client.list_tools()).tools}
        for name in NAMES:
            assert f"{name}__test_simple_text" in names
            assert "simple text" in text_of(await client.call_tool(f"{name}__test_simple_text"))
            seen.clear()
            await client.call_tool(f"{name}__test_tool_with_progress", progress_callback=on_progress)
            assert seen == [0, 50, 100]

    merged(mode, case)


@MODES
def test_resources_and_prompts_are_found_by_what_lists_say(mode: str) -> None:
    async def case(client: Client) -> None:
        for resource in (await client.list_resources()).resources:
            read = (await client.read_resource(resource.uri)).contents
            assert str(read[0].uri) == str(resource.uri)
        prompts = (await client.list_prompts()).prompts
        assert {prompt.name.partition("__")[0] for prompt in prompts} == set(NAMES)
        for prompt in (each for each in prompts if "input_required" not in each.name):
            arguments = {each.name: "test://x" for each in prompt.arguments or []}
            assert (await client.get_prompt(prompt.name, arguments)).messages

    merged(mode, case)


def test_both_servers_ask_at_once_and_each_gets_its_own_answer() -> None:
    asked: list[str] = []

    async def on_elicit(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"username": "ada", "email": "a@b.example", "name": "Ada"})

    async def on_sample(_: Any, params: Any) -> types.CreateMessageResult:
        asked.append("sample")
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(type="text", text="sampled"), model="m", stop_reason="endTurn"
        )

    async def case(client: Client) -> None:
        calls = [client.call_tool(f"{name}__test_elicitation", {"message": name}) for name in NAMES]
        for name, result in zip(NAMES, await asyncio.gather(*calls), strict=True):
            assert not result.is_error, (name, result)
        assert sorted(asked) == sorted(NAMES)
        assert "sampled" in text_of(await client.call_tool("mail__test_sampling", {"prompt": "x"}))

    merged(LEGACY, case, elicitation_callback=on_elicit, sampling_callback=on_sample)


@MODES
def test_log_messages_say_whose_they_are(mode: str) -> None:
    loggers: list[str | None] = []

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        loggers.append(params.logger)

    async def case(client: Client) -> None:
        if mode == LEGACY:
            await client.set_logging_level("debug")  # pyright: ignore[reportDeprecated]
        for name in NAMES:
            loggers.clear()
            await client.call_tool(f"{name}__test_tool_with_logging")
            assert {(each or "").partition("/")[0] for each in loggers} == ({name} if mode == LEGACY else set())

    merged(mode, case, logging_callback=on_log)


def test_a_change_at_any_server_reaches_the_one_subscription() -> None:
    async def case(client: Client) -> None:
        async with client.listen(tools_list_changed=True) as subscription:
            for name in NAMES:
                await client.call_tool(f"{name}__test_trigger_tool_change")
                async with asyncio.timeout(PATIENCE):
                    assert isinstance(await anext(subscription), ToolsListChanged)

    merged(MODERN, case)


def test_resources_are_subscribed_at_their_server() -> None:
    async def case(client: Client) -> None:
        for resource in (await client.list_resources()).resources[:1]:
            await client.subscribe_resource(resource.uri)  # pyright: ignore[reportDeprecated]
            await client.unsubscribe_resource(resource.uri)  # pyright: ignore[reportDeprecated]

    merged(LEGACY, case)
