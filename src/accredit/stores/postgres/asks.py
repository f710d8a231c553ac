"""Memory of asks that wait for a person (`ports.AskStore`) in a PostgreSQL database.

- [count] Who holds an ask waits for others who do, so that the bounds hold over all gateways.
- [written] An answer, a try and a taking each are one statement that writes; of several at once one writes first, and
  the others judge what it wrote. Only an answer may be repeated if its own answer was lost: it is the same one.
"""

# ruff: noqa: S608 - statements are made of constants

from collections.abc import Sequence
from typing import NamedTuple

from accredit.errors import AccreditError, AsksFull
from accredit.limits import MAX_ASKS, MAX_ASKS_PER_ASKER, STORE_SWEEP_ROWS
from accredit.ports import HeldAsk
from accredit.stores.asks import ASK_COLUMNS, FULL, GIVE_WAY, MAX_HELD_BYTES, read_row
from accredit.stores.postgres.address import DatabaseAddress
from accredit.stores.postgres.driver import Connection, Row
from accredit.stores.postgres.forgetting import CLOCK, sweeping
from accredit.stores.postgres.worker import Batch, Worker

_SIZE = " + ".join(f"octet_length({each})" for each in ("key", "asker", "person", "code", "text", "answer"))
# A longer row was not written by a gateway: it is no ask, and not read.
_THIS = f"keep_until >= $2 AND {_SIZE} <= {MAX_HELD_BYTES}"
_FIND = f"SELECT {ASK_COLUMNS} FROM asks WHERE key = $1 AND {_THIS}"
_FIND_CODE = f"SELECT {ASK_COLUMNS} FROM asks WHERE code = $1 AND {_THIS}"
_WAITING = f"""
SELECT code FROM asks WHERE person = $1 AND {_THIS} AND answer = '' ORDER BY keep_until LIMIT {MAX_ASKS}"""
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('accredit hold ask'))"
_EXPIRED = "DELETE FROM asks WHERE (key = $1 OR code = $2) AND keep_until < $3"
_COUNT = """
SELECT (SELECT count(*) FROM asks WHERE keep_until >= $2 AND (person = '') = $3),
  (SELECT count(*) FROM asks WHERE asker = $1 AND keep_until >= $2 AND answer = '')"""
_HOLD = f"""
INSERT INTO asks ({ASK_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING RETURNING key"""
_ANSWER = f"""
UPDATE asks SET answer = $3, keep_until = $4 WHERE key = $1 AND {_THIS} AND answer IN ('', $3) RETURNING key"""
_ATTEMPT = f"UPDATE asks SET tries = tries + 1 WHERE key = $1 AND {_THIS} RETURNING tries"
_TAKE = f"DELETE FROM asks WHERE key = $1 AND {_THIS} RETURNING {ASK_COLUMNS}"

_Asked = tuple[bytes, int]
"""A key, a code or a person, and the time."""


class _Answered(NamedTuple):
    key: bytes
    now: int
    answer: bytes
    keep_until: int


