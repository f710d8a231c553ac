"""`python -m bench.cluster [--quick] [--only TEXT]`: gateways on one store, and what the store costs.

1, 2 and 4 gateways, each a process of its own, in front of one cheap server, with the memory store (which they don't
share), one SQLite file, one PostgreSQL server, and one whose commits wait for a standby as well. Each call has a bound
proof over a fresh challenge; `durable` has both records of a call on the disk, too, `record` without waiting for them.

All ways of a round run within seconds, at 16, 64 and 256 connections, over the same proofs; medians of the rounds are
kept. The database's commit time is that of this machine's disk, and more by `commit_delay` (with `commit_siblings` 0:
each commit waits for so long before it syncs, whoever else is active). What a commit of one who commits alone took in
the end is measured, and shown. CPU time is the gateways', that of the processes which write their logs, and the
database's, its standby's included, by themselves. Everything shares this machine's cores, so that "of the machine" says
whether calls a second could be more.

At last the primary of three servers is killed under load and a standby promoted at once: how long are calls refused?
"""

import argparse
import asyncio
import contextlib
import os
import secrets
import sys
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec
import uvloop

from accredit.keys import make_key, write_key
from bench.authorization import GATEWAY_ID, SCOPE, Agent, Upstream
from bench.cluster_failover import KILLED, MAX_SECONDS, SILENT, Failover, measure
from bench.cluster_load import Signers, post_all
from bench.cluster_servers import Primary, Written, primary
from bench.errors import BenchError
from bench.processes import ROOT, Server, configured
from bench.procfs import cpu_seconds_apart, machine_cpu_seconds, own_cpu_seconds
from bench.report import machine

STORES = MEMORY, SQLITE, POSTGRES, STANDBY = "memory", "SQLite", "PostgreSQL", "PostgreSQL, standby"
MODES = PROOFS, RECORD, DURABLE = "proofs", "record", "durable"
FAILOVER = "failover"
RECORDING = (SQLITE, POSTGRES, STANDBY)
"""Stores that hold a log."""
RESULT = ROOT / "bench" / "results" / "cluster.json"
MAX_DURABLE = 2.0
"""Times the cost of a durable call on PostgreSQL, at most, is that of one on SQLite."""
TWO_GATEWAYS = 1.8
"""Times the calls a second of two gateways, at least, are those of one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured: each with each, as far as there is such a thing."""

    gateways: tuple[int, ...]
    commits: tuple[float, ...]
    connections: tuple[int, ...]
    modes: tuple[str, ...]
    rounds: int
    calls: int


FULL = Plan((1, 2, 4), (0, 1, 3), (16, 64, 256), MODES, rounds=5, calls=1536)
QUICK = Plan((1, 2), (1,), (256,), (PROOFS, DURABLE), rounds=2, calls=1024)


class Way(NamedTuple):
    """Gateways of one kind."""

    mode: str
    store: str
    gateways: int
    servers: Sequence[Server]
    database: Primary | None

    @property
    def name(self) -> str:
        return f"{self.mode}, {self.store}, x{self.gateways}"


class Series(NamedTuple):
    """What is measured several times; `commit` is what commits are delayed by, in milliseconds."""

    mode: str
    store: str
    gateways: int
    commit: float | None
    connections: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One turn. CPU in microseconds a call, latency in milliseconds."""

    per_second: float
    p50: float
    p99: float
    gateway_us: float
    log_us: float
    database_us: float
    load_us: float
    commit_ms: float
    commits: float
    written: float
    busy: float
    """The part of the machine's cores that all of these took."""
    others: float
    """The part that other work took."""


class Used(NamedTuple):
    """CPU time so far, in seconds."""

    gateways: float
    logs: float
    database: float
    load: float
    machine: float


def used(way: Way) -> Used:
    pairs = [cpu_seconds_apart(each.pid) for each in way.servers]
    database = way.database.cpu_seconds() if way.database else 0.0
    gateways, logs = (sum(part) for part in zip(*pairs, strict=True))
    return Used(gateways, logs, database, own_cpu_seconds(os.getpid()), machine_cpu_seconds())


async def turn(way: Way, requests: Sequence[bytes], connections: int, commit_ms: float) -> Sample:
    begun: list[Used] = []
    position = way.database.position() if way.database else ""
    urls = [each.url for each in way.servers]
    load = await post_all(urls, requests, connections, lambda: begun.append(used(way)))
    costs = [after - before for before, after in zip(begun[0], used(way), strict=True)]
    wrote = way.database.written_since(position) if way.database else Written(0, 0)
    gateways, logs, database, client, _ = (each * 1e6 / load.calls for each in costs)
    machine = load.seconds * (os.cpu_count() or 1)
    return Sample(
        per_second=load.calls / load.seconds,
        p50=load.part(0.5) * 1000,
        p99=load.part(0.99) * 1000,
        gateway_us=gateways,
        log_us=logs,
        database_us=database,
        load_us=client,
        commit_ms=commit_ms,
        commits=wrote.commits / load.calls,
        written=wrote.bytes / load.calls,
        busy=sum(costs[:4]) / machine,
        others=max(0.0, costs[4] - sum(costs[:4])) / machine,
    )


