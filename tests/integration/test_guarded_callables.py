"""Random guarded servers of both SDKs: whatever a tool, resource or prompt is made of, it runs on the scope that its
author wrote beside it, or not at all."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import mcp_types as types
import pytest
from fastmcp import Context as FastMCPContext
from fastmcp import FastMCP
from fastmcp.prompts import Prompt as FastMCPPrompt
from fastmcp.tools import Tool as FastMCPTool
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts import Prompt
from mcp.shared.exceptions import MCPError
from tests.unit.server.test_server_gate import TRUST, UNBOUND, in_memory, start_refused
from tests.world.guarded import KINDS

import accredit.server.fastmcp
from accredit.ratify import DelegationCert
from accredit.server import ProofGuard, require

pytestmark = [
    pytest.mark.holds("server/requirements", "targets", "wrappers"),
    pytest.mark.holds("server/gate", "decision"),
]

DEFAULTS = {"tools/call": "mcp:tool", "resources/read": "mcp:resource", "prompts/get": "mcp:prompt"}
SCOPES = ("guarded:one", "guarded:two", "guarded:three")
ALL = frozenset((*DEFAULTS.values(), *SCOPES))
for _scope in SCOPES:
    require(_scope).name_scopes()
Say = Callable[[Any], Any]
Run = Callable[[], str]


def plain(run: Run, say: Say) -> Any:
    def made() -> str:
        return run()

    return say(made)


def asynchronous(run: Run, say: Say) -> Any:
    async def made() -> str:
        return run()

    return say(made)


def static(run: Run, say: Say) -> Any:
    class Holder:
        @say
        @staticmethod
        def made() -> str:
            return run()

    return Holder.made


def under_static(run: Run, say: Say) -> Any:
    class Holder:
        @staticmethod
        @say
        def made() -> str:
            return run()

    return Holder.made


def of_class(run: Run, say: Say) -> Any:
    class Holder:
        @say
        @classmethod
        def made(cls) -> str:
            return run()

    return Holder.made


def method(run: Run, say: Say) -> Any:
    class Holder:
        @say
        def made(self) -> str:
            return run()

    return Holder().made


def wrapped(run: Run, say: Say) -> Any:
    said = plain(run, say)

    @functools.wraps(said)
    def around() -> str:
        return str(said())

    return around


def wraps_wrapped(run: Run, say: Say) -> Any:
    return functools.lru_cache(maxsize=1)(wrapped(run, say))


def partial(run: Run, say: Say) -> Any:
    def made(text: str) -> str:
        return run() + text

    found: Any = functools.partial(say(made), "")
    found.__name__ = "made"
    return found


def said_partial(run: Run, say: Say) -> Any:
    def made(text: str) -> str:
        return run() + text

    found: Any = functools.partial(made, "")
    found.__name__ = "made"
    return say(found)


def called_thing(run: Run, say: Say) -> Any:
    class Thing:
        __name__ = "made"

        @say
        def __call__(self) -> str:
            return run()

    return Thing()


def with_context(run: Run, say: Say) -> Any:
    def made(ctx: FastMCPContext) -> str:
        return run()

    return say(made)


FUNCTIONS = (plain, asynchronous, static, under_static, of_class, method, wrapped)
SHAPES = (*FUNCTIONS, wraps_wrapped, partial, said_partial, called_thing)


class Item(NamedTuple):
    """What a server has; `scope` is what its author wrote, "" for nothing; `over`: over the server's decorator."""

    method: str
    shape: Callable[[Run, Say], Any]
    scope: str
    over: bool


ITEMS = st.builds(
    Item,
    st.sampled_from(sorted(DEFAULTS)),
    st.sampled_from(SHAPES),
    st.sampled_from(("", *SCOPES)),
    st.booleans(),
)


def is_possible(kind: str, item: Item) -> bool:
    """Whether the SDK makes something of it at all."""
    if item.shape is (with_context if kind == "sdk" else wraps_wrapped):
        return False
    return item.method == "tools/call" or item.shape in (*FUNCTIONS, *((with_context,) if kind == "fastmcp" else ()))


def target(item: Item, number: int) -> str:
    return f"mail://{number}" if item.method == "resources/read" else f"item{number}"


