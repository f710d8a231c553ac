"""Functions with a requirement that no look at the start finds: in lists, global names, other objects. A request that
was judged by a default scope, or by nobody, runs none of them."""

import asyncio
import contextlib
import functools
import types as kinds
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mcp_types as types
import pytest
from fastmcp import FastMCP
from mcp import Client
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from pydantic import validate_call
from tests.integration.test_guarded_callables import DEFAULTS, Item, added, granted, made_server, target, used
from tests.unit.server.test_server_gate import TRUST, UNBOUND, in_memory, start_refused
from tests.world.guarded import KINDS

from accredit.server import ProofGuard, require

pytestmark = pytest.mark.holds("server/requirements", "unseen-requirement")

RAN: list[str] = []
SAY = require("guarded:one")
OTHER = require("guarded:two")


def noted() -> str:
    RAN.append("secret")
    return "private"


@SAY
def secret() -> str:
    return noted()


@SAY
async def secret_later() -> str:
    return noted()


@SAY
def secrets() -> Iterator[str]:
    yield noted()


@SAY
async def secrets_later() -> AsyncIterator[str]:
    yield noted()


@SAY
@contextlib.contextmanager
def secret_held() -> Generator[str]:
    yield noted()


@SAY
@functools.cache
def secret_kept() -> str:
    return noted()


class Mail:
    """An object that tools use, which is in none of them."""

    @SAY
    def secret(self) -> str:
        return noted()

    @SAY
    @classmethod
    def of_class(cls) -> str:
        return noted()

    @property
    @SAY
    def said(self) -> str:
        return noted()

    @functools.cached_property
    def kept(self) -> Callable[[], str]:
        return secret

    @functools.partialmethod
    @SAY
    def partial(self) -> str:
        return noted()

    @functools.singledispatchmethod
    def single(self, number: int) -> str:
        raise NotImplementedError

    @single.register
    @SAY
    def _(self, number: int) -> str:
        return noted()

    @SAY
    def __call__(self) -> str:
        return noted()


class Inherited(Mail):
    """One whose class is another's."""


@functools.singledispatch
def single(number: int) -> str:
    raise NotImplementedError


@single.register
@SAY
def _(number: int) -> str:
    return noted()


LISTED = [secret]
MAIL = Mail()
PARTIAL: Any = SAY(functools.partial(lambda: noted()))
WAYS: dict[str, Callable[[], Any]] = {
    "a global name": lambda: secret(),
    "a list": lambda: LISTED[0](),
    "a dict": lambda: {"secret": secret}["secret"](),
    "a generator": lambda: next(secrets()),
    "a context": lambda: secret_held().__enter__(),
    "a cache": lambda: secret_kept(),
    "a partial": lambda: PARTIAL(),
    "a method": lambda: MAIL.secret(),
    "a class method": lambda: Mail.of_class(),
    "an object": lambda: MAIL(),
    "an inherited call": lambda: Inherited()(),
    "a property": lambda: MAIL.said,
    "a kept property": lambda: MAIL.kept(),
    "a partial method": lambda: MAIL.partial(),
    "a single dispatch": lambda: single(1),
    "a method's single dispatch": lambda: MAIL.single(1),
    "a validated call": lambda: validate_call(secret)(),
    "a module": lambda: kinds.SimpleNamespace(secret=secret).secret(),
}


def by(way: str) -> Callable[[Any, Any], Any]:
    """What has no requirement and calls what has one."""

    def shape(_: Any, say: Callable[[Any], Any]) -> Any:
        @say
        def made() -> str:
            return str(WAYS[way]())

        return made

    return shape


async def called(client: Client, name: str, *scopes: str) -> str:
    """What a tool answers on a proof for these scopes."""
    proof = TRUST.proof(granted(frozenset(scopes)), "tools/call", {"name": name, "arguments": {}}, UNBOUND)
    return str((await client.call_tool(name, {}, meta=types.RequestParamsMeta(ratify_proof=proof))).content)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("where", "way"), [("tools/call", way) for way in WAYS] + [(w, "a list") for w in DEFAULTS])
