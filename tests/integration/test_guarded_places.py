"""Random guarded servers, by where their tools, resources and prompts stand: in the server, in an app, under a
namespace, in a mounted or remote server, behind a transformation, or behind a low-level server's one handler."""

from typing import Any

import mcp_types as types
import pytest
from fastmcp import FastMCP, FastMCPApp
from fastmcp.server import create_proxy
from fastmcp.server.providers.addressing import hashed_backend_name
from fastmcp.server.transforms import Namespace
from fastmcp.tools import Tool
from fastmcp.tools.tool_transform import ArgTransform
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.server.lowlevel import Server
from tests.integration.test_guarded_callables import (
    ALL,
    DEFAULTS,
    ITEMS,
    SCOPES,
    Item,
    Run,
    added,
    is_possible,
    made_server,
    plain,
    target,
    used,
)
from tests.unit.server.test_server_gate import TRUST, in_memory

from accredit.server import ProofGuard, require

pytestmark = [pytest.mark.holds("server/requirements", "wrappers"), pytest.mark.holds("server/gate", "decision")]

STANDS_FOR = ("mounted", "proxied", "transformed")
PLACES = ("own", "app", *STANDS_FOR)


def put(server: FastMCP[Any], place: str, item: Item, number: int, run: Run) -> str:
    """Puts an item in its place; by which name it answers there."""
    name = target(item, number)
    other: FastMCP[Any] = FastMCP(f"other{number}")
    match place:
        case "own":
            added(server, item, number, run)
        case "app":
            app = FastMCPApp(f"app{number}")
            app.tool(name=name)(plain(run, require(item.scope) if item.scope else lambda made: made))
            server.add_provider(app)
            return hashed_backend_name(f"app{number}", name)
        case "transformed":

            def inner(text: str = "") -> str:
                return run()

            hidden = Tool.from_function(require(item.scope)(inner) if item.scope else inner, name="inner")
            server.add_tool(Tool.from_tool(hidden, name=name, transform_args={"text": ArgTransform(name="t")}))
        case _:
            added(other, item, number, run)
            server.mount(other if place == "mounted" else create_proxy(other))
    return name


def can_be(place: str, item: Item) -> bool:
    return is_possible("fastmcp", item) and (item.method == "tools/call" or place not in ("app", "transformed"))


@settings(max_examples=5)
@given(placed=st.lists(st.tuples(st.sampled_from(PLACES), ITEMS).filter(lambda each: can_be(*each)), max_size=4))
def test_wherever_it_stands_it_runs_on_the_scope_that_its_author_wrote_or_not_at_all(
    placed: list[tuple[str, Item]],
) -> None:
    server, ran = made_server("fastmcp"), list[int]()

    def run(number: int) -> Run:
        return lambda: ran.append(number) or "done"

    names = [put(server, place, item, number, run(number)) for number, (place, item) in enumerate(placed)]

    async def case(client: Client) -> None:
        for number, ((place, item), name) in enumerate(zip(placed, names, strict=True)):
            written, before = item.scope or DEFAULTS[item.method], len(ran)
            if place in STANDS_FOR:
                assert await used(client, item.method, name, ALL) == -32602, (place, item)
                assert len(ran) == before, f"{item} ran, whatever it stands for asks for"
                continue
            assert await used(client, item.method, name, ALL - {written}) == -31003, (place, item)
            assert len(ran) == before, f"{item} ran on nobody's word"
            assert await used(client, item.method, name, frozenset({written})) is None, (place, item)
            assert ran[before:] == [number], (place, item)

    in_memory(server, case)


def test_a_namespace_that_a_server_gives_its_own_tools_takes_no_requirement_away() -> None:
    server, ran = made_server("fastmcp"), list[str]()
    for way in DEFAULTS:
        added(server, Item(way, plain, SCOPES[0], over=False), 0, lambda: ran.append("") or "done")
    server.add_transform(Namespace("other"))

    async def case(client: Client) -> None:
        for way, name in (
            ("tools/call", "other_item0"),
            ("prompts/get", "other_item0"),
            ("resources/read", "mail://other/0"),
        ):
            before = len(ran)
            assert await used(client, way, name, ALL - {SCOPES[0]}) == -31003
            assert len(ran) == before
            assert await used(client, way, name, frozenset({SCOPES[0]})) is None
            assert len(ran) == before + 1

    in_memory(server, case)


@settings(max_examples=5)
@given(
    named=st.dictionaries(st.sampled_from(["one", "two", "three"]), st.sampled_from(SCOPES)),
    later=st.booleans(),
    default=st.sampled_from(["", "mcp:tool"]),
)
def test_the_one_handler_of_a_low_level_server_runs_each_tool_on_its_own_scope__or_on_the_default(
    named: dict[str, str], later: bool, default: str
) -> None:
    ran: list[str] = []

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        ran.append(params.name)
        return types.CallToolResult(content=[])

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[])

    server: Server[Any] = Server("mail", on_list_tools=list_tools, on_call_tool=None if later else call_tool)
    guard = ProofGuard([TRUST.owner.public_key], "mail-gateway", default_tool_scope=default)
    guard.protect(server, tools={name: require(scope) for name, scope in named.items()})
    if later:
        server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)

    async def case(client: Client) -> None:
        for name in ("one", "two", "three", "four"):
            written, before = named.get(name, default), len(ran)
            assert await used(client, "tools/call", name, ALL - {written}) == (-31003 if written else -32602)
            assert len(ran) == before, f"{name} ran on nobody's word"
            if written:
                assert await used(client, "tools/call", name, frozenset({written})) is None
                assert ran[before:] == [name]

    in_memory(server, case)