def added(server: Any, item: Item, number: int, run: Run) -> None:
    say: Say = require(item.scope) if item.scope else lambda made: made
    over = item.over and item.shape in (plain, asynchronous)
    function = item.shape(run, (lambda made: made) if over else say)
    name = target(item, number)
    match server, item.method:
        case FastMCP(), "tools/call":
            server.add_tool(FastMCPTool.from_function(function, name=name))
        case FastMCP(), "prompts/get":
            server.add_prompt(FastMCPPrompt.from_function(function, name=name))
        case _, "tools/call":
            server.add_tool(function, name=name)
        case _, "prompts/get":
            server.add_prompt(Prompt.from_function(function, name=name))
        case _:
            server.resource(name, name=f"item{number}")(function)
    if over:
        say(function)


def made_server(kind: str) -> Any:
    roots = [TRUST.owner.public_key]
    if kind == "fastmcp":
        guard = accredit.server.fastmcp.ProofGuard(roots, "mail-gateway", default_tool_scope="mcp:tool")
        server: FastMCP[Any] = FastMCP("mail")
        guard.protect(server)
        return server
    return MCPServer("mail", extensions=[ProofGuard(roots, "mail-gateway", default_tool_scope="mcp:tool")])


@functools.cache
def granted(scopes: frozenset[str]) -> tuple[DelegationCert, ...]:
    return TRUST.chain(*sorted(scopes), known=SCOPES)


