"""An MCP server whose tools are called what they do: `ok`, `fail`, `error`, `ask`, `bad`, `hang`, `die`; both eras.

When a tool is called it looks into the log, and notes what is there of calls that have no outcome yet. As a program,
`python -m tests.world.outcome_server LOG NOTES`, it speaks stdio. A call with an argument `gives` is answered as
`honest_server` does. I/O: these two files, stdin and stdout.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tests.world.calls import STREAM_HEAD, chunk, compact, event, http, log_message
from tests.world.honest_server import SESSION, answer_to
from tests.world.raw_server import Connection
from tests.world.recorded import open_targets

ROOT = {"method": "roots/list"}


def note(log: Path, notes: Path, message: dict[str, Any]) -> None:
    """Writes down which tool was called, and which calls the log holds as open."""
    if message.get("method") == "tools/call":
        with notes.open("a", encoding="utf-8") as file:
            print(json.dumps({"tool": message["params"]["name"], "open": open_targets(log)}), file=file)


def noted(notes: Path) -> list[dict[str, Any]]:
    """What was written down."""
    return [json.loads(line) for line in notes.read_text("utf-8").splitlines()] if notes.exists() else []


def reply_to(message: Any) -> bytes | None:
    """The answer's text: None for none."""
    if isinstance(message, list):
        texts = [text for member in message if (text := reply_to(member)) is not None]
        return b"[" + b",".join(texts) + b"]" if texts else None
    if message.get("method") != "tools/call" or "gives" in message["params"].get("arguments", {}):
        answer = answer_to(message)
        return None if answer is None else compact(answer)
    found: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
    text = [{"type": "text", "text": json.dumps(message["params"].get("arguments"))}]
    match message["params"]["name"].split("-")[0]:
        case "hang":
            return None
        case "error":
            return compact({**found, "error": {"code": -32050, "message": text[0]["text"]}})
        case "fail":
            return compact({**found, "result": {"content": text, "isError": True}})
        case "ask":
            return compact({**found, "result": {"resultType": "input_required", "inputRequests": {"r": ROOT}}})
        case "bad":
            return compact({**found, "result": {}, "error": {"code": 1, "message": "both"}})
        case _:
            return compact({**found, "result": {"content": text}})


class OutcomeServer:
    """The handler of a `RawServer`; `sse` answers requests with streams, a log message first."""

    def __init__(self, log: Path, notes: Path, *, sse: bool = False) -> None:
        self._log, self._notes, self._sse = log, notes, sse

    async def __call__(self, connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            if not request.body:
                await connection.send(http(b"", None, status="405 Method Not Allowed"))
                continue
            message = json.loads(request.body)
            for each in message if isinstance(message, list) else [message]:
                note(self._log, self._notes, each)
            tool = message.get("params", {}).get("name") if isinstance(message, dict) else None
            if tool == "die":
                return
            text = reply_to(message)
            begins = isinstance(message, dict) and message.get("method") == "initialize"
            if tool == "hang":
                await connection.peer_closed()
            elif text is None:
                await connection.send(http(b"", None, status="202 Accepted"))
            elif self._sse and not begins:
                await connection.send(STREAM_HEAD, chunk(event(log_message())), chunk(event(text)), chunk(b""))
            else:
                await connection.send(http(text, headers=(("Mcp-Session-Id", SESSION),) if begins else ()))


def main() -> None:
    """Serves stdin and stdout."""
    log, notes = Path(sys.argv[1]), Path(sys.argv[2])
    for line in sys.stdin:
        message = json.loads(line)
        note(log, notes, message)
        if message.get("params", {}).get("name") == "die":
            sys.exit(3)
        text = reply_to(message)
        if text is not None:
            sys.stdout.buffer.write(text + b"\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
