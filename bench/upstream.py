"""The upstream of the speed series: as cheap as Python can be, so that the proxies' own cost shows.

A process of its own (`python -m bench.upstream`): one protocol object per connection, no parsing of JSON; a
request's body, without the trace that a gateway may add, is looked up among `payloads.CALLS` and its answer, head and
all, is written at once.
"""

import asyncio
import re
from typing import cast

import httptools
import uvloop

from bench.payloads import CALLS, Call

_MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


def wire(call: Call) -> bytes:
    """The whole HTTP response: JSON with its length, SSE in one chunk, as servers send the two."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n" % call.content_type.encode()
    if not call.sse:
        return b"%sContent-Length: %d\r\n\r\n%s" % (head, len(call.body), call.body)
    framing = b"Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n"
    return b"%s%s%x\r\n%s\r\n0\r\n\r\n" % (head, framing, len(call.body), call.body)


_TRACE = re.compile(rb',"_meta":\{"traceparent":"[0-9a-f-]{55}"\}|,"traceparent":"[0-9a-f-]{55}"')
"""What a gateway that traces a call adds to it."""

ANSWERS = {call.request: wire(call) for named in CALLS.values() for call in named.all}


class Server(asyncio.Protocol):
    """One connection. Keep-alive always: the proxies and wrk all speak HTTP/1.1."""

    def __init__(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        self.body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's own class is not a subclass

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.transport.write(ANSWERS.get(self.body) or ANSWERS.get(_TRACE.sub(b"", self.body), _MISSING))
        self.body = b""


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
    print(f"listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