async def used(client: Client, way: str, name: str, scopes: frozenset[str]) -> int | None:
    """Uses what has this name, on a proof for these scopes; the code of a refusal."""
    params: dict[str, Any] = {"uri": name} if way == "resources/read" else {"name": name, "arguments": {}}
    meta = types.RequestParamsMeta(ratify_proof=TRUST.proof(granted(scopes), way, params, UNBOUND))
    try:
        match way:
            case "tools/call":
                await client.call_tool(name, {}, meta=meta)
            case "prompts/get":
                await client.get_prompt(name, {}, meta=meta)
            case _:
                await client.read_resource(name, meta=meta)
    except MCPError as error:
        return error.error.code
    return None


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8)
@given(items=st.lists(ITEMS, min_size=1, max_size=4))
def test_every_call_that_runs_was_judged_under_the_scope_that_its_author_wrote(kind: str, items: list[Item]) -> None:
    check(kind, [item for item in items if is_possible(kind, item)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", sorted(DEFAULTS))
def test_no_requirement_is_lost__whatever_it_is_written_beside(kind: str, where: str) -> None:
    shapes = (*SHAPES, with_context)
    items = [Item(where, shape, SCOPES[0], over) for shape in shapes for over in (False, True)]
    check(kind, [item for item in items if is_possible(kind, item)])


def check(kind: str, items: list[Item]) -> None:
    server, ran = made_server(kind), list[int]()

    def run(number: int) -> Run:
        return lambda: ran.append(number) or "done"

    for number, item in enumerate(items):
        added(server, item, number, run(number))

    async def case(client: Client) -> None:
        for number, item in enumerate(items):
            written = item.scope or DEFAULTS[item.method]
            before = len(ran)
            name = target(item, number)
            assert await used(client, item.method, name, ALL - {written}) == -31003, item
            assert len(ran) == before, f"{item} ran on nobody's word"
            assert await used(client, item.method, name, frozenset({written})) is None, item
            assert ran[before:] == [number], item

    in_memory(server, case)


@pytest.mark.holds("server/requirements", "hidden-requirement")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", sorted(DEFAULTS))
def test_a_requirement_that_a_decorator_hides_stops_the_start__and_what_came_later_does_not_run(
    kind: str, where: str
) -> None:
    ran: list[str] = []

    def hiding(function: Any) -> Any:
        def around() -> str:
            return str(function())

        return around

    def secret() -> str:
        ran.append("secret")
        return "private"

    def hidden(run: Run, say: Say) -> Any:
        return hiding(require("guarded:one")(secret))

    item = Item(where, hidden, "", over=False)
    server = made_server(kind)

    async def case(client: Client) -> None:
        added(server, item, 0, lambda: "")
        assert await used(client, where, target(item, 0), ALL) == -32602

    in_memory(server, case)
    assert ran == []
    assert "holds one with a requirement" in start_refused(server)


def by_object(run: Run, say: Say) -> Any:
    class Retry:
        __name__ = "made"

        def __init__(self, function: Run) -> None:
            self.function = function

        def __call__(self) -> str:
            return self.function()

    return Retry(plain(run, say))


def by_objects_method(run: Run, say: Say) -> Any:
    class Retry:
        def __init__(self, function: Run) -> None:
            self.function = function

        def made(self) -> str:
            return self.function()

    return Retry(plain(run, say)).made


def around(held: Any) -> Any:
    def made() -> str:
        return str(held())

    return made


def around_cache(run: Run, say: Say) -> Any:
    return around(functools.lru_cache(plain(run, say)))


def around_called_thing(run: Run, say: Say) -> Any:
    return around(called_thing(run, say))


def by_default(run: Run, say: Say) -> Any:
    said = plain(run, say)

    def made(*, held: Any = said) -> str:
        return str(held())

    return made


def overriding(run: Run, say: Say) -> Any:
    class Holder:
        @say
        def made(self) -> str:
            raise NotImplementedError

    class Mail(Holder):
        def made(self) -> str:
            return run()

    return Mail().made


def overriding_of_class(run: Run, say: Say) -> Any:
    class Holder:
        @say
        @classmethod
        def made(cls) -> str:
            raise NotImplementedError

    class Mail(Holder):
        @classmethod
        def made(cls) -> str:
            return run()

    return Mail.made


def overriding_call(run: Run, say: Say) -> Any:
    class Thing:
        __name__ = "made"

        @say
        def __call__(self) -> str:
            raise NotImplementedError

    class Other(Thing):
        def __call__(self) -> str:
            return run()

    return Other()


HIDING = (by_object, by_objects_method, around_cache, around_called_thing, by_default)
OVERRIDING = (overriding, overriding_of_class, overriding_call)


@pytest.mark.holds("server/requirements", "hidden-requirement")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:Default value")
@pytest.mark.parametrize("shape", [*HIDING, *OVERRIDING])
def test_a_requirement_is_hidden_by_no_object_and_lost_by_no_method_that_overrides_it(
    kind: str, shape: Callable[[Run, Say], Any]
) -> None:
    ran: list[str] = []
    item = Item("tools/call", shape, "guarded:one", over=False)
    server = made_server(kind)

    async def case(client: Client) -> None:
        added(server, item, 0, lambda: ran.append("hidden") or "private")
        assert await used(client, "tools/call", target(item, 0), ALL) == -32602

    in_memory(server, case)
    assert ran == []
    assert "holds one with a requirement, or overrides one" in start_refused(server)


@pytest.mark.parametrize("kind", KINDS)
def test_a_method_beside_one_with_a_requirement_runs_on_its_own(kind: str) -> None:
    class Mail:
        def __init__(self) -> None:
            self.server = server

        @require("guarded:one")
        def send(self) -> str:
            raise NotImplementedError

        def status(self) -> str:
            return "fine"

    server = made_server(kind)
    tool = FastMCPTool.from_function(Mail().status, name="status") if kind == "fastmcp" else Mail().status
    server.add_tool(tool)

    async def case(client: Client) -> None:
        assert await used(client, "tools/call", "status", frozenset({"mcp:tool"})) is None

    in_memory(server, case)


def test_what_a_mounted_server_asks_for_is_not_lost__its_resources_and_prompts_do_not_run() -> None:
    child: FastMCP[Any] = FastMCP("child")

    def fail() -> str:
        raise AssertionError("ran")

    child.resource("mail://secret")(require("guarded:one")(fail))
    child.add_prompt(FastMCPPrompt.from_function(fail, name="secret"))
    server = made_server("fastmcp")
    server.mount(child)

    async def case(client: Client) -> None:
        assert await used(client, "resources/read", "mail://secret", ALL) == -32602
        assert await used(client, "prompts/get", "secret", ALL) == -32602
        assert (await client.list_resources()).resources == []
        assert (await client.list_prompts()).prompts == []

    in_memory(server, case)
