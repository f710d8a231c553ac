"""The cost of a call at gateways that differ in one thing, side by side, where other work shares the machine.

Each gateway has connections of its own, which stay open, and they take turns of some milliseconds: other work falls on
all of them alike. What counts is CPU time, which the kernel accounts for in nanoseconds (the clocks of the gateway's
process and its children); each turn is compared with its neighbour of the same round, and the median is taken of all
rounds, with the middle half of them: how far it can be relied on.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from itertools import cycle
from statistics import median, quantiles
from typing import NamedTuple, cast
from urllib.parse import urlsplit

from bench.errors import BenchError
from bench.payloads import Call
from bench.procfs import tree

CONNECTIONS = 16
CALLS_A_TURN = 480


class Difference(NamedTuple):
    """What one way costs beside another: `us` more CPU a call, and `ratio` times as much. `low` and `high` are the
    quartiles of `us`, `base` is what the other one takes."""

    base: float
    us: float
    low: float
    high: float
    ratio: float


class Turns:
    """CPU µs a call, by the names of the ways, of all rounds."""

    def __init__(self, costs: dict[str, list[float]]) -> None:
        self.costs = costs

    def difference(self, way: str, base: str) -> Difference:
        """Compare two ways."""
        pairs = list(zip(self.costs[way], self.costs[base], strict=True))
        more = [one - other for one, other in pairs]
        low, _, high = quantiles(more, n=4)
        ratio = median(one / other for one, other in pairs)
        return Difference(median(self.costs[base]), median(more), low, high, ratio)


class _Client:
    """Connections to one gateway, over which the same calls are made again and again."""

    def __init__(self, url: str, call: Call) -> None:
        where = urlsplit(url)
        self._where = (where.hostname or "", where.port or 80)
        self._answers = [each.answer for each in call.all]
        self._requests: list[bytes] = []
        for each in call.all:
            head = [f"POST {where.path} HTTP/1.1", f"Host: {where.netloc}", f"Content-Length: {len(each.request)}"]
            head += [f"{name}: {value}" for name, value in each.headers.items()]
            self._requests.append("\r\n".join([*head, "", ""]).encode() + each.request)
        self._open: list[_Connection] = []

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(CONNECTIONS):
            connection = _Connection(self._requests, self._answers)
            await loop.create_connection(lambda made=connection: made, *self._where)
            self._open.append(connection)

    async def turn(self, calls: int) -> None:
        await asyncio.gather(*(each.make(calls // CONNECTIONS) for each in self._open))

    def close(self) -> None:
        for each in self._open:
            each.close()


class _Connection(asyncio.Protocol):
    """One call after the other. Whole answers that are as expected count, whatever their heads."""

    def __init__(self, requests: Sequence[bytes], answers: Sequence[bytes]) -> None:
        self._calls = cycle(zip(requests, answers, strict=True))
        self._answer = b""
        self._got = b""
        self._left = 0
        self._done: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def make(self, calls: int) -> asyncio.Future[None]:
        self._left, self._done = calls, asyncio.get_running_loop().create_future()
        self._next()
        return self._done

    def data_received(self, data: bytes) -> None:
        self._got += data
        if not self._got.startswith(b"HTTP/1.1 200"):
            self._fail(f"a wrong answer: {self._got[:300]!r}")
        elif self._got.endswith((self._answer, self._answer + b"\n\n", self._answer + b"\n\n\r\n0\r\n\r\n")):
            self._left -= 1
            if self._left:
                self._next()
            elif self._done is not None:
                self._done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"a connection was closed: {exc}")

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _next(self) -> None:
        request, self._answer = next(self._calls)
        self._got = b""
        assert self._transport is not None
        self._transport.write(request)

    def _fail(self, why: str) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(BenchError(why))


async def take_turns(ways: dict[str, tuple[str, int]], call: Call, rounds: int) -> Turns:
    """Make the call at each of `ways` (a URL, and a process), round after round."""
    costs: dict[str, list[float]] = {name: [] for name in ways}
    with contextlib.ExitStack() as stack:
        clients: dict[str, _Client] = {}
        for name, (url, _) in ways.items():
            clients[name] = _Client(url, call)
            stack.callback(clients[name].close)
            await clients[name].start()
            await clients[name].turn(2 * CALLS_A_TURN)  # fills caches
        for number in range(rounds):
            for name in _rotated(list(ways), number):
                before = cpu_ns(ways[name][1])
                await clients[name].turn(CALLS_A_TURN)
                costs[name].append((cpu_ns(ways[name][1]) - before) / 1000 / CALLS_A_TURN)
    return Turns(costs)


def cpu_ns(root: int) -> int:
    """Nanoseconds of CPU that a process and its children have used."""
    # As `clock_getcpuclockid` makes it of a process's id (Linux: CPUCLOCK_SCHED).
    return sum(time.clock_gettime_ns((~pid << 3) | 2) for pid in tree(root))


def _rotated(names: list[str], by: int) -> Iterator[str]:
    at = by % len(names)
    yield from names[at:]
    yield from names[:at]
