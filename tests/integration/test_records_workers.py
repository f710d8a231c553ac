"""Processes that share one log, each with a chain of its own: workers that are killed alone or all at once, gateways
beside each other. Who dies has its calls closed by who comes after it; the calls of those who live are left alone."""

import asyncio
import contextlib
import os
import random
import signal
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.world.raw_client import CutOff, RawClient
from tests.world.raw_server import RawServer, until
from tests.world.recorded import calls_of, records_of
from tests.world.recorded_load import Load, Upstream, ask, configure, serving, verify

from accredit.config.digest import policy_digest
from accredit.config.load import load

pytestmark = pytest.mark.slow

WORKERS = 4
CLIENTS = 24
ROUNDS = [2, pytest.param(5, marks=pytest.mark.long)]
KILLS = 3
"""Workers that are killed in a round, before all are."""


def writer_of(pid: int) -> str | None:
    """The writer that a process is, as long as it holds its lock."""
    with contextlib.suppress(FileNotFoundError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                target = link.readlink()
                if target.parent.name == "accredit.db-writers":
                    return target.name
    return None


def writers_of(pids: Iterable[int]) -> dict[str, int]:
    """The processes' ids, by their writers."""
    return {writer: pid for pid in pids if (writer := writer_of(pid)) is not None}


def begun(db: Path) -> int:
    """How many writers have looked for dead ones."""
    try:
        with contextlib.closing(sqlite3.connect(f"{db.as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT count(*) FROM log_writers").fetchone()[0]
    except sqlite3.OperationalError:  # it is being made
        return 0


def statuses(db: Path) -> dict[str, dict[str, Any]]:
    """Of each writer, its calls' statuses by their targets."""
    found: dict[str, dict[str, Any]] = {}
    for call in calls_of(db):
        found.setdefault(call["record"].log.writer, {})[call["target"]] = call["status"]
    return found


def send(number: signal.Signals, pids: Iterable[int]) -> None:
    """Sends a signal to each of these processes."""
    for pid in pids:
        os.kill(pid, number)


async def one_call(port: int, target: str) -> bool:
    """Whether a call was answered."""
    with contextlib.suppress(OSError, CutOff):
        async with RawClient(port) as client:
            return "result" in await ask(client, target)
    return False


async def held(upstream: Upstream, port: int, name: str) -> "dict[str, asyncio.Task[bool]]":
    """Calls that wait for the upstream, by their targets."""
    upstream.held.clear()
    calls = {f"{name}-{number}": asyncio.create_task(one_call(port, f"{name}-{number}")) for number in range(CLIENTS)}
    await until(lambda: set(calls) <= set(upstream.called))
    return calls


async def test_the_worker_that_replaces_a_dead_one_closes_its_calls_while_the_others_go_on(tmp_path: Path) -> None:
    upstream = Upstream()
    async with RawServer(upstream) as server:
        db = configure(tmp_path, f'url = "{server.url}"')
        with await asyncio.to_thread(serving(tmp_path, "--workers", str(WORKERS)).__enter__) as gateway:
            await until(lambda: begun(db) == WORKERS)  # one that had not would bury the dead one as well
            calls = await held(upstream, gateway.port, "call")
            writers, before = writers_of(gateway.workers), statuses(db)
            assert set(before) <= set(writers)
            dead = max(before, key=lambda writer: len(before[writer]))
            others = [pid for writer, pid in writers.items() if writer != dead]
            send(signal.SIGSTOP, others)  # they look for dead ones as well, now and then
            os.kill(writers[dead], signal.SIGKILL)
            await until(lambda: set(statuses(db)[dead].values()) == {"unknown"})
            send(signal.SIGCONT, others)
            now = statuses(db)
            assert {writer: now[writer] for writer in before if writer != dead} == {
                writer: before[writer] for writer in before if writer != dead
            }
            closed_by = {each.log.writer for each in records_of(db) if each.outcome is not None}
            assert len(closed_by) == 1
            assert closed_by.isdisjoint(writers)
            assert {each.policy and each.policy.digest for each in records_of(db)} == {
                policy_digest(load(tmp_path / "accredit.toml", {}, {}))
            }
            upstream.held.set()
            answered = {target for target, call in calls.items() if await call}
            assert answered == set(calls) - set(before[dead])
            gateway.stop()
            await asyncio.to_thread(gateway.wait)
    assert {target for chain in statuses(db).values() for target in chain if chain[target] == "ok"} == answered
    assert verify(tmp_path)["valid"]


async def test_a_gateway_that_starts_beside_another_closes_the_calls_of_dead_ones_only(tmp_path: Path) -> None:
    upstream = Upstream()
    async with RawServer(upstream) as server:
        db = configure(tmp_path, f'url = "{server.url}"')
        with (
            await asyncio.to_thread(serving(tmp_path).__enter__) as first,
            await asyncio.to_thread(serving(tmp_path).__enter__) as second,
        ):
            cut_off = await held(upstream, first.port, "first")
            going_on = await held(upstream, second.port, "second")
            first.process.kill()
            assert not any([await call for call in cut_off.values()])
            send(signal.SIGSTOP, [second.process.pid])  # it looks for dead ones as well, now and then
            with await asyncio.to_thread(serving(tmp_path).__enter__) as third:
                found = {call["target"]: call["status"] for call in calls_of(db)}
                assert found == dict.fromkeys(cut_off, "unknown") | dict.fromkeys(going_on)
                send(signal.SIGCONT, [second.process.pid])
                upstream.held.set()
                assert all([await call for call in going_on.values()])
                for gateway in (second, third):
                    gateway.stop()
                    await asyncio.to_thread(gateway.wait)
    found = {call["target"]: call["status"] for call in calls_of(db)}
    assert found == dict.fromkeys(cut_off, "unknown") | dict.fromkeys(going_on, "ok")
    assert verify(tmp_path)["valid"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rounds", ROUNDS)
async def test_workers_may_die_one_by_one_and_all_at_once(rounds: int, tmp_path: Path) -> None:
    upstream, load, dice = Upstream(), Load(), random.Random(13)

    async def more() -> None:
        enough = len(load.answered) + dice.randrange(50)
        await until(lambda: len(load.answered) > enough)

    async with RawServer(upstream) as server:
        db = configure(tmp_path, f'url = "{server.url}"')
        for number in range(rounds):
            with await asyncio.to_thread(serving(tmp_path, "--workers", str(WORKERS)).__enter__) as gateway:
                working: list[asyncio.Task[None]] = []
                for wave in range(KILLS + 1):
                    load_of_wave = load.work(gateway.port, f"r{number}-w{wave}", CLIENTS)
                    working.append(asyncio.create_task(load_of_wave))
                    await more()
                    if wave < KILLS:
                        with contextlib.suppress(ProcessLookupError):  # one that died before, just collected
                            os.kill(dice.choice(sorted(gateway.workers)), signal.SIGKILL)
                    else:
                        os.killpg(gateway.process.pid, signal.SIGKILL)
                await asyncio.gather(*working)
        with await asyncio.to_thread(serving(tmp_path).__enter__) as gateway:
            gateway.stop()
            await asyncio.to_thread(gateway.wait)
    load.check(db, upstream.called)
    assert load.refused == load.withheld == []
    found = verify(tmp_path)
    assert len(found["writers"]) > rounds
    assert found["not_in_a_checkpoint"] == 0
