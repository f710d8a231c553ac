"""An MCP server whose tools are called what they do: `ok`, `fail`, `error`, `ask`, `bad`, `hang`, `die`; both eras.

When a tool is called it looks into the log, and notes what is there of calls that have no outcome yet. As a program,
`python -m tests.world.outcome_server LOG NOTES`, it speaks stdio. A call with an argument `gives` is answered as
`honest_server` does. I/O: these two files, stdin and stdout.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tests.world.calls import compact, log_message
from tests.world.honest_server import AnsweringServer, answer_to
from tests.world.raw_server import Connection, RawRequest
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


class OutcomeServer(AnsweringServer):
    """Writes down what the log says of each call; `sse` answers requests with streams, a log message first."""

    def __init__(self, log: Path, notes: Path, *, sse: bool = False) -> None:
        super().__init__(sse=sse)
        self._log, self._notes = log, notes

    async def said(self, message: Any, request: RawRequest, connection: Connection) -> list[bytes] | None:
        """By the name of the tool: `die` closes the connection, `hang` waits until it is closed."""
        for each in message if isinstance(message, list) else [message]:
            note(self._log, self._notes, each)
        tool = message.get("params", {}).get("name") if isinstance(message, dict) else None
        if tool == "hang":
            await connection.peer_closed()
        if tool in ("die", "hang"):
            return None
        text = reply_to(message)
        return [] if text is None else [log_message(), text]


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
