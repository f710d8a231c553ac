"""`python -m tests.interop`: runs the matrix, and writes `docs/reference/interoperability.md`.

I/O: processes, files, and once the environments of the clients and servers (`environments.py`).
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path

from tests.interop.cells import Cell
from tests.interop.clients import CLIENTS
from tests.interop.compare import Verdict, Where, compare, joined, uncalled, unneeded
from tests.interop.differences import DIFFERENCES
from tests.interop.environments import Environments
from tests.interop.many import BEHIND_ONE, SDK_CLIENTS, play_behind_one
from tests.interop.one_gateway import ALL
from tests.interop.report import PAGE, how_played, write_one_gateway, write_page
from tests.interop.servers import SERVERS
from tests.interop.ways import DATA, WAYS, Place, authorize, baselines, possible

AT_ONCE = 2
SHOWN = 1500


def authorized(run: Path, environments: Environments, server: str) -> None:
    """Makes the keys, the configuration and the delegation for a server, where they are not there yet."""
    authority = run / "authority" / server
    if (authority / "delegation.json").exists():
        return
    shutil.rmtree(authority, ignore_errors=True)
    data = authority / DATA
    data.mkdir(parents=True)
    place = Place(SERVERS[server], environments, authority, authority)
    place.server.prepare(data)
    authorize(place)


def played(
    run: Path, environments: Environments, wanted: list[str], cell: Cell, *, only: bool = False
) -> list[Verdict]:
    """Plays a cell and compares its ways; with `only` those that have been played."""
    ways = [way for way in wanted if possible(way, cell.server)]
    if only:
        ways = [way for way in ways if all(cell.played(run, each) for each in (way, *baselines(way, cell.server)))]
    needed = {base for way in ways for base in baselines(way, cell.server)}
    began = time.monotonic()
    names = (cell.client.name, cell.server.name)
    try:
        transcripts = cell.play(run, environments, [*sorted(needed - set(ways)), *ways])
    except Exception as error:  # the others are played all the same
        print(f"{names[0]:18} {names[1]:18} can't be played", flush=True)
        return [Verdict(Where(*names, "any", "all"), through=f"{type(error).__name__}: {error}")]
    verdicts: list[Verdict] = []
    for base in sorted(needed):
        verdicts += uncalled(*names, base, transcripts[base], cell.server.left_out)
    for way in ways:
        if bases := [transcripts[base] for base in baselines(way, cell.server)]:
            verdicts += compare(*names, way, joined(*bases), transcripts[way], DIFFERENCES)
    failed = sum(verdict.failed for verdict in verdicts)
    took = time.monotonic() - began
    print(f"{names[0]:18} {names[1]:18} {len(verdicts):4} steps, {failed:3} unexplained, {took:5.0f} s", flush=True)
    return verdicts


def missing(run: Path, cells: Iterable[Cell], ways: Iterable[str]) -> list[str]:
    """The cells of which no whole transcript lies in the folder of the run, of a way or of what it is compared with."""
    return [
        f"{cell.client.name} -> {cell.server.name} by {way}"
        for cell, way in product(cells, ways)
        if possible(way, cell.server)
        and not all(cell.played(run, each) for each in (way, *baselines(way, cell.server)))
    ]


def chosen() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.interop", description=__doc__)
    parser.add_argument("--client", action="append", choices=CLIENTS, help="only this one; may be repeated")
    parser.add_argument("--server", action="append", choices=SERVERS, help="only this one; may be repeated")
    parser.add_argument("--way", action="append", choices=WAYS, help="only this one; may be repeated")
    parser.add_argument(
        "--keep", type=Path, help="transcripts and logs go here; what is there already is not played again"
    )
    parser.add_argument("--played", action="store_true", help="play nothing: compare what lies in the folder of --keep")
    parser.add_argument("--one-gateway", action="store_true", help="only all servers behind one gateway")
    parser.add_argument("--write", action="store_true", help="write the page, also of a part of the matrix")
    return parser.parse_args()


def main() -> int:
    """Runs what the command line asks for; 1 where something is unexplained."""
    choice = chosen()
    run = choice.keep or Path(tempfile.mkdtemp(prefix="interop-"))
    run.mkdir(parents=True, exist_ok=True)
    run = run.resolve()
    environments = Environments(run)
    whole = not (choice.client or choice.server or choice.way)
    good = choice.one_gateway or matrix(choice, run, environments, whole=whole)
    if choice.one_gateway or (whole and not choice.played):
        good = one_gateway(choice, run, environments, whole=whole) and good
    return 0 if good else 1


def matrix(choice: argparse.Namespace, run: Path, environments: Environments, *, whole: bool) -> bool:
    """Plays each client at each server by each way; whether all is explained."""
    clients, servers, ways = choice.client or [*CLIENTS], choice.server or [*SERVERS], choice.way or [*WAYS]
    cells = [Cell(CLIENTS[client], SERVERS[server]) for server in servers for client in clients]
    began = time.monotonic()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        if "connect" in ways and not choice.played:
            list(pool.map(partial(authorized, run, environments), servers))
        parts = pool.map(partial(played, run, environments, ways, only=choice.played), cells)
        verdicts = [verdict for part in parts for verdict in part]
    absent = missing(run, cells, ways)
    failed = show_failures(verdicts)
    for cell in absent:
        print(f"not played: {cell}")
    left = unneeded(verdicts, [each for each in DIFFERENCES if ALL not in each.ways]) if whole and not absent else []
    for name in left:
        print(f"\nthe difference {name!r} is named and does not occur")
    took = time.monotonic() - began
    print(f"\n{len(verdicts)} steps compared in {took:.0f} s; {failed} unexplained; transcripts: {run}")
    if choice.write or (whole and not choice.played):
        days = {cell.day(run, way) for cell, way in product(cells, ways) if cell.played(run, way)}
        write_page(PAGE, verdicts, DIFFERENCES, how=how_played(days, absent))
    return not (failed or left)


def one_gateway(choice: argparse.Namespace, run: Path, environments: Environments, *, whole: bool) -> bool:
    """Plays the official SDKs' clients at all servers behind one gateway; whether all is explained."""
    clients, servers = choice.client or [*SDK_CLIENTS], choice.server or [*BEHIND_ONE]
    began = time.monotonic()
    came = play_behind_one(run, environments, clients, servers)
    failed = show_failures(came.verdicts)
    for each in came.absent:
        print(f"left out, as it can't be installed: {each}")
    for each in came.faults:
        print(f"\nwrong at the end: {each}")
    of_all = [each for each in DIFFERENCES if ALL in each.ways]
    left = unneeded(came.verdicts, of_all) if whole and not came.absent else []
    for name in left:
        print(f"\nthe difference {name!r} is named and does not occur")
    took = time.monotonic() - began
    print(f"\n{len(came.verdicts)} steps behind one gateway compared in {took:.0f} s; {failed} unexplained")
    if choice.write or whole:
        how = how_played({datetime.now(UTC).date().isoformat()}, came.absent)
        write_one_gateway(PAGE, came.verdicts, DIFFERENCES, how=how)
    return not (failed or came.faults or left)


def show_failures(verdicts: Iterable[Verdict]) -> int:
    """Prints what is unexplained; how many steps that is."""
    failures = [verdict for verdict in verdicts if verdict.failed]
    for verdict in failures:
        where = verdict.where
        print(f"\n{where.client} -> {where.server} by {where.way}: {where.step}")
        print(f"  direct:  {verdict.direct[:SHOWN]}\n  through: {verdict.through[:SHOWN]}")
    return len(failures)


if __name__ == "__main__":
    sys.exit(main())
