"""Servers whose answers are large, and a client's process that calls them. I/O: sockets on 127.0.0.1, stdio.

The tool that is called is the name of a bomb. `python -m tests.world.bombed serve` is such a server on stdio.
`python -m tests.world.bombed call TARGET BOMB...` calls tools, one after the other, at a URL, or at that server for
`stdio`. For each it prints by how many MiB its memory rose meanwhile, the longest step of its loop in seconds of a
processor, and the name of what the call raised.
"""

import asyncio
import json
import sys
from typing import Any

import brotli
from mcp import StdioServerParameters
from tests.world.calls import compact, event, http
from tests.world.measured_loop import MeasuredLoop
from tests.world.memory import MemoryWatch
from tests.world.raw_server import PATIENCE, Connection

from accredit.client import AccreditedClient
from accredit.limits import MAX_ANSWER_BYTES, MAX_ANSWER_VALUES, MAX_TYPED_VALUES

MIB = 1 << 20
FULL = MAX_ANSWER_BYTES - 1_024


def _many(piece: bytes, count: int) -> bytes:
    return b"[" + (piece + b",") * (count - 1) + piece + b"]"


def _text(text: bytes) -> bytes:
    return b'[{"type":"text","text":"' + text + b'"}]'


def _also(value: bytes) -> bytes:
    return _text(b"") + b',"structuredContent":{"a":' + value + b"}"


BAD = {
    "arrays": lambda: _many(b"[]", 100 * MIB // 3),
    "full-of-arrays": lambda: _many(b"[]", FULL // 3),
    "full-of-zeros": lambda: _many(b"0", FULL // 2),
    "many-zeros": lambda: _many(b"0", MAX_TYPED_VALUES - 64),
    "more-zeros": lambda: _many(b"0", MAX_ANSWER_VALUES - 64),
    "many-objects": lambda: _many(b'{"type":"text"}', MAX_TYPED_VALUES // 2 - 64),
    "long-numbers": lambda: _also(_many(b"1" * 300, FULL // 301)),
    "longest-numbers": lambda: _also(_many(b"1" * 4_000, FULL // 4_001)),
    "deep": lambda: b"[" * FULL,
}
GOOD = {
    "rows": lambda: (
        _text(b"x" * (FULL // 2)) + b',"structuredContent":{"rows":' + _many(b"0", MAX_ANSWER_VALUES - 64) + b"}"
    ),
    "rare-character": lambda: _text("\U0001f600".encode() + b"a" * FULL),
    "escapes": lambda: _text(b"\\u4e00" * (FULL // 6)),
    "names": lambda: _also(b"{" + b",".join(b'"%0100d":{}' % n for n in range(MAX_ANSWER_VALUES // 2 - 64)) + b"}"),
}
BOMBS = {**GOOD, **BAD}
"""The value of an answer's `content`, each under a name, and what follows; what nobody could want, and what somebody
might."""


def answer(id: object, value: bytes) -> bytes:
    """A response."""
    return b'{"jsonrpc":"2.0","id":' + compact(id) + b',"result":{"content":' + value + b"}}"


def told(message: Any) -> bytes | None:
    """What such a server answers a message of a client with."""
    if "id" not in message:
        return None
    if message["method"] == "initialize":
        info = {"name": "bomb", "version": "1"}
        said = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        return compact({"jsonrpc": "2.0", "id": message["id"], "result": said})
    if message["method"] == "tools/call":
        return answer(message["id"], BOMBS[message["params"]["name"]]())
    error = {"code": -32601, "message": "Method not found"}
    return compact({"jsonrpc": "2.0", "id": message["id"], "error": error})


class Bomb:
    """What a `RawServer` does: a legacy server, whose answer to a call is the bomb, plain, on a stream, or packed."""

    def __init__(self, road: str = "json") -> None:
        self._road = road

    async def __call__(self, connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            message = json.loads(request.body) if request.method == "POST" else {}
            body = told(message) if message else None
            if body is None:
                await connection.send(http(b"", status="202 Accepted" if message else "405 No"))
            elif message["method"] != "tools/call" or self._road == "json":
                await connection.send(http(body))
            elif self._road == "sse":
                await connection.send(http(event(body), content_type="text/event-stream"))
            else:
                packed = brotli.compress(body, quality=5)
                await connection.send(http(packed, headers=(("Content-Encoding", "br"),)))


async def _call(target: str, bombs: list[str]) -> None:
    command = StdioServerParameters(command=sys.executable, args=["-m", "tests.world.bombed", "serve"])
    loop: Any = asyncio.get_running_loop()
    found: dict[str, tuple[float, float, str]] = {}
    for bomb in bombs:
        raised = ""
        with MemoryWatch() as watch:
            async with AccreditedClient(
                target if "://" in target else command, mode="legacy", timeout=PATIENCE
            ) as client:
                loop.longest = 0.0
                try:
                    await client.call_tool(bomb, timeout=PATIENCE)
                except Exception as error:
                    raised = type(error).__name__
                longest = loop.longest
        found[bomb] = (watch.peak_mib, longest, raised)
    print(json.dumps(found))


def main(what: str, *arguments: str) -> None:
    if what == "call":
        with asyncio.Runner(loop_factory=MeasuredLoop) as runner:
            runner.run(_call(arguments[0], list(arguments[1:])))
        return
    for line in sys.stdin.buffer:
        said = told(json.loads(line))
        if said is not None:
            sys.stdout.buffer.write(said + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
