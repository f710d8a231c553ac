"""An MCP server as plain as can be, both eras: tools that say that they were called. As a program it speaks stdio and
writes each line that it reads to the file that it is given, so that a test sees what has reached it.

It believes any `requestState`. A call or prompt with an argument `gives`, a list of states (null: none), is asked for
input once for each of them; which leg this is it is told by the answer to the one before, so that the states are free.
"""

import json
import sys
from typing import Any

from tests.world.calls import REVISION, STREAM_HEAD, chunk, compact, event, http
from tests.world.raw_server import Connection, RawRequest

from accredit.jsonrpc.methods import Era

SESSION = "5e551017"
SCHEMA = {"type": "object"}
TOOLS: list[dict[str, Any]] = [
    {"name": "list_inbox", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
    {"name": "send_email", "inputSchema": SCHEMA, "_meta": {"ratify_scope": "anything:goes", "color": "red"}},
    {"name": "pay", "inputSchema": SCHEMA},
    {"name": "secret_tool", "inputSchema": SCHEMA},
    {"name": "redeem", "inputSchema": {"type": "object", "properties": {"_token": {"type": "string"}}}},
]
OTHERS: dict[str, dict[str, Any]] = {
    "resources/list": {
        "resources": [{"uri": "mail://1", "name": "1"}, {"uri": "vault://x/../y", "name": "2"}],
        "cacheScope": "public",
    },
    "resources/templates/list": {
        "resourceTemplates": [
            {"uriTemplate": "mail://{id}", "name": "m"},
            {"uriTemplate": "vault://{key}", "name": "v"},
        ],
    },
    "prompts/list": {"prompts": [{"name": "greet", "_meta": {"ratify_scope": "anything:goes"}}]},
}


def result_of(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """What the server answers. `tools/list` comes in two pages."""
    match method:
        case "tools/call" | "prompts/get" if (asked := _asks(params)) is not None:
            return asked
        case "initialize":
            info = {"name": "honest", "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
        case "server/discover":
            info = {"name": "honest", "version": "1"}
            return {"supportedVersions": [REVISION[Era.MODERN]], "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list" if "cursor" not in params:
            return {"tools": TOOLS[:2], "nextCursor": "2", "ttlMs": 1000, "cacheScope": "public"}
        case "tools/list":
            return {"tools": TOOLS[2:], "ttlMs": 1000, "cacheScope": "public"}
        case "resources/list" | "resources/templates/list" | "prompts/list":
            return OTHERS[method]
        case "resources/read":
            return {"contents": [{"uri": params["uri"], "text": "read"}]}
        case "prompts/get":
            return {"messages": []}
        case _:
            return {"content": [{"type": "text", "text": f"called {params.get('name', method)}"}]}


def _asks(params: dict[str, Any]) -> dict[str, Any] | None:
    gives: list[Any] = params.get("arguments", {}).get("gives", [])
    leg: int = params.get("inputResponses", {}).get("leg", {}).get("content", {}).get("number", 0)
    if leg >= len(gives):
        return None
    form = {"mode": "form", "message": f"{leg + 1}?", "requestedSchema": {"type": "object", "properties": {}}}
    asked = {"resultType": "input_required", "inputRequests": {"leg": {"method": "elicitation/create", "params": form}}}
    return asked if gives[leg] is None else {**asked, "requestState": gives[leg]}


def answer_to(message: Any) -> Any:
    """The response to a message or a batch; None for what is owed none."""
    if isinstance(message, list):
        answers: list[Any] = [answer_to(member) for member in message]
        return [answer for answer in answers if answer is not None] or None
    if "id" not in message or "method" not in message:
        return None
    return {"jsonrpc": "2.0", "id": message["id"], "result": result_of(message["method"], message.get("params", {}))}


class AnsweringServer:
    """The handler of a `RawServer`; `sse` answers requests with streams. `messages` are those that came."""

    def __init__(self, *, sse: bool = False) -> None:
        self.sse = sse
        self.messages: list[Any] = []

    async def said(self, message: Any, request: RawRequest, connection: Connection) -> list[bytes] | None:
        """What a message or a batch is answered with: the response at last, and what goes before it on a stream; empty
        for what is owed none, None to close the connection."""
        raise NotImplementedError

    async def __call__(self, connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            if not request.body:
                await connection.send(http(b"", None, status="405 Method Not Allowed"))
                continue
            message = json.loads(request.body)
            self.messages.append(message)
            texts = await self.said(message, request, connection)
            if texts is None:
                return
            begins = isinstance(message, dict) and message.get("method") == "initialize"
            if not texts:
                await connection.send(http(b"", None, status="202 Accepted"))
            elif self.sse and not begins:
                await connection.send(STREAM_HEAD, *(chunk(event(text)) for text in texts), chunk(b""))
            else:
                await connection.send(http(texts[-1], headers=(("Mcp-Session-Id", SESSION),) if begins else ()))


class HonestServer(AnsweringServer):
    """Answers as it should."""

    async def said(self, message: Any, request: RawRequest, connection: Connection) -> list[bytes]:
        """One response, where one is owed."""
        answer = answer_to(message)
        return [] if answer is None else [compact(answer)]


def main() -> None:
    """Serves stdin and stdout."""
    with open(sys.argv[1], "a", encoding="utf-8") as received:
        for line in sys.stdin:
            print(line.strip(), file=received, flush=True)
            answer = answer_to(json.loads(line))
            if answer is not None:
                print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
