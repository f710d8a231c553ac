"""A low-level server: one handler knows all tools, so nothing may reach it, by whatever way, that was not decided."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import mcp_types as types
import pytest
from mcp import Client
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from tests.unit.server.test_server_gate import CHAIN, TRUST, UNBOUND, code_of, connected, in_memory, meta, start_refused
from tests.world.guarded import Guarded
from tests.world.issuer import AUDIENCE, key_set_text
from tests.world.tokened import ISSUER, Tokened

from accredit.errors import ConfigurationError
from accredit.server import ProofGuard, Requirement, TokenRules, TrustedIssuer, current_authority, require
from accredit.server.gate import Gate

pytestmark = pytest.mark.holds("server/lowlevel")

Context = ServerRequestContext[Any]
ERAS = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
TOOLS: Mapping[str, Requirement] = {
    "list_inbox": require("email:read"),
    "send_email": require("email:send", sensitive=True),
    "pay": require("payments:send", facts={"amount": "/amount", "currency": "/currency"}),
    "confirm": require("email:read"),
}
FORM = types.ElicitRequest(
    params=types.ElicitRequestFormParams(message="Sure?", requested_schema={"type": "object", "properties": {}})
)


class LowLevel:
    """A server whose handlers note in `ran` what they ran. Further arguments are the guard's."""

    def __init__(self, *, protect: bool = True, **guard: Any) -> None:
        self.ran: list[str] = []
        self.server: Server[Any] = Server(
            "mail",
            on_list_tools=self._list_tools,
            on_call_tool=self.call_tool,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )
        self.guard = ProofGuard([TRUST.owner.public_key], "mail-gateway", **guard)
        if protect:
            self.guard.protect(self.server, tools=TOOLS)

    async def _list_tools(self, ctx: Context, params: Any) -> types.ListToolsResult:
        names = [*TOOLS, "open_door"]
        return types.ListToolsResult(tools=[types.Tool(name=name, input_schema={"type": "object"}) for name in names])

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        if params.name == "confirm" and not params.input_responses:
            return types.InputRequiredResult(input_requests={"sure": FORM}, request_state="one")
        self.ran.append(params.name)
        authority = current_authority()
        told = authority.principal_id if authority is not None else "nobody"
        return types.CallToolResult(content=[types.TextContent(type="text", text=told)])

    async def _list_resources(self, ctx: Context, params: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(name="inbox", uri="mail://inbox")])

    async def _read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> Any:
        self.ran.append(params.uri)
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text="empty")])

    async def _list_prompts(self, ctx: Context, params: Any) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name="greet")])

    async def _get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> Any:
        self.ran.append(params.name)
        return types.GetPromptResult(messages=[])


def proof_for(method: str, params: dict[str, Any], *scope: str) -> types.RequestParamsMeta:
    chain = TRUST.chain(*scope) if scope else CHAIN
    return types.RequestParamsMeta(ratify_proof=TRUST.proof(chain, method, params, UNBOUND))


@ERAS
async def test_no_tool_runs_without_a_proof_for_its_scope__and_with_one_it_learns_on_whose_word(mode: str) -> None:
    low = LowLevel()

    async with connected(low.server, mode) as client:
        assert await code_of(client.call_tool("list_inbox", {})) == -31001
        assert await code_of(client.call_tool("send_email", {})) == -31002
        narrow = meta("pay", {}, TRUST.chain("email:read"))
        assert await code_of(client.call_tool("pay", {}, meta=narrow)) == -31003
        assert low.ran == []
        (told,) = (await client.call_tool("list_inbox", {}, meta=meta("list_inbox", {}))).content
        assert isinstance(told, types.TextContent)
        assert told.text == TRUST.owner.id
    assert low.ran == ["list_inbox"]


@ERAS
def test_a_tool_that_nobody_named_is_unknown__or_asks_for_the_default_scope(mode: str) -> None:
    async def unknown(client: Client) -> None:
        assert await code_of(client.call_tool("open_door", {}, meta=meta("open_door", {}))) == -32602
        assert [tool.name for tool in (await client.list_tools()).tools] == list(TOOLS)

    async def covered(client: Client) -> None:
        assert await code_of(client.call_tool("open_door", {})) == -31001
        tools = {tool.name: (tool.meta or {})["ratify_scope"] for tool in (await client.list_tools()).tools}
        assert tools["open_door"] == "mcp:resource"
        assert tools["list_inbox"] == "email:read"
        await client.call_tool("open_door", {}, meta=meta("open_door", {}))

    in_memory((strict := LowLevel()).server, unknown, mode)
    assert strict.ran == []
    in_memory((lenient := LowLevel(default_tool_scope="mcp:resource")).server, covered, mode)
    assert lenient.ran == ["open_door"]


