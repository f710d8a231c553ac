"""Stores for tests: opened and closed again, and what a store must say, worked out plainly. I/O: the SQLite files.

`python -m tests.world.stores FILE` is another process that has the file: it reads lines such as `spend 200` from stdin,
does that, and says what came of it in a line of JSON.
"""

import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from msgspec import structs
from tests.world.patience import be_patient
from tests.world.postgres import TOLD_CLOCK, database_for, tell_clock

from accredit.errors import StoreUnavailable
from accredit.limits import MAX_SPENT_IN_DATABASE
from accredit.ports import AskStore, DoorStore, ProofStore, RateLimit, Spending, TaskStore
from accredit.rounds.sealing import KeyRing
from accredit.stores import StoreUrl, parse_store_url
from accredit.stores.postgres.driver import Connection
from accredit.stores.postgres.store import PostgresStore
from accredit.stores.postgres.worker import Batch
from accredit.stores.rules import NEVER

NOW = 1_800_000_000
URLS = ("memory:", "sqlite:///store.db", "postgresql:")
"""The last one stands for a database of the test's own."""
SHARED_URLS = URLS[1:]
ROOT = Path(__file__).parents[2]


@contextlib.asynccontextmanager
async def opened(url: str, folder: Path, since: int = NEVER) -> AsyncGenerator[ProofStore]:
    """A store that is closed in the end. A new one knows what was spent `since` then."""
    with contextlib.ExitStack() as stack:
        if url == URLS[2]:
            database = stack.enter_context(database_for(folder))
            database = structs.replace(database, max_spent=MAX_SPENT_IN_DATABASE)
            inner = PostgresStore(database, clock=TOLD_CLOCK, since=str(since))
            store: ProofStore = _Told(inner)
        else:
            store = parse_store_url(url, folder).open(since)
        try:
            yield store
        finally:
            await store.aclose()


T = TypeVar("T", TaskStore, DoorStore, AskStore)

RING = KeyRing([bytes(range(32))])
"""The keys that all gateways of one front door share."""


def _store(url: str, folder: Path, stack: contextlib.ExitStack) -> StoreUrl:
    if url == URLS[2]:
        return stack.enter_context(database_for(folder))
    return parse_store_url(url, folder)


@contextlib.asynccontextmanager
async def _opened(url: str, folder: Path, opens: Callable[[StoreUrl], T]) -> AsyncGenerator[T]:
    with contextlib.ExitStack() as stack:
        async with contextlib.aclosing(opens(_store(url, folder, stack))) as store:
            yield store


def opened_tasks(url: str, folder: Path) -> AbstractAsyncContextManager[TaskStore]:
    """A memory of tasks that is closed in the end."""
    return _opened(url, folder, lambda store: store.open_tasks())


def opened_door(url: str, folder: Path, ring: KeyRing = RING) -> AbstractAsyncContextManager[DoorStore]:
    """A memory of the front door that is closed in the end."""
    return _opened(url, folder, lambda store: store.open_door(ring))


def opened_asks(url: str, folder: Path) -> AbstractAsyncContextManager[AskStore]:
    """A memory of asks that is closed in the end."""
    return _opened(url, folder, lambda store: store.open_asks())


class FailsAt:
    """A store, as what comes after it among the bases, that fails at one of its questions; the text would give away
    where it lives."""

    def __init__(self, broken: str) -> None:
        super().__init__()
        self._broken = broken

    def __getattribute__(self, name: str) -> Any:
        if name == object.__getattribute__(self, "__dict__").get("_broken"):
            return self._fail
        return object.__getattribute__(self, name)

    async def _fail(self, *_: object, **__: object) -> Any:
        raise StoreUnavailable("/var/lib/secret-place.db: disk I/O error")


class _Clock:
    """Tells a database what time it is, and has what has expired by that deleted before something is written."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._now = 0
        self._swept = 0
        self._telling, self._sweeping = Batch(self._tell, False), Batch(self._sweep, False)

    async def at(self, now: int, *, writes: bool = False) -> None:
        if now != self._now:
            self._now = now
            await self._store.worker.run(self._telling, now)
        if writes and now != self._swept:
            self._swept = now
            await self._store.worker.run(self._sweeping, None)

    async def _tell(self, connection: Connection, asked: Sequence[int]) -> Sequence[None]:
        await tell_clock(connection, asked[-1])
        return [None] * len(asked)

    async def _sweep(self, connection: Connection, asked: Sequence[None]) -> Sequence[None]:
        await self._store._tend(connection, is_checked=False)
        return asked


class _Told:
    """A store in a database whose clock is what the caller says it is."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._clock = _Clock(store)
        self.issue, self.ready, self.aclose = store.issue, store.ready, store.aclose
        self.problem = store.problem

    async def look(self, challenge: bytes, request_hash: bytes, *, issued: bool, now: int) -> Spending:
        await self._clock.at(now)
        return await self._store.look(challenge, request_hash, issued=issued, now=now)

    async def spend(
        self, challenge: bytes, request_hash: bytes, *, issued: bool, keep_until: int, now: int
    ) -> Spending:
        await self._clock.at(now, writes=True)
        return await self._store.spend(challenge, request_hash, issued=issued, keep_until=keep_until, now=now)

    async def uses(self, cert_id: str, window_s: int, *, now: int) -> int:
        await self._clock.at(now)
        return await self._store.uses(cert_id, window_s, now=now)

    async def use(self, limits: Sequence[RateLimit], *, now: int) -> bool:
        await self._clock.at(now, writes=True)
        return await self._store.use(limits, now=now)

    async def room_at(self, limit: RateLimit, *, now: int) -> int | None:
        await self._clock.at(now)
        return await self._store.room_at(limit, now=now)


