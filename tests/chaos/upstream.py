"""The server behind the gateways, and its journal: what reached it, in order. I/O: sockets.

It answers each call with the nonce that the call brought and the agent on whose word it came, so that whoever gets an
answer can tell whose it is.
"""

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from tests.world.calls import compact, http

from accredit.attest.canonical import result_digest
from accredit.policy.passing import AUTHORIZATION

NONCE = "chaos/nonce"
GUARDED = ("tools/call", "resources/read")


class Forwarded(NamedTuple):
    """A guarded call that reached the server at `at`, in seconds of this process's clock."""

    at: float
    target: str
    nonce: str
    agent: str
    result: Mapping[str, str] = {}
    """The digest of what was answered, as it is recorded."""


class Upstream:
    """`async with Upstream(host, port) as upstream`; `journal` has every guarded call."""

    def __init__(self, host: str, port: int) -> None:
        self.journal: list[Forwarded] = []
        self.url = f"http://{host}:{port}/mcp"
        self._address = (host, port)
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, *self._address, limit=1 << 20)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while True:
                    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                    length = head.partition("\r\ncontent-length:")[2].partition("\r\n")[0]
                    body = await reader.readexactly(int(length or "0"))
                    writer.write(self._answer(json.loads(body)) if body else http(b"", status="405 No"))
                    await writer.drain()
        finally:
            self._tasks.discard(task)
            writer.close()

    def _answer(self, message: dict[str, Any]) -> bytes:
        method, params = message["method"], message.get("params", {})
        if method not in GUARDED:
            return http(compact({"jsonrpc": "2.0", "id": message["id"], "result": {"prompts": [], **_LISTED}}))
        meta: dict[str, Any] = params.get("_meta", {})
        arguments = params.get("arguments", {})
        target = params["uri"] if method == "resources/read" else arguments["subject"]
        agent = meta.get(AUTHORIZATION, {}).get("agent_id", "")
        at = asyncio.get_running_loop().time()
        text = json.dumps({"nonce": meta.get(NONCE), "target": target, "agent": agent})
        result: dict[str, Any] = {"resultType": "complete"}
        if method == "resources/read":
            result["contents"] = [{"uri": target, "text": text}]
            result |= _LISTED
        else:
            result["content"] = [{"type": "text", "text": text}]
        digest = result_digest(compact(result))
        self.journal.append(Forwarded(at, target, meta.get(NONCE, ""), agent, digest))
        return http(compact({"jsonrpc": "2.0", "id": message["id"], "result": result}))


_LISTED: dict[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""What a result of the newer revision has to say of itself."""
