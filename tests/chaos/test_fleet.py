"""Gateways with a replicated database while it fails: the short form of `make chaos`."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Generator, Sequence
from pathlib import Path

import pytest
from tests.chaos.agents import ANSWERED, LOST, REFUSED, RESET, UNKNOWN, Load
from tests.chaos.fleet import Fleet
from tests.chaos.judge import judged
from tests.chaos.logins import play_logins
from tests.chaos.records import RunRecords
from tests.chaos.rounds import play_rounds
from tests.chaos.upstream import Upstream
from tests.world.patient_stores import COMMAND as PATIENT
from tests.world.patient_stores import IMPORTS
from tests.world.ports import reserved_port
from tests.world.raw_client import RawClient
from tests.world.replicated import Place, Replicated
from tests.world.running import run
from tests.world.warm import COMMAND

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.holds("stores/postgres/session", "all-hosts", "primary", "timeline"),
]

ROUNDS = [(20, 5, 5), pytest.param((1000, 1000, 1000), marks=[pytest.mark.long, pytest.mark.timeout(1800)])]
LOGINS = 4
PATIENCE = 120.0
CALLS, AT_ONCE = 500, 50
READY_SECONDS = 45
"""Three times what is promised: a busy machine takes its share."""
MAX_GROWTH_KIB = 16_384


@pytest.fixture(scope="module")
def servers() -> Generator[Replicated]:
    with Replicated() as started:
        yield started


class Scene:
    """What runs in a test."""

    def __init__(self, fleet: Fleet, upstream: Upstream, load: Load) -> None:
        self.fleet = fleet
        self.upstream = upstream
        self.load = load

    async def answered_everywhere(self) -> float:
        """Waits until each gateway answers a call; gives the seconds that took."""
        begun = asyncio.get_running_loop().time()
        async with asyncio.timeout(PATIENCE):
            for door in self.load.doors:
                while not await self.load.probe(door):
                    await asyncio.sleep(0.05)
        return asyncio.get_running_loop().time() - begun


@contextlib.asynccontextmanager
async def scene(
    servers: Replicated, folder: Path, gateways: int, *, patient: bool = False, **settings: str
) -> AsyncGenerator[Scene]:
    """Gateways behind which the server keeps its journal; `patient` ones wait for a database that stalls."""
    with contextlib.ExitStack() as stack:
        ports = [stack.enter_context(reserved_port()) for _ in range(gateways + 1)]
        places = {f"g{number}": Place("127.0.0.1", port) for number, port in enumerate(ports[1:])}
        async with Upstream("127.0.0.1", ports[0]) as upstream:
            command, env = (PATIENT, dict.fromkeys(places, IMPORTS)) if patient else (COMMAND, None)
            fleet = Fleet(folder, servers, places, upstream.url, command=command, env=env, **settings)
            stack.callback(fleet.close)
            await asyncio.to_thread(fleet.start)
            yield Scene(fleet, upstream, Load(fleet.doors, fleet.trusts, 1))
            assert all("Traceback" not in gateway.stderr for gateway in fleet.gateways.values())


def test_a_primary_that_is_lost_takes_no_spent_proof_and_no_record_along__and_the_next_is_found_without_a_restart(
    servers: Replicated, tmp_path: Path
) -> None:
    async def main() -> None:
        async with scene(servers, tmp_path, 2, records="durable") as world:
            records = RunRecords(servers, world.fleet)
            await asyncio.to_thread(records.begin)
            calling = asyncio.create_task(world.load.run(4))
            await asyncio.sleep(1)
            lost = servers.primary
            await asyncio.to_thread(lost.kill)
            await asyncio.to_thread(servers.promote)
            print(f"found again in {await world.answered_everywhere():.1f} s")
            world.load.stopping = True
            await calling
            assert servers.primary is not lost
            summary = judged(world.load.exchanges, world.upstream.journal, may={UNKNOWN})
            print(f"{summary.longest_gap:.1f} s without an answer; {summary.outcomes}; {summary.causes}")
            assert summary.broken == []
            assert await asyncio.to_thread(records.broken, world.load.exchanges, world.upstream.journal) == []
            assert await asyncio.to_thread(records.open_in_the_end) == []
            assert await asyncio.to_thread(records.verified) == []
            assert summary.outcomes[ANSWERED] > 10

    servers.heal()
    run(main())


@pytest.mark.long
@pytest.mark.parametrize("replicas", ["required", "none"])
def test_gateways_on_both_sides_of_a_split_take_a_proof_twice_only_if_no_standby_is_waited_for__and_that_is_seen(
    replicas: str, servers: Replicated, tmp_path: Path
) -> None:
    async def main() -> None:
        async with scene(servers, tmp_path, 2, replicas=replicas) as world:
            calling = asyncio.create_task(world.load.run(4))
            await asyncio.sleep(1)
            await asyncio.to_thread(servers.cut, *servers.standbys)
            await asyncio.to_thread(servers.promote, isolated=True)
            gateway = world.fleet.gateways["g1"]  # which finds the new primary, while the other one keeps the old
            await asyncio.to_thread(gateway.kill)
            await asyncio.to_thread(gateway.start)
            await asyncio.sleep(4)
            world.load.stopping = True
            await calling
            broken = judged(world.load.exchanges, world.upstream.journal, may={UNKNOWN, LOST, RESET}).broken
            assert any("reached the server 2 times" in each for each in broken) is (replicas == "none"), broken
            assert (broken == []) is (replicas == "required")

    servers.make_synchronous(replicas == "required")
    servers.heal()
    try:
        run(main())
    finally:
        servers.make_synchronous(True)
        servers.heal()


@pytest.mark.parametrize("rounds", ROUNDS)
def test_of_64_copies_at_three_gateways_one_reaches_the_server(
    rounds: Sequence[int], servers: Replicated, tmp_path: Path
) -> None:
    async def main() -> None:
        async with scene(servers, tmp_path, 3, patient=True) as world:
            assert await play_rounds(world.fleet, world.upstream, rounds) == []

    servers.heal()
    run(main())


@pytest.mark.holds("stores/door/steps", "code", "rotation")
@pytest.mark.holds("gateway/holding", "digits", "once")
@pytest.mark.holds("gateway/front/desk_asks", "nonce", "answer")
def test_of_what_is_good_once_in_a_login__three_gateways_that_get_copies_at_once_take_one(
    servers: Replicated, tmp_path: Path
) -> None:
    async def main() -> None:
        async with scene(servers, tmp_path, 3, patient=True) as world:
            await asyncio.to_thread(world.fleet.let_apps_in)
            assert await play_logins(world.fleet, LOGINS) == []

    servers.heal()
    run(main())


@pytest.mark.holds("stores/postgres/worker", "failure", "pause", "bounds")
def test_without_a_database_guarded_calls_are_refused__lists_go_on__and_it_is_said(
    servers: Replicated, tmp_path: Path
) -> None:
    async def main() -> None:
        async with scene(servers, tmp_path, 1) as world:
            (gateway,) = world.fleet.gateways.values()
            await world.answered_everywhere()
            for gone in (servers.primary.pause, lambda: [node.kill() for node in servers.nodes.values()]):
                gone()
                async with asyncio.timeout(READY_SECONDS):
                    while await _ready(gateway.place.port) != 503:
                        await asyncio.sleep(0.1)
                world.load.exchanges.clear()
                world.upstream.journal.clear()
                await _call(world.load, CALLS // 4)
                before = _resident_kib(gateway.pid)
                await _call(world.load, CALLS)
                assert {each.outcome for each in world.load.exchanges} == {REFUSED}
                assert {each.cause for each in world.load.exchanges} == {"store_unavailable"}
                assert world.upstream.journal == []
                assert _resident_kib(gateway.pid) - before < MAX_GROWTH_KIB
                listing = asyncio.create_task(world.load.run(0))
                await asyncio.sleep(1)
                world.load.stopping = True
                await listing
                assert world.load.lists[0] > 0
                assert world.load.lists[1] == 0
            await asyncio.to_thread(servers.heal)
            await world.answered_everywhere()
            assert await _ready(gateway.place.port) == 200

    servers.heal()
    run(main())


async def _call(load: Load, count: int) -> None:
    """Sends copies of a call, some at once."""
    trust = load._trusts[0]
    call = load.reading(trust, trust.chain("mcp:resource"))
    (door,) = load.doors
    for _ in range(count // AT_ONCE):
        await asyncio.gather(*(load.ask(call, door) for _ in range(AT_ONCE)))


async def _ready(port: int) -> int:
    async with RawClient(port) as client:
        await client.ask("GET", "/readyz")
        answer = await client.answer()
        assert json.loads(answer.body)["store"] is (answer.status == 200)
        return answer.status


def _resident_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])
