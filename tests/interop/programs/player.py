"""Plays the steps of a plan with one client, and prints what came of each: one JSON line per step.

Runs in the client's own environment, so that it knows no library. I/O: stdin (a line lets a step `restart` go on),
stdout. The plan is a file: `{"endpoint": {"url": ...} or {"command": [...]}, "steps": [...]}`.
"""

import asyncio
import contextlib
import importlib
import json
import sys
from pathlib import Path
from typing import Any

STEP_SECONDS = 60.0
START_SECONDS = 120.0
HEARD_SECONDS = 6.0
LATE_SECONDS = 0.1
CANCEL_AFTER_SECONDS = 1.0
RETRIES = 6
TRY_SECONDS = 10.0
RETRY_SECONDS = 0.5
RECOVER_SECONDS = RETRIES * STEP_SECONDS
SAID = "Paris"


class CannotDo(Exception):
    """The client has no way to take this step."""


class Heard:
    """What the server sent of its own accord since the step began, by kind."""

    def __init__(self) -> None:
        self._heard: dict[str, list[Any]] = {}
        self._more = asyncio.Event()

    def note(self, kind: str, what: Any) -> None:
        self._heard.setdefault(kind, []).append(what)
        self._more.set()

    def forget(self) -> None:
        self._heard = {}

    async def expected(self, counts: dict[str, int], patience: float) -> dict[str, list[Any]]:
        """Waits until so many of each kind have come, and a little for too many; gives those kinds."""
        if not counts:
            return {}
        try:
            async with asyncio.timeout(patience):
                while any(len(self._heard.get(kind, [])) < count for kind, count in counts.items()):
                    self._more.clear()
                    await self._more.wait()
            await asyncio.sleep(LATE_SECONDS)
        except TimeoutError:
            pass
        return {kind: self._heard.get(kind, []) for kind in counts}


def form_answer(schema: dict[str, Any]) -> dict[str, Any]:
    """A user's answers to a form: a fixed one for each type."""
    by_type: dict[str, Any] = {"boolean": True, "integer": 7, "number": 7.5, "array": []}
    answers: dict[str, Any] = {}
    for name, member in (schema.get("properties") or {}).items():
        options = member.get("enum") or [each["const"] for each in member.get("oneOf", []) if "const" in each]
        if name in schema.get("required", []):
            kind = member.get("type", "string")
            answers[name] = options[0] if options else by_type.get(kind, member.get("default", "Ada"))
    return answers


def plain(value: Any) -> Any:
    """JSON of whatever a client gives: models as they are on the wire, without what is absent."""
    if hasattr(value, "model_dump"):
        return plain(value.model_dump(mode="json", by_alias=True, exclude_none=True))
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def told(error: BaseException) -> dict[str, Any]:
    """An error as the client's user meets it. Of a group, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    details = getattr(error, "error", None)
    if details is not None and hasattr(details, "code"):
        return {"code": details.code, "message": details.message, "data": plain(getattr(details, "data", None))}
    return {"type": type(error).__name__, "message": str(error)}


class Player:
    """A client. A subclass has a method `do_X` for each step X that it can take; each gives what its user gets.

    `deaf_to`: the kinds of what a server sends of its own accord that this client tells nobody of. `try_seconds`: how
    long a try lasts of calling again after a restart.
    """

    deaf_to: frozenset[str] = frozenset()
    try_seconds = TRY_SECONDS

    def __init__(self, heard: Heard) -> None:
        self.heard = heard

    async def take(self, step: dict[str, Any]) -> Any:
        method = getattr(self, "do_" + step["do"], None)
        if method is None:
            raise CannotDo
        return await method(**step.get("with", {}))

    async def progressed(self, progress: float, total: float | None, message: str | None, *_: Any) -> None:
        self.heard.note("progress", plain({"progress": progress, "total": total, "message": message}))

    async def logged(self, params: Any, *_: Any) -> None:
        self.heard.note("log", plain({"level": params.level, "data": params.data, "logger": params.logger}))

    async def do_restart(self, what: str) -> Any:
        """The runner restarts something meanwhile."""
        print(json.dumps({"restart": what}), flush=True)
        answer = await asyncio.to_thread(sys.stdin.readline)
        if answer.strip() != "done":
            raise CannotDo
        return {}

    async def do_recover(self, tool: str, arguments: dict[str, Any]) -> Any:
        """Whether this same client, without being started anew, can call a tool again before long."""
        for _ in range(RETRIES):
            try:
                async with asyncio.timeout(self.try_seconds):
                    answer = plain(await self.take({"do": "call", "with": {"tool": tool, "arguments": arguments}}))
            except Exception:  # which one, is the client's affair
                answer = {"isError": True}
            if not (isinstance(answer, dict) and (answer.get("isError") or answer.get("status") == "error")):
                return {"recovered": True}
            await asyncio.sleep(RETRY_SECONDS)
        return {"recovered": False}

    async def do_cancel(self, tool: str, arguments: dict[str, Any]) -> Any:
        """A call that the user gives up."""
        call = asyncio.create_task(self.take({"do": "call", "with": {"tool": tool, "arguments": arguments}}))
        await asyncio.sleep(CANCEL_AFTER_SECONDS)
        call.cancel()
        done, _ = await asyncio.wait([call], timeout=STEP_SECONDS)
        return {"ended": bool(done), "cancelled": call.cancelled()}


def write(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


async def play(player: Player, steps: list[dict[str, Any]]) -> None:
    """Takes each step and prints what came of it."""
    for step in steps:
        player.heard.forget()
        line: dict[str, Any] = {"step": step["name"]}
        try:
            async with asyncio.timeout(RECOVER_SECONDS if step["do"] == "recover" else STEP_SECONDS):
                line["result"] = plain(await player.take(step))
                hears = {kind: count for kind, count in step["hears"].items() if kind not in player.deaf_to}
                line["heard"] = await player.heard.expected(hears, step["patience"] or HEARD_SECONDS)
        except CannotDo:
            line["cannot"] = True
        except Exception as error:
            line["error"] = told(error)
        write(line)


def read_plan() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The endpoint and the steps of the file that the command line names."""
    plan = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    return plan["endpoint"], plan["steps"]


def run(main: Any) -> None:
    """Runs a client's coroutine; what keeps it from starting, or breaks its connection, is the last line.

    The Python SDK 2.x takes a server that starts slowly, as on a busy machine, for an old one: here it is patient.
    """
    with contextlib.suppress(ImportError):
        setattr(importlib.import_module("mcp.client.session"), "DISCOVER_TIMEOUT_SECONDS", START_SECONDS)  # noqa: B010
    try:
        asyncio.run(main)
    except BaseException as error:
        write({"step": "end", "error": told(error)})
    else:
        write({"step": "end", "result": {}})
