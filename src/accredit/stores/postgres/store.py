"""A store in a PostgreSQL database, shared by all gateways that reach its primary.

A spent challenge or a counted use is committed before the call is forwarded: on the primary's disk and, with `replicas`
"required", on a standby. If the database's answer is lost, the call is refused, though its proof may have been spent or
its use counted.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import NamedTuple

from accredit.errors import AccreditError, StoreUnavailable
from accredit.limits import MAX_USE_MARKS, STORE_SWEEP_ROWS
from accredit.ports import RateLimit, Spending
from accredit.ratify.challenges import IssuedChallenge
from accredit.stores.minted import RANDOM_BYTES, mint_challenge, read
from accredit.stores.postgres import challenges
from accredit.stores.postgres.address import DatabaseAddress
from accredit.stores.postgres.challenges import PresentedChallenge
from accredit.stores.postgres.driver import Connection
from accredit.stores.postgres.forgetting import CLOCK, RowCount, sweeping
from accredit.stores.postgres.schema import behind
from accredit.stores.postgres.uses import Counter
from accredit.stores.postgres.worker import Batch, Worker
from accredit.stores.rules import NEVER, Series, made_before

_OWNER_BYTES = 16
_KEY = "SELECT key FROM challenge_key"
_BEGIN = "INSERT INTO forgotten VALUES ('since', {}) ON CONFLICT (kind) DO NOTHING"
_SINCE = "SELECT until FROM forgotten WHERE kind = 'since'"
_WRITE = "SELECT pg_logical_emit_message(true, 'accredit', 'ready')"
"""SQL: a write that changes no data, but is committed like any other change."""


class _Asked(NamedTuple):
    challenge: bytes
    request_hash: bytes
    issued: bool
    keep_until: int
    now: int
    owner: bytes


class PostgresStore:
    """A `ProofStore` in a database. `draw(n)` returns n unpredictable bytes. `clock` is SQL for the database's time.
    `since` is SQL for a time: new tables know only the challenges that were spent after it."""

    def __init__(
        self,
        database: DatabaseAddress,
        draw: Callable[[int], bytes] = secrets.token_bytes,
        *,
        clock: str = CLOCK,
        since: str = str(NEVER),
    ) -> None:
        self._begin, self._since = _BEGIN.format(since), NEVER
        self._database = database
        self._draw = draw
        self._key = b""
        self._spending = challenges.spending(clock)
        self._spent, self._marks = RowCount("spent", database.max_spent), RowCount("uses", MAX_USE_MARKS)
        self._sweeps = (
            (sweeping("spent", "spent", clock), self._spent),
            (sweeping("uses", "uses", clock), self._marks),
            (sweeping("use_series", "uses", clock), None),
        )
        self.worker = Worker(database, self._tend)
        self._keys, self._writes = Batch(_ask_key, True), Batch(_write, True)
        self._looks, self._spends = Batch(self._look, True), Batch(self._spend, True)
        counter = Counter(clock, self._marks)
        self._counts, self._uses = Batch(counter.uses, True), Batch(counter.use, False)
        self._rooms = Batch(counter.room_in, True)

    async def issue(self, request_hash: bytes, *, expires_at: int) -> IssuedChallenge:
        """Issue a fresh challenge for one request. The key is read from the database each time, so that no challenge is
        issued while the store does not answer."""
        key = await self.worker.run(self._keys, None)
        return IssuedChallenge(mint_challenge(key, self._draw(RANDOM_BYTES), request_hash, expires_at), expires_at)

    async def look(self, challenge: bytes, request_hash: bytes, *, issued: bool, now: int) -> Spending:
        """Return what `spend` would return now. Changes nothing."""
        return await self.worker.run(self._looks, _Asked(challenge, request_hash, issued, 0, now, b""))

    async def spend(
        self, challenge: bytes, request_hash: bytes, *, issued: bool, keep_until: int, now: int
    ) -> Spending:
        """Spend a challenge if it is valid. Raises `ChallengesFull`."""
        owner = self._draw(_OWNER_BYTES)
        return await self.worker.run(self._spends, _Asked(challenge, request_hash, issued, keep_until, now, owner))

    async def uses(self, cert_id: str, window_s: int, *, now: int) -> int:
        """Return how many uses of a certificate `use` recorded for a limit of this window, in the last `window_s`
        seconds."""
        return await self.worker.run(self._counts, Series(cert_id, window_s))

    async def use(self, limits: Sequence[RateLimit], *, now: int) -> bool:
        """Record one use for each limit, unless that exceeds one of them. Return whether it was recorded. Raises
        `StoreUnavailable` if there is no room."""
        return await self.worker.run(self._uses, tuple(limits))

    async def room_at(self, limit: RateLimit, *, now: int) -> int | None:
        """Return when (unix seconds, by the clock that shows `now`) one more use will be within a limit; None if
        never."""
        seconds = await self.worker.run(self._rooms, limit)
        return None if seconds is None else now + seconds

    async def ready(self) -> bool:
        """Return whether the database can be written to and, with `replicas` "required", the write reaches a
        standby."""
        try:
            await self.worker.run(self._writes, None)
        except StoreUnavailable:
            return False
        return True

    def problem(self) -> str | None:
        """Return a notice if the tables are those of the previous version, else None."""
        return behind(self.worker.schema)

    @property
    def skew_seconds(self) -> float:
        """By how many seconds, at least, the clocks of the database and this machine differed at the last check."""
        return self.worker.skew_seconds

    async def aclose(self) -> None:
        """Finish the queued queries, and close the connection."""
        await self.worker.aclose()

    async def _tend(self, connection: Connection, *, is_checked: bool) -> bool:
        """Delete expired rows. After a check of the connection, also read the key and count rows. Return whether there
        is more to delete."""
        most = 0
        for statement, room in self._sweeps:
            ((deleted,),) = await connection.fetch(statement)
            most = max(most, deleted)
            if room is not None:
                room.add(-deleted)
        if is_checked:
            ((self._key,),) = await connection.fetch(_KEY)
            await connection.fetch(self._begin)
            ((self._since,),) = await connection.fetch(_SINCE)
            await self._spent.count(connection)
            await self._marks.count(connection)
        return most == STORE_SWEEP_ROWS

    def _presented(self, asked: _Asked) -> PresentedChallenge:
        ours = read(self._key, asked.challenge, asked.request_hash)
        keep_until = max(asked.keep_until, ours.expires_at) if ours else asked.keep_until
        return PresentedChallenge(asked.challenge, asked.owner, ours, asked.issued, keep_until, asked.now)

    async def _look(self, connection: Connection, asked: Sequence[_Asked]) -> Sequence[Spending]:
        spent = await challenges.find_spent(connection, [each.challenge for each in asked])
        return [self._presented(each).verdict(spent=each.challenge in spent) for each in asked]

    async def _spend(self, connection: Connection, asked: Sequence[_Asked]) -> Sequence[Spending | AccreditError]:
        presented = [
            self._presented(each._replace(issued=each.issued or made_before(self._since, each.keep_until)))
            for each in asked
        ]
        return await challenges.spend(connection, self._spending, presented, self._spent)


async def _ask_key(connection: Connection, asked: Sequence[None]) -> Sequence[bytes]:
    ((key,),) = await connection.fetch(_KEY)
    return [key] * len(asked)


async def _write(connection: Connection, asked: Sequence[None]) -> Sequence[None]:
    await connection.fetch(_WRITE)
    return [None] * len(asked)
