"""Servers whose answer to a call is large, and a client's process that calls one. I/O: sockets on 127.0.0.1, stdio.

`python -m tests.world.bombed serve BOMB` is such a server on stdio. `python -m tests.world.bombed call TARGET` calls a
tool at a URL, or at the stdio server with this bomb, and prints by how many MiB its memory rose meanwhile, and the name
of what the call raised.
"""

import asyncio
import json
import sys
from typing import Any

import brotli
from mcp import StdioServerParameters
from tests.world.calls import compact, event, http
from tests.world.memory import MemoryWatch
from tests.world.raw_server import PATIENCE, Connection

from accredit.client import AccreditedClient
from accredit.limits import MAX_ANSWER_BYTES, MAX_ANSWER_VALUES

MIB = 1 << 20
FULL = MAX_ANSWER_BYTES - 1_024


def _many(piece: bytes, size: int) -> bytes:
    return b"[" + (piece + b",") * (size // (len(piece) + 1)) + piece + b"]"


BOMBS = {
    "arrays": lambda: _many(b"[]", 100 * MIB),
    "zeros": lambda: _many(b"0", 100 * MIB),
    "full-of-arrays": lambda: _many(b"[]", FULL),
    "full-of-zeros": lambda: _many(b"0", FULL),
    "many-zeros": lambda: _many(b"0", 2 * (MAX_ANSWER_VALUES - 64)),
    "rare-character": lambda: '"\U0001f600'.encode() + b"a" * FULL + b'"',
    "deep": lambda: b"[" * FULL,
}
"""The value of an answer's `content`, each under a name. Those that are longer than a message may be have 100 MiB."""


def answer(id: object, value: bytes) -> bytes:
    """A response."""
    return b'{"jsonrpc":"2.0","id":' + compact(id) + b',"result":{"content":' + value + b"}}"


def told(message: Any, bomb: bytes) -> bytes | None:
    """What such a server answers a message of a client with."""
    if "id" not in message:
        return None
    if message["method"] == "initialize":
        info = {"name": "bomb", "version": "1"}
        said = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        return compact({"jsonrpc": "2.0", "id": message["id"], "result": said})
    if message["method"] == "tools/call":
        return answer(message["id"], bomb)
    error = {"code": -32601, "message": "Method not found"}
    return compact({"jsonrpc": "2.0", "id": message["id"], "error": error})


class Bomb:
    """What a `RawServer` does: a legacy server, whose answer to a call is the bomb, plain, on a stream, or packed."""

    def __init__(self, bomb: bytes, road: str = "json") -> None:
        self._bomb = bomb
        self._road = road

    async def __call__(self, connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            message = json.loads(request.body) if request.method == "POST" else {}
            body = told(message, self._bomb)
            if body is None:
                await connection.send(http(b"", status="202 Accepted" if message else "405 No"))
            elif message["method"] != "tools/call" or self._road == "json":
                await connection.send(http(body))
            elif self._road == "sse":
                await connection.send(http(event(body), content_type="text/event-stream"))
            else:
                packed = brotli.compress(body, quality=5)
                await connection.send(http(packed, headers=(("Content-Encoding", "br"),)))


async def _call(target: str) -> None:
    command = StdioServerParameters(command=sys.executable, args=["-m", "tests.world.bombed", "serve", target])
    async with AccreditedClient(target if "://" in target else command, mode="legacy", timeout=PATIENCE) as client:
        raised = ""
        with MemoryWatch() as watch:
            try:
                await client.call_tool("t", timeout=PATIENCE)
            except Exception as error:
                raised = type(error).__name__
        print(json.dumps([watch.peak_mib, raised]))


def main(what: str, argument: str) -> None:
    if what == "call":
        asyncio.run(_call(argument))
        return
    bomb = BOMBS[argument]()
    for line in sys.stdin.buffer:
        said = told(json.loads(line), bomb)
        if said is not None:
            sys.stdout.buffer.write(said + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
