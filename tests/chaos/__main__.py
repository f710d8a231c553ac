"""`make chaos`: gateways, a replicated database and a balancer, and machines that fail under them, for some minutes.

`python -m tests.chaos [--seed N] [--only NEMESIS...] [--seconds S] [--rounds N]` first shows that its checker finds the
faults that are put back into the store (`bites`), then plays each nemesis (`nemeses`) while agents call, then sends 64
copies of one proof to all gateways at once, many times (`rounds`), and logs in to them, with copies of all that is good
once there, first in peace and then while machines fail (`logins`). It prints a table, and ends with 1 if one of the
invariants (`judge`) is broken or a fault was not found. I/O: processes, sockets, files.
"""

import argparse
import asyncio
import contextlib
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import TypeVar

import uvloop
from tests.chaos import bites, checker, redis
from tests.chaos.agents import Load
from tests.chaos.fleet import Fleet, has_balancer
from tests.chaos.judge import Summary, judged
from tests.chaos.logins import play_logins, play_logins_under
from tests.chaos.nemeses import NEMESES, Machines, Nemesis
from tests.chaos.network import go_inside, network
from tests.chaos.records import RunRecords
from tests.chaos.report import HEAD, line
from tests.chaos.rounds import play_rounds
from tests.chaos.upstream import Upstream
from tests.world.postgres import faketime
from tests.world.replicated import NAMES, Replicated

S = TypeVar("S", Replicated, Fleet)
GATEWAYS = ("g1", "g2", "g3")
AGENTS = 6
DISK_MEGABYTES = 400
ROUNDS = (1000, 250, 100)
LOGINS = 20
LOGINS_UNDER = ("kill-gateway", "kill-backend", "kill-primary", "stop-primary", "isolate-primary", "end-waits")
"""What goes wrong while apps log in: what leaves it open whether something was written, or could lose it."""
PATIENCE = 60.0
"""Seconds in which a call has to be answered again at every gateway after the last repair."""


def main() -> int:
    """Plays what was asked for; returns 1 if something did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Failure tests; see CONTRIBUTING.md.")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32), help="what agents choose by")
    parser.add_argument("--only", nargs="+", choices=[*NEMESES, "bites", "rounds"], help="not all of them")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each thing lasts")
    parser.add_argument(
        "--rounds", type=int, nargs=3, default=ROUNDS, help="rounds of 64 copies of a proof, of each kind"
    )
    asked = parser.parse_args()
    go_inside(sys.argv[1:])
    begun = time.monotonic()
    broken: list[str] = []
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if not asked.only or "bites" in asked.only:
            broken += runner.run(_bites())
        broken += runner.run(_run(asked))
    print(f"{'BROKEN' if broken else 'All invariants held'}; {time.monotonic() - begun:.0f} s in all")
    for each in broken:
        print(f"  {each}")
    return 1 if broken else 0


async def _bites() -> list[str]:
    """Shows that the checker finds what it is for; returns what it did not find, or found in our store."""
    print("What the checker finds in a store with a fault, and in ours:")
    broken: list[str] = []
    async with _started(Replicated()) as servers:
        for name, bite in bites.BITES.items():
            ours = checker.unsound(await bites.bitten(servers, bite, faulty=False))
            found = [len(await bites.faults(servers, bite)), len(ours)]
            print(f"  {name}: {found[0]} and {found[1]}", flush=True)
            if not found[0] or found[1]:
                broken.append(f"{name}: the checker found {found}")
    if shutil.which("redis-server") is None:
        print("  Redis: skipped, redis-server is not installed")
    else:
        found = [len(checker.unsound(await redis.failover()))]
        print(f"  Redis, whose primary is lost: {found[0]}", flush=True)
        if not found[0]:
            broken.append("Redis: the checker found nothing")
    return broken


async def _run(asked: argparse.Namespace) -> list[str]:
    net = network()
    print(f"Machines: {net.name}. Seed {asked.seed}.")
    with net, tempfile.TemporaryDirectory(prefix="accredit-chaos-") as folder:
        Path(folder).chmod(0o711)
        at = net.place("switch", 9000)
        nodes = {name: net.place(name, 5432) for name in NAMES}
        places = {name: net.place(name, 8484) for name in GATEWAYS}
        if has_balancer():
            places["balancer"] = net.place("switch", 8000)
        disks = DISK_MEGABYTES if net.can_cut else None
        async with (
            _started(Replicated(nodes, disks=disks)) as servers,
            Upstream(at.host, at.port) as upstream,
            _started(Fleet(Path(folder), servers, places, upstream.url, records="durable")) as fleet,
        ):
            return await _play(asked, Machines(net, servers, fleet, asked.seconds, []), upstream)


@contextlib.asynccontextmanager
async def _started(what: S) -> AsyncGenerator[S]:
    """What is started, and in the end closed, without this loop's standing still."""
    try:
        await asyncio.to_thread(what.start)
        yield what
    finally:
        await asyncio.to_thread(what.close)


