"""What the fuzzer of the gate as a whole runs: a client's connection, and a server that reads what comes out of it.

Everything between is the product: the HTTP server's protocol, the endpoint, the gate with proofs required, the
writer of requests to the upstream. The server behind it is the freest reader that we can think of (`readings`). The
oracle: what any of its readings would run was recorded as allowed, and each request that it gets is one for `h11` too.

The first byte of an input says where the rest is cut in two. `@PROOF@` stands for a proof that is good for `ALLOWED`.
"""

import asyncio
import gzip
import hashlib
import itertools
import json
import logging
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, cast

import brotli
import h11
import rfc8785
from tests.world.asgi import MemoryAnswer
from tests.world.authorization import GATEWAY, Trust
from tests.world.decisions import Known
from tests.world.pipe import Pipe
from tests.world.recorded import MemoryRecords
from uvicorn.server import ServerState

from accredit.app.http11 import HttpConnection
from accredit.app.server import server_config
from accredit.attest import CallDecision
from accredit.base.clock import unix_seconds
from accredit.gateway import create_app
from accredit.gateway.headers import RawHeaders
from accredit.gateway.settings import HttpUpstream, RecordSettings
from accredit.gateway.upstream.http.client import Answer, Prepared, UpstreamClient
from accredit.stores import MemoryStore

TRUST = Trust()
CHAIN = TRUST.chain("email:read")
ALLOWED = {"name": "list_inbox", "arguments": {"folder": "in"}}
GUARDED = {"tools/call": "name", "resources/read": "uri", "prompts/get": "name"}
PROOF_SECONDS = 10
_STEPS = 400

Run = tuple[str, str, bytes]
"""Method, target, and the digest of the params without `_meta`."""


class Hole(AssertionError):
    """Something reached the server that was not allowed."""


class Records(MemoryRecords):
    """A log in memory that takes everything; `allowed` are the calls that may run."""

    def __init__(self) -> None:
        self.allowed: list[Run] = []

    async def begin(self, decided: CallDecision) -> None:
        if decided.decision.verdict == "allow":
            call = decided.call
            self.allowed.append((call.method, call.target or "", bytes.fromhex(decided.params.sha256)))


class FreeServer(UpstreamClient):
    """The server behind the gateway: what it is sent is read in every way, and held against what was allowed."""

    def __init__(self, url: str, records: Records) -> None:
        super().__init__(url, timeout=5)
        self._records = records
        self.requests = 0

    async def exchange(
        self, prepared: Prepared, body: bytes, headers: RawHeaders | None = None, *_: object, **__: object
    ) -> Answer:
        self.requests += 1
        written = self._head(prepared, len(body), headers) + body
        given, content = one_request(written)
        for run in {run for reading in readings(given, content) for run in runs(reading)}:
            if run not in self._records.allowed:
                raise Hole(f"{run[0]} {run[1]!r} runs, and nobody allowed it")
        return answer_to(content).as_answer()

    async def reachable(self) -> bool:
        return True


def one_request(written: bytes) -> tuple[dict[bytes, list[bytes]], bytes]:
    """Headers and body of what was written, as h11 reads it: exactly one request."""
    peer = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    peer.receive_data(written)
    request = peer.next_event()
    if not isinstance(request, h11.Request):
        raise Hole(f"no request: {request!r}")
    body = b""
    while isinstance(event := peer.next_event(), h11.Data):
        body += bytes(event.data)
    if not isinstance(event, h11.EndOfMessage) or peer.trailing_data[0]:
        raise Hole("more, or less, than one request")
    given: dict[bytes, list[bytes]] = {}
    for name, value in request.headers:
        given.setdefault(name.replace(b"_", b"-"), []).append(value)
    return given, body


def readings(headers: dict[bytes, list[bytes]], body: bytes) -> Iterator[object]:
    """Every value that some reader could see in a body: by its coding, its charset, and its parser."""
    for content in _decoded(headers.get(b"content-encoding", []), body):
        for text in _texts(headers.get(b"content-type", []), content):
            for members in (_last, _first, _folded):
                try:
                    yield json.loads(text, object_pairs_hook=members)
                except (ValueError, RecursionError):
                    continue


