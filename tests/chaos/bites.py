"""Failures of machines that make a challenge good twice wherever a store has one of the faults of `seeded`.

Each is played against a store with the fault and against ours, and gives the history that its clients saw. The first
must not be sound, or the checker would see nothing; ours must be. I/O: the servers that are given.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from msgspec import structs
from tests.chaos.checker import FIRST, SPENT, UNKNOWN, Operation, unsound
from tests.chaos.seeded import MakesRoom, ReadsBack, SweepsByItsOwnClock, fast_clock, nobody_waits, notices_pass
from tests.world.replicated import Replicated, wait_for
from tests.world.stores import RING

from accredit.base.clock import unix_seconds
from accredit.errors import ChallengesFull, StoreUnavailable
from accredit.ports import AuthorizationCode, Login, Spending
from accredit.stores.door.steps import Door
from accredit.stores.lasting import PostgresDatabase
from accredit.stores.postgres.store import PostgresStore
from accredit.stores.runners import DatabaseRunner

Make = Callable[[PostgresDatabase], Any]
S = TypeVar("S", bound="PostgresStore | Codes")
FRESH_SECONDS = 300
_ROOM = 20
_PLAYS = 5  # of a fault that shows only if a store asks again in time, which a busy machine prevents now and then


class Clients:
    """Who asks stores, and what they were told."""

    def __init__(self) -> None:
        self.history: list[Operation] = []

    async def spend(self, store: "PostgresStore | Codes", challenge: bytes, client: str) -> str | None:
        """Presents a challenge; gives what was said."""
        loop = asyncio.get_running_loop()
        begun, now = loop.time(), unix_seconds()
        answer: str | None = UNKNOWN
        try:
            said = await store.spend(challenge, b"r" * 32, issued=False, keep_until=now + FRESH_SECONDS, now=now)
            answer = FIRST if said is Spending.FIRST else SPENT
        except ChallengesFull:
            return UNKNOWN  # which promises that nothing was written
        except StoreUnavailable:
            pass
        self.history.append(Operation(challenge.hex()[:8], begun, loop.time(), answer, client))
        return answer


@contextlib.asynccontextmanager
async def opened(make: Callable[[PostgresDatabase], S], database: PostgresDatabase) -> AsyncGenerator[S]:
    """A store that is closed in the end, and has a connection that was good."""
    store = make(database)
    try:
        assert await store.ready(), "the servers are no good"
        yield store
    finally:
        store.worker._drop()  # whoever waits for a standby would be waited for
        await store.aclose()


async def lost_wait(servers: Replicated, make: Make, *, end_it: str) -> list[Operation]:
    """The primary has committed, no standby has it, and the wait for one is ended. Then the primary is lost."""
    clients, challenge = Clients(), secrets.token_bytes(32)
    async with opened(make, servers.database()) as store:
        if isinstance(store, Codes):
            await store.give(challenge)
        await asyncio.to_thread(servers.cut, *servers.standbys)
        asking = asyncio.create_task(clients.spend(store, challenge, "one"))
        waits = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'accredit'"
        await asyncio.to_thread(wait_for, lambda: servers.primary.run(waits) != "", "nobody waits for a standby")
        await asyncio.to_thread(servers.primary.run, f"SELECT {end_it}(pid) FROM ({waits}) AS waiting")
        await asking
    await asyncio.to_thread(servers.primary.kill)
    await asyncio.to_thread(servers.promote)
    async with opened(Codes if make is Codes else PostgresStore, servers.database()) as store:
        await clients.spend(store, challenge, "other")
    return clients.history


async def split_brain(servers: Replicated, make: Make) -> list[Operation]:
    """A primary that is cut off goes on with its clients, and another one is promoted."""
    clients, challenges = Clients(), [secrets.token_bytes(32) for _ in range(5)]
    database = structs.replace(servers.database(), replicas=make(servers.database())._database.replicas)
    async with opened(make, database) as old:
        await asyncio.to_thread(servers.cut, *servers.standbys)
        await asyncio.to_thread(servers.promote, isolated=True)
        async with opened(make, database) as new:
            for challenge in challenges:
                await clients.spend(new, challenge, "new")
            await asyncio.gather(*(clients.spend(old, challenge, "old") for challenge in challenges))
    return clients.history


async def clock_ahead(servers: Replicated, make: Make) -> list[Operation]:
    """A gateway whose clock is ahead deletes what it takes for ended."""
    clients, challenge = Clients(), secrets.token_bytes(32)
    async with opened(PostgresStore, servers.database()) as store:
        await clients.spend(store, challenge, "one")
        fast = make(servers.database())
        with fast_clock() if make is PostgresStore else contextlib.nullcontext():
            await clients.spend(fast, secrets.token_bytes(32), "fast")
        await fast.aclose()
        await clients.spend(store, challenge, "other")
    return clients.history


async def no_room(servers: Replicated, make: Make) -> list[Operation]:
    """There are more challenges than there is room for."""
    clients, challenges = Clients(), [secrets.token_bytes(32) for _ in range(2 * _ROOM)]
    await asyncio.to_thread(servers.primary.run, "TRUNCATE spent", "accredit")
    async with opened(make, structs.replace(servers.database(), max_spent=_ROOM)) as store:
        for client in ("one", "other"):
            for challenge in challenges:
                await clients.spend(store, challenge, client)
    return clients.history


class Codes(Door):
    """The front door's memory, in which a code is what is spent."""

    def __init__(self, database: PostgresDatabase) -> None:
        runner = DatabaseRunner(database, "accredit door")
        super().__init__(RING, runner)
        self.worker = runner.worker

    async def ready(self) -> bool:
        """Whether its connection is good."""
        await self.registered("", now=unix_seconds())
        return True

    async def give(self, code: bytes) -> None:
        """Has a code be good."""
        now, given = unix_seconds(), AuthorizationCode("app", "", "", "", ())
        grant = await self.begin("app", code.hex(), "", code, ends=now + FRESH_SECONDS, now=now)
        assert await self.approve(grant, lambda kept: kept, code, given, ends=now + FRESH_SECONDS, now=now)

    async def spend(self, challenge: bytes, owner: bytes, **times: Any) -> Spending:
        """Redeems a code."""
        told = await self.redeem(
            challenge, lambda _: True, login=secrets.token_bytes(32), token=owner, now=times["now"]
        )
        return Spending.FIRST if isinstance(told, Login) else Spending.SPENT


