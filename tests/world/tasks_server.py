"""An honest server of tasks, in both shapes: 2025-11-25, and the extension of SEP-2663. As a program it speaks stdio
and writes each line that it reads to the file that it is given.

It counts its tasks 1, 2, 3, unless a call's argument `id` names one; `ttl` is their ttl in milliseconds (null: none),
`state` the `requestState` that it gives with a task and whatever is said of one; it believes any that it is given.
`asks` are the `inputRequests` that a task waits for. As a program with --tells it tells of a task, with a state
of its own, before it answers a request about it.
"""

import json
import sys
from typing import Any

from tests.world.calls import compact
from tests.world.honest_server import AnsweringServer, result_of
from tests.world.raw_server import Connection, RawRequest

EXTENSION = "io.modelcontextprotocol/tasks"
RELATED = "io.modelcontextprotocol/related-task"
EXTENDED = {"extensions": {EXTENSION: {}}}
_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
_TIMES = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"}


class Tasks:
    """The tasks of one server."""

    def __init__(self) -> None:
        self.made: dict[str, dict[str, Any]] = {}

    def answer(self, message: Any) -> Any:
        """The response to a message or a batch; None for what is owed none."""
        if isinstance(message, list):
            return [answer for member in message if (answer := self.answer(member)) is not None] or None
        if "id" not in message or "method" not in message:
            return None
        head = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            return {**head, "result": self._result(message["method"], message.get("params", {}))}
        except KeyError:
            return {**head, "error": {"code": -32602, "message": "Task not found"}}

    def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        modern = _CAPABILITIES in params.get("_meta", {})
        capabilities: dict[str, Any] = params.get("_meta", {}).get(_CAPABILITIES, {})
        extended = EXTENSION in capabilities.get("extensions", {})
        match method:
            case "tools/call" if "task" in params or extended or "announce" in params.get("arguments", {}):
                return self._create(params.get("arguments", {}), modern=modern)
            case "tasks/list":
                return {"tasks": [_shown(task) for task in self.made.values()]}
            case "tasks/result":
                task = self.made[params["taskId"]]
                related = {RELATED: {"taskId": task["taskId"]}}
                return {"content": [{"type": "text", "text": "done"}], "_meta": related}
            case "tasks/get" | "tasks/cancel" | "tasks/update":
                task = self.made[params["taskId"]]
                task["seen"] = [*task["seen"], params.get("requestState")]
                asks = {"inputRequests": task["asks"]} if method == "tasks/get" and "asks" in task else {}
                if method == "tasks/cancel":
                    task["status"] = "cancelled"
                return {**_shown(task), **asks, "resultType": "complete"} if modern else _shown(task)
            case _:
                return result_of(method, params)

    def _create(self, arguments: dict[str, Any], *, modern: bool) -> dict[str, Any]:
        id = arguments.get("id") or str(len(self.made) + 1)
        task: dict[str, Any] = {"taskId": id, "status": "working", **_TIMES, "seen": []}
        task["ttlMs" if modern else "ttl"] = arguments.get("ttl", 60_000)
        if "state" in arguments:
            task["requestState"] = arguments["state"]
        if "asks" in arguments:
            task["asks"] = arguments["asks"]
        self.made.setdefault(id, task)
        return {**_shown(task), "resultType": "task"} if modern else {"task": _shown(task)}


def _shown(task: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in task.items() if name not in ("seen", "asks")}


class TasksServer(AnsweringServer):
    """`tells` are sent before the answer on a stream."""

    def __init__(self, *, sse: bool = False) -> None:
        super().__init__(sse=sse)
        self.tasks = Tasks()
        self.tells: list[dict[str, Any]] = []

    async def said(self, message: Any, request: RawRequest, connection: Connection) -> list[bytes]:
        """What it tells, and what its tasks answer."""
        answer = self.tasks.answer(message)
        return [] if answer is None else [compact(each) for each in (*self.tells, answer)]


def main() -> None:
    """Serves stdin and stdout."""
    tasks = Tasks()
    with open(sys.argv[1], "a", encoding="utf-8") as received:
        for line in sys.stdin:
            print(line.strip(), file=received, flush=True)
            message = json.loads(line)
            if "--tells" in sys.argv and "taskId" in message.get("params", {}):
                told = {"taskId": message["params"]["taskId"], "status": "working", "requestState": "raw"}
                print(compact({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": told}).decode())
            answer = tasks.answer(message)
            if answer is not None:
                print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