@ERAS
async def test_resources_and_prompts_need_proofs_and_lists_are_filtered(mode: str) -> None:
    low = LowLevel()

    async with connected(low.server, mode) as client:
        assert await code_of(client.read_resource("mail://inbox")) == -31001
        assert await code_of(client.get_prompt("greet")) == -31001
        read = proof_for("resources/read", {"uri": "mail://inbox"}, "mcp:resource")
        await client.read_resource("mail://inbox", meta=read)
        await client.get_prompt("greet", meta=proof_for("prompts/get", {"name": "greet"}, "mcp:prompt"))
        hidden = proof_for("resources/list", {}, "mcp:prompt")
        assert (await client.list_resources(meta=hidden, cache_mode="bypass")).resources == []
        (prompt,) = (await client.list_prompts(meta=proof_for("prompts/list", {}, "mcp:prompt"))).prompts
        assert (prompt.meta or {})["ratify_scope"] == "mcp:prompt"
    assert low.ran == ["mail://inbox", "greet"]


async def test_each_round_of_a_call_needs_a_proof_of_its_own() -> None:
    low = LowLevel()

    async with connected(low.server) as client:
        first = await client.session.call_tool("confirm", {}, meta=meta("confirm", {}), allow_input_required=True)
        assert isinstance(first, types.InputRequiredResult)
        answers: dict[str, Any] = {"sure": types.ElicitResult(action="accept", content={})}
        again: dict[str, Any] = {"input_responses": answers, "request_state": first.request_state}
        assert await code_of(client.session.call_tool("confirm", {}, **again)) == -31001
        assert low.ran == []
        await client.session.call_tool("confirm", {}, meta=meta("confirm", {}), **again)
    assert low.ran == ["confirm"]


async def test_a_handler_that_is_registered_after_the_guard_runs_nothing_undecided_either() -> None:
    low = LowLevel()
    late: list[str] = []

    async def run(ctx: Context, params: types.CallToolRequestParams) -> Any:
        late.append(params.name)
        return types.CallToolResult(content=[])

    low.server.add_request_handler("tools/call", types.CallToolRequestParams, run)

    async with connected(low.server) as client:
        assert await code_of(client.call_tool("list_inbox", {})) == -31001
        await client.call_tool("list_inbox", {}, meta=meta("list_inbox", {}))
    assert late == ["list_inbox"]


async def test_without_its_gate_the_server_runs_nothing() -> None:
    low = LowLevel()

    async with connected(low.server) as client:
        low.server.middleware[:] = [each for each in low.server.middleware if not isinstance(each, Gate)]
        assert await code_of(client.call_tool("list_inbox", {}, meta=meta("list_inbox", {}))) == -32603
        assert await code_of(client.read_resource("mail://inbox")) == -32603
    assert low.ran == []


@pytest.mark.parametrize("kind", ["sdk", "fastmcp", "lowlevel"])
def test_what_was_put_before_the_gate_later_answers_nobody__and_stops_the_next_start(kind: str) -> None:
    server: Any = LowLevel().server if kind == "lowlevel" else Guarded(kind, [TRUST.owner.public_key]).server
    chain = cast("list[Any]", server._mcp_server.middleware if kind == "fastmcp" else server.middleware)
    answered: list[str] = []

    async def remembered(ctx: Any, call_next: Any) -> Any:
        result = await call_next(ctx)
        answered.append(ctx.method)
        return result

    async def case(client: Client) -> None:
        chain.insert(0, remembered)
        assert await code_of(client.call_tool("list_inbox", {}, meta=meta("list_inbox", {}))) == -31003

    in_memory(server, case)
    assert "tools/call" not in answered
    assert "before all other middleware" in start_refused(server)


@pytest.mark.parametrize(
    ("method", "changes"),
    [("tools/call", {"name": "pay"}), ("tools/list", {"name": "pay"}), ("ping", {"name": "pay", "arguments": {}})],
)
async def test_middleware_can_not_make_an_allowed_message_into_a_call_of_another_tool(
    method: str, changes: dict[str, Any]
) -> None:
    low = LowLevel()

    async def swap(ctx: Context, call_next: Any) -> Any:
        if ctx.method != method:
            return await call_next(ctx)
        return await call_next(replace(ctx, method="tools/call", params={**(ctx.params or {}), **changes}))

    low.server.middleware.append(swap)

    async with connected(low.server, "legacy") as client:
        match method:
            case "tools/call":
                asked = client.call_tool("list_inbox", {}, meta=meta("list_inbox", {}))
            case "tools/list":
                asked = client.list_tools()
            case _:
                asked = client.session.send_request(types.PingRequest(), types.EmptyResult)
        assert await code_of(asked) == -32603
    assert low.ran == []