def test_what_runs_on_a_default_scope_runs_nothing_that_somebody_asked_more_for(
    kind: str, where: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    RAN.clear()
    secret_kept.cache_clear()
    item = Item(where, by(way), "", over=False)
    server = made_server(kind)

    async def case(client: Client) -> None:
        added(server, item, 0, lambda: "")
        await used(client, where, target(item, 0), frozenset({DEFAULTS[where]}))

    in_memory(server, case)
    assert RAN == []
    assert "was called by what has no requirement" in caplog.text  # it came as far as that


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("later", [lambda: secret_later(), lambda: anext(secrets_later())], ids=["async", "generator"])
def test_nor_does_it_await_what_somebody_asked_more_for(kind: str, later: Callable[[], Any]) -> None:
    RAN.clear()
    server = made_server(kind)

    @server.tool(name="status")
    async def status() -> str:
        return str(await later())

    async def case(client: Client) -> None:
        with contextlib.suppress(MCPError):
            assert "private" not in await called(client, "status", "mcp:tool")

    in_memory(server, case)
    assert RAN == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_judged_by_a_requirement_runs_functions_that_have_one__each_way_it_is_called(kind: str) -> None:
    RAN.clear()
    server = made_server(kind)

    @server.tool(name="report")
    @OTHER
    def report() -> str:
        return secret()

    @server.tool(name="secret")
    @SAY
    def own() -> str:
        return secret()

    @server.tool(name="relay")
    async def relay() -> str:
        return str(await server.call_tool("secret", {}))

    async def case(client: Client) -> None:
        assert "private" in await called(client, "report", "guarded:two")
        assert "private" in await called(client, "secret", "guarded:one")
        assert "private" in await called(client, "relay", "mcp:tool", "guarded:one")

    in_memory(server, case)
    assert RAN == ["secret"] * 3
    assert secret() == "private"  # nobody's request


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_within_a_call_has_not_the_requirement_of_the_call_that_makes_it(kind: str) -> None:
    RAN.clear()
    server = made_server(kind)

    @server.tool(name="status")
    def status() -> str:
        return secret()

    @server.tool(name="report")
    @OTHER
    async def report() -> str:
        return str(await server.call_tool("status", {}))

    async def case(client: Client) -> None:
        with contextlib.suppress(MCPError):
            assert "private" not in await called(client, "report", "mcp:tool", "guarded:two")

    in_memory(server, case)
    assert RAN == []


def test_a_request_that_nobody_decides_runs_no_function_with_a_requirement() -> None:
    RAN.clear()
    server = made_server("sdk")

    async def complete(ref: Any, argument: Any, context: Any) -> types.Completion:
        return types.Completion(values=[secret()])

    server.completion()(complete)

    async def case(client: Client) -> None:
        with pytest.raises(MCPError):
            await client.complete(types.PromptReference(name="greet"), {"name": "name", "value": "a"})

    in_memory(server, case)
    assert RAN == []


@pytest.mark.parametrize(("name", "scope", "runs"), [("secret", "guarded:one", True), ("status", "mcp:tool", False)])
def test_the_handler_of_a_low_level_server_runs_a_function_with_a_requirement_for_tools_that_are_named(
    name: str, scope: str, *, runs: bool
) -> None:
    RAN.clear()

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(type="text", text=secret())])

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name=name, input_schema={"type": "object"})])

    server: Server[Any] = Server("mail", on_list_tools=list_tools, on_call_tool=call_tool)
    guard = ProofGuard([TRUST.owner.public_key], "mail-gateway", default_tool_scope="mcp:tool")
    guard.protect(server, tools={"secret": SAY})

    async def case(client: Client) -> None:
        with contextlib.nullcontext() if runs else pytest.raises(MCPError):
            assert "private" in await called(client, name, scope)

    in_memory(server, case)
    assert bool(RAN) == runs


@pytest.mark.holds("server/requirements", "hidden-requirement")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("base", [None, OTHER])
def test_a_single_dispatch_with_a_function_that_asks_for_more_stops_the_start(kind: str, base: Any) -> None:
    @functools.singledispatch
    def made(number: int = 0) -> str:
        return "any"

    @made.register
    @SAY
    def _(number: str) -> str:
        return noted()

    def shape(run: Any, say: Callable[[Any], Any]) -> Any:
        return say(made)

    server = made_server(kind)
    added(server, Item("tools/call", shape, "guarded:two" if base else "", over=False), 0, noted)
    assert "holds one with a requirement" in start_refused(server)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tool_that_was_replaced_after_the_decision_is_judged_again(kind: str) -> None:
    RAN.clear()
    server = made_server(kind)
    server.tool(name="read")(OTHER(lambda: "nothing"))

    async def replaces(ctx: Any, call_next: Any) -> Any:
        if ctx.method == "tools/call":
            (server.local_provider if kind == "fastmcp" else server).remove_tool("read")
            server.tool(name="read")(secret)
        return await call_next(ctx)

    (server._mcp_server if kind == "fastmcp" else server).middleware.append(replaces)

    async def case(client: Client) -> None:
        with contextlib.suppress(MCPError):
            assert "private" not in await called(client, "read", "guarded:two")
        assert "private" in await called(client, "read", "guarded:one")

    in_memory(server, case)
    assert RAN == ["secret"]


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_thread_of_its_own_a_function_is_the_plain_one(kind: str) -> None:
    server = made_server(kind)

    @server.tool(name="inside")
    async def inside() -> str:
        return await asyncio.to_thread(secret)

    @server.tool(name="outside")
    def outside() -> str:
        with ThreadPoolExecutor() as threads:
            return threads.submit(secret).result()

    async def case(client: Client) -> None:
        with contextlib.suppress(MCPError):
            assert "private" not in await called(client, "inside", "mcp:tool")
        assert "private" in await called(client, "outside", "mcp:tool")

    in_memory(server, case)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_guard_a_requirement_keeps_nobody_out__as_the_how_to_says(kind: str) -> None:
    server: Any = FastMCP("mail") if kind == "fastmcp" else MCPServer("mail")
    server.tool(name="read")(secret)

    async def case(client: Client) -> None:
        assert "private" in str((await client.call_tool("read", {})).content)

    in_memory(server, case)
