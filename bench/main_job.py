"""`python -m bench --only main-job [--quick]`: what the main job costs beside the least that it needs.

The main job is one `tools/call` of 200 bytes over HTTP with a bound proof of depth 1 (its certificate has been seen),
decided, recorded durably, forwarded and answered. It is measured in both eras, on SQLite and (where installed) on
PostgreSQL, over 1, 16 and 64 connections: CPU a call of the gateway, of the process that writes its log and of the
database, and the time until the answer as a client sees it.

The *limit* is the CPU that no gateway could do without, measured in the same run: raw Ed25519 and ML-DSA-65 checks of
such a proof and the two signatures of its records (all by `cryptography`, whatever the gateway uses), what nginx takes
to pass the same call, and one SQLite transaction of a call's bytes for each turn of the log. A gateway with metrics,
which is not measured otherwise, tells how many calls one turn has.

One and two workers are compared besides: calls a second, CPU a call, and how much memory all their processes hold.
"""

import asyncio
import contextlib
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple
from urllib.request import urlopen

import uvloop
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from accredit.keys import make_key, write_key
from bench import authorization, payloads
from bench.authorization import ANSWER, Agent, Upstream, body_of, check_us, post_all
from bench.cluster_servers import Primary, primary
from bench.errors import BenchError
from bench.processes import NGINX, Server, configured, nginx
from bench.procfs import cpu_seconds, cpu_seconds_apart, memory

NAME = "main-job"
CONNECTIONS = (1, 16, 64)
ERAS = ("2025-11-25", payloads.MODERN)
FULL, QUICK = (5, 1_920), (1, 640)
"""Rounds, and calls in a round."""
FILL_CALLS = 320
"""Calls of a first round: few enough that all are signed within the two seconds by which a store that is new at the
first of them accepts older ones."""
MAX_TIMES_LIMIT = {"SQLite": 2.3, "PostgreSQL": 2.5}
"""The aims, at 64 connections in the older era: times the limit, without the database's own processes."""
WORKERS = (1, 2)
LEVEL_CALLS, MORE_CALLS = 2_000, 4_000
"""Calls after which memory should be level, and how many more are made to see whether it is."""
RECORDS = 2
_RECORD_BYTES = 2_048
_SIGNATURES = 400
_TURNS = re.compile(rb"^accredit_log_turn_seconds_count\S* ([0-9.e+]+)$", re.MULTILINE)
_ADMIN = re.compile(r"(http://\S+)/metrics")


class EitherEra(Upstream):
    """Gives an answer that is valid in both eras."""

    answer = ANSWER[:-2] + b',"resultType":"complete"}}'


class Sample(NamedTuple):
    """A round of calls: CPU µs a call of the gateway, its log's writer and the database; ms until the answer."""

    gateway: float
    writer: float
    database: float
    p50: float
    p99: float

    @property
    def ours(self) -> float:
        return self.gateway + self.writer


@dataclass(slots=True)
class Way:
    """One gateway, how many connections it is measured over, and what was found."""

    store: str
    era: str
    connections: int
    server: Server
    samples: list[Sample] = field(default_factory=list[Sample])

    def median_of(self, member: str) -> float:
        return median(getattr(sample, member) for sample in self.samples)


class Load(NamedTuple):
    """What some workers did: calls a second (as the median time until the answer gives them), CPU µs a call, and bytes
    in memory (each shared page counted once)."""

    workers: int
    calls: float
    cpu: float
    level: int
    later: int


class Limit(NamedTuple):
    """The least that a call needs, in CPU µs, and how many calls one turn of the log has."""

    check: float
    signatures: float
    proxy: float
    transaction: float
    calls_a_turn: float

    @property
    def us(self) -> float:
        return self.check + self.signatures + self.proxy + self.transaction / self.calls_a_turn


def main(*, quick: bool) -> str:
    """Measure, and return a table."""
    if NGINX is None:
        raise BenchError("the limit needs nginx (Debian: apt-get install nginx)")
    rounds, calls = QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="accredit-bench-") as folder:
        Path(folder).chmod(0o711)
        return uvloop.run(measure(Path(folder), rounds, calls))