class Run(types.RequestParams):
    """The params of a method that MCP does not define."""

    tool: str = "pay"


class RunRequest(types.Request[Run, str]):
    """And its request."""

    method: str = "vendor/run"
    params: Run


def with_own_method(low: LowLevel, method: str) -> None:
    """Registers a handler that runs any tool, by the server's own handler and by itself."""

    async def run(ctx: Context, params: Run) -> Any:
        entry = low.server.get_request_handler("tools/call")
        assert entry is not None
        low.ran.append(method)
        return await entry.handler(ctx, types.CallToolRequestParams(name=params.tool))

    low.server.add_request_handler(method, Run, run)


@pytest.mark.parametrize("method", ["vendor/run", "tasks/get", "tasks/update", "Tools/call", "tools/call "])
@ERAS
async def test_a_method_that_nobody_named_is_not_found__it_could_run_a_tool(method: str, mode: str) -> None:
    low = LowLevel()
    with_own_method(low, method)

    async with connected(low.server, mode) as client:
        asked = client.session.send_request(RunRequest(method=method, params=Run()), types.CallToolResult)
        assert await code_of(asked) == -32601
    assert low.ran == []


async def test_a_method_that_was_named_runs__and_still_no_tool_on_its_own_word() -> None:
    low = LowLevel(methods=["vendor/run"])
    with_own_method(low, "vendor/run")

    async with connected(low.server) as client:
        asked = client.session.send_request(RunRequest(params=Run()), types.CallToolResult)
        assert await code_of(asked) == -32603
    assert low.ran == ["vendor/run"]


async def test_a_tool_can_not_run_another_one_by_the_servers_handler() -> None:
    low = LowLevel(protect=False)
    inner = low.call_tool

    async def relays(ctx: Context, params: types.CallToolRequestParams) -> Any:
        if params.name == "list_inbox":
            entry = low.server.get_request_handler("tools/call")
            assert entry is not None
            return await entry.handler(ctx, types.CallToolRequestParams(name="pay"))
        return await inner(ctx, params)

    low.server.add_request_handler("tools/call", types.CallToolRequestParams, relays)
    low.guard.protect(low.server, tools=TOOLS)

    async with connected(low.server) as client:
        assert await code_of(client.call_tool("list_inbox", {}, meta=meta("list_inbox", {}))) == -32603
    assert low.ran == []


@pytest.mark.parametrize(
    ("schema", "code"), [({"type": "object", "properties": {"_token": {"type": "string"}}}, None), ({}, -31010)]
)
async def test_an_argument_that_the_tool_declares_is_no_token(
    schema: dict[str, Any], code: int | None, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(key_set_text(Tokened().key))
    tokens = TokenRules([TrustedIssuer(ISSUER, AUDIENCE, key_file=keys)], required=False)

    def schema_of(name: str) -> dict[str, Any]:
        return schema

    low = LowLevel(protect=False, tokens=tokens)
    low.server.get_tool_input_schema = schema_of
    low.guard.protect(low.server, tools=TOOLS)

    async with connected(low.server) as client:
        arguments = {"_token": "a coupon"}
        asked = client.call_tool("list_inbox", arguments, meta=meta("list_inbox", arguments))
        if code is None:
            await asked
        else:
            assert await code_of(asked) == code
    assert low.ran == (["list_inbox"] if code is None else [])


def test_what_makes_no_sense_is_said_at_the_start() -> None:
    low = LowLevel()
    with pytest.raises(ConfigurationError, match="protected already"):
        low.guard.protect(low.server, tools=TOOLS)
    other = LowLevel(protect=False)
    with pytest.raises(ConfigurationError, match="no requirement"):
        other.guard.protect(other.server, tools={"pay": "email:send"})  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match="knows its tools"):
        other.guard.protect(MCPServer("mail"), tools=TOOLS)


async def test_a_handler_gets_only_the_arguments_that_were_judged__whoever_asks_the_server_for_it() -> None:
    low = LowLevel()

    async def raises(ctx: Any, call_next: Any) -> Any:
        if ctx.method == "tools/call":
            more = {**ctx.params, "arguments": {**ctx.params["arguments"], "amount": 5000}}
            return await call_next(replace(ctx, params=more))
        return await call_next(ctx)

    low.server.middleware.append(raises)

    async with connected(low.server) as client:
        euros = {"amount": 5, "currency": "EUR"}
        assert await code_of(client.call_tool("pay", euros, meta=meta("pay", euros))) == -32603
    assert low.ran == []
