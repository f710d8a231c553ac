"""The official SDK's client and its servers, of both eras, several of them as one: everything works."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.subscriptions import ToolsListChanged
from tests.world.merged import HTTP, STDIO, Merged
from tests.world.raw_server import PATIENCE
from tests.world.sdk import EVERYTHING, LEGACY, MODERN, on_elicit, on_sample, text_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("gateway/upstream/merged/sessions"),
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]
NAMES = {"mail": HTTP, "files": STDIO}
MODES = pytest.mark.parametrize("mode", [LEGACY, MODERN])


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers that take their time to start, beside other tests, are waited for."""
    for module in ("members", "answers", "streams"):
        monkeypatch.setattr(f"accredit.gateway.upstream.merged.{module}.MERGED_ASK_SECONDS", PATIENCE)


@asynccontextmanager
async def merged(mode: str, **callbacks: Any) -> AsyncGenerator[Client]:
    async with Merged(NAMES, commands=dict.fromkeys(NAMES, EVERYTHING)) as all_of_them:
        made = Client(all_of_them.gateway.url, mode=mode, read_timeout_seconds=PATIENCE, **callbacks)
        async with made as client:
            yield client


@MODES
async def test_lists_calls_and_progress(mode: str) -> None:
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with merged(mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == LEGACY else MODERN)
        names = {tool.name for tool in (await client.list_tools()).tools}
        for name in NAMES:
            assert f"{name}__test_simple_text" in names
            assert "simple text" in text_of(await client.call_tool(f"{name}__test_simple_text"))
            seen.clear()
            await client.call_tool(f"{name}__test_tool_with_progress", progress_callback=on_progress)
            assert seen == [0, 50, 100]


@MODES
async def test_resources_and_prompts_are_found_by_what_lists_say(mode: str) -> None:
    async with merged(mode) as client:
        for resource in (await client.list_resources()).resources:
            read = (await client.read_resource(resource.uri)).contents
            assert str(read[0].uri) == str(resource.uri)
        prompts = (await client.list_prompts()).prompts
        assert {prompt.name.partition("__")[0] for prompt in prompts} == set(NAMES)
        for prompt in (each for each in prompts if "input_required" not in each.name):
            arguments = {each.name: "test://x" for each in prompt.arguments or []}
            assert (await client.get_prompt(prompt.name, arguments)).messages


async def test_both_servers_ask_at_once_and_each_gets_its_own_answer() -> None:
    asked: list[str] = []

    async def note(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return await on_elicit(context, params)

    async with merged(LEGACY, elicitation_callback=note, sampling_callback=on_sample) as client:
        calls = [client.call_tool(f"{name}__test_elicitation", {"message": name}) for name in NAMES]
        for name, result in zip(NAMES, await asyncio.gather(*calls), strict=True):
            assert not result.is_error, (name, result)
        assert sorted(asked) == sorted(NAMES)
        assert "forty-two" in text_of(await client.call_tool("mail__test_sampling", {"prompt": "x"}))


@MODES
async def test_log_messages_say_whose_they_are(mode: str) -> None:
    loggers: list[str | None] = []

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        loggers.append(params.logger)

    async with merged(mode, logging_callback=on_log) as client:
        if mode == LEGACY:
            await client.set_logging_level("debug")  # pyright: ignore[reportDeprecated]
        for name in NAMES:
            loggers.clear()
            await client.call_tool(f"{name}__test_tool_with_logging")
            assert {(each or "").partition("/")[0] for each in loggers} == ({name} if mode == LEGACY else set())


async def test_a_change_at_any_server_reaches_the_one_subscription() -> None:
    async with merged(MODERN) as client, client.listen(tools_list_changed=True) as subscription:
        for name in NAMES:
            await client.call_tool(f"{name}__test_trigger_tool_change")
            async with asyncio.timeout(PATIENCE):
                assert isinstance(await anext(subscription), ToolsListChanged)


async def test_resources_are_subscribed_at_their_server() -> None:
    async with merged(LEGACY) as client:
        for resource in (await client.list_resources()).resources[:1]:
            await client.subscribe_resource(resource.uri)  # pyright: ignore[reportDeprecated]
            await client.unsubscribe_resource(resource.uri)  # pyright: ignore[reportDeprecated]
