"""The upstream of the memory series: answers too large to keep. `python -m bench.hostile` runs it.

Every answer is made while it is sent, so that a proxy that stops reading stops it. `HUGE` names the answers.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import uvloop

from bench.payloads import (
    JSON_TYPE,
    KIB,
    LEGACY_HEADERS,
    MIB,
    SSE_TYPE,
    compact,
    request,
    sse_event,
    text_answer,
)

_PIECE = b"a" * MIB
_NEWS: dict[str, object] = {"level": "info", "data": "a" * 64 * KIB}
_EVENT = sse_event(compact({"jsonrpc": "2.0", "method": "notifications/message", "params": _NEWS}))
_EVENTS = 1024


@dataclass(frozen=True, slots=True)
class Huge:
    """One answer: how to ask for it, and the HTTP status that a client gets from the gateway."""

    tool: str
    shown: str
    status: int

    @property
    def request(self) -> bytes:
        return request(self.tool)


HUGE = (
    Huge("body", "rejecting a JSON body of 120 MiB", 502),
    Huge("bomb", "rejecting 512 MiB in gzip", 502),
    Huge("stream", "relaying an SSE stream of 64 MiB", 200),
)
HEADERS = LEGACY_HEADERS | {"Accept-Encoding": "gzip"}


def _json_pieces(mebibytes: int) -> Iterator[bytes]:
    yield b'{"jsonrpc":"2.0","id":7,"result":{"text":"'
    for _ in range(mebibytes):
        yield _PIECE
    yield b'"}}'


def _gzip_pieces(pieces: Iterator[bytes]) -> Iterator[bytes]:
    encoder = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    for piece in pieces:
        yield encoder.compress(piece)
    yield encoder.flush()


def _event_pieces() -> Iterator[bytes]:
    for _ in range(_EVENTS):
        yield _EVENT
    yield sse_event(text_answer(200))


def _answer(tool: str) -> tuple[str, Iterator[bytes]]:
    """The head's lines about the body, and the body."""
    if tool == "body":
        return f"Content-Type: {JSON_TYPE}", _json_pieces(120)
    if tool == "bomb":
        return f"Content-Type: {JSON_TYPE}\r\nContent-Encoding: gzip", _gzip_pieces(_json_pieces(512))
    return f"Content-Type: {SSE_TYPE}", _event_pieces()


async def _requests(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        _, _, length = head.lower().partition(b"\r\ncontent-length:")
        yield await reader.readexactly(int(length.partition(b"\r\n")[0]))


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    tools = {huge.request: huge.tool for huge in HUGE}
    try:
        async for body in _requests(reader):
            lines, pieces = _answer(tools[body])
            writer.write(f"HTTP/1.1 200 OK\r\n{lines}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            for piece in filter(None, pieces):
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                await writer.drain()
            writer.write(b"0\r\n\r\n")
    except (ConnectionError, asyncio.IncompleteReadError):
        pass  # the gateway went away, as it should
    finally:
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
