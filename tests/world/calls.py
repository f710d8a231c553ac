"""Sound messages of both eras, as a client sends them and a server answers them. No I/O."""

import json
from typing import Any

from msgspec import Struct

from accredit.jsonrpc.methods import Era

ERAS = (Era.LEGACY, Era.MODERN)
SESSION = "0123456789abcdef"
REVISION = {Era.LEGACY: "2025-11-25", Era.MODERN: "2026-07-28"}
_ACCEPT = ("Accept", "application/json, text/event-stream")
_TARGETS = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"),
}


class Posted(Struct, frozen=True):
    """A client's POST."""

    headers: list[tuple[str, str]]
    body: bytes

    def and_header(self, name: str, value: str) -> "Posted":
        """The same with one more header."""
        return Posted([*self.headers, (name, value)], self.body)

    def without_header(self, name: str) -> "Posted":
        """The same without a header."""
        return Posted([pair for pair in self.headers if pair[0].lower() != name.lower()], self.body)


def compact(value: object) -> bytes:
    """JSON as most servers write it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def meta(**capabilities: object) -> dict[str, Any]:
    """What every modern request carries."""
    return {
        "io.modelcontextprotocol/protocolVersion": REVISION[Era.MODERN],
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }


def post(
    era: Era,
    method: str = "tools/call",
    params: dict[str, Any] | None = None,
    *,
    id: int | str = 7,
    capabilities: dict[str, Any] | None = None,
) -> Posted:
    """A request of `era`, with the headers that go with it."""
    sent: dict[str, Any] = dict(params or {})
    if params is None and method == "tools/call":
        sent = {"name": "echo", "arguments": {}}
    headers: list[tuple[str, str]] = [_ACCEPT, ("Content-Type", "application/json")]
    if era is Era.MODERN:
        sent["_meta"] = meta(**(capabilities or {})) | sent.get("_meta", {})
        headers += [("MCP-Protocol-Version", REVISION[era]), ("Mcp-Method", method)]
        if method in _TARGETS and _TARGETS[method] in sent:
            headers.append(("Mcp-Name", sent[_TARGETS[method]]))
    elif method != "initialize":
        headers += [("MCP-Protocol-Version", REVISION[era]), ("Mcp-Session-Id", SESSION)]
    return Posted(headers, compact({"jsonrpc": "2.0", "id": id, "method": method, "params": sent}))


def initialize(revision: str = REVISION[Era.LEGACY], *, id: int | str = 7) -> Posted:
    """The first request of a legacy session."""
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return post(Era.LEGACY, "initialize", params, id=id)


def notification(era: Era, method: str = "notifications/cancelled") -> Posted:
    """A message that is owed no answer."""
    asked = post(era, "ping")
    headers = [(name, method if name == "Mcp-Method" else value) for name, value in asked.headers]
    params = {"requestId": 99, "reason": "test"} if method == "notifications/cancelled" else {}
    return Posted(headers, compact({"jsonrpc": "2.0", "method": method, "params": params}))


def response(id: int | str = 7, text: str = "sound") -> bytes:
    """A sound answer in either era."""
    return compact({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})


def initialized(id: int | str = 7, revision: str = REVISION[Era.LEGACY]) -> bytes:
    """A sound answer to `initialize`."""
    info = {"name": "raw", "version": "1"}
    result = {"protocolVersion": revision, "capabilities": {}, "serverInfo": info}
    return compact({"jsonrpc": "2.0", "id": id, "result": result})


def error(id: int | str | None = 7, code: int = -32603, message: str = "no") -> bytes:
    """A sound error response."""
    return compact({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})


def log_message(text: str = "news") -> bytes:
    """A notification that a server may send on any stream."""
    params = {"level": "info", "data": text}
    return compact({"jsonrpc": "2.0", "method": "notifications/message", "params": params})


def event(data: bytes, *, id: str | None = None) -> bytes:
    """A server-sent event."""
    return (f"id: {id}\n".encode() if id is not None else b"") + b"event: message\ndata: " + data + b"\n\n"


def http(
    body: bytes,
    content_type: str | None = "application/json",
    *,
    status: str = "200 OK",
    headers: tuple[tuple[str, str], ...] = (),
    length: int | None = None,
) -> bytes:
    """A whole HTTP response; `length` is what `Content-Length` claims, if not the truth."""
    lines = [f"HTTP/1.1 {status}"]
    if content_type is not None:
        lines.append(f"Content-Type: {content_type}")
    lines += [f"{name}: {value}" for name, value in headers]
    lines += [f"Content-Length: {len(body) if length is None else length}", "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def stream(*events: bytes) -> bytes:
    """A whole event stream, each argument a chunk."""
    return STREAM_HEAD + b"".join(chunk(part) for part in events) + LAST_CHUNK