def _decoded(codings: list[bytes], body: bytes) -> Iterator[bytes]:
    yield body
    ways: dict[bytes, Callable[[bytes], bytes]] = {
        b"gzip": gzip.decompress,
        b"deflate": zlib.decompress,
        b"br": lambda body: brotli.Decompressor().process(body),
    }
    for coding in codings:
        for name, way in ways.items():
            if name in coding.lower():
                try:
                    yield way(body)
                except (OSError, EOFError, zlib.error, brotli.error):
                    continue


def _texts(types: list[bytes], content: bytes) -> Iterator[str]:
    named = [found.decode("ascii") for each in types for found in re.findall(rb"charset=\"?([\w-]+)", each.lower())]
    for charset in ("utf-8-sig", *named):
        try:
            yield content.decode(charset)
        except (LookupError, ValueError):
            continue


def _last(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(pairs)


def _first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


def _folded(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """As Go and .NET bind: names of the protocol in any case."""
    known = {"method", "params", "name", "uri", "arguments"}
    return {(name.casefold() if name.casefold() in known else name): value for name, value in pairs}


def runs(message: object) -> Iterator[Run]:
    """The guarded calls in a message, or in the members of a batch."""
    if isinstance(message, list):
        for member in cast("list[object]", message):
            yield from runs(member)
        return
    if not isinstance(message, dict):
        return
    call = cast("dict[str, Any]", message)
    method, params = call.get("method"), call.get("params")
    if not isinstance(method, str):
        return
    method = "".join(method.casefold().split())
    if method not in GUARDED:
        return
    covered: dict[str, Any] = dict(params) if isinstance(params, dict) else {}
    covered.pop("_meta", None)
    try:
        digest = hashlib.sha256(rfc8785.dumps(covered)).digest()
    except (ValueError, RecursionError):
        digest = b""  # what has no canonical form was never allowed
    yield method, str(covered.get(GUARDED[method])), digest


def answer_to(content: bytes) -> MemoryAnswer:
    """A good answer to what was sent, as far as it has an id."""
    try:
        message = json.loads(content)
        id = message["id"] if "method" in message else None
    except (ValueError, RecursionError, TypeError, KeyError):
        id = None
    if id is None:
        return MemoryAnswer(202, [])
    body = json.dumps({"jsonrpc": "2.0", "id": id, "result": {"content": [], "tools": [], "contents": []}}).encode()
    return MemoryAnswer(200, [(b"content-type", b"application/json")], body)


class _Raised(logging.Handler):
    """What the HTTP server would only log: an exception that nobody caught."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.found.append(record.exc_info[1])


class _Proofs:
    """One proof for many inputs: each is judged by a store that has not seen it."""

    def __init__(self) -> None:
        self._made_at = 0
        self._text = b""

    def text(self) -> bytes:
        if abs(unix_seconds() - self._made_at) > PROOF_SECONDS:
            self._made_at = unix_seconds()
            self._text = json.dumps(TRUST.proof(CHAIN, "tools/call", ALLOWED)).encode()
        return self._text


_proofs = _Proofs()


def with_proof(data: bytes) -> bytes:
    """An input with the proof that it asks for."""
    return data.replace(b"@PROOF@", _proofs.text())


_raised = _Raised()


def one_input(data: bytes) -> tuple[bytes, int, int]:
    """One run of the fuzzer: what the client was answered, how much reached the server, how much was allowed.

    Whatever raises here is a defect.
    """
    if len(data) < 2:
        return b"", 0, 0
    server_log = logging.getLogger("accredit.app")
    server_log.addHandler(_raised)
    try:
        told = asyncio.run(_connection(with_proof(data[1:]), data[0]))
    finally:
        server_log.removeHandler(_raised)
    if _raised.found:
        raise _raised.found.pop()
    return told


async def _connection(sent: bytes, cut: int) -> tuple[bytes, int, int]:
    records = Records()
    settings = TRUST.settings(HttpUpstream("http://127.0.0.1:9/mcp"), records=RecordSettings(GATEWAY))
    app = create_app(settings, store=MemoryStore(), revocations=Known(), records=records)
    server = FreeServer("http://127.0.0.1:9/mcp", records)
    cast(Any, app).routes.servers[0].backend.sender.client = server
    config = server_config(app)
    config.load()
    state = ServerState()
    wire, protocol = Pipe(), HttpConnection(config=config, server_state=state, app_state={})
    loop = asyncio.get_running_loop()
    loop.call_soon(protocol.connection_made, wire)
    for part in (sent[:cut], sent[cut:]):
        if part and not wire.is_closing():
            loop.call_soon(protocol.data_received, part)
            await _settled(state)
    loop.call_soon(protocol.connection_lost, None)
    await _settled(state)
    while state.tasks:
        await asyncio.sleep(0.001)
    await app.aclose()
    return bytes(wire.written), server.requests, len(records.allowed)


async def _settled(state: ServerState) -> None:
    """Waits while requests are being answered, as long as that needs no time."""
    await asyncio.sleep(0)
    for _ in itertools.takewhile(lambda _: state.tasks, range(_STEPS)):
        await asyncio.sleep(0)
    await asyncio.sleep(0)


def post(body: bytes, *headers: bytes, content_type: bytes = b"application/json") -> bytes:
    """A POST as the corpus has it."""
    lines = [
        b"POST /mcp HTTP/1.1",
        b"Host: 127.0.0.1:8484",
        b"Content-Type: " + content_type,
        b"Accept: application/json, text/event-stream",
        b"Content-Length: @LENGTH@",
        *headers,
    ]
    head = b"\r\n".join(lines).replace(b"@LENGTH@", b"%d" % len(with_proof(body)))
    return b"\xff" + head + b"\r\n\r\n" + body


def message(method: str, params: dict[str, Any], **members: Any) -> bytes:
    """A request."""
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params, **members}).encode()


def proven(params: dict[str, Any]) -> bytes:
    """A call of a tool with the proof."""
    text = message("tools/call", {**params, "_meta": {"ratify_proof": "@PROOF@"}})
    return text.replace(b'"@PROOF@"', b"@PROOF@")


PING = message("ping", {})
CALL = message("tools/call", {"name": "pay", "arguments": {"amount": 5}})


def corpus() -> dict[str, bytes]:
    """Where the fuzzer begins: good calls, and each way around the gate that was found once."""
    # In UTF-8 a ping with a strange member; in UTF-7, where `+ACI-` is a quote, a call.
    call = '","method":"tools/call","params":{"name":"pay","arguments":{"amount":5}},"y":"'.replace('"', "+ACI-")
    hidden = f'{{"jsonrpc":"2.0","id":1,"method":"ping","x":"{call}"}}'.encode()
    return {
        "allowed": post(proven(ALLOWED)),
        "ping": post(PING),
        "list": post(message("tools/list", {})),
        "no-proof": post(CALL),
        "other-arguments": post(proven({"name": "list_inbox", "arguments": {"folder": "out"}})),
        "utf-7": post(hidden, content_type=b"application/json; charset=utf-7"),
        "utf-16": post(CALL.decode().encode("utf-16-le"), content_type=b"application/json;charset=utf-16le"),
        "brotli": post(brotli.compress(CALL), b"Content-Encoding: br"),
        "gzip": post(gzip.compress(CALL), b"content_encoding: gzip"),
        "duplicate": post(PING[:-1] + b',"method":"tools/call"}'),
        "spelling": post(PING[:-1] + b',"Method":"tools/call"}'),
        "batch": post(b"[" + CALL + b"," + PING + b"]", b"MCP-Protocol-Version: 2025-03-26"),
        "blanks": post(CALL.replace(b"tools/call", b"tools/call ")),
        "override": post(PING, b"X-HTTP-Method-Override: PUT", b"Cookie: a=b"),
        "chunked": b"\x40POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n%x;e=f\r\n%b\r\n0\r\nX: y\r\n\r\n" % (len(PING), PING),
        "two": post(PING) + post(CALL)[1:],
        "both-lengths": post(CALL, b"Transfer-Encoding: chunked"),
        "get": b"\x20GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: a\r\n\r\n",
        "sse": b"\x20POST /messages?sessionId=a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
        "ready": b"\x05HEAD /readyz HTTP/1.0\r\nHost: localhost\r\n\r\n",
    }
