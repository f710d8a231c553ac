"""Servers that do whatever harm a server can do by what it answers, and honest ones beside them, each in its own way.

`python -m tests.world.siege KIND...` serves one for each word, on a port of its own, and prints a line of JSON
with their URLs. `honest-NAME` answers each call with its name and what the call said; the other kinds are the names of
`KINDS`.
I/O: sockets on 127.0.0.1.
"""

import asyncio
import contextlib
import gzip
import itertools
import json
import socket
import sys
from collections.abc import Awaitable, Callable
from functools import lru_cache

import uvloop
from tests.world.calls import STREAM_HEAD, chunk, compact, event, http, log_message, stream
from tests.world.raw_server import Connection, RawServer

HONEST = "honest-"
MEBIBYTE = 1 << 20
_count = itertools.count()
CHANGED = compact({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
TOOL = compact({"name": "echo", "inputSchema": {"type": "object"}})
"""The one that honest servers list."""
CROSSED = {"content": [{"type": "text", "text": "crossed"}]}


def crossed(id: object) -> bytes:
    """An answer that nobody here has asked for, under an id that somebody else may use."""
    return compact({"jsonrpc": "2.0", "id": id, "result": CROSSED})


async def hangs(connection: Connection, _id: object) -> None:
    """Reads, and says nothing."""
    await connection.peer_closed()


async def floods(connection: Connection, _id: object) -> None:
    """Never ends: small events, and comments, as fast as they are read."""
    await connection.send(STREAM_HEAD)
    news = chunk((event(log_message()) + b":\n\n" + event(CHANGED)) * 200)
    while True:
        await connection.send(news)


async def crashes(connection: Connection, id: object) -> None:
    """Ends before the answer, in its head, in its body, or in the middle of an event, with a reset or without."""
    whole = http(crossed(id)), STREAM_HEAD + chunk(event(crossed(id)))
    number = next(_count)
    text = whole[number % 2]
    await connection.send(text[: (0, 20, len(text) - 10)[number % 3]])
    if number % 5:
        connection.reset()


async def lies(connection: Connection, id: object) -> None:
    """Answers that are none: under other ids, of no protocol, or two at once."""
    told = [
        http(crossed("another")),
        http(crossed(str(id) if isinstance(id, int) else 1)),
        http(b'{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":"x"}}'),
        http(crossed(id)[:-1]),
        http(crossed(id)) + http(crossed(8)) + http(crossed(9)),
        stream(*(event(crossed(number)) for number in range(50))),
        http(b"[" * 100_000),
        http(crossed(id), "text/html"),
        http(crossed(id), length=10),
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    ]
    await connection.send(told[next(_count) % len(told)])


async def drips(connection: Connection, id: object) -> None:
    """A byte now and then, of the head or of the body."""
    for byte in http(crossed(id)) if next(_count) % 2 else STREAM_HEAD + chunk(b":" * 500):
        await connection.send(bytes([byte]))
        await asyncio.sleep(0.02)


async def asks(connection: Connection, _id: object) -> None:
    """Thousands of requests of its own in answer to one."""
    await connection.send(STREAM_HEAD)
    for number in itertools.count():
        asked = {"jsonrpc": "2.0", "id": number % 5_000, "method": "sampling/createMessage", "params": {"messages": []}}
        await connection.send(chunk(event(compact(asked))))


async def huge(connection: Connection, id: object) -> None:
    """Lists of tools that no client can use, plain or compressed to nothing."""
    plain, packed = _lists(json.dumps(id))
    await connection.send(plain if next(_count) % 2 else packed)


@lru_cache(8)
def _lists(id: str) -> tuple[bytes, bytes]:
    """The same for each request with this id: they take a second to make."""
    tools = [{"name": f"tool-{number}-{'x' * 900}", "inputSchema": {"type": "object"}} for number in range(4_000)]
    body = compact({"jsonrpc": "2.0", "id": json.loads(id), "result": {"tools": tools}})
    packed = gzip.compress(body + b" " * 64 * MEBIBYTE, 1)
    return http(body), http(packed, headers=(("Content-Encoding", "gzip"),))


async def crosses(connection: Connection, id: object) -> None:
    """What could make another server's client take this for its answer: headers, sessions, answers ahead of time."""
    headers = (("Mcp-Session-Id", "of-another"), ("Set-Cookie", "a=b"), ("Location", "/mcp/honest-0"))
    await connection.send(http(crossed(id), headers=headers))
    await connection.send(b"".join(http(crossed(number)) for number in range(20)))


Kind = Callable[[Connection, object], Awaitable[None]]
KINDS: dict[str, Kind] = {each.__name__: each for each in (hangs, floods, crashes, lies, drips, asks, huge, crosses)}
REFUSES = "refuses"


def handler(kind: Kind) -> Callable[[Connection], Awaitable[None]]:
    """What serves each request of a connection."""

    async def serve(connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            message = json.loads(request.body) if request.body else {}
            await kind(connection, message.get("id") if isinstance(message, dict) else None)

    return serve


def honest(name: str) -> Callable[[Connection], Awaitable[None]]:
    """A server that answers each call with its name and what the call said."""

    async def serve(connection: Connection) -> None:
        while (request := await connection.request()) is not None:
            if not request.body:
                await connection.send(http(b"", None, status="405 Method Not Allowed"))
                continue
            message = json.loads(request.body)
            text = json.dumps({"server": name, **message.get("params", {}).get("arguments", {})})
            result = {"content": [{"type": "text", "text": text}]}
            if message["method"] == "tools/list":
                result = {"tools": [json.loads(TOOL)]}
            await connection.send(http(compact({"jsonrpc": "2.0", "id": message["id"], "result": result})))

    return serve


def _refusing(keep: contextlib.ExitStack) -> str:
    """A port at which nobody listens."""
    bound = keep.enter_context(socket.socket())
    bound.bind(("127.0.0.1", 0))
    return f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"


async def main(words: list[str]) -> None:
    """Serve until stdin ends."""
    async with contextlib.AsyncExitStack() as stack:
        urls: list[str] = []
        with contextlib.ExitStack() as bound:
            for word in words:
                if word == REFUSES:
                    urls.append(_refusing(bound))
                    continue
                serve = honest(word) if word.startswith(HONEST) else handler(KINDS[word])
                urls.append((await stack.enter_async_context(RawServer(serve))).url)
            print(json.dumps(urls), flush=True)
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1:]))
