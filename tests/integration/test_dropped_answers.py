"""One answer that nobody can read does not end a call: the handler sees its key, and asks again. Real servers, through
the gateway, which forwards answers as they came."""

from collections.abc import Callable
from typing import Any, NamedTuple

import fastmcp
import mcp
import mcp_types as types
import pytest
from mcp.client import ClientRequestContext
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import Context, MCPServer
from tests.world.authorization import GATEWAY, Signed, Trust
from tests.world.running import RunningGateway

import accredit.server
import accredit.server.fastmcp
from accredit.gateway import GatewaySettings, HttpUpstream, create_app
from accredit.policy.catalog import Catalog, Entry
from accredit.rounds import elicit, input_required, with_input_required
from accredit.server import ProofGuard, current_dropped_keys, drop_unreadable_answers, require
from accredit.stores import MemoryStore, RevocationLists

pytestmark = pytest.mark.holds("server/gate", "answers")

VERSION = "2026-07-28"
SCOPE = "email:read"
YES = {"action": "accept", "content": {"sure": True}}
WRAPPED = {"method": "elicitation/create", "result": YES}
FORM = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
RESULT = with_input_required(types.CallToolResult)

Answers = types.InputResponses | None


class Asked(NamedTuple):
    """A server's application, and what its handler got to see on each leg: the keys of answers, and of dropped ones."""

    app: Any
    seen: list[tuple[list[str], list[str]]]


class Handler:
    """Goes on when it has an answer to each key, and asks for the others."""

    def __init__(self) -> None:
        self.seen: list[tuple[list[str], list[str]]] = []

    def answer(self, answers: Answers) -> str | types.InputRequiredResult:
        dropped = current_dropped_keys()
        self.seen.append((sorted(answers or {}), sorted(dropped)))
        missing = {"a", "b", "c"} - (answers or {}).keys()
        again = {key: elicit("Again?" if key in dropped else "Sure?", FORM) for key in sorted(missing)}
        return input_required(input_requests=again) if again else "done"


def sdk(owner: Trust | None) -> Asked:
    handler = Handler()
    guard = [ProofGuard([owner.owner.public_key], GATEWAY)] if owner is not None else []
    server = MCPServer("mail", extensions=guard, middleware=[] if guard else [drop_unreadable_answers])

    @server.tool()
    @require(SCOPE)
    async def ask(ctx: Context[Any]) -> str | types.InputRequiredResult:
        return handler.answer(ctx.input_responses)

    return Asked(server.streamable_http_app(), handler.seen)


def lowlevel(owner: Trust | None) -> Asked:
    handler = Handler()

    async def call_tool(_: ServerRequestContext[Any], params: types.CallToolRequestParams) -> Any:
        told = handler.answer(params.input_responses)
        if isinstance(told, types.InputRequiredResult):
            return told
        return types.CallToolResult(content=[types.TextContent(type="text", text=told)])

    async def list_tools(_: ServerRequestContext[Any], __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="ask", input_schema={"type": "object"})])

    server: Server[Any] = Server("mail", on_call_tool=call_tool, on_list_tools=list_tools)
    if owner is not None:
        ProofGuard([owner.owner.public_key], GATEWAY).protect(server, tools={"ask": require(SCOPE)})
    else:
        server.middleware.append(drop_unreadable_answers)
    return Asked(server.streamable_http_app(), handler.seen)


def fast(owner: Trust | None) -> Asked:
    assert owner is not None
    handler = Handler()
    server = fastmcp.FastMCP("mail")
    accredit.server.fastmcp.ProofGuard([owner.owner.public_key], GATEWAY).protect(server)

    @server.tool
    @require(SCOPE)
    async def ask(ctx: fastmcp.Context) -> str | types.InputRequiredResult:
        return handler.answer(ctx.input_responses)

    return Asked(server.http_app(), handler.seen)


async def leg(client: mcp.Client, trust: Trust, answers: dict[str, Any] | None) -> Any:
    """The tool's text, or the messages by the keys that it asks for."""
    params: dict[str, Any] = {"name": "ask", "arguments": {}}
    if answers is not None:
        params["inputResponses"] = answers
    proof = trust.proof(trust.chain(SCOPE), "tools/call", params, Signed(scope=SCOPE))
    request = types.Request[dict[str, Any], str](
        method="tools/call", params={**params, "_meta": {"ratify_proof": proof}}
    )
    result = await client.session.send_request(request, RESULT)
    if isinstance(result, types.CallToolResult):
        assert isinstance(result.content[0], types.TextContent), result
        return result.content[0].text
    return {
        key: each.params.message
        for key, each in (result.input_requests or {}).items()
        if isinstance(each, types.ElicitRequest)
    }


async def elicited(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    """What makes the SDK's client say that it can be asked."""
    raise AssertionError


@pytest.mark.parametrize(
    ("make", "guarded"), [(sdk, True), (lowlevel, True), (fast, True), (sdk, False), (lowlevel, False)]
)
async def test_an_answer_in_the_wrong_form_is_asked_for_again__and_does_not_end_the_call(
    make: Callable[[Trust | None], Asked], guarded: bool
) -> None:
    trust = Trust()
    app, seen = make(trust if guarded else None)
    async with RunningGateway(app) as upstream:
        behind = HttpUpstream(upstream.url)
        catalog = Catalog(tools={"ask": Entry(scope=SCOPE)})
        # A guarded server judges the proof by itself; before another one the gateway does.
        settings = GatewaySettings(behind) if guarded else trust.settings(behind, policy={"catalog": catalog})
        before = create_app(settings, store=MemoryStore(), revocations=RevocationLists((), {}))
        async with (
            RunningGateway(before) as gateway,
            mcp.Client(gateway.url, mode=VERSION, elicitation_callback=elicited) as client,
        ):
            assert await leg(client, trust, None) == {"a": "Sure?", "b": "Sure?", "c": "Sure?"}
            mixed = {"a": YES, "b": WRAPPED, "c": [YES]}
            assert await leg(client, trust, mixed) == {"b": "Again?", "c": "Again?"}
            assert await leg(client, trust, {"a": None, "b": YES, "c": YES}) == {"a": "Again?"}
            assert await leg(client, trust, dict.fromkeys("abc", YES)) == "done"
    assert seen == [([], []), (["a"], ["b", "c"]), (["b", "c"], ["a"]), (["a", "b", "c"], [])]


async def test_what_is_dropped_of_one_call_is_not_seen_by_another__nor_outside_of_any() -> None:
    assert current_dropped_keys() == ()

    seen: list[tuple[str, ...]] = []
    inner = MCPServer("inner", middleware=[drop_unreadable_answers])

    @inner.tool()
    async def look() -> str:
        seen.append(current_dropped_keys())
        return "looked"

    outer = MCPServer("outer", middleware=[drop_unreadable_answers])

    @outer.tool()
    async def ask() -> str:
        seen.append(current_dropped_keys())
        async with mcp.Client(inner, mode=VERSION) as client:
            await client.call_tool("look")
        seen.append(current_dropped_keys())
        return "asked"

    async with mcp.Client(outer, mode=VERSION) as client:
        request = types.Request[dict[str, Any], str](
            method="tools/call", params={"name": "ask", "inputResponses": {"a": WRAPPED}}
        )
        await client.session.send_request(request, RESULT)
        await client.call_tool("ask")
    assert seen == [("a",), (), ("a",), (), (), ()]