class PostgresAsks:
    """An `AskStore` in a database. `clock` is SQL for the database's time."""

    def __init__(self, database: DatabaseAddress, *, clock: str = CLOCK) -> None:
        self._sweep = sweeping("asks", "asks", clock)
        self.worker = Worker(database, self._tend)
        self._hold, self._answers = Batch(_hold_each, False), Batch(_answer_each, True)
        self._find, self._find_code = Batch(_find_each, True), Batch(_find_each_code, True)
        self._list = Batch(_list_each, True)
        self._attempts, self._takes = Batch(_attempt_each, False), Batch(_take_each, False)

    async def hold(self, ask: HeldAsk, *, now: int) -> HeldAsk:
        """Hold an ask and return it. If its key is known, return the ask that has it. Raises `AsksFull`."""
        return await self.worker.run(self._hold, (ask, now))

    async def find(self, key: bytes, *, now: int) -> HeldAsk | None:
        """Return the ask of this key, or None."""
        return await self.worker.run(self._find, (key, now))

    async def find_code(self, code: str, *, now: int) -> HeldAsk | None:
        """Return the ask of this code, or None."""
        return await self.worker.run(self._find_code, (code.encode(), now))

    async def waiting(self, person: str, *, now: int) -> Sequence[str]:
        """Return the codes of a person's asks that have no answer, in the order of their ends."""
        return await self.worker.run(self._list, (person.encode(), now))

    async def answer(self, key: bytes, answer: bytes, *, keep_until: int, now: int) -> bool:
        """Answer an ask; return whether it has this answer now."""
        return await self.worker.run(self._answers, _Answered(key, now, answer, keep_until))

    async def attempt(self, key: bytes, *, now: int) -> int:
        """Count one try to type an ask's digits; return how many there were, 0 if there is no such ask."""
        return await self.worker.run(self._attempts, (key, now))

    async def take(self, key: bytes, *, now: int) -> HeldAsk | None:
        """Forget an ask and return it, or None."""
        return await self.worker.run(self._takes, (key, now))

    async def aclose(self) -> None:
        """Finish the questions that wait, and close the connection."""
        await self.worker.aclose()

    async def _tend(self, connection: Connection, *, is_checked: bool) -> bool:
        ((deleted,),) = await connection.fetch(self._sweep)
        return deleted == STORE_SWEEP_ROWS


async def _hold_each(connection: Connection, asked: Sequence[tuple[HeldAsk, int]]) -> Sequence[HeldAsk | AccreditError]:
    return [await _hold_one(connection, ask, now) for ask, now in asked]


async def _hold_one(connection: Connection, ask: HeldAsk, now: int) -> HeldAsk | AccreditError:
    async with connection.transaction():
        await connection.fetch(_LOCK)
        code = ask.code.encode()
        await connection.fetch(_EXPIRED, ask.key, code, now)
        known = await connection.fetch(_FIND, ask.key, now)
        if known:
            return read_row(known[0])
        ((alike, of_asker),) = await connection.fetch(_COUNT, ask.asker, now, not ask.person)
        if alike >= MAX_ASKS and not ask.person:
            alike -= len(await connection.fetch(f"{GIVE_WAY} RETURNING key"))
        if alike >= MAX_ASKS or of_asker >= MAX_ASKS_PER_ASKER:
            return AsksFull(FULL)
        row = (ask.key, ask.asker, ask.person.encode(), code, ask.text, ask.keep_until, ask.answer, ask.tries)
        written = await connection.fetch(_HOLD, *row)
    return ask if written else AsksFull(FULL)


async def _find_each(connection: Connection, asked: Sequence[_Asked]) -> Sequence[HeldAsk | None]:
    return [_first(await connection.fetch(_FIND, *each)) for each in asked]


async def _find_each_code(connection: Connection, asked: Sequence[_Asked]) -> Sequence[HeldAsk | None]:
    return [_first(await connection.fetch(_FIND_CODE, *each)) for each in asked]


async def _list_each(connection: Connection, asked: Sequence[_Asked]) -> Sequence[Sequence[str]]:
    return [[code.decode("utf-8", "replace") for (code,) in await connection.fetch(_WAITING, *each)] for each in asked]


async def _answer_each(connection: Connection, asked: Sequence[_Answered]) -> Sequence[bool]:
    return [bool(await connection.fetch(_ANSWER, *each)) for each in asked]


async def _attempt_each(connection: Connection, asked: Sequence[_Asked]) -> Sequence[int]:
    tried = [await connection.fetch(_ATTEMPT, *each) for each in asked]
    return [rows[0][0] if rows else 0 for rows in tried]


async def _take_each(connection: Connection, asked: Sequence[_Asked]) -> Sequence[HeldAsk | None]:
    return [_first(await connection.fetch(_TAKE, *each)) for each in asked]


def _first(rows: Sequence[Row]) -> HeldAsk | None:
    return read_row(rows[0]) if rows else None