async def measure(folder: Path, rounds: int, calls: int) -> str:
    listener = await asyncio.get_running_loop().create_server(EitherEra, "127.0.0.1", 0)
    upstream = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
    agent = Agent(folder)
    write_key(folder / "gateway.key", make_key("gateway", "gateway", 0))
    (folder / "cluster.keys").touch(mode=0o600)
    (folder / "cluster.keys").write_text("k" * 43 + "=\n")
    with contextlib.ExitStack() as stack:
        proxy = stack.enter_context(nginx(upstream, folder))
        database = _database(stack, folder)
        stores = {"SQLite": "sqlite:///main.db"} | ({"PostgreSQL": database.url("bench")} if database else {})
        ways: list[Way] = []
        for store, url in stores.items():
            server = stack.enter_context(configured(toml(upstream, url), folder, f"main-{store}"))
            ways += [Way(store, era, number, server) for era in ERAS for number in CONNECTIONS]
        watched = stack.enter_context(configured(toml(upstream, "sqlite:///watched.db", admin=True), folder, "watched"))
        checks, passes = list[float](), list[float]()
        for number in range(rounds + 1):
            for way in ways:
                found = await _round(way, agent, calls if number else FILL_CALLS, database)
                if number:  # the first round fills caches
                    way.samples.append(found)
            if number:
                checks.append(check_us([agent.bundle(bound=True) for _ in range(100)]))
                passes.append((await _round(Way("nginx", ERAS[0], max(CONNECTIONS), proxy), agent, calls, None)).ours)
        loads = [await _load(workers, upstream, folder, agent) for workers in WORKERS]
        turns = await _calls_a_turn(watched, folder / "watched.log", agent, calls)
    listener.close()
    transaction = _transaction_us(folder / "raw.db", round(turns))
    limit = Limit(median(checks), _signatures_us(), median(passes), transaction, turns)
    return "\n".join([*table(ways, limit), "", *workers_table(loads)])


def toml(upstream: str, store: str, *, admin: bool = False, shared: bool = False) -> str:
    """The configuration of a gateway; if `shared`, of one whose workers share the keys of `cluster.keys`."""
    text = authorization.toml(upstream, store)
    if store.startswith("postgresql:"):
        text, shared = text.replace("[store]\n", '[store]\nreplicas = "none"\n'), True
    cluster = '[cluster]\nkeys_file = "cluster.keys"\n' if shared else ""
    records = '[attest]\nmode = "durable"\nkey_file = "gateway.key"\n' + ("[admin]\nport = 0\n" if admin else "")
    return text + cluster + records


def _database(stack: contextlib.ExitStack, folder: Path) -> Primary | None:
    try:
        found = stack.enter_context(primary(folder / "postgres", standby=False))
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return None
    found.make("bench")
    return found


async def _round(way: Way, agent: Agent, calls: int, database: Primary | None) -> Sample:
    """Post fresh calls, and return what one took."""
    modern = way.era == payloads.MODERN
    headers = payloads.modern_headers("pay") if modern else payloads.LEGACY_HEADERS
    headers = {name: value for name, value in headers.items() if name != "Mcp-Session-Id"}
    more = payloads.MODERN_META if modern else {}
    bodies = [body_of(agent.bundle(bound=True), more=more) for _ in range(calls)]
    database = database if way.store == "PostgreSQL" else None
    before = _cpu(way.server, database)
    times = await post_all(way.server.url, bodies, way.connections, headers, EitherEra.answer)
    gateway, writer, of_database = (
        (late - early) / calls * 1e6 for early, late in zip(before, _cpu(way.server, database), strict=True)
    )
    cuts = quantiles(times, n=100)
    return Sample(gateway, writer, of_database, cuts[49] * 1000, cuts[98] * 1000)


