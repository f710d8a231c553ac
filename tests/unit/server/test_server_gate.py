"""The gate before a server: what reaches a tool, and what never does. With the SDK's client, in memory."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import mcp_types as types
import pytest
from fastmcp import Context as FastMCPContext
from fastmcp import FastMCP, FastMCPApp
from fastmcp.server.middleware import Middleware
from fastmcp.server.middleware.caching import ResponseCachingMiddleware
from fastmcp.server.providers.addressing import hashed_backend_name
from fastmcp.tools import Tool
from fastmcp.tools.tool_transform import ArgTransform
from fastmcp.utilities.versions import VersionSpec
from hypothesis import given, settings
from hypothesis import strategies as st
from key_value.aio.stores.memory import MemoryStore as MemoryKeyValue
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from tests.world.authorization import Signed, Trust
from tests.world.guarded import KINDS, Guarded

from accredit.base.clock import unix_seconds
from accredit.errors import ConfigurationError, StoreUnavailable
from accredit.ports import Spending
from accredit.ratify import DelegationCert
from accredit.ratify.constraints import MaxAmount, MaxRate
from accredit.server import current_authority, require
from accredit.server.fastmcp import ProofGuard
from accredit.server.gate import Gate
from accredit.stores import MemoryStore

pytestmark = pytest.mark.holds("server/gate")

UNBOUND = Signed(bound=False)
TRUST = Trust()
CHAIN = TRUST.chain()
# For servers whose tools name this scope alone: with one that nobody in the process names it would be invalid.
READS = TRUST.chain("email:read", "mcp:resource")
Case = Callable[[Client], Awaitable[None]]


@asynccontextmanager
async def connected(server: Any, mode: str = "2026-07-28") -> AsyncGenerator[Client]:
    # A FastMCP server is one of the SDK's underneath.
    below = server._mcp_server if isinstance(server, FastMCP) else server
    async with Client(cast("MCPServer[Any]", below), mode=mode, read_timeout_seconds=20) as client:
        yield client


def in_memory(server: Any, case: Case, mode: str = "2026-07-28") -> None:
    async def main() -> None:
        async with connected(server, mode) as client:
            await case(client)

    asyncio.run(main())


def meta(name: str, arguments: dict[str, Any], chain: tuple[DelegationCert, ...] = CHAIN, **more: Any) -> Any:
    """What a call carries that has a proof."""
    params = {"name": name, "arguments": arguments}
    proof = TRUST.proof(chain, "tools/call", params, UNBOUND)
    return types.RequestParamsMeta(ratify_proof=proof, **more)


async def code_of(call: Awaitable[Any]) -> int:
    """The error code of a call that is refused."""
    with pytest.raises(MCPError) as refused:
        await call
    return refused.value.error.code


def start_refused(server: Any) -> str:
    """Why a server does not start."""
    below = getattr(server, "_mcp_server", None) or getattr(server, "_lowlevel_server", server)

    async def start() -> None:
        async with below.lifespan(below):
            pass

    with pytest.raises(ConfigurationError) as refused:
        asyncio.run(start())
    return refused.value.what


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
METAS = st.dictionaries(
    st.sampled_from(["ratify_proof", "dev.accredit/authorization", "Dev.Accredit/Authorization", "token"])
    | st.text(max_size=12),
    JSON,
    max_size=4,
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=50)
@given(metas=st.lists(METAS, min_size=1, max_size=4))
def test_no_meta_whatever_it_holds_lets_a_call_through_or_breaks_the_server(
    kind: str, metas: list[dict[str, Any]]
) -> None:
    guarded = Guarded(kind, [TRUST.owner.public_key])

    async def case(client: Client) -> None:
        for each in metas:
            asked = client.call_tool("list_inbox", {}, meta=cast("Any", each))
            assert await code_of(asked) in (-31001, -31003, -31004, -32602)
        assert (await client.call_tool("list_inbox", {}, meta=meta("list_inbox", {}))).content

    in_memory(guarded.server, case)
    assert guarded.ran == ["list_inbox"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_default_scope_is_for_tools_that_say_nothing__and_for_no_name_that_there_is_not(
    kind: str, mode: str
) -> None:
    guarded = Guarded(kind, [TRUST.owner.public_key], default_tool_scope="mcp:resource")

    async with connected(guarded.server, mode) as client:
        tools = {tool.name: tool.meta or {} for tool in (await client.list_tools()).tools}
        assert tools["open_door"]["ratify_scope"] == "mcp:resource"
        assert "ratify_sensitive" not in tools["open_door"]
        assert tools["list_inbox"]["ratify_scope"] == "email:read"
        assert await code_of(client.call_tool("open_door", {})) == -31001
        assert (await client.call_tool("open_door", {}, meta=meta("open_door", {}))).content
        assert await code_of(client.call_tool("no_such_tool", {}, meta=meta("no_such_tool", {}))) == -32602
    assert guarded.ran == ["open_door"]


@pytest.mark.parametrize("kind", KINDS)
async def test_without_the_filter_a_proof_on_a_list_hides_nothing(kind: str) -> None:
    guarded = Guarded(kind, [TRUST.owner.public_key], filter_tools=False)

    async with connected(guarded.server) as client:
        proof = TRUST.proof(TRUST.chain("mcp:prompt"), "tools/list", {}, UNBOUND)
        listed = await client.list_tools(meta=types.RequestParamsMeta(ratify_proof=proof))
        assert "send_email" in {tool.name for tool in listed.tools}


class Broken(MemoryStore):
    """A store that can't be reached."""

    async def look(self, challenge: bytes, request_hash: bytes, *, issued: bool, now: int) -> Spending:
        raise StoreUnavailable("the disk is gone")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_store_that_does_not_answer_is_a_no__and_the_client_is_not_told_why(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    guarded = Guarded(kind, [TRUST.owner.public_key], store=Broken())
    caplog.set_level("WARNING", "accredit.server")  # commands that ran in this process may have turned it down

    async with connected(guarded.server) as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("list_inbox", {}, meta=meta("list_inbox", {}))
        assert refused.value.error.data["reason"] == "store_unavailable: the decision could not be made"
        assert "disk" not in str(refused.value.error)
    assert guarded.ran == []
    assert "a call was refused: the disk is gone" in caplog.messages


async def test_the_guard_s_clock_decides__not_the_machine_s() -> None:
    guarded = Guarded("sdk", [TRUST.owner.public_key], clock=lambda: unix_seconds() + 3600)

    async with connected(guarded.server) as client:
        assert await code_of(client.call_tool("list_inbox", {}, meta=meta("list_inbox", {}))) == -31003


def test_a_gate_that_was_taken_away_leaves_no_tool_open() -> None:
    guarded = Guarded("sdk", [TRUST.owner.public_key])
    server = cast("MCPServer[Any]", guarded.server)

    async def case(client: Client) -> None:
        server.middleware[:] = [each for each in server.middleware if not isinstance(each, Gate)]
        assert await code_of(client.call_tool("list_inbox", {}, meta=meta("list_inbox", {}))) == -32603

    in_memory(server, case)
    assert guarded.ran == []
    assert "before all other middleware" in start_refused(server)


async def test_middleware_that_names_another_tool_after_the_decision_is_stopped() -> None:
    guarded = Guarded("sdk", [TRUST.owner.public_key])
    server = cast("MCPServer[Any]", guarded.server)

    async def rename(ctx: Any, call_next: Any) -> Any:
        if ctx.method == "tools/call":
            ctx.params["name"] = "open_door"
        return await call_next(ctx)

    server.middleware.append(rename)

    async with connected(server) as client:
        assert await code_of(client.call_tool("list_inbox", {}, meta=meta("list_inbox", {}))) == -32603
    assert guarded.ran == []


@pytest.mark.parametrize("proof", [2**70, {"a": "\ud800"}, {"a": float("nan")}, {"a": 1.5}])
async def test_a_proof_that_can_t_be_written_as_json_is_refused_as_any_that_is_none(proof: object) -> None:
    guarded = Guarded("sdk", [TRUST.owner.public_key])

    async with connected(guarded.server) as client:
        sent = cast("Any", {"ratify_proof": proof})
        assert await code_of(client.call_tool("list_inbox", {}, meta=sent)) == -31003
    assert guarded.ran == []


async def test_middleware_that_answers_with_a_model_has_its_list_filtered_as_well() -> None:
    guarded = Guarded("sdk", [TRUST.owner.public_key])
    server = cast("MCPServer[Any]", guarded.server)

    async def answer(ctx: Any, call_next: Any) -> Any:
        if ctx.method != "tools/list":
            return await call_next(ctx)
        tools = [types.Tool(name=name, input_schema={"type": "object"}) for name in ("list_inbox", "open_door")]
        return types.ListToolsResult(tools=tools)

    server.middleware.append(answer)

    async with connected(server, "legacy") as client:
        listed = {tool.name: tool.meta or {} for tool in (await client.list_tools()).tools}
        assert {name: meta["ratify_scope"] for name, meta in listed.items()} == {"list_inbox": "email:read"}


async def test_tools_that_can_t_be_found_are_not_run__and_their_provider_s_error_stays_here() -> None:
    judge = Guarded("sdk", [TRUST.owner.public_key])
    server = cast("MCPServer[Any]", judge.server)
    gate = next(each for each in server.middleware if isinstance(each, Gate))

    async def fail(ctx: Any, method: str, name: str) -> Any:
        raise RuntimeError("the provider's secret")

    failing = Gate(gate.judge, fail, lambda: server.middleware)

    async with connected(server) as client:
        server.middleware[server.middleware.index(gate)] = failing
        with pytest.raises(MCPError) as refused:
            await client.call_tool("list_inbox", {}, meta=meta("list_inbox", {}))
        assert refused.value.error.data["reason"] == "store_unavailable: the decision could not be made"
        assert "secret" not in str(refused.value.error)
    assert judge.ran == []


def test_outside_of_a_call_nobody_has_authorized_anything() -> None:
    assert current_authority() is None


class TestFastMCP:
    """What FastMCP has and the SDK has not."""

    def guarded(self) -> FastMCP[Any]:
        server: FastMCP[Any] = FastMCP("mail")
        ProofGuard([TRUST.owner.public_key], "mail", default_tool_scope="mcp:tool").protect(server)
        return server

    async def test_each_version_of_a_tool_asks_for_what_it_says_itself__whichever_the_client_picks(self) -> None:
        server = self.guarded()

        @server.tool(name="read", version="1.0")
        @require("email:read")
        def first() -> str:
            return "one"

        @server.tool(name="read", version="2.0")
        @require("unit:other")
        def second() -> str:
            return "two"

        async with connected(server) as client:
            old, new = {"version": "1.0"}, {"version": "2.0"}
            done = await client.call_tool("read", {}, meta=meta("read", {}, READS, fastmcp=old))
            assert "one" in str(done.content)
            assert await code_of(client.call_tool("read", {}, meta=meta("read", {}, READS, fastmcp=new))) == -31003
            assert await code_of(client.call_tool("read", {}, meta=meta("read", {}, READS))) == -31003

    async def test_a_tool_that_stands_for_another_is_refused__it_could_hide_what_that_one_asks_for(self) -> None:
        child: FastMCP[Any] = FastMCP("child")

        @child.tool()
        @require("email:send", sensitive=True)
        def send(to: str) -> str:
            raise AssertionError("ran")

        server = self.guarded()
        server.mount(child, namespace="mounted")
        renamed = Tool.from_tool(Tool.from_function(send), name="post", transform_args={"to": ArgTransform(name="at")})
        server.add_tool(renamed)

        async with connected(server) as client:
            assert (await client.list_tools()).tools == []
            for name in ("mounted_send", "post"):
                assert await code_of(client.call_tool(name, {"to": "x"}, meta=meta(name, {"to": "x"}))) == -32602

    async def test_a_guard_on_a_mounted_server_alone_lets_nothing_through__proofs_are_over_the_outer_name(self) -> None:
        child = self.guarded()

        @child.tool()
        @require("email:read")
        def read() -> str:
            raise AssertionError("ran")

        outer: FastMCP[Any] = FastMCP("outer")
        outer.mount(child, namespace="ns")

        async with connected(outer) as client:
            done = await client.call_tool("ns_read", {}, meta=meta("ns_read", {}, READS))
            assert done.is_error

    @pytest.mark.parametrize("placed", ["made with it", "added", "protected", "two guards"])
    def test_what_a_cache_before_the_guard_remembers_goes_to_nobody_without_a_proof(self, placed: str) -> None:
        store = MemoryKeyValue()

        def secret() -> str:
            """What one caller was given, and a cache that outlives the server keeps."""
            return "private"

        async def fill(client: Client) -> None:
            assert not (await client.call_tool("secret", {})).is_error

        filled: FastMCP[Any] = FastMCP("mail", middleware=[ResponseCachingMiddleware(cache_storage=store)])
        filled.add_tool(Tool.from_function(secret))
        in_memory(filled, fill)

        cache = ResponseCachingMiddleware(cache_storage=store)
        guard = ProofGuard([TRUST.owner.public_key], "mail")
        others = [ProofGuard([TRUST.owner.public_key], "other")] if placed == "two guards" else []
        made = placed in ("made with it", "two guards")
        server: FastMCP[Any] = FastMCP("mail", middleware=[cache, *others, *([guard] if made else [])])
        if placed == "added":
            server.add_middleware(guard)
        for each in (guard, *others):
            each.protect(server)
        server.add_tool(Tool.from_function(require("email:read")(secret)))

        async def case(client: Client) -> None:
            for _ in range(2):
                assert await code_of(client.call_tool("secret", {})) == -31001
            if not others:
                assert "private" in str((await client.call_tool("secret", {}, meta=meta("secret", {}, READS))).content)

        in_memory(server, case)
        assert server.middleware[0] is (others or [guard])[0]

    def test_middleware_that_was_put_before_the_guard_later_stops_everything__and_the_log_says_why(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        server = self.guarded()
        caplog.set_level("WARNING", "accredit.server")
        ran: list[str] = []

        class Answers(Middleware):
            async def on_message(self, context: Any, call_next: Any) -> Any:
                ran.append(context.method)
                return await call_next(context)

        @server.tool()
        @require("email:read")
        def read() -> str:
            return "one"

        async def refused(client: Client) -> None:
            server.middleware.insert(0, Answers())
            assert await code_of(client.call_tool("read", {}, meta=meta("read", {}, READS))) == -31003
            assert await code_of(client.read_resource("mail://inbox")) == -31003

        in_memory(server, refused)
        assert not {"tools/call", "resources/read"} & set(ran)
        assert "nothing runs: the guard does not stand before all other middleware" in caplog.text
        assert "before all other middleware" in start_refused(server)
        cast("ProofGuard", server.middleware[1]).protect(server)

        async def runs(client: Client) -> None:
            assert (await client.call_tool("read", {}, meta=meta("read", {}, READS))).content

        in_memory(server, runs)

    async def test_a_guard_that_is_only_among_the_middleware_lets_nothing_through__and_the_log_says_what_to_call(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        guard = ProofGuard([TRUST.owner.public_key], "mail", default_tool_scope="mcp:tool")
        server: FastMCP[Any] = FastMCP("mail", middleware=[guard])

        @server.tool()
        def read() -> str:
            raise AssertionError("ran")

        async with connected(server) as client:
            assert await code_of(client.call_tool("read", {}, meta=meta("read", {}, READS))) == -32603
            assert await code_of(client.list_tools()) == -32603
        assert "call guard.protect(mcp)" in caplog.text

    @pytest.mark.slow
    def test_importing_the_guard_changes_nothing_of_fastmcp(self) -> None:
        code = (
            "import fastmcp\nbefore = dict(vars(fastmcp.FastMCP))\n"
            "import accredit.server.fastmcp\nassert dict(vars(fastmcp.FastMCP)) == before"
        )
        subprocess.run([sys.executable, "-c", code], check=True)

    async def test_without_its_gate_the_guard_lets_nothing_through(self) -> None:
        server = self.guarded()

        @server.tool()
        @require("email:read")
        def read() -> str:
            raise AssertionError("ran")

        below: Any = server._mcp_server

        async with connected(server) as client:
            below.middleware[:] = [each for each in below.middleware if not isinstance(each, Gate)]
            assert await code_of(client.call_tool("read", {}, meta=meta("read", {}, READS))) == -32603
            assert await code_of(client.list_tools()) == -32603

    async def test_a_tool_of_an_app_is_judged_under_its_other_name_too(self) -> None:
        server = self.guarded()
        app, ran = FastMCPApp("desk"), list[str]()

        @app.tool(model=True)
        @require("email:read")
        def read() -> str:
            ran.append("read")
            return "one"

        server.add_provider(app)
        other = hashed_backend_name("desk", "read")

        async with connected(server) as client:
            assert await code_of(client.call_tool(other, {})) == -31001
            narrow = TRUST.chain("mcp:tool")
            assert await code_of(client.call_tool(other, {}, meta=meta(other, {}, narrow))) == -31003
            assert ran == []
            assert "one" in str((await client.call_tool(other, {}, meta=meta(other, {}, READS))).content)
            unknown = hashed_backend_name("desk", "write")
            assert await code_of(client.call_tool(unknown, {}, meta=meta(unknown, {}, READS))) == -32602
        assert ran == ["read"]

    async def test_a_running_call_that_picks_another_version_needs_what_that_one_asks_for(self) -> None:
        server = self.guarded()
        ran: list[str] = []

        @server.tool(name="read", version="1.0")
        @require("unit:other")
        def first() -> str:
            ran.append("first")
            return "one"

        @server.tool(name="read", version="2.0")
        @require("email:read")
        def second() -> str:
            ran.append("second")
            return "two"

        @server.tool()
        @require("email:read")
        async def relay(ctx: FastMCPContext, version: str) -> str:
            return str(await ctx.fastmcp.call_tool("read", {}, version=VersionSpec(eq=version)))

        async with connected(server) as client:
            old, new = {"version": "1.0"}, {"version": "2.0"}
            assert (await client.call_tool("relay", old, meta=meta("relay", old, READS))).is_error
            assert not (await client.call_tool("relay", new, meta=meta("relay", new, READS))).is_error
        assert ran == ["second"]

    def test_the_server_s_own_code_may_call_its_tools(self) -> None:
        server = self.guarded()

        @server.tool()
        @require("email:read")
        def read() -> str:
            return "one"

        assert "one" in str(asyncio.run(server.call_tool("read", {})))

    async def test_a_request_of_another_kind_can_t_make_a_tool_run(self) -> None:
        server = self.guarded()
        ran: list[str] = []

        @server.tool()
        @require("email:read")
        def read() -> str:
            ran.append("read")
            return "one"

        @server.prompt()
        def greet(name: str) -> str:
            return name

        @server.completion
        async def complete(ref: Any, argument: Any, context: Any) -> list[str]:
            await server.call_tool("read", {})
            return []

        async with connected(server) as client:
            ref = types.PromptReference(name="greet")
            with pytest.raises(MCPError):
                await client.complete(ref, {"name": "name", "value": "a"})
        assert ran == []

    async def test_what_a_running_call_reads_must_be_covered_as_well(self) -> None:
        server = self.guarded()

        @server.resource("mail://inbox")
        def inbox() -> str:
            return "empty"

        @server.tool()
        @require("email:read")
        async def read(ctx: FastMCPContext) -> str:
            return str(await ctx.read_resource("mail://inbox"))

        async with connected(server) as client:
            assert "empty" in str((await client.call_tool("read", {}, meta=meta("read", {}, READS))).content)
            narrow = TRUST.chain("email:read")
            proof = TRUST.proof(narrow, "tools/call", {"name": "read", "arguments": {}}, UNBOUND)
            done = await client.call_tool("read", {}, meta=types.RequestParamsMeta(ratify_proof=proof))
            assert done.is_error


@pytest.mark.holds("server/gate", "decision")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_guard_runs_no_method_that_nobody_named(kind: str, mode: str) -> None:
    ran: list[str] = []

    async def handler(ctx: Any, _: types.RequestParams) -> dict[str, Any]:
        ran.append(ctx.method)
        return {}

    async def told(ctx: Any, _: types.NotificationParams) -> None:
        ran.append(ctx.method)

    guarded = Guarded(kind, [TRUST.owner.public_key], methods=["vendor/named"])
    server: Any = guarded.server
    below = server._mcp_server if kind == "fastmcp" else server._lowlevel_server
    for method in ("tasks/get", "vendor/x", "vendor/named"):
        below.add_request_handler(method, types.RequestParams, handler)
    below.add_notification_handler("vendor/x", types.NotificationParams, told)
    below.add_notification_handler("vendor/named", types.NotificationParams, told)

    async def case(client: Client) -> None:
        for method in ("tasks/get", "vendor/x"):
            request = types.Request[Any, Any](method=method, params={"taskId": "1"})
            assert await code_of(client.session.send_request(request, types.EmptyResult)) == -32601
        named = types.Request[Any, Any](method="vendor/named", params={})
        await client.session.send_request(named, types.EmptyResult)
        for method in ("vendor/x", "vendor/named"):
            told_of: Any = types.Notification[Any, Any](method=method, params={})
            await client.session.send_notification(told_of)
        await client.list_tools()

    in_memory(guarded.server, case, mode)
    assert set(ran) == {"vendor/named"}


class Inside:
    """A server of either kind with tools, a resource and a prompt that make the server do more by itself."""

    def __init__(self, kind: str) -> None:
        self.ran: list[str] = []
        guarded = Guarded(kind, [TRUST.owner.public_key], ran=self.ran)
        self.server: Any = guarded.server
        server, ran = self.server, self.ran
        pays = {"amount": "/amount", "currency": "EUR"}

        @server.tool()
        @require("payments:send", facts={"amount": "/fee", "currency": "EUR"})
        async def pay_with_fee(fee: float, total: float) -> str:
            ran.append("pay_with_fee")
            return str(await server.call_tool("pay", {"amount": total, "currency": "EUR"}))

        @server.tool()
        @require("payments:send", facts=pays)
        async def pay_twice(amount: float, again: float) -> str:
            ran.append(f"pay_twice {amount}")
            more = {"amount": again, "again": 0}
            return str(await server.call_tool("pay_twice", more)) if again else ""

        @server.tool()
        @require("email:read")
        async def forward(how: str) -> str:
            ran.append(f"forward {how}")
            match how:
                case "tool":
                    return str(await server.call_tool("open_door", {}))
                case "sensitive":
                    return str(await server.call_tool("send_email", {"to": "eve"}))
                case "resource":
                    return str(await server.read_resource("mail://inbox"))
                case _:
                    prompt = server.render_prompt if kind == "fastmcp" else server.get_prompt
                    return str(await prompt("greet", {"name": "Ada"}))


@pytest.mark.holds("policy/within", "constraints")
@pytest.mark.parametrize("kind", KINDS)
async def test_no_tool_pays_for_an_agent_what_the_agent_may_not_pay(kind: str) -> None:
    inside = Inside(kind)
    chain = TRUST.chain("payments:send", constraints=(MaxAmount("EUR", 10), MaxRate(9, 600)))

    async with connected(inside.server) as client:

        async def paid(name: str, arguments: dict[str, Any]) -> bool:
            proof = meta(name, arguments, chain)
            done: Any = await client.call_tool(name, arguments, meta=proof)
            if done.is_error:
                assert "10 EUR" in str(done.content)  # the tool is told why, and the client what it says of that
            return not done.is_error

        assert await code_of(paid("pay", {"amount": 5000, "currency": "EUR"})) == -31003
        assert not await paid("pay_with_fee", {"fee": 1, "total": 5000})
        assert await paid("pay_with_fee", {"fee": 1, "total": 9})
        assert not await paid("pay_twice", {"amount": 1, "again": 5000})
        assert await paid("pay_twice", {"amount": 1, "again": 2})
    ran = ["pay_with_fee", "pay_with_fee", "pay", "pay_twice 1.0", "pay_twice 1.0", "pay_twice 2.0"]
    assert inside.ran == ran


@pytest.mark.holds("policy/within", "target", "scope")
@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_running_call_makes_the_server_do_by_itself_must_be_covered_too(kind: str) -> None:
    inside = Inside(kind)
    narrow, wide = TRUST.chain("email:read"), TRUST.chain()

    async with connected(inside.server) as client:
        for how in ("tool", "sensitive", "resource", "prompt"):
            for chain in (narrow, wide):
                done = await client.call_tool("forward", {"how": how}, meta=meta("forward", {"how": how}, chain))
                assert done.is_error == (chain is narrow or how in ("tool", "sensitive")), done
    told = [f"forward {how}" for how in ("tool", "sensitive", "resource", "prompt") for _ in "12"]
    assert [each for each in inside.ran if each.startswith("forward")] == told
    assert [each for each in inside.ran if not each.startswith("forward")] == ["mail://inbox", "greet"]


def test_a_request_that_nobody_decides_makes_no_tool_of_the_sdk_run__the_server_s_own_code_does() -> None:
    inside = Inside("sdk")

    async def complete(ref: Any, argument: Any, context: Any) -> None:
        await inside.server.call_tool("list_inbox", {})

    inside.server.completion()(complete)

    async def case(client: Client) -> None:
        with pytest.raises(MCPError):
            await client.complete(types.PromptReference(name="greet"), {"name": "name", "value": "a"})

    in_memory(inside.server, case)
    assert inside.ran == []
    asyncio.run(inside.server.call_tool("list_inbox", {}))
    assert inside.ran == ["list_inbox"]


@pytest.mark.parametrize("kind", KINDS)
async def test_middleware_that_changes_the_arguments_after_the_decision_has_them_judged_again(kind: str) -> None:
    inside = Inside(kind)
    chain = TRUST.chain("payments:send", constraints=(MaxAmount("EUR", 10),))
    below = inside.server._mcp_server if kind == "fastmcp" else inside.server

    async def raises(ctx: Any, call_next: Any) -> Any:
        if ctx.method == "tools/call":
            ctx.params["arguments"] = {**ctx.params["arguments"], "amount": 5000}
        return await call_next(ctx)

    below.middleware.append(raises)

    async with connected(inside.server) as client:
        euros = {"amount": 5, "currency": "EUR"}
        sent = client.call_tool("pay", euros, meta=meta("pay", euros, chain))
        if kind == "fastmcp":
            assert await code_of(sent) == -31003
        else:
            assert (await sent).is_error
    assert inside.ran == []
