"""The same bytes over the fast and the ASGI road: what a client was answered, what a server was sent, and what is known
of it afterwards. In memory, but for the event loop.

Between is the product: the HTTP server's protocol, the endpoint, the gate, the relay. Ids and nonces that the gateway
makes are left out of what is compared.
"""

import asyncio
import json
import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

import pytest
import uvloop
from msgspec import Struct
from tests.world.asgi import MemoryAnswer, MemoryHead
from tests.world.asgi_connection import AsgiConnection
from tests.world.authorization import GATEWAY, Trust
from tests.world.decisions import Known
from tests.world.delegations import DAY
from tests.world.pipe import Pipe
from tests.world.recorded import MemoryRecords
from tests.world.tokened import Tokened
from uvicorn.server import ServerState

from accredit.app.http11 import HttpConnection
from accredit.app.server import server_config
from accredit.attest import CallDecision, Outcome
from accredit.gateway import create_app, turns
from accredit.gateway.headers import RawHeaders
from accredit.gateway.settings import GatewaySettings, HttpUpstream, RecordSettings
from accredit.gateway.upstream.http.client import Answer, Prepared, UpstreamClient
from accredit.stores import MemoryStore

FAST, ASGI = "fast", "asgi"
URL = "http://127.0.0.1:9/mcp"
TRUST = Trust()
TOKENED = Tokened()
CHAIN = TRUST.chain("email:read")
PATIENCE_STEPS = 2_000
JSON_TYPE, EVENTS_TYPE = (b"content-type", b"application/json"), (b"content-type", b"text/event-stream")


class Seen(Struct):
    """What came of some bytes."""

    answered: bytes
    closed: bool
    asked: list[tuple[str, RawHeaders, bytes]]
    records: list[tuple[str, ...]]
    counts: dict[str, int]


