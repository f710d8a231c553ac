"""Rounds through `accredit connect`, for hosts that know them and for hosts that don't: real processes and sockets."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ElicitResult, InputRequiredResult
from tests.world.agents import agent_files, guard_any_tool
from tests.world.authorization import Trust
from tests.world.calls import compact, http
from tests.world.command import Serving
from tests.world.connected import Connected
from tests.world.raw_server import Connection, RawServer, until
from tests.world.rounds_server import FINAL, NEVER, RoundsServer, asks
from tests.world.running import RunningGateway
from tests.world.sdk import EVERYTHING, host, on_roots, on_sample, text_of

from accredit.rounds import (
    accepted_content,
    create_message,
    elicit,
    elicit_url,
    input_required,
    input_response,
    list_roots,
)

pytestmark = [pytest.mark.slow, pytest.mark.holds("client/bridge")]

FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}}


async def yes(context: ClientRequestContext, params: types.ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"sure": True})


def asking_server() -> MCPServer:
    """Asks for everything that can be asked for, in two rounds with a state between them."""
    server = MCPServer("asking", instructions="Ask me.")

    @server.tool()
    async def deploy(ctx: Context) -> str | InputRequiredResult:
        if ctx.request_state != "second":
            if not accepted_content(ctx.input_responses, "sure"):
                return input_required(input_requests={"sure": elicit("Sure?", FORM)}, request_state="first")
            text = types.TextContent(type="text", text="how many?")
            asking = create_message([types.SamplingMessage(role="user", content=text)], 10)
            return input_required(input_requests={"model": asking, "roots": list_roots()}, request_state="second")
        sampled = input_response(ctx.input_responses, "model")
        rooted = input_response(ctx.input_responses, "roots")
        assert sampled.kind == "sampling"
        assert rooted.kind == "roots"
        await ctx.report_progress(1, 1)
        assert isinstance(sampled.result.content, types.TextContent)
        return f"{sampled.result.content.text} in {rooted.roots[0].uri}"

    @server.tool()
    async def visit(ctx: Context) -> str | InputRequiredResult:
        view = input_response(ctx.input_responses, "page")
        if view.kind != "elicit":
            return input_required(input_requests={"page": elicit_url("Please pay", "https://pay.example/")})
        return view.action

    @server.resource("plan://{name}")
    async def plan(name: str, ctx: Context) -> str | InputRequiredResult:
        if not accepted_content(ctx.input_responses, "sure"):
            return input_required(input_requests={"sure": elicit("Sure?", FORM)})
        return f"the plan {name}"

    return server


ANSWERS: dict[str, Any] = {
    "elicitation_callback": yes,
    "sampling_callback": on_sample,
    "list_roots_callback": on_roots,
}


@pytest.mark.holds("client/bridge", "input-requests")
@pytest.mark.parametrize(("mode", "option"), [("legacy", "--modern"), ("2026-07-28", "--log-format=json")])
async def test_a_host_of_either_era_is_asked_for_everything_that_a_server_needs(mode: str, option: str) -> None:
    seen: list[float] = []
    pages: list[types.ElicitRequestParams] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async def on_elicit(context: ClientRequestContext, params: types.ElicitRequestParams) -> ElicitResult:
        pages.append(params)
        return ElicitResult(action="accept", content={"sure": True} if params.mode == "form" else None)

    async with RunningGateway(asking_server().streamable_http_app()) as running:
        callbacks = {**ANSWERS, "elicitation_callback": on_elicit}
        async with host(running.url, option, mode=mode, **callbacks) as client:
            assert client.protocol_version == ("2025-11-25" if mode == "legacy" else mode)
            assert {tool.name for tool in (await client.list_tools()).tools} == {"deploy", "visit"}
            told = await client.call_tool("deploy", progress_callback=on_progress)
            assert text_of(told) == "forty-two in file:///srv"
            assert seen == [1]
            assert text_of(await client.call_tool("visit")) == "accept"
            assert isinstance(pages[-1], types.ElicitRequestURLParams)
            (read,) = (await client.read_resource("plan://a")).contents
            assert isinstance(read, types.TextResourceContents)
            assert read.text == "the plan a"


def asked(*answers: dict[str, Any]) -> RoundsServer:
    """A server that speaks the modern era alone."""
    return RoundsServer([*answers, FINAL])


@contextlib.asynccontextmanager
async def client_of(server: RoundsServer, **callbacks: Any) -> AsyncGenerator[Client]:
    async with RunningGateway(server) as running, host(running.url, **callbacks) as client:
        yield client


@pytest.mark.holds("client/bridge", "request-meta")
@pytest.mark.holds("client/bridge", "initialize")
async def test_a_legacy_host_in_front_of_a_modern_server_is_bridged_without_being_told_to() -> None:
    server = asked(asks("a", "b", requestState="one"), asks("c"))

    async with client_of(server, elicitation_callback=yes) as client:
        assert client.protocol_version == "2025-11-25"
        assert text_of(await client.call_tool("deploy", {"env": "prod"})) == "done"
    assert server.state_and_keys == [(None, []), ("one", ["a", "b"]), (None, ["c"])]
    assert len(set(server.ids)) == 3
    for call in server.calls:
        assert call["arguments"] == {"env": "prod"}
        assert call["_meta"]["io.modelcontextprotocol/clientCapabilities"] == {"elicitation": {"form": {}, "url": {}}}


@pytest.mark.holds("client/bridge", "request-meta", "input-requests")
async def test_a_host_is_not_asked_for_what_it_did_not_declare() -> None:
    server = asked(asks("a"))
    async with client_of(server, sampling_callback=on_sample) as client:
        with pytest.raises(MCPError, match="has no handler here"):
            await client.call_tool("deploy")
    assert len(server.calls) == 1


async def test_what_a_host_refuses_ends_its_call_and_no_other() -> None:
    async def no(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ErrorData:
        return types.ErrorData(code=-1, message="no")

    async with client_of(asked(asks("a")), elicitation_callback=no) as client:
        with pytest.raises(MCPError, match="was not fulfilled"):
            await client.call_tool("deploy")
        assert text_of(await client.call_tool("deploy")) == "done"


async def test_what_no_protocol_allows_is_an_error_for_the_host() -> None:
    unknown = {"resultType": "input_required", "inputRequests": {"k": {"method": "tools/list"}}}
    async with client_of(asked({"resultType": "input_required"}, unknown), elicitation_callback=yes) as client:
        for text in ("neither inputRequests nor requestState", "a kind that does not exist"):
            with pytest.raises(MCPError, match=text):
                await client.call_tool("deploy")


@pytest.mark.holds("client/connect", "result-kinds")
@pytest.mark.parametrize("kind", ["task", "vendor/other", 7, None])
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_result_of_a_kind_that_the_host_can_not_know_is_an_error_for_it(mode: str, kind: object) -> None:
    server = RoundsServer([{**FINAL, "resultType": kind, "taskId": "1"}])
    async with RunningGateway(server) as running, host(running.url, mode=mode, elicitation_callback=yes) as client:
        with pytest.raises(MCPError, match=r"resultType|Invalid upstream") as caught:
            await client.call_tool("deploy")
        assert caught.value.error.code == -32000


async def test_a_server_that_asks_for_ever_is_left_after_the_bound() -> None:
    server = RoundsServer([asks("a")])
    async with client_of(server, elicitation_callback=yes) as client:
        with pytest.raises(MCPError, match="keeps asking"):
            await client.call_tool("deploy")
    assert len(server.calls) == 11


async def test_each_round_that_is_answered_for_a_host_has_a_proof_of_its_own(tmp_path: Path) -> None:
    files = agent_files(tmp_path, Trust(), "mcp:tool")
    guard_any_tool(tmp_path, EVERYTHING)

    async def on_elicit(context: ClientRequestContext, params: types.ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": "Ada"})

    with Serving("--config", "accredit.toml", folder=tmp_path) as serving:
        url = serving.url
        async with host(url, "--modern", *files.options, elicitation_callback=on_elicit) as client:
            assert text_of(await client.call_tool("test_input_required_result_elicitation")) == "Hello, Ada!"


def begin(connected: Connected, **capabilities: Any) -> None:
    """Begins a legacy session of a host that can be asked for something."""
    info = {"name": "host", "version": "1"}
    params = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": info}
    told = connected.ask("initialize", params, id="init")
    assert told["result"]["protocolVersion"] == "2025-06-18"
    connected.say(method="notifications/initialized")


@pytest.mark.holds("client/bridge", "input-requests")
@pytest.mark.parametrize("prompted", [True, False], ids=["while a person is asked", "while the server works"])
async def test_a_call_that_the_host_cancels_leaves_nothing_open(prompted: bool, tmp_path: Path) -> None:
    def call(connected: Connected) -> Any:
        begin(connected, elicitation={})
        connected.say(id=7, method="tools/call", params={"name": "deploy"})
        return connected.hear() if prompted else None

    def cancel(connected: Connected, asking: Any) -> None:
        connected.say(method="notifications/cancelled", params={"requestId": 7})
        if prompted:
            assert (asking["method"], asking["params"]) == (
                "elicitation/create", {"message": "Sure?", "requestedSchema": FORM},
            )  # fmt: skip
            told = connected.hear()
            assert (told["method"], told["params"]) == ("notifications/cancelled", {"requestId": asking["id"]})
        connected.say(id=7, method="ping")
        assert connected.hear() == {"jsonrpc": "2.0", "id": 7, "result": {}}

    server = asked(asks("a")) if prompted else RoundsServer([FINAL], [NEVER])
    async with RunningGateway(server) as running:
        with Connected(tmp_path, running.url) as connected:
            asking = await asyncio.to_thread(call, connected)
            await until(lambda: bool(server.calls))
            await asyncio.to_thread(cancel, connected, asking)
            await until(lambda: not running.state.tasks)
            connected.close_input()
            assert await asyncio.to_thread(connected.wait) == 0


@pytest.mark.holds("client/bridge", "local-answers")
async def test_what_has_no_counterpart_is_answered_or_refused_here(tmp_path: Path) -> None:
    def play(connected: Connected) -> None:
        begin(connected)
        assert connected.ask("ping")["result"] == {}
        assert connected.ask("resources/subscribe", {"uri": "a://b"})["error"]["code"] == -32601
        assert connected.ask("logging/setLevel", {"level": "debug"})["result"] == {}
        connected.say(method="notifications/roots/list_changed")
        assert connected.ask("tools/list")["result"]["tools"][0]["name"] == "deploy"
        told = connected.ask("tools/call", {"name": "deploy", "_meta": {"progressToken": 3}})
        assert told["result"] == {"content": FINAL["content"]}

    server = asked()
    async with RunningGateway(server) as running:
        with Connected(tmp_path, running.url) as connected:
            await asyncio.to_thread(play, connected)
            connected.close_input()
            assert await asyncio.to_thread(connected.wait) == 0
    (call,) = server.calls
    assert call["_meta"]["io.modelcontextprotocol/logLevel"] == "debug"
    assert call["_meta"]["progressToken"] == 3
    assert call["_meta"]["io.modelcontextprotocol/clientInfo"] == {"name": "host", "version": "1"}


async def test_a_host_that_knows_no_pages_is_not_shown_one(tmp_path: Path) -> None:
    def play(connected: Connected) -> None:
        begin(connected, elicitation={})
        told = connected.ask("tools/call", {"name": "deploy"})
        assert "was not fulfilled" in told["error"]["message"]

    params = {"mode": "url", "message": "Pay", "url": "https://a.example/", "elicitationId": "1"}
    server = asked(asks(inputRequests={"k": {"method": "elicitation/create", "params": params}}))
    async with RunningGateway(server) as running:
        with Connected(tmp_path, running.url) as connected:
            await asyncio.to_thread(play, connected)
            connected.close_input()
            assert await asyncio.to_thread(connected.wait) == 0


@pytest.mark.parametrize("option", ["--modern", "--log-format=json"])
async def test_a_server_that_speaks_neither_era_is_an_error_in_its_own_words(option: str, tmp_path: Path) -> None:
    async def serve(connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            error = {"code": -32601, "message": f"no {json.loads(request.body)['method']}"}
            refusal = compact({"jsonrpc": "2.0", "id": json.loads(request.body)["id"], "error": error})
            await connection.send(http(refusal, status="400 Bad Request"))

    def play(connected: Connected) -> None:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}}
        assert connected.ask("initialize", params)["error"]["message"] == "no initialize"

    async with RawServer(serve) as raw:
        with Connected(tmp_path, raw.url, option) as connected:
            await asyncio.to_thread(play, connected)
            connected.close_input()
            assert await asyncio.to_thread(connected.wait) == 0
