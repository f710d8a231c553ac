"""No answer of an upstream keeps the event loop from others: as in `test_loop_steps`, for what comes back.

The server is in a thread or a process of its own, so that its work does not count. What it sends is much of one thing.
"""

import asyncio
import contextlib
import json
import socket
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from tests.integration.test_loop_steps import FACTOR, PROMISED, headers, small_heap
from tests.world.asgi import Told
from tests.world.authorization import Trust
from tests.world.measured_loop import MeasuredLoop
from uvicorn.server import ServerState

from accredit.app.http11 import HttpConnection
from accredit.app.server import server_config
from accredit.config.schema import MAX_RESPONSE_BYTES
from accredit.gateway.admission.gate import Gate
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.app import Gateway, create_app
from accredit.gateway.counters import Counters
from accredit.gateway.front.wrap import Wrap
from accredit.gateway.settings import GatewaySettings, HttpUpstream, StdioUpstream
from accredit.gateway.upstream.stdio.child import Child, OrphanGuard
from accredit.stores import MemoryStore, RevocationLists, Tasks

pytestmark = pytest.mark.slow

__all__ = ["small_heap"]

MIB = 1_048_576
TRUST = Trust()
NESTED = b"[" * 100 + b"]" * 100 + b","


class Case(NamedTuple):
    """A request's method, and what makes the text that answers it; `guarded` by proofs; `refused`, or passed on as it
    is. Each text is megabytes, and is made by the test that needs it."""

    method: str
    make: Callable[[], bytes]
    guarded: bool = False
    refused: bool = False

    @property
    def answer(self) -> bytes:
        """The text."""
        return self.make()