class Bench:
    """The ways that a plan needs, and its turns."""

    def __init__(self, plan: Plan, only: str, folder: Path) -> None:
        self._plan = plan
        self._only = only
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self._databases: dict[str, Primary] = {}
        self.found: dict[Series, list[Sample]] = {}

    async def run(self) -> None:
        listener = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0)
        upstream = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
        with self._stack:
            agent = Agent(self._folder)
            signers = Signers(agent)
            self._stack.callback(signers.close)
            write_key(self._folder / "gateway.key", make_key("gateway", "gateway", 0))
            keys = self._folder / "cluster.keys"
            keys.write_bytes(b64encode(secrets.token_bytes(32)) + b"\n")
            keys.chmod(0o600)
            ways = list(self._ways(upstream))
            if not ways:
                return
            for number in range(self._plan.rounds + 1):  # the first round fills caches
                await self._round(number, ways, signers)
        listener.close()

    async def _round(self, number: int, ways: Sequence[Way], signers: Signers) -> None:
        for place, commit in enumerate(self._plan.commits):
            say(f"round {number} of {self._plan.rounds}, commits delayed by {commit:g} ms")
            commit_ms: dict[str, float] = {}
            for name, database in self._databases.items():
                database.delay_commits(commit)
                commit_ms[name] = database.commit_ms()
            now = [way for way in ways if way.database is not None or not place]
            for connections in self._plan.connections:
                for mode in self._plan.modes:
                    requests = signers.requests(self._plan.calls)
                    for way in rotated([way for way in now if way.mode == mode], number):
                        sample = await turn(way, requests, connections, commit_ms.get(way.store, 0.0))
                        if number:
                            delay = commit if way.database else None
                            series = Series(mode, way.store, way.gateways, delay, connections)
                            self.found.setdefault(series, []).append(sample)

    def _ways(self, upstream: str) -> Iterator[Way]:
        for mode in self._plan.modes:
            for store in STORES:
                for gateways in self._plan.gateways:
                    if self._only in f"{mode}, {store}, x{gateways}" and (mode == PROOFS or store in RECORDING):
                        yield self._way(upstream, mode, store, gateways)

    def _way(self, upstream: str, mode: str, store: str, gateways: int) -> Way:
        name = f"{mode}_{'abcd'[STORES.index(store)]}_{'abcd'[gateways - 1]}"
        database = self._database(store) if store in (POSTGRES, STANDBY) else None
        if database is not None:
            database.make(name)
        url = {MEMORY: "memory:", SQLITE: f"sqlite:///{name}.db"}.get(store) or self._databases[store].url(name)
        text = toml(upstream, url, mode, "required" if store == STANDBY else "none")
        say(f"starting {gateways} x {mode}, {store}")
        servers = [
            self._stack.enter_context(configured(text, self._folder, name + "abcd"[number]))
            for number in range(gateways)
        ]
        return Way(mode, store, gateways, servers, database)

    def _database(self, store: str) -> Primary:
        if store not in self._databases:
            folder = self._folder / ("standby" if store == STANDBY else "alone")
            self._databases[store] = self._stack.enter_context(primary(folder, standby=store == STANDBY))
        return self._databases[store]


def rotated(ways: Sequence[Way], by: int) -> Sequence[Way]:
    at = by % len(ways) if ways else 0
    return [*ways[at:], *ways[:at]]


def toml(upstream: str, url: str, mode: str, replicas: str) -> str:
    store = f'[store]\nurl = "{url}"\n'
    if url.startswith("postgresql:"):
        store += f'replicas = "{replicas}"\n[cluster]\nkeys_file = "cluster.keys"\n'
    records = "" if mode == PROOFS else f'[attest]\nmode = "{mode}"\nkey_file = "gateway.key"\n'
    return f"""[gateway]
port = 0
id = "{GATEWAY_ID}"
[upstream]
url = "{upstream}"
[proofs]
mode = "required"
freshness_seconds = 300
[[proofs.roots]]
name = "Owner"
public_key_file = "owner.key.pub"
[tools.pay]
scope = "{SCOPE}"
facts = {{ amount = "/amount", currency = "/currency" }}
{records}{store}"""


_HEAD = (
    "mode", "store", "gateways", "delay, ms", "a commit, ms", "connections", "calls/s", "p50 / p99, ms", "gateway, us",
    "log, us", "database, us", "load, us", "commits", "calls a commit", "WAL, bytes", "of the machine", "others",
)  # fmt: skip


