"""Servers that answer with as much as an answer may be, made of a few bytes on the wire.

`python -m tests.world.greedy COUNT` serves so many of them on ports of their own, and prints a line of JSON with their
URLs. I/O: sockets on 127.0.0.1.
"""

import asyncio
import contextlib
import itertools
import json
import sys
from collections.abc import Awaitable, Callable
from functools import cached_property

import brotli
import uvloop
from tests.world.calls import http
from tests.world.raw_server import Connection, RawRequest, RawServer
from tests.world.siege import TOOL

MIB = 1 << 20
_BEGIN = b'{"jsonrpc":"2.0","id":@,"result":{'
_count = itertools.count()


class Greedy:
    """An answer, with `@` in the place of the request's id."""

    def __init__(self, body: bytes, status: str = "200 OK", type: str = "application/json") -> None:
        self.body, self.status, self.type = body, status, type

    @cached_property
    def packed(self) -> bytes:
        """The same for the request with the id 7, compressed to nothing."""
        return brotli.compress(self.body.replace(b"@", b"7", 1), quality=5)


def many(piece: bytes, size: int) -> bytes:
    """So many bytes of an array's elements."""
    return piece + (b"," + piece) * (size // (len(piece) + 1) - 1)


def _listed(name: bytes, items: bytes) -> Greedy:
    return Greedy(_BEGIN + b'"%b":[%b],"ttlMs":0,"cacheScope":"private","resultType":"complete"}}' % (name, items))


def _event(answer: Greedy) -> Greedy:
    return Greedy(b"data: " + answer.body + b"\n\n", type="text/event-stream")


def _lists(name: bytes, key: bytes) -> list[Greedy]:
    long = b'{"%b":"a://b","description":"%b"}' % (key, b"x" * 400)
    good = _listed(name, (TOOL + b"," if name == b"tools" else b"") + many(long, 13 * MIB))
    return [
        _listed(name, many(b"1", 15 * MIB)),
        _listed(name, many(b'{"%b":"a"}' % key, 15 * MIB)),
        _listed(name, many(b'{"%b":"a"}' % key, 800_000)),
        good,
        _event(good),
        _listed(name, b'{"%b":"a","x":[%b]}' % (key, many(b"[],{}", 14 * MIB))),
    ]


def _results() -> list[Greedy]:
    numbers = Greedy(_BEGIN + b'"contents":[],"x":{"a":[' + many(b"1", 15 * MIB) + b"]}}}")
    texts = Greedy(_BEGIN + b'"contents":[{"uri":"a://b","text":"' + b"x" * 15 * MIB + b'"}]}}')
    links = Greedy(_BEGIN + b'"contents":[' + many(b'{"uri":"a://b","text":"%b"}' % (b"x" * 300), 12 * MIB) + b"]}}")
    return [numbers, texts, links, _event(numbers), _event(texts)]


def _errors() -> list[Greedy]:
    begin = b'{"jsonrpc":"2.0","id":@,"error":{"code":1,"message":"","data":['
    return [
        Greedy(begin + many(b"[],{}", 15 * MIB) + b"]}}", "500 No"),
        Greedy(begin + many(b"1e308", 15 * MIB) + b"]}}", "500 No"),
        Greedy("ü".encode() * 7 * MIB, "500 No", "text/plain"),
        Greedy(begin + many(b"1", 60 * MIB) + b"]}}", "500 No"),
    ]


def _news() -> list[Greedy]:
    told = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":[%b]}}'
    first = b"data: " + told % many(b"1", 15 * MIB) + b"\n\n"
    return [Greedy(first + b"data: " + _BEGIN + b'"contents":[]}}\n\n', type="text/event-stream")]


def answers() -> dict[str, list[Greedy]]:
    """All of them by method; in turn each request gets another."""
    others = _errors() + _news()
    return {
        "tools/list": _lists(b"tools", b"name") + others,
        "prompts/list": _lists(b"prompts", b"name") + others,
        "resources/list": _lists(b"resources", b"uri") + others,
        "resources/read": _results() + others,
        "tools/call": _results() + others,
    }


def greedy(of_method: dict[str, list[Greedy]]) -> Callable[[Connection], Awaitable[None]]:
    """A server that answers each request with one of these: compressed to nothing where that is taken."""

    async def answer(connection: Connection, request: RawRequest) -> None:
        message = json.loads(request.body)
        of_it = of_method.get(message.get("method", ""))
        if of_it is None or "id" not in message:
            await connection.send(http(b"", None, status="202 Accepted"))
            return
        chosen = of_it[next(_count) % len(of_it)]
        id = json.dumps(message["id"]).encode()
        if id == b"7" and "br" in (request.header("accept-encoding") or ""):
            coded = (("Content-Encoding", "br"),)
            await connection.send(http(chosen.packed, chosen.type, status=chosen.status, headers=coded))
        else:
            await connection.send(http(chosen.body.replace(b"@", id, 1), chosen.type, status=chosen.status))

    async def serve(connection: Connection) -> None:
        with contextlib.suppress(ConnectionError):
            while (request := await connection.request()) is not None:
                await answer(connection, request)

    return serve


async def main(count: int) -> None:
    """Serve until stdin ends."""
    of_method = answers()
    async with contextlib.AsyncExitStack() as stack:
        urls = [(await stack.enter_async_context(RawServer(greedy(of_method)))).url for _ in range(count)]
        print(json.dumps(urls), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
