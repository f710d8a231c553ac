"""Recorded calls, each with a proof, at an honest server beside five whose answers become as much as they may, while
twenty callers ask for those: the scene of `tests.integration.test_memory_besieged`, whose memory is bounded there.

The hostile servers and their callers take CPU of the same cores: that is in the ratios.
"""

import asyncio
import multiprocessing
import statistics
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import uvloop
from tests.integration.test_memory_besieged import Besieged, under_siege
from tests.world.authorization import Trust
from tests.world.calls import Posted
from tests.world.raw_client import RawClient

from bench.errors import BenchError
from bench.report import table

CALLERS = 3
CALLS = {False: 1_000, True: 300}
"""Of each honest caller in a round: in full, and quick."""
ROUNDS = {False: 5, True: 3}
MOST_RATIO, MOST_MIB = 5, 384


def heavy(folder: Path, quick: bool) -> str:
    """Measure it with tools that are pinned, and without."""
    rows = [uvloop.run(_measured(folder, quick, pins=pins)) for pins in (False, True)]
    head = ("siege", "p50 quiet, ms", "besieged", "p99 quiet, ms", "besieged", "p99, ratio", "", "peak memory, MiB", "")
    return table(head, rows)


async def _measured(folder: Path, quick: bool, *, pins: bool) -> tuple[str, ...]:
    place = folder / f"pins-{pins}"
    place.mkdir()
    scene = Besieged(place, pins=pins)
    async with scene.running():
        await _calls(scene, 50)
        rounds: list[tuple[list[float], list[float]]] = []
        for _ in range(ROUNDS[quick]):
            quiet = await _calls(scene, CALLS[quick])
            async with _besiegers(scene):
                rounds.append((quiet, await _calls(scene, CALLS[quick])))
        peak = sum(scene.peak_mib().values())
    p50, p99 = (_typical(rounds, share) for share in (0.5, 0.99))
    return (
        "lists are looked at before calls" if pins else "what is asked for alone",
        f"{p50[0]:.1f}", f"{p50[1]:.1f}", f"{p99[0]:.1f}", f"{p99[1]:.1f}", f"{p99[2]:.1f} x",
        "met" if p99[2] < MOST_RATIO else "**missed**", f"{peak:.0f}", "met" if peak < MOST_MIB else "**missed**",
    )  # fmt: skip


def _typical(rounds: list[tuple[list[float], list[float]]], share: float) -> tuple[float, float, float]:
    """The medians over the rounds of this part of the times, quiet and besieged, in ms, and of their ratio."""
    pairs = [(_part(quiet, share), _part(besieged, share)) for quiet, besieged in rounds]
    quiet, besieged = (statistics.median(each) * 1e3 for each in zip(*pairs, strict=True))
    return quiet, besieged, statistics.median(besieged / quiet for quiet, besieged in pairs)


def _part(times: list[float], share: float) -> float:
    return sorted(times)[int(share * (len(times) - 1))]


async def _calls(scene: Besieged, calls: int) -> list[float]:
    """The times of these calls, whose proofs were signed before."""
    scene.latencies.clear()
    signed = [[scene.call("honest", f"{caller}/{number}") for number in range(calls)] for caller in range(CALLERS)]

    async def caller(posted: list[Posted]) -> None:
        async with RawClient(scene.port) as client:
            for each in posted:
                await scene.asked(client, each)

    await asyncio.gather(*map(caller, signed))
    return list(scene.latencies)


@asynccontextmanager
async def _besiegers(scene: Besieged) -> AsyncGenerator[None]:
    process = multiprocessing.get_context("spawn").Process(
        target=_besiege, args=(scene.folder, scene.trust, scene.port, scene.pins), daemon=True
    )
    process.start()
    try:
        await asyncio.sleep(3)  # until the first answers are there
        yield
        if not process.is_alive():
            raise BenchError("the hostile callers have ended")
    finally:
        process.kill()
        process.join()


def _besiege(folder: Path, trust: Trust, port: int, pins: bool) -> None:
    scene = Besieged(folder, pins=pins, trust=trust)
    scene.port = port

    async def for_ever() -> None:
        async with under_siege(scene):
            await asyncio.Event().wait()

    uvloop.run(for_ever())