def table(found: dict[Series, list[Sample]]) -> Iterator[str]:
    yield f"| {' | '.join(_HEAD)} |"
    yield "|" + "---|" * len(_HEAD)
    for series, samples in sorted(found.items(), key=lambda pair: _order(pair[0])):
        typical = Sample(*(median(each) for each in zip(*(_values(sample) for sample in samples), strict=True)))
        shared = series.commit is not None
        cells = (
            *(series.mode, series.store, str(series.gateways)),
            *((f"{series.commit:g}", f"{typical.commit_ms:.1f}") if shared else ("", "")),
            *(str(series.connections), f"{typical.per_second:,.0f}", f"{typical.p50:.1f} / {typical.p99:.1f}"),
            *(f"{us:.0f}" for us in (typical.gateway_us, typical.log_us, typical.database_us, typical.load_us)),
            *((f"{typical.commits:.2f}", f"{1 / typical.commits:.1f}") if typical.commits else ("", "")),
            f"{typical.written:,.0f}" if shared else "",
            *(f"{typical.busy:.0%}", f"{typical.others:.0%}"),
        )
        yield f"| {' | '.join(cells)} |"


def _order(series: Series) -> tuple[object, ...]:
    mode, store = MODES.index(series.mode), STORES.index(series.store)
    return mode, series.connections, store, series.commit or 0.0, series.gateways


def _values(sample: Sample) -> Sequence[float]:
    return list(asdict(sample).values())


def aims(found: dict[Series, list[Sample]], failovers: Sequence[Failover]) -> Iterator[str]:
    yield "| aim | bound | measured |"
    yield "|---|---|---|"
    base, other = Series(DURABLE, SQLITE, 1, None, 256), Series(DURABLE, POSTGRES, 1, 1, 256)
    what = "durable on PostgreSQL to SQLite, 256 connections, 1 ms"
    yield f"| {what}: CPU a call, database included | {MAX_DURABLE} x | {_ratio(found, other, base, _cpu)} |"
    yield f"| {what}: time a call | {MAX_DURABLE} x | {_ratio(found, base, other, _pace)} |"
    one, two = Series(PROOFS, POSTGRES, 1, 1, 256), Series(PROOFS, POSTGRES, 2, 1, 256)
    pace = _ratio(found, two, one, _pace)
    cost = _ratio(found, two, one, _cpu)
    yield f"| calls a second of two gateways to those of one | at least {TWO_GATEWAYS} x | {pace} |"
    yield f"| CPU a call of two gateways to one, database included (what limits that, with cores enough) | | {cost} |"
    for each in failovers:
        told = f"{each.answered:.1f} s ({each.promoted:.1f} s of it until a standby was promoted)"
        yield f"| refused after a primary was {each.how} | {MAX_SECONDS:.0f} s | {told} |"


def _pace(sample: Sample) -> float:
    return sample.per_second


def _cpu(sample: Sample) -> float:
    return sample.gateway_us + sample.log_us + sample.database_us


def _ratio(found: dict[Series, list[Sample]], one: Series, other: Series, what: Callable[[Sample], float]) -> str:
    """The median of the ratios of turns that were in the same round."""
    pairs = list(zip(found.get(one, ()), found.get(other, ()), strict=False))
    return f"{median(what(mine) / what(its) for mine, its in pairs):.2f} x" if pairs else "not measured"


def keep(found: dict[Series, list[Sample]]) -> None:
    RESULT.parent.mkdir(exist_ok=True)
    rows = [{**series._asdict(), "samples": [asdict(each) for each in samples]} for series, samples in found.items()]
    RESULT.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=1))


def say(line: str) -> None:
    print(f"bench: {line}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small part of it: a few minutes")
    parser.add_argument(
        "--only", metavar="TEXT", default="", help="ways whose name holds it: 'durable, PostgreSQL, x2'"
    )
    parser.add_argument("--no-failover", action="store_true", help="without the failover")
    options = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="accredit-bench-") as name:
            folder = Path(name)
            folder.chmod(0o711)  # PostgreSQL runs as somebody else
            bench = Bench(QUICK if options.quick else FULL, options.only, folder)
            uvloop.run(bench.run())
        hows = (KILLED, SILENT) if options.only in FAILOVER else ()
        failovers = [measure(how, lambda up, store: toml(up, store, PROOFS, "required"), say) for how in hows]
    except BenchError as error:
        say(str(error))
        return 1
    keep(bench.found)
    print(f"{machine()}. The databases, the gateways, the load and the server: all on this machine, fsync on.\n")
    tables = [*table(bench.found), ""] if bench.found else []
    print("\n".join([*tables, *aims(bench.found, failovers)]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