async def _load(workers: int, upstream: str, folder: Path, agent: Agent) -> Load:
    """Post calls over 64 connections to a gateway with so many workers."""
    text = toml(upstream, f"sqlite:///workers-{workers}.db", shared=True)
    with configured(text, folder, "workers", options=("--workers", str(workers))) as server:
        way = Way("SQLite", ERAS[0], max(CONNECTIONS), server)
        await _round(way, agent, FILL_CALLS, None)
        await _round(way, agent, LEVEL_CALLS, None)
        level, before = memory(server.pid).pss, cpu_seconds(server.pid)
        rounds = [await _round(way, agent, MORE_CALLS // 4, None) for _ in range(4)]
        used = (cpu_seconds(server.pid) - before) / MORE_CALLS * 1e6
        later = memory(server.pid).pss
    return Load(workers, way.connections / median(sample.p50 for sample in rounds) * 1000, used, level, later)


def _cpu(server: Server, database: Primary | None) -> tuple[float, float, float]:
    return *cpu_seconds_apart(server.pid), database.cpu_seconds() if database is not None else 0.0


async def _calls_a_turn(server: Server, log: Path, agent: Agent, calls: int) -> float:
    """Return how many calls the log's writer takes in one turn, at 64 connections."""
    found = _ADMIN.search(log.read_text(errors="replace"))
    if found is None:
        raise BenchError(f"no address of metrics in {log.read_text(errors='replace')[:300]!r}")
    way = Way("SQLite", ERAS[0], max(CONNECTIONS), server)
    await _round(way, agent, calls, None)  # fills caches
    before = await asyncio.to_thread(_turns, found[1])
    await _round(way, agent, calls, None)
    return calls / (await asyncio.to_thread(_turns, found[1]) - before)


def _turns(admin: str) -> float:
    with urlopen(f"{admin}/metrics") as answer:
        return sum(float(number) for number in _TURNS.findall(answer.read()))


def _signatures_us() -> float:
    """Return the CPU time of the signatures of a call's two records."""
    key, message = Ed25519PrivateKey.generate(), b"x" * 1_000
    began = time.thread_time()
    for _ in range(_SIGNATURES):
        key.sign(message)
    return (time.thread_time() - began) / _SIGNATURES * RECORDS * 1e6


def _transaction_us(path: Path, calls: int) -> float:
    """Return the CPU time of one SQLite transaction that writes the bytes of a turn to the disk."""
    rows = [(b"x" * _RECORD_BYTES,) for _ in range(max(calls, 1) * RECORDS)]
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE records (id INTEGER PRIMARY KEY, record BLOB)")
        began = time.thread_time()
        for _ in range(_SIGNATURES):
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO records (record) VALUES (?)", rows)
            connection.execute("COMMIT")
        return (time.thread_time() - began) / _SIGNATURES * 1e6


def table(ways: Sequence[Way], limit: Limit) -> Iterator[str]:
    yield (
        f"limit: {limit.us:.0f} us of CPU a call: raw check of the proof {limit.check:.0f}, two signatures"
        f" {limit.signatures:.0f}, nginx {limit.proxy:.0f}, a SQLite transaction {limit.transaction:.0f} for each turn"
        f" of {limit.calls_a_turn:.1f} calls"
    )
    yield ""
    yield "| store | era | connections | gateway, us | log writer, us | together | to the limit | aim | database, us |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for way in ways:
        aimed = way.era == ERAS[0] and way.connections == max(CONNECTIONS)
        aim = f"{MAX_TIMES_LIMIT[way.store]} x" if aimed else ""
        ours, database = way.median_of("ours"), way.median_of("database")
        yield (
            f"| {way.store} | {way.era} | {way.connections} | {way.median_of('gateway'):.0f} |"
            f" {way.median_of('writer'):.0f} | {ours:.0f} | {ours / limit.us:.2f} x | {aim} |"
            f" {f'{database:.0f}' if database else ''} |"
        )
    yield ""
    yield "| store | era | connections | p50, ms | p99, ms |"
    yield "|---|---|---|---|---|"
    for way in ways:
        yield (
            f"| {way.store} | {way.era} | {way.connections} | {way.median_of('p50'):.1f} | {way.median_of('p99'):.1f} |"
        )


def workers_table(loads: Sequence[Load]) -> Iterator[str]:
    yield (
        f"| workers | calls a second | CPU a call, us | memory after {LEVEL_CALLS:,} calls, MiB |"
        f" after {LEVEL_CALLS + MORE_CALLS:,} |"
    )
    yield "|---|---|---|---|---|"
    for load in loads:
        level, later = (size / 2**20 for size in (load.level, load.later))
        yield f"| {load.workers} | {load.calls:,.0f} | {load.cpu:.0f} | {level:.0f} | {later:.0f} |"