class Records(MemoryRecords):
    """A log in memory: who was decided how, and what came of it."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, ...]] = []

    async def begin(self, decided: CallDecision) -> None:
        """As `ports.Records.begin`."""
        await asyncio.sleep(0)
        self.lines.append(("decision", decided.call.method, decided.call.target or "", decided.decision.verdict,
                           decided.params.sha256))  # fmt: skip

    def finish(self, decided: CallDecision, outcome: Outcome) -> asyncio.Future[None]:
        """As `ports.Records.finish`."""
        self.lines.append(("outcome", decided.call.method, decided.call.target or "", outcome.status))
        done = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(done.set_result, None)
        return done


class Server(UpstreamClient):
    """Answers by the name of the tool that is called: JSON, events, an error, something else, at once or later."""

    def __init__(self) -> None:
        super().__init__(URL, timeout=5)
        self.asked: list[tuple[str, RawHeaders, bytes]] = []

    async def send(
        self, method: str, headers: RawHeaders, body: bytes = b"", *, target: bytes | None = None, **_: Any
    ) -> Answer:
        """As `UpstreamClient.send`."""
        super().prepare(method, headers, target=target)
        self.asked.append((method, headers, body))
        try:
            told = json.loads(body)
        except ValueError:
            return MemoryAnswer(405, []).as_answer()
        if b"later" in body:
            await asyncio.sleep(0)
        frames = [each for each in (told if isinstance(told, list) else [told]) if "id" in each and "method" in each]
        if not frames:
            return MemoryAnswer(202, []).as_answer()
        texts = [
            json.dumps({"jsonrpc": "2.0", "id": each["id"], "result": result_of(body)}).encode() for each in frames
        ]
        return answer_of(body, texts, isinstance(told, list)).as_answer()

    def prepare(self, method: str, headers: RawHeaders, *, target: bytes | None = None) -> Prepared:
        """As `UpstreamClient.prepare`, but not encoded."""
        return cast(Prepared, MemoryHead(method, headers, target))

    async def exchange(
        self, prepared: Prepared, body: bytes, headers: RawHeaders | None = None, *_: Any, **__: Any
    ) -> Answer:
        """As `UpstreamClient.exchange`."""
        head = cast(MemoryHead, prepared)
        return await self.send(head.method, [*head.headers, *(headers or [])], body, target=head.target)

    async def reachable(self) -> bool:
        """It is."""
        return True


def result_of(body: bytes) -> dict[str, Any]:
    """The result of each request in a body."""
    found: dict[str, Any] = {"content": [{"type": "text", "text": "x" * (300_000 if b"large" in body else 10)}]}
    return found | {"tools": [], "contents": [], "isError": b"fails" in body}


def answer_of(body: bytes, texts: list[bytes], batch: bool) -> MemoryAnswer:
    """How the server puts it."""
    if b"events" in body:
        pieces = [b"data: " + text + b"\n\n" for text in texts]
        return MemoryAnswer(200, [EVENTS_TYPE], b": hello\n\n", *pieces)
    if b"wrong" in body:
        return MemoryAnswer(200, [JSON_TYPE], texts[0].replace(b'"id": ', b'"id": 1'))
    if b"broken" in body:
        return MemoryAnswer(500, [JSON_TYPE], b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}')
    whole = b"[" + b",".join(texts) + b"]" if batch else texts[0]
    return MemoryAnswer(200, [JSON_TYPE, (b"mcp-session-id", b"s1"), (b"x-own", b"kept")], whole)


@cache
def settings_of(kind: str) -> GatewaySettings:
    """`plain`: neither proofs nor tokens; `proofs`, `tokens`: one of them, recorded. Keys are drawn once.

    Proofs stay fresh for a day: of a stale one the gateway says how old it is, and that may change from road to road.
    """
    if kind == "proofs":
        return TRUST.settings(HttpUpstream(URL), policy={"freshness_seconds": DAY}, records=RecordSettings(GATEWAY))
    if kind == "tokens":
        return GatewaySettings(HttpUpstream(URL), tokens=TOKENED.settings(), records=RecordSettings(GATEWAY))
    return GatewaySettings(HttpUpstream(URL), allowed_origins=("https://page.example",))


def seen(road: str, kind: str, parts: Sequence[bytes]) -> Seen:
    """What comes of a connection on which `parts` come one after the other."""
    return uvloop.run(_seen(road, kind, parts))


async def _seen(road: str, kind: str, parts: Sequence[bytes]) -> Seen:
    records, server = Records(), Server()
    proofs: dict[str, Any] = {"store": MemoryStore(), "revocations": Known()} if kind == "proofs" else {}
    tokens: dict[str, Any] = {"key_sets": TOKENED.key_sets} if kind == "tokens" else {}
    recorded: dict[str, Any] = {"records": records} if kind != "plain" else {}
    gateway = create_app(settings_of(kind), **proofs, **tokens, **recorded)
    pipe = await told(road, gateway, server, parts)
    await gateway.aclose()
    return Seen(without_nonces(bytes(pipe.written)), pipe.closing, server.asked, records.lines, gateway.refused)


async def told(road: str, gateway: Any, server: Server, parts: Sequence[bytes]) -> Pipe:
    """Returns the connection on which `parts` came one after the other, to a gateway that has `server` behind it, also
    in the place of several."""
    for each in gateway.routes.servers:
        if isinstance(each.settings.upstream, HttpUpstream):
            each.backend.sender.client = server

    config = server_config(gateway)
    config.load()
    state, loop = ServerState(), asyncio.get_running_loop()
    kind = HttpConnection if road == FAST else AsgiConnection
    pipe, protocol = Pipe(), kind(config=config, server_state=state, app_state={})
    with pytest.MonkeyPatch.context() as patched:
        # On a machine that stalls a step would be a long one, and the next would wait.
        patched.setattr(turns, "LONG_STEP_SECONDS", math.inf)
        loop.call_soon(protocol.connection_made, pipe)
        for part in parts:
            if not pipe.closing:
                loop.call_soon(protocol.data_received, part)
            await _settled(state)
        loop.call_soon(protocol.connection_lost, None)
        await _settled(state)
    return pipe


async def _settled(state: ServerState) -> None:
    """Waits while requests are being answered, as long as that needs no time."""
    for step in range(PATIENCE_STEPS):
        await asyncio.sleep(0)
        if not state.tasks and step > 4:
            return


def without_nonces(answered: bytes) -> bytes:
    """What the gateway answered without what it drew by lot, and without the time."""
    answered = re.sub(rb"(?i)(\r\n(?:date: |mcp-session-id: a1\.))[^\r]*", rb"\1*", answered)
    return re.sub(rb'"challenge"\s*:\s*"[^"]*"', b'"challenge":"*"', answered)
