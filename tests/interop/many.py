"""Plays the official SDKs' clients at all servers behind one gateway, at each one's own path and at that where they are
all one, and compares with the direct way.

I/O: processes, files, and once the environments. What can't be installed is left out, and named.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from msgspec import Struct
from tests.interop.cells import Cell
from tests.interop.clients import CLIENTS
from tests.interop.compare import Verdict, Where, compare, joined
from tests.interop.differences import DIFFERENCES
from tests.interop.environments import Environments
from tests.interop.one_gateway import ALL, WAY, OneGateway
from tests.interop.servers import BY_ROOTS, SERVERS
from tests.interop.ways import baselines

SDK_CLIENTS = ("python-sdk-1", "python-sdk-2", "typescript-sdk-1", "typescript-sdk-2")
"""Those of the official SDKs, of both eras. What other clients make of `connect` is in the matrix."""
BEHIND_ONE = {**SERVERS, BY_ROOTS.name: BY_ROOTS}
"""The servers of the matrix, and one whose every answer depends on what it asks of its client."""
AT_ONCE = 2


class Played(Struct):
    """What came of it: each step, the pairs that were left out and why, and what was wrong at the end."""

    verdicts: list[Verdict]
    absent: list[str]
    faults: list[str]


def play_behind_one(run: Path, environments: Environments, clients: Sequence[str], servers: Sequence[str]) -> Played:
    """Plays each of these clients at each of these servers. The cells of a server come one after the other."""
    parts = [*(CLIENTS[name] for name in clients), *(BEHIND_ONE[name] for name in servers)]
    lacking = {name: environments.install(name) for name in dict.fromkeys(part.environment for part in parts)}
    absent = [reason for reason in lacking.values() if reason]
    at_hand = [BEHIND_ONE[name] for name in servers if not lacking[BEHIND_ONE[name].environment]]
    callers = [CLIENTS[name] for name in clients if not lacking[CLIENTS[name].environment]]
    with OneGateway(run, environments, at_hand) as gateway, ThreadPoolExecutor(AT_ONCE) as pool:
        rows = [[Cell(client, server) for client in callers] for server in at_hand]
        verdicts = [verdict for row in pool.map(partial(_row, gateway, environments), rows) for verdict in row]
        return Played(verdicts, absent, gateway.faults())


def _row(gateway: OneGateway, environments: Environments, cells: list[Cell]) -> list[Verdict]:
    return [verdict for cell in cells for verdict in _played(gateway, environments, cell)]


def _played(gateway: OneGateway, environments: Environments, cell: Cell) -> list[Verdict]:
    client, server, began = cell.client.name, cell.server.name, time.monotonic()
    verdicts: list[Verdict] = []
    for way in (WAY, ALL):
        try:
            direct = joined(*cell.play(gateway.run, environments, baselines("connect", cell.server)).values())
            verdicts += compare(client, server, way, direct, gateway.play(cell, way), DIFFERENCES)
        except Exception as error:  # the others are played all the same
            verdicts.append(Verdict(Where(client, server, way, "all"), through=f"{type(error).__name__}: {error}"))
    failed, took = sum(verdict.failed for verdict in verdicts), time.monotonic() - began
    print(f"{client:18} {server:20} {len(verdicts):3} steps, {failed:3} unexplained, {took:4.0f} s", flush=True)
    return verdicts