def challenge(number: int) -> bytes:
    """A challenge that a client made."""
    return number.to_bytes(32, "big")


def request(number: int) -> bytes:
    """The hash of a request."""
    return bytes([number]) * 32


class _Known(NamedTuple):
    request_hash: bytes
    expires_at: int


class Model:
    """What every store must say, as long as all that it was told to keep is kept."""

    def __init__(self) -> None:
        self.issued: dict[bytes, _Known] = {}
        self.spent: set[bytes] = set()
        self.used: list[tuple[str, int, int, int]] = []

    def issue(self, found: bytes, request_hash: bytes, expires_at: int) -> None:
        self.issued[found] = _Known(request_hash, expires_at)

    def look(self, found: bytes, request_hash: bytes, *, issued: bool, now: int) -> Spending:
        if found in self.spent:
            return Spending.SPENT
        known = self.issued.get(found)
        if known is None:
            return Spending.NOT_ISSUED if issued else Spending.FIRST
        return Spending.FIRST if known.request_hash == request_hash and now <= known.expires_at else Spending.NOT_ISSUED

    def spend(self, found: bytes, request_hash: bytes, *, issued: bool, now: int) -> Spending:
        verdict = self.look(found, request_hash, issued=issued, now=now)
        if verdict is Spending.FIRST:
            self.spent.add(found)
        return verdict

    def uses(self, cert_id: str, window_s: int, *, now: int) -> int:
        return sum(use[3] for use in self.used if (cert_id, window_s) == use[:2] and use[2] > now - window_s)

    def use(self, limits: Sequence[RateLimit], *, now: int) -> bool:
        if any(self.uses(each.cert_id, each.window_s, now=now) + each.amount > each.count for each in limits):
            return False
        amounts: dict[tuple[str, int], int] = {}
        for each in limits:
            series = each.cert_id, each.window_s
            amounts[series] = max(each.amount, amounts.get(series, 0))
        self.used.extend((*series, now, amount) for series, amount in amounts.items())
        return True


class StoreProcess:
    """Another process that has a store's file."""

    def __init__(self, popen: "subprocess.Popen[str]") -> None:
        self._popen = popen
        assert popen.stdin is not None
        assert popen.stdout is not None
        self._stdin: IO[str] = popen.stdin
        self._stdout: IO[str] = popen.stdout

    def tell(self, command: str) -> None:
        self._stdin.write(command + "\n")
        self._stdin.flush()

    def says(self) -> Any:
        """Its next line; fails when it has ended."""
        line = self._stdout.readline()
        assert line, "the process has ended"
        return json.loads(line)

    def kill(self) -> None:
        self._popen.kill()
        self._popen.wait()


@contextlib.contextmanager
def process(file: Path) -> Generator[StoreProcess]:
    """A process that is killed in the end."""
    popen = subprocess.Popen(
        [sys.executable, "-m", "tests.world.stores", str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    with popen:
        try:
            yield StoreProcess(popen)
        finally:
            popen.kill()


async def _spend(store: ProofStore, number: int) -> str:
    try:
        found = challenge(number)
        return (await store.spend(found, request(0), issued=False, keep_until=NOW + 60, now=NOW)).value
    except StoreUnavailable:
        return "unavailable"


async def _obey(store: ProofStore, command: str, number: int) -> None:
    match command:
        case "spend":  # so many challenges, all at once
            _say(await asyncio.gather(*(_spend(store, each) for each in range(number))))
        case "use":  # so often, at once, what may be used a hundred times
            noted = await asyncio.gather(*(store.use([RateLimit("one", 60, 100)], now=NOW) for _ in range(number)))
            _say(sum(noted))
        case "spend_on":  # for ever, saying each that is spent
            while True:
                _say([number, await _spend(store, number)])
                number += 1
        case "disk":  # files may grow to so many bytes, or as they like
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.setrlimit(resource.RLIMIT_FSIZE, (number or hard, hard))
            _say("done")
        case "become":  # a user with fewer rights
            os.setuid(number)
            _say("done")
        case _:
            _say(await store.ready())


def _say(what: object) -> None:
    print(json.dumps(what), flush=True)


async def _main(file: str) -> None:
    be_patient()
    async with opened(f"sqlite:///{file}", Path("/")) as store:
        while line := await asyncio.to_thread(sys.stdin.readline):
            command, number = line.split()
            await _obey(store, command, int(number))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
