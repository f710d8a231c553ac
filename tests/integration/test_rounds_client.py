"""Calls with rounds through `AccreditedClient`, over real connections: what is sent, what is asked, and when."""

import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, InputRequiredResult
from tests.integration.conftest import SdkServer
from tests.world.agents import agent_files
from tests.world.authorization import Trust
from tests.world.budgets import BUDGETS, NEVER_REACHED
from tests.world.raw_server import PATIENCE, until
from tests.world.rounds_server import FINAL, NEVER, VERSION, RoundsServer, asks
from tests.world.running import RunningGateway
from tests.world.sdk import EVERYTHING, text_of

from accredit.client import AccreditedClient, ProofPresenter
from accredit.errors import (
    InputHandlerFailed,
    InputHandlerMissing,
    InputRequired,
    InvalidInputRequired,
    RoundsExceeded,
    RoundsTimeout,
    UnknownInputRequest,
    UnsupportedResultType,
)
from accredit.gateway import create_app
from accredit.gateway.settings import StdioUpstream
from accredit.policy.catalog import Catalog, Entry
from accredit.rounds import InputContext, RoundsOptions, accepted_content, elicit, input_required, with_input_required
from accredit.stores import MemoryStore, RevocationLists

pytestmark = pytest.mark.holds("client/legs")

FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}}


class Person:
    """Says yes, and notes what was asked."""

    def __init__(self) -> None:
        self.contexts: list[InputContext] = []

    async def __call__(self, context: InputContext, params: ElicitRequestParams) -> ElicitResult:
        assert params is context.params
        self.contexts.append(context)
        return ElicitResult(action="accept", content={"sure": True})


@contextlib.asynccontextmanager
async def client_of(server: RoundsServer, **options: Any) -> AsyncGenerator[AccreditedClient]:
    """A client of `server`; what is raised within leaves its block as it is."""
    async with RunningGateway(server) as running:
        async with AccreditedClient(running.url, mode=VERSION, **options) as client:
            yield client
        # What was given up is cancelled at the server, too.
        await until(lambda: not running.state.tasks)


async def test_an_option_that_a_call_does_not_have_is_an_error__and_nothing_is_sent() -> None:
    server = RoundsServer([FINAL])
    async with client_of(server) as client:
        misnamed: dict[str, Any] = {"progress_callback": print}  # the SDK's name of it
        with pytest.raises(TypeError, match="no option progress_callback"):
            await client.call_tool("deploy", **misnamed)
    assert server.calls == []


# --- the three known defects, and the fourth --------------------------------------------------------


async def overrun(server: RoundsServer, budget: float, **options: Any) -> None:
    """Makes a call that does not end within its budget."""
    async with client_of(server, **options) as client:
        with pytest.raises(RoundsTimeout) as caught:
            await client.call_tool("deploy", timeout=NEVER, max_total_timeout=budget)
        assert caught.value.max_total_timeout == budget
        assert caught.value.elapsed > budget - 1e-6  # (start + budget) - start may be less by a rounding


async def test_no_leg_outlives_the_budget__also_one_that_tells_its_progress() -> None:
    for budget in BUDGETS:
        person, server = Person(), RoundsServer([asks("a"), FINAL], [0, NEVER])
        await overrun(server, budget, elicitation=person)
        assert len(person.contexts) <= 1
        if len(server.calls) > 1:
            break
    else:
        raise AssertionError(NEVER_REACHED)
    assert (len(server.calls), len(person.contexts)) == (2, 1)


async def test_rounds_are_made_by_hand_without_a_cast() -> None:
    server = RoundsServer([asks("a", requestState="s"), FINAL])

    async with client_of(server) as client:
        arguments = {"env": "prod"}
        first = await client.call_tool("deploy", arguments, allow_input_required=True)
        assert isinstance(first, InputRequiredResult)
        assert [*(first.input_requests or {})] == ["a"]
        plain = {"a": {"action": "accept", "content": {"sure": True}}}
        done = await client.call_tool("deploy", arguments, input_responses=plain, request_state=first.request_state)
        assert text_of(done) == "done"
    assert server.state_and_keys == [(None, []), ("s", ["a"])]
    assert [call["arguments"] for call in server.calls] == [{"env": "prod"}] * 2


