"""No answer of an upstream keeps the event loop from others: as in `test_loop_steps`, for what comes back.

The server is in a thread of its own, so that its work does not count. What it sends is many brackets: at one go these
took a second for ten megabytes.
"""

import asyncio
import json
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from tests.integration.test_loop_steps import FACTOR, PROMISED, headers, small_heap
from tests.world.asgi import Told
from tests.world.heavy_bodies import call
from tests.world.measured_loop import MeasuredLoop

from accredit.gateway.app import create_app
from accredit.gateway.settings import GatewaySettings, HttpUpstream
from accredit.stores import MemoryStore, RevocationLists

__all__ = ["small_heap"]

NESTED = b"[" * 100 + b"]" * 100 + b","
TIMES = 60_000
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"deep":[' + NESTED * TIMES + b"0]}}"
BAD = ANSWER[:-3] + b"]]}"


@contextmanager
def upstream(content_type: bytes, body: bytes) -> Generator[int]:
    """A server that answers whatever it is sent with this."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n" % (content_type, len(body))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                if connection.recv(65_536):
                    connection.sendall(head + body)
                    connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
    serving.join()


def longest(port: int) -> tuple[float, Told]:
    """The longest step while a call is answered, and the answer."""
    told = Told("POST", headers(None), call().encode())

    async def main() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MeasuredLoop)
        settings = GatewaySettings(HttpUpstream(f"http://127.0.0.1:{port}/mcp"))
        app = create_app(settings, store=MemoryStore(), revocations=RevocationLists((), {}))
        loop.longest = 0.0
        await asyncio.create_task(app(told.scope, told.receive, told.send))
        await app.aclose()
        return loop.longest

    with asyncio.Runner(loop_factory=MeasuredLoop) as runner:
        return runner.run(main()), told


@pytest.mark.parametrize("kind", [b"application/json", b"text/event-stream"])
def test_no_answer_of_an_upstream_blocks_the_loop__everybody_else_waits_for_as_long(kind: bytes) -> None:
    body = ANSWER if kind == b"application/json" else b"data: " + ANSWER + b"\n\n"
    with upstream(kind, body) as port:
        step, told = longest(port)
    assert body in told.body
    assert step < FACTOR * PROMISED


def test_no_bad_answer_blocks_it_either() -> None:
    with upstream(b"application/json", BAD) as port:
        step, told = longest(port)
    assert "not valid JSON" in json.dumps(json.loads(told.body))
    assert step < FACTOR * PROMISED