def much(piece: bytes, size: int) -> bytes:
    return piece * (size // len(piece))


def result(text: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"result":{' + text + b"}}"


def tools(*items: bytes) -> bytes:
    return result(b'"tools":[' + b",".join(items) + b"]")


def deep(size: int = 2 * MIB) -> bytes:
    """A result with as many arrays as may be, or with too many."""
    return result(b'"content":[],"deep":[' + much(NESTED, size) + b"0]")


CASES = {
    "nested": Case("tools/call", deep),
    "too nested": Case("tools/call", lambda: deep(12 * MIB), refused=True),
    "not valid": Case("tools/call", lambda: deep()[:-3] + b"]]}", refused=True),
    "escapes": Case("tools/call", lambda: result(b'"text":"' + much(rb"\u00e9\"\\", 12 * MIB) + b'"')),
    "an error": Case(
        "tools/call",
        lambda: deep(12 * MIB).replace(b'"result":{', b'"error":{"code":1,"message":"","data":{', 1) + b"}",
        refused=True,
    ),
    "tools": Case("tools/list", lambda: tools(*(b'{"name":"t%d"}' % n for n in range(40_000))), guarded=True),
    "tools with schemas": Case(
        "tools/list",
        lambda: tools(*(b'{"name":"%d","inputSchema":{"a":[%b]}}' % (n, b"{}," * 999 + b"0") for n in range(1_000))),
        guarded=True,
    ),
    "one deep tool": Case(
        "tools/list",
        lambda: tools(b'{"name":"t","deep":[' + much(NESTED, 12 * MIB) + b"0]}"),
        guarded=True,
        refused=True,
    ),
    "one long tool": Case(
        "tools/list", lambda: tools(b'{"name":"t","long":[' + much(b"1,", 12 * MIB) + b"0]}"), guarded=True
    ),
    "a task in it": Case("tools/call", lambda: result(b'"taskId":[' + much(NESTED, 2 * MIB) + b"0]"), guarded=True),
}
BODIES = {
    "another's answer": Case("tools/call", lambda: deep().replace(b'"id":1', b'"id":2', 1), refused=True),
    "a number": Case("tools/call", lambda: result(b'"number":0.' + b"1" * 60 * MIB), refused=True),
    "a large integer": Case("tools/call", lambda: result(b'"number":' + b"1" * 60 * MIB), refused=True),
    "an error with much in it": Case(
        "tools/call",
        lambda: b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"","data":[' + much(NESTED, 40 * MIB) + b"0]}}",
        refused=True,
    ),
    "a list that is too long": Case(
        "tools/list",
        lambda: tools(b'{"name":"t","deep":[' + much(NESTED, 40 * MIB) + b"0]}"),
        guarded=True,
        refused=True,
    ),
}
LINES = {
    "breaks": Case("tools/call", lambda: result(b'"a":[1,' + b" " * 2_000 + b"\r" * 12 * MIB + b"2]")),
}
OF_A_ROAD = {"nested", "not valid", "tools", "a list that is too long"}
"""What is answered over the second road as well in the everyday tests: whoever reads an answer knows no road."""
EVENTS = {"nested", "not valid", "escapes", "one deep tool", "lines"}
"""And what comes in an event: an answer that is one is read as a body is, once it is whole."""
FLOOD = [400_000, pytest.param(4 * MIB, marks=pytest.mark.long)]
"""Events. A tenth of them takes seconds where nobody pauses."""
EVENT_LINES = b"data: " + result(b'"a":[\n' + b"1,\n" * 90_000 + b"2]").replace(b"\n", b"\ndata: ") + b"\n\n"


def asked(case: Case) -> bytes:
    params: dict[str, Any] = {"name": "list_inbox", "arguments": {}} if case.method == "tools/call" else {}
    if case.guarded and params:
        params["_meta"] = {"ratify_proof": TRUST.proof(TRUST.chain("email:read"), case.method, params)}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": case.method, "params": params}).encode()


def batch(text: bytes, count: int) -> bytes:
    return b"[" + b",".join(text.replace(b'"id":1', b'"id":%d' % n, 1) for n in range(1, count + 1)) + b"]"


@contextmanager
def upstream(content_type: bytes, body: bytes) -> Generator[HttpUpstream]:
    """A server that answers whatever it is sent with this."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (
        content_type,
        len(body),
    )

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                if connection.recv(65_536):
                    connection.sendall(head + body)
                    connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield HttpUpstream(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp")
        listening.shutdown(socket.SHUT_RDWR)
    serving.join()


def gateway(server: HttpUpstream | StdioUpstream, *, guarded: bool) -> Gateway:
    most = MAX_RESPONSE_BYTES
    if guarded:
        settings = TRUST.settings(server, max_response_bytes=most)
    else:
        settings = GatewaySettings(server, max_response_bytes=most)
    return create_app(settings, store=MemoryStore(), revocations=RevocationLists((), {}))


async def over_asgi(app: Gateway, request: bytes, *more: tuple[bytes, bytes]) -> bytes:
    """What a call is answered; the longest step of the loop is that of the call."""
    told = Told("POST", [*headers(None), *more], request)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, MeasuredLoop)
    loop.longest = 0.0
    await asyncio.create_task(app(told.scope, told.receive, told.send))
    return told.body


async def over_a_connection(app: Gateway, request: bytes) -> bytes:
    """The same over the server's protocol, on the fast road."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, MeasuredLoop)
    config = server_config(app)
    config.load()
    state = ServerState()
    server = await loop.create_server(
        lambda: HttpConnection(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    head = b"".join(b"%b: %b\r\n" % field for field in headers(None))

    def client() -> bytes:
        with socket.create_connection(server.sockets[0].getsockname()) as connection:
            connection.sendall(
                b"POST /mcp HTTP/1.1\r\n%bConnection: close\r\nContent-Length: %d\r\n\r\n%b"
                % (head, len(request), request)
            )
            came = bytearray()
            while chunk := connection.recv(MIB):
                came += chunk
            return bytes(came)

    loop.longest = 0.0
    answer = await asyncio.to_thread(client)
    server.close()
    return answer


def run(main: Any) -> Any:
    with asyncio.Runner(loop_factory=MeasuredLoop) as runner:
        return runner.run(main())


def measured(app: Gateway, request: bytes, road: Any = over_asgi) -> tuple[float, bytes]:
    """The longest step while a call is answered, and the answer."""

    async def main() -> tuple[float, bytes]:
        loop = cast(MeasuredLoop, asyncio.get_running_loop())
        answer = await road(app, request)
        step = loop.longest
        await app.aclose()
        return step, answer

    return run(main)


def check(case: Case, answer: bytes) -> None:
    """The case is what it is for: what is refused is, and all else comes through."""
    assert (b"Invalid upstream JSON-RPC response" in answer) == case.refused
    assert b"ratify" not in answer
    if not case.refused and case.method == "tools/call":
        assert case.answer.split(b'"id":1')[1][:1_000] in answer.replace(b"\r", b" ")


@pytest.mark.parametrize(
    ("road", "name"),
    [
        pytest.param(
            road, name, marks=[pytest.mark.long] if road is over_a_connection and name not in OF_A_ROAD else []
        )
        for road in (over_asgi, over_a_connection)
        for name in (*CASES, *BODIES)
    ],
)
def test_no_answer_of_an_upstream_blocks_the_loop__everybody_else_waits_for_as_long(road: Any, name: str) -> None:
    case = {**CASES, **BODIES}[name]
    with upstream(b"application/json", case.answer) as server:
        step, answer = measured(gateway(server, guarded=case.guarded), asked(case), road)
    check(case, answer)
    assert step < FACTOR * PROMISED


@pytest.mark.parametrize(
    ("road", "name"),
    [
        pytest.param(road, name, marks=[] if name in everyday else [pytest.mark.long])
        for road, everyday in ((over_asgi, EVENTS), (over_a_connection, {"nested"}))
        for name in (*CASES, "lines")
    ],
)
def test_no_event_blocks_it(road: Any, name: str) -> None:
    case = CASES.get(name, CASES["nested"])
    event = EVENT_LINES if name == "lines" else b"data: " + case.answer + b"\n\n"
    with upstream(b"text/event-stream", event) as server:
        step, answer = measured(gateway(server, guarded=case.guarded), asked(case), road)
    if name != "lines":
        check(case, answer)
    assert step < FACTOR * PROMISED


@pytest.mark.holds("gateway/upstream/http/relay")
@pytest.mark.parametrize("events", FLOOD)
def test_no_flood_of_events_blocks_it__in_answer_to_a_call_of_the_gateways_own_neither(events: int) -> None:
    meta = "io.modelcontextprotocol/"
    said = {f"{meta}protocolVersion": "2026-07-28", f"{meta}clientCapabilities": {}}
    params = {"name": "pay", "arguments": {}, "_meta": said}
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    fields = [(b"mcp-method", b"tools/call"), (b"mcp-name", b"pay"), (b"mcp-param-a", b"b")]
    modern = [(name, b"2026-07-28" if name == b"mcp-protocol-version" else value) for name, value in headers(None)]
    with upstream(b"text/event-stream", b":\n\n" * events) as server:
        told = Told("POST", [*modern, *fields], request)
        app = gateway(server, guarded=False)

        async def main() -> float:
            loop = cast(MeasuredLoop, asyncio.get_running_loop())
            loop.longest = 0.0
            await asyncio.create_task(app(told.scope, told.receive, told.send))
            step = loop.longest
            await app.aclose()
            return step

        step = run(main)
    assert b"the stream ended without a response" in told.body[-500:]
    assert step < FACTOR * PROMISED


@pytest.mark.parametrize("kind", [b"application/json", b"text/event-stream"])
def test_no_batch_blocks_it(kind: bytes) -> None:
    case = CASES["nested"]
    each = result(b'"long":[' + much(b"1,", 4 * MIB) + b"0]")
    answers = batch(each, 3)
    with upstream(kind, answers if kind == b"application/json" else b"data: " + answers + b"\n\n") as server:
        step, answer = measured(gateway(server, guarded=False), batch(asked(case).replace(b'"id": 1', b'"id":1'), 3))
    assert answers in answer
    assert step < FACTOR * PROMISED


def test_a_batch_that_is_too_long_for_that_is_refused() -> None:
    answers = batch(deep(12 * MIB), 2)
    with upstream(b"application/json", answers) as server:
        requests = batch(asked(CASES["nested"]).replace(b'"id": 1', b'"id":1'), 2)
        step, answer = measured(gateway(server, guarded=False), requests)
    assert b"a batch of more than" in answer
    assert step < FACTOR * PROMISED


SERVER = """
import re, sys
from pathlib import Path
answer = Path(sys.argv[1]).read_bytes()
for line in sys.stdin.buffer:
    id = re.search(rb'"id": ?([^,}]+)', line)
    if b'"initialize"' in line:
        text = b'{"jsonrpc":"2.0","id":%b,"result":{"protocolVersion":"2025-11-25"}}' % id[1]
    elif id:
        text = answer.replace(b'"id":1', b'"id":' + id[1], 1)
    else:
        continue
    sys.stdout.buffer.write(text + b"\\n")
    sys.stdout.buffer.flush()
"""


def child(folder: Path, case: Case) -> StdioUpstream:
    """A process that answers every request with this."""
    (folder / "server.py").write_text(SERVER)
    (folder / "answer").write_bytes(case.answer)
    return StdioUpstream((sys.executable, str(folder / "server.py"), str(folder / "answer")))


INITIALIZE = b'{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25"}}'
ACCEPT = (b"accept", b"application/json, text/event-stream")


async def in_a_session(app: Gateway, request: bytes) -> bytes:
    """The same, in a session with a process of its own."""
    told = Told("POST", [*headers(None), ACCEPT], INITIALIZE)
    await asyncio.create_task(app(told.scope, told.receive, told.send))
    session = dict(told.headers)[b"mcp-session-id"]
    return await over_asgi(app, request, ACCEPT, (b"mcp-session-id", session))


@pytest.mark.parametrize("name", sorted({*CASES, *LINES} - {"a task in it"}))  # whose proof is of no session
def test_no_line_of_a_server_blocks_it(name: str, tmp_path: Path) -> None:
    case = {**CASES, **LINES}[name]
    step, answer = measured(gateway(child(tmp_path, case), guarded=case.guarded), asked(case), in_a_session)
    check(case, answer)
    assert step < FACTOR * PROMISED


class Host:
    """A host that sends one line, and reads until the answer has come."""

    def __init__(self, line: bytes) -> None:
        self._chunks = [line + b"\n"]
        self.told: list[bytes] = []
        self.answered = asyncio.Event()

    async def read(self) -> bytes:
        if not self._chunks:
            await self.answered.wait()
            return b""
        return self._chunks.pop(0)

    def send(self, line: bytes) -> None:
        self.told.append(line)
        self.answered.set()

    async def drained(self, limit: int = 0) -> None:
        pass


@pytest.mark.parametrize("name", [*CASES, *LINES])
def test_no_line_of_a_server_blocks_the_loop_of_wrap(name: str, tmp_path: Path) -> None:
    case = {**CASES, **LINES}[name]
    server = child(tmp_path, case)
    settings = TRUST.settings(server) if case.guarded else GatewaySettings(server)

    async def main() -> tuple[float, Sequence[bytes]]:
        loop = cast(MeasuredLoop, asyncio.get_running_loop())
        counters, host, guard = Counters(), Host(asked(case)), OrphanGuard()
        revocations = RevocationLists((), {})
        gate = Gate(settings, counters, ToolDirectory(), store=MemoryStore(), revocations=revocations, tasks=Tasks())
        process = await Child.start(server, guard, settings.max_event_bytes)
        wrap: Any = Wrap(settings, gate, process, cast(Any, host), counters)
        loop.longest = 0.0
        async with asyncio.timeout(60):
            await asyncio.gather(wrap._from_host(), wrap._backend.over)
        step = loop.longest
        await process.aclose()
        await guard.aclose()
        return step, host.told

    step, told = run(main)
    check(case, b"".join(told))
    assert step < FACTOR * PROMISED
