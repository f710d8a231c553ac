"""For how long a gateway refuses when its database's primary is lost: of three servers, each commit is on two.

The best standby is promoted at once; whoever watches over a real cluster takes its own time before that. `killed`: the
processes end, and their connections with them; `silent`: nothing of it answers any more, as with a machine that lost
its power. The data lie in memory: a disk would be measured twice.
"""

import asyncio
import contextlib
import secrets
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import uvloop
from tests.world.postgres import programs
from tests.world.replicated import DATABASE, GATEWAYS, Replicated

from bench.authorization import ANSWER, Agent, Upstream
from bench.cluster_load import Signers, length_of, port_of
from bench.errors import BenchError
from bench.processes import configured

MAX_SECONDS = 10.0
"""For how long calls may be refused."""
KILLED, SILENT = "killed", "silent"
PER_SECOND = 100
BEFORE_SECONDS, AFTER_SECONDS = 3.0, 3.0
GIVE_UP_SECONDS = 30.0
MAX_CALL_SECONDS = 2.0
"""No call that was sent longer before than a call waits for the store may be refused."""
_REFUSAL = b"store_unavailable"


class Failover(NamedTuple):
    """What happened, in seconds after the primary was lost: when the standby was promoted, and when the first call was
    answered. `refused` calls were, meanwhile; `longest` is how long one of them took."""

    how: str
    promoted: float
    answered: float
    refused: int
    longest: float


class _Said(NamedTuple):
    sent: float
    ended: float
    answer: bytes


class _Paced:
    """Sends a request every so often, whatever became of the others, each over a connection of its own."""

    def __init__(self, url: str, requests: Iterable[bytes]) -> None:
        self._port = port_of(url)
        self._requests = iter(requests)
        self.said: list[_Said] = []
        self.stopped = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for request in self._requests:
                if self.stopped:
                    return
                group.create_task(self._call(request))
                await asyncio.sleep(1 / PER_SECOND)

    def answered_since(self, when: float) -> float | None:
        """When the first call was answered that was sent later than `when`."""
        return min((each.ended for each in self.said if each.sent > when and each.answer == ANSWER), default=None)

    async def _call(self, request: bytes) -> None:
        sent = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        with contextlib.closing(writer):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            answer = await reader.readexactly(length_of(head))
        self.said.append(_Said(sent, time.perf_counter(), answer))


def measure(how: str, toml: Callable[[str, str], str], say: Callable[[str], None]) -> Failover:
    """`toml` makes a gateway's configuration of the upstream's URL and the store's."""
    if programs() is None:
        raise BenchError("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    say(f"failover: a primary that is {how}")
    with tempfile.TemporaryDirectory(prefix="accredit-bench-") as name:
        folder = Path(name)
        # First, as processes that are forked would keep the servers' pipes open.
        with contextlib.closing(Signers(Agent(folder))) as signers:
            requests = signers.requests(int(PER_SECOND * (BEFORE_SECONDS + GIVE_UP_SECONDS + AFTER_SECONDS)))
        with Replicated() as servers:
            return uvloop.run(_measure(how, toml, folder, servers, requests))


async def _measure(
    how: str, toml: Callable[[str, str], str], folder: Path, servers: Replicated, requests: Sequence[bytes]
) -> Failover:
    listener = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0)
    upstream = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
    (folder / "cluster.keys").write_bytes(b64encode(secrets.token_bytes(32)) + b"\n")
    (folder / "cluster.keys").chmod(0o600)
    hosts = ",".join(f"{node.place.host}:{node.place.port}" for node in servers.nodes.values())
    store = f"postgresql://{GATEWAYS}@{hosts}/{DATABASE}"
    with configured(toml(upstream, store), folder, "gateway") as gateway:
        load = _Paced(gateway.url, requests)
        calling = asyncio.create_task(load.run())
        await asyncio.sleep(BEFORE_SECONDS)
        lost, promoted = await asyncio.to_thread(_fail, how, servers)
        while load.answered_since(lost) is None and time.perf_counter() < lost + GIVE_UP_SECONDS:
            await asyncio.sleep(0.1)
        await asyncio.sleep(AFTER_SECONDS)
        load.stopped = True
        await calling
    listener.close()
    first = load.answered_since(lost)
    bad = [each for each in load.said if each.answer != ANSWER]
    others = [each.answer for each in bad if each.sent < lost - MAX_CALL_SECONDS or _REFUSAL not in each.answer]
    if first is None or others:
        raise BenchError(f"failover: {others[0][:300] if others else 'nothing was answered any more'!r}")
    return Failover(how, promoted - lost, first - lost, len(bad), max(each.ended - each.sent for each in load.said))


def _fail(how: str, servers: Replicated) -> tuple[float, float]:
    lost = time.perf_counter()
    if how == KILLED:
        servers.primary.kill()
    else:
        servers.primary.pause()
    servers.promote(isolated=True)
    return lost, time.perf_counter()
