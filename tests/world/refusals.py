"""Whether a client's request gets through the gateway. I/O: sockets on 127.0.0.1."""

from typing import Any

from tests.world.calls import Posted, compact, http, response
from tests.world.hostile import World, sends
from tests.world.raw_client import RawAnswer

from accredit.jsonrpc.methods import Era

PARSE, INVALID, PARAMS, MISMATCH = -32700, -32600, -32602, -32020
"""Codes of JSON-RPC and of MCP (2026-07-28, basic/transports)."""


def told(code: int, message: str, id: int | str | None = None) -> bytes:
    """The body of a refusal."""
    return compact({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})


async def is_refused(posted: Posted, status: int, body: bytes, **settings: Any) -> None:
    """Fails unless the gateway answers so, to the byte, and the upstream never hears of it."""
    async with World(sends(http(response())), **settings) as world:
        answer = await world.ask(posted)
        assert (answer.status, answer.body) == (status, body)
        own = [("content-type", "application/json"), ("content-length", str(len(body)))]
        if settings.get("allowed_origins"):  # what is answered depends on who asks, and caches are told so
            own.append(("vary", "Origin"))
        assert sorted(answer.headers) == sorted(own)
        assert world.upstream.requests == []
        await world.recovered(Era.LEGACY)


async def passes(posted: Posted, **settings: Any) -> RawAnswer:
    """The answer to a request that must reach the upstream, once."""
    async with World(sends(http(response())), **settings) as world:
        answer = await world.ask(posted)
        assert len(world.upstream.requests) == 1
        return answer