async def _play(asked: argparse.Namespace, machines: Machines, upstream: Upstream) -> list[str]:
    broken: list[str] = []
    records = RunRecords(machines.servers, machines.fleet)
    print(HEAD, flush=True)
    for name, nemesis in NEMESES.items():
        if asked.only and name not in asked.only:
            continue
        missing = _missing(nemesis, machines)
        if missing:
            print(f"| {name} | skipped: {missing} |", flush=True)
            continue
        summary, lists, back = await _under(nemesis, machines, upstream, records, asked.seed)
        print(line(name, asked.seed, summary, lists, back), *summary.broken[:20], sep="\n  ", flush=True)
        broken += [f"{name}: {each}" for each in summary.broken]
    broken += await asyncio.to_thread(records.open_in_the_end)
    broken += await asyncio.to_thread(records.verified)
    if not asked.only or "rounds" in asked.only:
        await asyncio.to_thread(machines.fleet.stop_recording)
        broken += await play_rounds(machines.fleet, upstream, asked.rounds)
        await asyncio.to_thread(machines.fleet.let_apps_in)
        broken += await play_logins(machines.fleet, LOGINS)
        for name in LOGINS_UNDER:
            if not _missing(NEMESES[name], machines):
                play = NEMESES[name].play(machines)
                broken += await play_logins_under(name, play, partial(_repair, machines), machines.fleet)
    for note in machines.notes:
        print(note)
    gateways = machines.fleet.gateways.values()
    return broken + [f"{each.name} wrote: {_traceback(each.stderr)}" for each in gateways if "Traceback" in each.stderr]


def _traceback(text: str) -> str:
    found = text.index("Traceback")
    return text[max(0, found - 300) : found + 3000]


async def _under(
    nemesis: Nemesis, machines: Machines, upstream: Upstream, records: RunRecords, seed: int
) -> tuple[Summary, list[int], float]:
    """Plays one while agents call, repairs all, and waits until calls are answered everywhere."""
    load = Load(machines.fleet.doors, machines.fleet.trusts, seed)
    upstream.journal.clear()
    await asyncio.to_thread(records.begin)
    calling = asyncio.create_task(load.run(AGENTS))
    clock = asyncio.get_running_loop().time
    failed: list[str] = []
    try:
        await asyncio.sleep(1)
        try:
            await nemesis.play(machines)
        except AssertionError as error:
            failed.append(f"it could not be played: {error}")
        await asyncio.to_thread(_repair, machines)
        repaired = clock()
        for door in load.doors:
            while not await load.probe(door):
                if clock() - repaired > PATIENCE:
                    failed.append(f"{door} answers no call {PATIENCE:.0f} s after the last repair")
                    break
                await asyncio.sleep(0.05)
        back = clock() - repaired
        await asyncio.sleep(1)
    finally:
        load.stopping = True
        await calling
    summary = judged(load.exchanges, upstream.journal, may=nemesis.may)
    summary.broken.extend(failed)
    summary.broken.extend(await asyncio.to_thread(records.broken, load.exchanges, upstream.journal))
    return summary, load.lists, back


def _repair(machines: Machines) -> None:
    machines.network.heal()
    machines.servers.heal()


def _missing(nemesis: Nemesis, machines: Machines) -> str:
    """What a nemesis needs and is not there."""
    there = {
        "namespaces": machines.network.can_cut,
        "disks": machines.network.can_cut,
        "clocks": faketime() is not None,
        "balancer": "balancer" in machines.fleet.doors,
        "records": machines.fleet.records != "off",
    }
    words = {"namespaces": "no network namespaces", "disks": "no disk may be mounted", "clocks": "no libfaketime",
             "balancer": "no haproxy", "records": "no records are written"}  # fmt: skip
    return words[nemesis.needs] if nemesis.needs and not there[nemesis.needs] else ""


if __name__ == "__main__":
    sys.exit(main())
