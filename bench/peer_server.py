"""`python -m bench.peer_server [stdio]`: the server behind the proxies of `bench.peers`, over HTTP or stdio.

It does what a client may ask of it and no more: `initialize`, `ping`, `tools/list`, and one tool, whose answer to call
number 7 has 200 bytes.
"""

import asyncio
import sys
import uuid
from typing import Any, cast

import httptools
import msgspec
import uvloop

from bench.payloads import compact, text_answer

TOOL = "invoices"
RESULT: dict[str, Any] = msgspec.json.decode(text_answer(200))["result"]
_SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}}}
_TOOLS = {"tools": [{"name": TOOL, "description": "Lists invoices.", "inputSchema": _SCHEMA}]}


def answer_to(message: dict[str, Any]) -> bytes | None:
    """The response to a request; nothing to a notification."""
    if "id" not in message:
        return None
    params: dict[str, Any] = message.get("params", {})
    reply: dict[str, object] = {"jsonrpc": "2.0", "id": message["id"]}
    match message["method"]:
        case "initialize":
            reply["result"] = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "bench", "version": "1"},
            }
        case "ping":
            reply["result"] = {}
        case "tools/list":
            reply["result"] = _TOOLS
        case "tools/call" if params["name"] == TOOL:
            reply["result"] = RESULT
        case "tools/call":
            reply["error"] = {"code": -32602, "message": "no such tool"}
        case _:
            reply["error"] = {"code": -32601, "message": "no such method"}
    return compact(reply)


class Server(asyncio.Protocol):
    """One connection over HTTP, which is kept alive. Every `initialize` gets a session."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own class is not a subclass
        self._parser = httptools.HttpRequestParser(self)
        self._body = b""

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        body, self._body = self._body, b""
        if self._parser.get_method() != b"POST":
            self._transport.write(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")
            return
        message = msgspec.json.decode(body)
        answer = answer_to(message)
        if answer is None:
            self._transport.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
            return
        session = b"Mcp-Session-Id: %s\r\n" % uuid.uuid4().hex.encode() if message["method"] == "initialize" else b""
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n"
        self._transport.write(head % (session, len(answer)) + answer)


async def serve() -> None:
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", flush=True)
    await server.serve_forever()


def speak() -> None:
    for line in sys.stdin.buffer:
        answer = answer_to(msgspec.json.decode(line))
        if answer is not None:
            sys.stdout.buffer.write(answer + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    if sys.argv[1:] == ["stdio"]:
        speak()
    else:
        uvloop.run(serve())
