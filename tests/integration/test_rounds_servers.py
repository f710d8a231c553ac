"""Our builders and readers in tools of the official SDK and of FastMCP, asked by our engine over real connections."""

from typing import Any, cast

import fastmcp
import mcp
import pytest
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolRequestParams, CallToolResult, ElicitResult, InputRequiredResult, TextContent
from pydantic import BaseModel
from tests.world.rounds_client import sender
from tests.world.running import RunningGateway, run

from accredit.client.rounds import run_rounds
from accredit.rounds import InputContext, RoundsOptions, accepted_content, elicit, input_required


class Confirmation(BaseModel):
    """What a person is asked before anything is deleted."""

    sure: bool
    reason: str = ""


def sdk_app() -> Any:
    server = MCPServer("files")

    @server.tool()
    async def delete(path: str, ctx: Context) -> str | InputRequiredResult:
        confirmed = accepted_content(ctx.input_responses, "confirm", Confirmation)
        if confirmed is None:
            return input_required(input_requests={"confirm": elicit(f"Delete {path}?", Confirmation)})
        return f"deleted {path}: {confirmed.reason}" if confirmed.sure else "kept"

    return server.streamable_http_app()


def fastmcp_app() -> Any:
    server = fastmcp.FastMCP("files")

    @server.tool
    async def delete(path: str, ctx: fastmcp.Context) -> str | InputRequiredResult:
        confirmed = accepted_content(ctx.input_responses, "confirm", Confirmation)
        if confirmed is None:
            return input_required(input_requests={"confirm": elicit(f"Delete {path}?", Confirmation)})
        return f"deleted {path}: {confirmed.reason}" if confirmed.sure else "kept"

    return server.http_app()


@pytest.mark.parametrize("make_app", [sdk_app, fastmcp_app])
@pytest.mark.parametrize(("sure", "text"), [(True, "deleted /a: old"), (False, "kept")])
def test_a_tool_asks_before_it_acts__and_does_what_the_person_said(make_app: Any, sure: bool, text: str) -> None:
    async def on_elicit(context: InputContext, _params: object) -> ElicitResult:
        assert context.key == "confirm"
        return ElicitResult(action="accept", content={"sure": sure, "reason": "old"})

    async def main() -> CallToolResult:
        async with (
            RunningGateway(make_app()) as running,
            # The client says in each request what it can be asked.
            mcp.Client(running.url, mode="2026-07-28", elicitation_callback=cast("Any", on_elicit)) as client,
        ):
            call = CallToolRequestParams(name="delete", arguments={"path": "/a"})
            handlers = {"elicitation/create": on_elicit}
            return await run_rounds(sender(client.session), handlers, call, "tools/call", RoundsOptions())

    result = run(main())
    assert isinstance(result.content[0], TextContent)
    assert result.content[0].text == text
