"""What the fuzzer of the guards in process runs: a client's lines, through the official SDK, to servers with a guard.

The first byte of an input says which server gets the rest: one of the SDK, one of FastMCP, a low-level one; from 128
on, the rest chooses lines (`built_lines`). Each line is read as the SDK's stdio transport reads it. `@PROOF@` stands
for a proof that is bound to `CALL`, `@RELAY@` for one that is bound to `RELAY`: a tool of FastMCP's that calls the
tool which it is told to. `@SPEND@` stands for a proof that is bound to no call, of a delegation of 10 EUR; tools that
spend have two names for an amount, also inside of an object, or call each other. `@HASHED@` is another name of a tool
of an app.

The oracle knows nothing of the guard: nobody has signed for more than one run of `list_inbox` by itself and one of it
from within `relay`, and for spending more than 10 EUR. Whatever else ran is a hole.
"""

import asyncio
import io
import json
import math
from collections import Counter
from typing import Annotated, Any, cast

import mcp_types as types
from fastmcp import FastMCP, FastMCPApp
from fastmcp.server.providers.addressing import hashed_backend_name
from mcp.server.lowlevel import Server
from mcp.shared._context_streams import create_context_streams
from mcp.shared.message import SessionMessage
from pydantic import AliasChoices, BaseModel, Field
from tests.fuzz.built_lines import built
from tests.fuzz.fuzz_gate_target import PROOF_SECONDS, TRUST, Hole, message
from tests.world.authorization import Signed
from tests.world.guarded import Guarded

from accredit.base.clock import unix_seconds
from accredit.ports import ProofStore
from accredit.ratify.constraints import MaxAmount
from accredit.server import ProofGuard, require
from accredit.stores import MemoryStore

CALL = {"name": "list_inbox", "arguments": {}}
RELAY = {"name": "relay", "arguments": {"name": "list_inbox"}}
SIGNED_FOR = Counter({"list_inbox": 2, "relay": 1, "spend": 1, "buy": 1, "spend_with_fee": 1})
"""How often what may run, at the most."""
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
KINDS = ("sdk", "fastmcp", "lowlevel")
_TURNS = 400
_CHAIN = TRUST.chain("email:read")
_SPENDING = "fuzz:spend"
_LIMIT = 10
_HASHED = hashed_backend_name("desk", "secret")


class FreshStore:
    """A store that another one takes the place of for each input: a proof is good once in each."""

    def __init__(self) -> None:
        self.inner: ProofStore = MemoryStore()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Order(BaseModel):
    """What is bought, with two names for what it costs."""

    amount: Annotated[float, Field(validation_alias=AliasChoices("total", "amount"))]


def _spenders(server: Any, ran: list[str]) -> None:
    """Tools that spend: what is more than the limit is noted by another name."""

    def noted(name: str, amount: float) -> str:
        ran.append(name if amount <= _LIMIT else f"{name} of {amount}")
        return "done"

    def facts(pointer: str) -> Any:
        return require(_SPENDING, facts={"amount": pointer, "currency": "EUR"})

    @server.tool()
    @facts("/amount")
    def spend(amount: Annotated[float, Field(validation_alias=AliasChoices("amount", "total"))]) -> str:
        return noted("spend", amount)

    @server.tool()
    @facts("/order/amount")
    def buy(order: Order) -> str:
        return noted("buy", order.amount)

    @server.tool()
    @facts("/fee")
    async def spend_with_fee(fee: float, total: float) -> str:
        ran.append("spend_with_fee")
        return str(await server.call_tool("spend", {"amount": total}))

    if isinstance(server, FastMCP):
        app = FastMCPApp("desk")

        @app.tool(model=True)
        @require("fuzz:secret")
        def secret() -> str:
            return noted("secret", 0)

        server.add_provider(app)


