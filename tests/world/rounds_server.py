"""A server of revision 2026-07-28 over HTTP whose answers are a script: an ASGI application for `RunningGateway`.

It keeps no state and checks nothing: what a client sends is there to be looked at.
"""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

VERSION = "2026-07-28"
FINAL: dict[str, Any] = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
FORM: dict[str, Any] = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
DEPLOY = [{"name": "deploy", "inputSchema": {"type": "object"}}]
NEVER = 3_600.0


def asks(*keys: str, **members: object) -> dict[str, Any]:
    """A result that asks for a form by each key."""
    params = {"mode": "form", "message": "Sure?", "requestedSchema": FORM}
    requests = {key: {"method": "elicitation/create", "params": params} for key in keys}
    return {"resultType": "input_required", **({"inputRequests": requests} if keys else {}), **members}


class RoundsServer:
    """Answers each `tools/call` with the next of `answers`, the last one for ever; each comes after its seconds.

    `tools` is what it lists, or anything else that it says in its place.
    """

    def __init__(
        self, answers: Sequence[dict[str, Any]], seconds: Sequence[float] = (), tools: object = DEPLOY
    ) -> None:
        self._tools = tools
        self._answers = answers
        self._seconds = seconds
        self.calls: list[dict[str, Any]] = []
        self.ids: list[object] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        request = json.loads(body)
        if request["method"] == "initialize":
            refusal = {"code": -32022, "message": "Unsupported", "data": {"supported": [VERSION]}}
            await self._reply(send, 400, {"jsonrpc": "2.0", "id": request["id"], "error": refusal})
            return
        answering = asyncio.ensure_future(self._result(request))
        leaving = asyncio.ensure_future(receive())  # nothing but the client's going comes now
        await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if not answering.done():
            answering.cancel()
            return
        await self._reply(send, 200, {"jsonrpc": "2.0", "id": request["id"], "result": answering.result()})

    @property
    def state_and_keys(self) -> list[tuple[str | None, list[str]]]:
        """What each call brought: its state, and the keys of its answers."""
        return [(call.get("requestState"), [*call.get("inputResponses", {})]) for call in self.calls]

    async def _result(self, request: dict[str, Any]) -> dict[str, Any]:
        match request["method"]:
            case "tools/call":
                number = len(self.calls)
                self.calls.append(request["params"])
                self.ids.append(request["id"])
                await asyncio.sleep(self._seconds[number] if number < len(self._seconds) else 0)
                return self._answers[min(number, len(self._answers) - 1)]
            case "server/discover":
                offered = {"supportedVersions": [VERSION], "capabilities": {"tools": {}}}
            case "tools/list":
                offered = {"tools": self._tools}
            case method:
                raise AssertionError(method)
        return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **offered}

    async def _reply(self, send: Any, status: int, reply: dict[str, Any]) -> None:
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(reply).encode()})

    async def _live(self, receive: Any, send: Any) -> None:
        for phase in ("startup", "shutdown"):
            assert (await receive())["type"] == f"lifespan.{phase}"
            await send({"type": f"lifespan.{phase}.complete"})
