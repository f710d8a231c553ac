"""Clients of others play their rounds through the gateway and notice nothing: sealed state is state to them."""

from collections.abc import Awaitable, Callable
from typing import Any

import fastmcp
import mcp
import pytest
from mcp_types import CallToolRequestParams, CallToolResult, ElicitResult
from tests.world.rounds_client import sender
from tests.world.rounds_server import FINAL, VERSION, RoundsServer, asks
from tests.world.running import RunningGateway

from accredit.client.rounds import run_rounds
from accredit.gateway import GatewaySettings, HttpUpstream
from accredit.rounds import RoundsOptions

SCRIPT = [asks("a", requestState="one é\n"), asks("b"), asks("c", "d", requestState=""), asks(requestState="4"), FINAL]
SEEN = [(None, []), ("one é\n", ["a"]), (None, ["b"]), ("", ["c", "d"]), ("4", [])]


async def yes(context: Any, params: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"sure": True})


async def ours(url: str) -> CallToolResult:
    params = CallToolRequestParams(name="deploy", arguments={"env": "prod"})
    async with mcp.Client(url, mode=VERSION, elicitation_callback=yes) as client:
        handlers = {"elicitation/create": yes}
        return await run_rounds(sender(client.session), handlers, params, "tools/call", RoundsOptions())


async def sdk(url: str) -> CallToolResult:
    async with mcp.Client(url, mode=VERSION, elicitation_callback=yes) as client:
        return await client.call_tool("deploy", {"env": "prod"})


async def fast(url: str) -> Any:
    async def on_elicit(_message: str, _type: object, _params: Any, _context: Any) -> ElicitResult:
        return await yes(None, None)

    async with fastmcp.Client(url, mode=VERSION, elicitation_handler=on_elicit) as client:
        return await client.call_tool("deploy", {"env": "prod"})


@pytest.mark.parametrize("engine", [ours, sdk, fast])
async def test_a_flow_of_five_legs_is_played_as_without_the_gateway(engine: Callable[[str], Awaitable[Any]]) -> None:
    server = RoundsServer(SCRIPT)
    async with (
        RunningGateway(server) as upstream,
        RunningGateway(GatewaySettings(HttpUpstream(upstream.url))) as gateway,
    ):
        done = await engine(gateway.url)
    assert done.content[0].text == "done"
    assert server.state_and_keys == SEEN
