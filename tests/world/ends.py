"""A server whose tools' names say how a call ends: `good`, `fails` (a tool's error), `refuses` (an error), `lies` (no
valid answer). They say what they were given. It speaks JSON, streams, HTTP+SSE of 2024-11-05 and, as a program, stdio.
"""

import json
import sys
from typing import Any

from tests.world.calls import REVISION, STREAM_HEAD, chunk, compact, event, http, initialized
from tests.world.raw_server import Connection

from accredit.jsonrpc.methods import Era

SESSION = "5e551017"
ENDS = {"good": "", "fails": "tool_error", "refuses": "-32602", "lies": "upstream_invalid"}
"""What each tool's end is called in labels."""


def answer_to(message: Any) -> bytes | None:
    """The answer to a message, or a batch of calls; None for what is owed none."""
    if isinstance(message, list):
        return b"[" + b",".join(answer_to(each) or b"" for each in message) + b"]"
    if "id" not in message or "method" not in message:
        return None
    id, params = message["id"], message.get("params", {})
    if message["method"] == "initialize":
        return initialized(id, params["protocolVersion"])
    result: dict[str, Any]
    if message["method"] == "server/discover":
        info = {"name": "ends", "version": "1"}
        result = {"supportedVersions": [REVISION[Era.MODERN]], "capabilities": {"tools": {}}, "serverInfo": info}
        return compact({"jsonrpc": "2.0", "id": id, "result": result})
    told = json.dumps(params.get("arguments"))
    result = {"content": [{"type": "text", "text": f'"isError":true {told}'}], "isError": False}
    if message["method"].endswith("/list"):
        result = {message["method"].split("/")[-2]: []}
    match params.get("name"):  # pyright: ignore[reportMatchNotExhaustive]
        case "fails":
            result["isError"] = True
        case "refuses":
            return compact({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": told}})
        case "lies":
            return compact({"jsonrpc": "2.0", "id": id, "result": {}, "error": {"code": 1, "message": "no"}})
    return compact({"jsonrpc": "2.0", "id": id, "result": result})


class Ends:
    """The handler of a `RawServer`; `sse` answers requests with streams. `messages` are those that came."""

    def __init__(self, *, sse: bool = False) -> None:
        self.sse = sse
        self.messages: list[Any] = []
        self._standing: Connection | None = None

    async def __call__(self, connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            if request.method == "GET" and request.target == "/sse":
                await connection.send(STREAM_HEAD, chunk(b"event: endpoint\ndata: /messages?sid=1\n\n"))
                self._standing = connection
                await connection.peer_closed()
                return
            if not request.body:
                await connection.send(http(b"", None, status="405 Method Not Allowed"))
                continue
            message = json.loads(request.body)
            self.messages.append(message)
            answer = answer_to(message)
            headers = (("Mcp-Session-Id", SESSION),) if _begins(message) else ()
            if request.target.startswith("/messages") or answer is None:
                await connection.send(http(b"", None, status="202 Accepted"))
                if answer is not None and self._standing is not None:
                    await self._standing.send(chunk(event(answer)))
            elif self.sse and not headers:
                await connection.send(STREAM_HEAD, chunk(event(answer)), chunk(b""))
            else:
                await connection.send(http(answer, headers=headers))


def _begins(message: Any) -> bool:
    return isinstance(message, dict) and message.get("method") == "initialize"


def main() -> None:
    """Serves stdin and stdout, and writes what it reads to the file that it is given."""
    with open(sys.argv[1], "a", encoding="utf-8") as received:
        for line in sys.stdin:
            print(line.strip(), file=received, flush=True)
            answer = answer_to(json.loads(line))
            if answer is not None:
                print(answer.decode(), flush=True)


if __name__ == "__main__":
    main()