# --- how a call ends --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "options", "error"),
    [
        (asks("a"), {"rounds": RoundsOptions(auto_fulfil=False)}, InputRequired),
        (asks("a"), {"elicitation": Person(), "rounds": RoundsOptions(max_rounds=2)}, RoundsExceeded),
        (asks("a"), {}, InputHandlerMissing),
        (asks(), {}, InvalidInputRequired),
        (asks(inputRequests={"k": {"method": "tools/list"}}), {}, UnknownInputRequest),
    ],
)
async def test_a_call_that_cannot_go_on_ends_with_a_type__and_leaves_the_clients_block_as_it_is(
    answer: dict[str, Any], options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        async with client_of(RoundsServer([answer]), **options) as client:
            await client.call_tool("deploy")


async def test_a_handler_that_fails_names_its_entry_and_its_cause() -> None:
    async def on_elicit(_context: InputContext, _params: object) -> ElicitResult:
        raise ZeroDivisionError

    async with client_of(RoundsServer([asks("a")]), elicitation=on_elicit) as client:
        with pytest.raises(InputHandlerFailed) as caught:
            await client.call_tool("deploy")
        assert (caught.value.key, caught.value.method) == ("a", "elicitation/create")
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.holds("client/legs", "raw-answer")
@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("kind", ["task", "vendor/other", "", 7, None])
async def test_a_result_of_a_kind_that_nobody_negotiated_is_not_taken_for_a_whole_one(
    kind: object, by_hand: bool
) -> None:
    result = {"resultType": kind, "content": [{"type": "text", "text": "done"}], "taskId": "1"}

    async with client_of(RoundsServer([result])) as client:
        with pytest.raises(UnsupportedResultType) as caught:
            await client.call_tool("deploy", allow_input_required=by_hand)
        assert caught.value.result_type == kind
        assert caught.value.result == result


async def test_nor_by_a_program_that_sends_its_own_requests_with_a_schema() -> None:
    server = RoundsServer([{"resultType": "partial", "content": []}, asks(), asks("a"), FINAL])
    schema = with_input_required(CallToolResult)
    call = types.CallToolRequest(params=types.CallToolRequestParams(name="deploy"))
    async with RunningGateway(server) as running, Client(running.url, mode=VERSION) as client:
        with pytest.raises(UnsupportedResultType):
            await client.session.send_request(call, schema)
        with pytest.raises(InvalidInputRequired):
            await client.session.send_request(call, schema)
        assert isinstance(await client.session.send_request(call, schema), InputRequiredResult)
        assert isinstance(await client.session.send_request(call, schema), CallToolResult)


@pytest.mark.parametrize("method", ["tools/list", "server/discover"])
async def test_nor_is_a_list_or_what_a_server_says_of_itself(method: str) -> None:
    class Odd(RoundsServer):
        async def _result(self, request: dict[str, Any]) -> dict[str, Any]:
            found = await super()._result(request)
            return {**found, "resultType": "vendor/part"} if request["method"] == method else found

    async with RunningGateway(Odd([FINAL])) as running:
        with pytest.raises(UnsupportedResultType) as caught:
            async with AccreditedClient(running.url) as client:
                await client.list_tools()
        assert caught.value.result_type == "vendor/part"


async def test_a_list_cannot_ask_for_input() -> None:
    class Odd(RoundsServer):
        async def _result(self, request: dict[str, Any]) -> dict[str, Any]:
            return asks("a") if request["method"] == "tools/list" else await super()._result(request)

    async with client_of(Odd([FINAL])) as client:
        with pytest.raises(InvalidInputRequired, match="in answer to 'tools/list'"):
            await client.list_tools()


@pytest.mark.parametrize("tools", ["none of your business", [{"name": 5}]])
async def test_a_result_is_not_lost_because_the_tools_cannot_be_listed(tools: object) -> None:
    server = RoundsServer([FINAL], tools=tools)

    async with client_of(server) as client:
        assert text_of(await client.call_tool("deploy")) == "done"
    assert len(server.calls) == 1


async def test_a_schema_of_the_servers_runs_nowhere__one_pattern_held_the_client_up_past_its_timeouts() -> None:
    schema = {"type": "object", "properties": {"size": {"type": "string", "pattern": "^(a+)+$"}}}
    tools = [{"name": "deploy", "inputSchema": {"type": "object"}, "outputSchema": schema}]
    server = RoundsServer([{**FINAL, "structuredContent": {"size": "a" * 100 + "!"}}], tools=tools)

    async with client_of(server) as client:
        await client.list_tools()
        assert (await client.call_tool("deploy")).structured_content == {"size": "a" * 100 + "!"}


async def test_nor_does_a_schema_of_what_it_asks_for() -> None:
    schema = {"type": "object", "properties": {"size": {"type": "string", "pattern": "^(a+)+$"}}, "required": ["no"]}
    form = {"mode": "form", "message": "?", "requestedSchema": schema}
    asking = {
        "resultType": "input_required",
        "inputRequests": {"k": {"method": "elicitation/create", "params": form}},
    }

    async def answers(_context: Any, params: Any) -> ElicitResult:
        assert params.requested_schema == schema
        return ElicitResult(action="accept", content={"size": "a" * 100 + "!"})

    async with client_of(RoundsServer([asking, FINAL]), elicitation=answers) as client:
        assert text_of(await client.call_tool("deploy")) == "done"


@pytest.mark.holds("client/legs", "raw-answer")
async def test_a_result_that_does_not_say_so_is_complete() -> None:
    async with client_of(RoundsServer([{"content": FINAL["content"]}])) as client:
        assert text_of(await client.call_tool("deploy")) == "done"


async def test_each_round_is_seen__and_only_what_can_be_asked_for_is_declared() -> None:
    seen: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        assert total is None
        seen.append((progress, message))

    server = RoundsServer([asks("a"), asks(requestState="s"), FINAL])
    async with client_of(server, elicitation=Person()) as client:
        await client.call_tool("deploy", progress=on_progress)
    assert seen == [(1, "round 1 of tools/call: elicitation/create"), (2, "round 2 of tools/call: state only")]
    for call in server.calls:
        declared = call["_meta"]["io.modelcontextprotocol/clientCapabilities"]
        assert [*declared] == ["elicitation"]


# --- with servers of the official SDK ---------------------------------------------------------------


def asking_server() -> MCPServer:
    """Asks in both eras, for each of the three kinds of requests that may be answered so."""
    server = MCPServer("asking")

    @server.tool()
    async def modern(ctx: Context) -> str | InputRequiredResult:
        if not accepted_content(ctx.input_responses, "sure"):
            return input_required(input_requests={"sure": elicit("Sure?", FORM)})
        return "done"

    @server.tool()
    async def legacy(ctx: Context) -> str:
        told = await ctx.session.elicit_form("Sure?", FORM)
        return "done" if told.content == {"sure": True} else "not done"

    @server.prompt()
    async def ask(ctx: Context) -> str | InputRequiredResult:
        if not accepted_content(ctx.input_responses, "sure"):
            return input_required(input_requests={"sure": elicit("Sure?", FORM)}, request_state="s")
        return "Say yes."

    @server.resource("plan://{name}")
    async def plan(name: str, ctx: Context) -> str | InputRequiredResult:
        if not accepted_content(ctx.input_responses, "sure"):
            return input_required(input_requests={"sure": elicit("Sure?", FORM)}, request_state="s")
        return f"the plan {name}"

    return server


TOOLS_THAT_ASK = {"legacy": "test_elicitation", VERSION: "test_input_required_result_elicitation"}


@pytest.mark.holds("client/legs", "server-requests")
@pytest.mark.parametrize("mode", ["legacy", VERSION])
@pytest.mark.parametrize("over_http", [True, False])
async def test_a_handler_is_registered_once_for_both_eras(mode: str, over_http: bool, sdk_server: SdkServer) -> None:
    contexts: list[InputContext] = []

    async def on_elicit(context: InputContext, _params: ElicitRequestParams) -> ElicitResult:
        contexts.append(context)
        content = {"username": "ada", "email": "a@b.example", "name": "Ada"} if over_http else {"sure": True}
        return ElicitResult(action="accept", content={**content})

    target = sdk_server.url if over_http else asking_server()
    async with AccreditedClient(target, elicitation=on_elicit, mode=mode) as client:
        tool = TOOLS_THAT_ASK[mode] if over_http else "legacy" if mode == "legacy" else "modern"
        arguments = {"message": "Who?"} if tool == "test_elicitation" else {}
        assert not (await client.call_tool(tool, arguments)).is_error
    (context,) = contexts
    assert context.method == "elicitation/create"
    assert context.key


@pytest.mark.holds("client/legs", "server-requests")
async def test_a_legacy_server_is_not_told_why_a_handler_failed(caplog: pytest.LogCaptureFixture) -> None:
    async def on_elicit(_context: InputContext, _params: object) -> ElicitResult:
        raise ZeroDivisionError("a secret")

    async with AccreditedClient(asking_server(), elicitation=on_elicit, mode="legacy") as client:
        with pytest.raises(MCPError, match=r"^The client could not answer$"):
            await client.call_tool("legacy")
    assert "the handler of elicitation/create failed" in caplog.text


async def test_prompts_and_resources_have_rounds_as_tools_do() -> None:
    async with AccreditedClient(asking_server(), elicitation=Person(), mode=VERSION) as client:
        prompt = await client.get_prompt("ask", max_total_timeout=PATIENCE)
        assert isinstance(prompt.messages[0].content, types.TextContent)
        assert prompt.messages[0].content.text == "Say yes."
        (read,) = (await client.read_resource("plan://a", timeout=PATIENCE)).contents
        assert isinstance(read, types.TextResourceContents)
        assert read.text == "the plan a"
        for asked in (
            await client.get_prompt("ask", allow_input_required=True),
            await client.read_resource("plan://a", allow_input_required=True),
        ):
            assert isinstance(asked, InputRequiredResult)


@pytest.mark.holds("client/legs", "missing-header")
async def test_a_server_that_misses_a_header_gets_the_call_again__with_it(sdk_server: SdkServer) -> None:
    async with AccreditedClient(sdk_server.url, mode=VERSION) as client:
        told = await client.call_tool("test_header_parameter", {"region": "eu"})
        assert text_of(told) == "region=eu"


async def test_each_leg_has_a_proof_of_its_own__bound_to_what_it_says(tmp_path: Path) -> None:
    name = "test_input_required_result_multi_round"
    trust = Trust()
    files = agent_files(tmp_path, trust, "mcp:tool")
    policy = {"catalog": Catalog(tools={name: Entry(scope="mcp:tool")}), "binding_required": True}
    settings = trust.settings(StdioUpstream(EVERYTHING), policy=policy)
    person = Person()

    async def on_elicit(context: InputContext, params: ElicitRequestParams) -> ElicitResult:
        await person(context, params)
        return ElicitResult(action="accept", content={"name": "Ada", "color": "red"})

    app = create_app(settings, store=MemoryStore(), revocations=RevocationLists((), {}))
    presenter = ProofPresenter(files.key, [files.delegation])
    async with (
        RunningGateway(app) as running,
        AccreditedClient(running.url, presenter=presenter, elicitation=on_elicit, mode=VERSION) as client,
    ):
        assert not (await client.call_tool(name)).is_error
    assert len(person.contexts) == 2