async def codes_at_once(servers: Replicated, make: Callable[[PostgresDatabase], Codes]) -> list[Operation]:
    """Three gateways get the same codes at once."""
    clients, codes = Clients(), [secrets.token_bytes(32) for _ in range(_ROOM)]
    async with contextlib.AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(opened(make, servers.database())) for _ in range(3)]
        for code in codes:
            await stores[0].give(code)
        await asyncio.gather(*(clients.spend(store, code, "one") for code in codes for store in stores))
    return clients.history


class Bite(NamedTuple):
    """What happens, to the store with the fault and to ours."""

    play: Callable[[Replicated, Make], Awaitable[list[Operation]]]
    faulty: Make
    fault: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    synchronous: bool = True
    ours: Make = PostgresStore


def _unreplicated(database: PostgresDatabase) -> PostgresStore:
    return PostgresStore(structs.replace(database, replicas="none"))


BITES = {
    "a cancelled wait counts": Bite(partial(lost_wait, end_it="pg_cancel_backend"), PostgresStore, notices_pass),
    "a repeated attempt only reads": Bite(partial(lost_wait, end_it="pg_terminate_backend"), ReadsBack),
    "ended by a gateway's clock": Bite(clock_ahead, SweepsByItsOwnClock),
    "room is made": Bite(no_room, MakesRoom),
    "a cancelled wait counts, for a code": Bite(
        partial(lost_wait, end_it="pg_cancel_backend"), Codes, notices_pass, ours=Codes
    ),
    "codes, and nobody waits": Bite(codes_at_once, Codes, nobody_waits, ours=Codes),
    "asynchronous standby": Bite(split_brain, _unreplicated, synchronous=False),
}


async def faults(servers: Replicated, bite: Bite) -> list[str]:
    """What the checker finds in the store with the fault, of as many plays as the first that shows it takes."""
    for _ in range(_PLAYS):
        if found := unsound(await bitten(servers, bite, faulty=True)):
            return found
    return []


async def bitten(servers: Replicated, bite: Bite, *, faulty: bool) -> list[Operation]:
    """The history of one of them."""
    await asyncio.to_thread(servers.make_synchronous, bite.synchronous or not faulty)
    await asyncio.to_thread(servers.heal)
    with bite.fault() if faulty else contextlib.nullcontext():
        return await bite.play(servers, bite.faulty if faulty else bite.ours)
