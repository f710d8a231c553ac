"""The load of `bench.cluster`: calls with proofs that were made before, over many connections to several gateways.

The server that the gateways forward to is in the same process: it answers each request with the same bytes. What both
take of the machine is shown beside what is measured.
"""

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

from bench.authorization import ANSWER, Agent, body_of
from bench.errors import BenchError

SIGNERS = 2
_HEAD = (
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Accept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n"
)
_END_OF_HEAD, _LENGTH = b"\r\n\r\n", b"\r\ncontent-length:"
_WAIT_SECONDS = 60.0


@dataclass(slots=True)
class Load:
    """What came of a number of calls. Times in seconds."""

    started: float = 0.0
    ended: float = 0.0
    times: list[float] = field(default_factory=list[float])
    refused: dict[bytes, int] = field(default_factory=dict[bytes, int])

    @property
    def calls(self) -> int:
        return len(self.times)

    @property
    def seconds(self) -> float:
        return self.ended - self.started

    def part(self, share: float) -> float:
        """The time that this share of the calls did not take."""
        return sorted(self.times)[min(int(share * self.calls), self.calls - 1)]


class Signers:
    """Makes requests, in processes of its own: signing costs as much as all the rest of a call."""

    def __init__(self, agent: Agent) -> None:
        context = multiprocessing.get_context("fork")
        self._pool = ProcessPoolExecutor(SIGNERS, context, initializer=_take, initargs=(agent,))

    def requests(self, number: int) -> list[bytes]:
        """So many requests, each with a challenge of its own."""
        parts = self._pool.map(_sign, [-(-number // SIGNERS)] * SIGNERS)
        return [each for part in parts for each in part][:number]

    def close(self) -> None:
        self._pool.shutdown()


_agents: list[Agent] = []


def _take(agent: Agent) -> None:
    _agents.append(agent)


def _sign(number: int) -> list[bytes]:
    bodies = [body_of(_agents[0].bundle(bound=True)) for _ in range(number)]
    return [_HEAD % len(body) + body for body in bodies]


class Client(asyncio.Protocol):
    """One connection: sends the next request when the last one was answered."""

    def __init__(self, requests: Iterator[bytes], load: Load, done: "asyncio.Future[None]") -> None:
        self._requests = requests
        self._load = load
        self._done = done
        self._buffer = b""
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self._finish()
            return
        self._sent = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, end, body = self._buffer.partition(_END_OF_HEAD)
        if not end:
            return
        if body == ANSWER:
            self._load.times.append(time.perf_counter() - self._sent)
        elif len(body) < length_of(head):
            return
        else:
            self._load.refused[body] = self._load.refused.get(body, 0) + 1
        self._buffer = b""
        self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish()

    def _finish(self) -> None:
        if not self._done.done():
            self._done.set_result(None)
        self._transport.close()


def port_of(url: str) -> int:
    return urlsplit(url).port or 80


def length_of(head: bytes) -> int:
    """The length of a body, by its head."""
    return int(head.lower().partition(_LENGTH)[2].partition(b"\r\n")[0])


async def post_all(
    urls: Sequence[str], requests: Sequence[bytes], connections: int, connected: Callable[[], None]
) -> Load:
    """Sends each request once. `connected` is called when all connections are there, and nothing was sent."""
    loop = asyncio.get_running_loop()
    load, left = Load(), iter(requests)
    clients: list[Client] = []
    ends: list[asyncio.Future[None]] = []
    for number in range(connections):
        end = loop.create_future()
        client = Client(left, load, end)
        await loop.create_connection(lambda client=client: client, "127.0.0.1", port_of(urls[number % len(urls)]))
        clients.append(client)
        ends.append(end)
    connected()
    load.started = time.perf_counter()
    for client in clients:
        client.send()
    _, pending = await asyncio.wait(ends, timeout=_WAIT_SECONDS)
    load.ended = time.perf_counter()
    if pending or load.refused or load.calls < len(requests):
        said = next(iter(load.refused), b"no answer")
        raise BenchError(f"{len(requests) - load.calls} of {len(requests)} calls failed: {said[:300]!r}")
    return load