class LowLevel:
    """A low-level server; one handler knows all of its tools, and notes in `ran` what it is asked for."""

    def __init__(self, store: Any) -> None:
        self.ran: list[str] = []
        self.server: Server[Any] = Server(
            "mail", on_list_tools=self._list, on_call_tool=self._call, on_read_resource=self._read
        )
        guard = ProofGuard([TRUST.owner.public_key], "mail-gateway", store=store)
        guard.protect(self.server, tools={"list_inbox": require("email:read"), "pay": require("payments:send")})

    async def _list(self, ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="list_inbox", input_schema={"type": "object"})])

    async def _call(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        self.ran.append(params.name)
        return types.CallToolResult(content=[])

    async def _read(self, ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        self.ran.append(str(params.uri))
        return types.ReadResourceResult(contents=[])


def _server(kind: str, store: Any) -> tuple[Server[Any], list[str]]:
    if kind == "lowlevel":
        low = LowLevel(store)
        return low.server, low.ran
    guarded = Guarded(kind, [TRUST.owner.public_key], store=store)
    server = cast(Any, guarded.server)
    _spenders(server, guarded.ran)
    return server._mcp_server if kind == "fastmcp" else server._lowlevel_server, guarded.ran


class _Proofs:
    """The proofs of a few seconds: each is judged by a store that has not seen it."""

    def __init__(self) -> None:
        self._made_at = 0
        self._texts: list[tuple[bytes, bytes]] = []

    def put_in(self, data: bytes) -> bytes:
        if abs(unix_seconds() - self._made_at) > PROOF_SECONDS:
            self._made_at = unix_seconds()
            self._texts = [(b"@PROOF@", _proof(CALL)), (b"@RELAY@", _proof(RELAY)), (b"@SPEND@", _unbound())]
        for name, text in self._texts:
            data = data.replace(name, text)
        return data.replace(b"@HASHED@", _HASHED.encode())


def _proof(params: dict[str, Any]) -> bytes:
    return json.dumps(TRUST.proof(_CHAIN, "tools/call", params, Signed(scope="email:read"))).encode()


def _unbound() -> bytes:
    chain = TRUST.chain(_SPENDING, known=(_SPENDING,), constraints=(MaxAmount("EUR", _LIMIT),))
    params = {"name": "spend", "arguments": {}}
    return json.dumps(TRUST.proof(chain, "tools/call", params, Signed(scope=_SPENDING, bound=False))).encode()


_proofs = _Proofs()
_store = FreshStore()
_servers = [_server(kind, _store) for kind in KINDS]


def one_input(data: bytes) -> tuple[list[Any], list[str]]:
    """One run of the fuzzer: what the client was answered, and what ran. Whatever raises here is a defect."""
    if len(data) < 2:
        return [], []
    server, ran = _servers[data[0] % len(KINDS)]
    ran.clear()
    _store.inner = MemoryStore()
    sent = built(data[1:], "{}") if data[0] & 128 else data[1:]
    told = asyncio.run(_connection(server, _proofs.put_in(sent)))
    if unsigned := Counter(ran) - SIGNED_FOR:
        raise Hole(f"{dict(unsigned)} ran, and nobody signed for it")
    return told, list(ran)


async def _connection(server: Server[Any], sent: bytes) -> list[Any]:
    """What the SDK's stdio transport does, in memory; a line at a time, each gets some turns of the loop."""
    to_server, incoming = create_context_streams[SessionMessage | Exception](math.inf)
    outgoing, from_server = create_context_streams[SessionMessage](math.inf)
    async with to_server, incoming, outgoing, from_server:
        serving = asyncio.create_task(server.run(incoming, outgoing, server.create_initialization_options()))
        for line in io.TextIOWrapper(io.BytesIO(sent), encoding="utf-8", errors="replace"):
            await to_server.send(_read(line))
            await _turns(serving)
        await to_server.aclose()
        await serving
        return [answer.message.model_dump(by_alias=True, exclude_unset=True) async for answer in from_server]


def _read(line: str) -> SessionMessage | Exception:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _turns(serving: asyncio.Task[None]) -> None:
    for _ in range(_TURNS):
        if serving.done():
            return
        await asyncio.sleep(0)


def _modern(method: str, params: dict[str, Any], **meta: Any) -> bytes:
    return (
        message(method, {**params, "_meta": {**MODERN, **meta}})
        .replace(b'"@PROOF@"', b"@PROOF@")
        .replace(b'"@RELAY@"', b"@RELAY@")
        .replace(b'"@SPEND@"', b"@SPEND@")
    )


def corpus() -> dict[str, bytes]:
    """Where the fuzzer begins: for each kind of server a good call, and the ways around it that we could think of."""
    told = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    start = message("initialize", told) + b'\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
    good = _modern("tools/call", CALL, ratify_proof="@PROOF@")
    legacy = message("tools/call", {**CALL, "_meta": {"ratify_proof": "@PROOF@"}}).replace(b'"@PROOF@"', b"@PROOF@")
    door = {"name": "open_door", "arguments": {}}
    spends = {
        "spend": ("spend", {"amount": 5}),
        "aliased": ("spend", {"amount": 5, "total": 5000}),
        "other-alias": ("spend", {"total": 5000}),
        "nested-alias": ("buy", {"order": {"amount": 5, "total": 5000}}),
        "pay-with-fee": ("spend_with_fee", {"fee": 1, "total": 5000}),
        "hashed": (_HASHED, {}),
    }
    inputs = {
        name: _modern("tools/call", {"name": tool, "arguments": arguments}, ratify_proof="@SPEND@")
        for name, (tool, arguments) in spends.items()
    }
    inputs |= {
        "allowed": good,
        "twice": good + b"\n" + good,
        "legacy": start + legacy.replace(b'"id": 1', b'"id": 2'),
        "relay": _modern("tools/call", RELAY, ratify_proof="@RELAY@"),
        "relay-to-another": _modern(
            "tools/call", {"name": "relay", "arguments": {"name": "send_email"}}, ratify_proof="@RELAY@"
        ),
        "no-proof": _modern("tools/call", {"name": "pay", "arguments": {"amount": 1, "currency": "EUR"}}),
        "door": _modern("tools/call", door, ratify_proof="@PROOF@"),
        "other-arguments": _modern("tools/call", {**CALL, "arguments": {"a": 1}}, ratify_proof="@PROOF@"),
        "spelled": _modern("Tools/Call", CALL, ratify_proof="@PROOF@"),
        "resource": _modern("resources/read", {"uri": "mail://inbox"}, ratify_proof="@PROOF@"),
        "prompt": _modern("prompts/get", {"name": "greet", "arguments": {"name": "eve"}}),
        "list": _modern("tools/list", {}),
        "task": _modern("tools/call", {**CALL, "task": {"ttl": 1000}}, ratify_proof="@PROOF@"),
        "tasks": _modern("tasks/result", {"taskId": "a"}, ratify_proof="@PROOF@"),
        "version": _modern("tools/call", CALL, ratify_proof="@PROOF@", fastmcp={"version": "1"}),
        "batch": b"[" + good + b"," + _modern("tools/call", door) + b"]",
        "duplicate": good[:-1] + b',"params":{"name":"pay"}}',
        "notification": good.replace(b'"id": 1, ', b""),
        "two-proofs": _modern("tools/call", CALL, ratify_proof="@PROOF@", **{"com.ratifyprotocol/proof": {}}),
        "claim": _modern("tools/call", CALL, **{"dev.accredit/authorization": {"principal": "Owner"}}),
        "round": _modern("tools/call", {"name": "confirm", "requestState": "round one", "inputResponses": {}}),
        "answer": good + b'\n{"jsonrpc":"2.0","id":1,"result":{}}',
        "cancelled": good + b'\n{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
    }
    return {
        f"{kind}-{name}": bytes([number]) + lines for number, kind in enumerate(KINDS) for name, lines in inputs.items()
    } | {"built": b"\x81" + bytes(range(60))}
