"""Memory of tasks and their owners in a PostgreSQL database.

A task is written even if it was known already: only a successful write shows that it is kept. A row that can be read
may still be on one machine alone.
"""

# ruff: noqa: S608 - statements are made of constants

from collections.abc import Sequence
from typing import NamedTuple

from accredit.errors import AccreditError, ClockSetBack, StoreUnavailable
from accredit.limits import MAX_TASK_BYTES, MAX_TASKS, MAX_TASKS_PER_OWNER, STORE_SWEEP_ROWS
from accredit.ports import Task
from accredit.stores.postgres.address import DatabaseAddress
from accredit.stores.postgres.driver import Connection, Row
from accredit.stores.postgres.forgetting import CLOCK, RowCount, forgotten_end, sweeping
from accredit.stores.postgres.worker import Batch, Worker

_COLUMNS = "owner, method, target, facts, flow"
# A longer row was not written by a gateway: it is no task, and not read.
_THIS = (
    "key = $1 AND keep_until >= $2"
    f" AND {' + '.join(f'octet_length({each})' for each in _COLUMNS.split(', '))} <= {MAX_TASK_BYTES}"
)
_FIND = f"SELECT {_COLUMNS} FROM tasks WHERE {_THIS}"
_OWNED = f"""
SELECT key FROM tasks WHERE owner = $1 AND keep_until >= $2 AND octet_length(key) = 32 LIMIT {MAX_TASKS_PER_OWNER}"""
_FORGOTTEN = f"SELECT {forgotten_end('tasks')}"
_REWRITE = f"UPDATE tasks SET flow = flow WHERE {_THIS} RETURNING {_COLUMNS}"
_RENEW = f"""
UPDATE tasks SET facts = $3, keep_until = greatest(keep_until, $4)
WHERE {_THIS} AND owner = $5 AND facts = $6 RETURNING 1"""
_WRITE = f"""
INSERT INTO tasks VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (key) DO UPDATE SET (owner, method, target, facts, flow, keep_until) =
  (EXCLUDED.owner, EXCLUDED.method, EXCLUDED.target, EXCLUDED.facts, EXCLUDED.flow, EXCLUDED.keep_until)
  WHERE tasks.keep_until < $8 RETURNING {_COLUMNS}"""


class _Kept(NamedTuple):
    key: bytes
    task: Task
    keep_until: int
    now: int


class PostgresTasks:
    """A `TaskStore` in a database. `clock` is SQL for the database's time."""

    def __init__(
        self,
        database: DatabaseAddress,
        *,
        clock: str = CLOCK,
    ) -> None:
        self._room = RowCount("tasks", MAX_TASKS)
        self._sweep = sweeping("tasks", "tasks", clock)
        self.worker = Worker(database, self._tend)
        self._keep = Batch(self._keep_each, False)
        self._renew = Batch(_renew_each, False)
        self._find, self._list = Batch(_find_each, True), Batch(_fetch_owned, True)

    async def keep(self, key: bytes, task: Task, *, keep_until: int, now: int) -> Task:
        """Store a task and return it. If the key has a task already, return that one. Raises `StoreUnavailable`."""
        return await self.worker.run(self._keep, _Kept(key, task, keep_until, now))

    async def renew(self, key: bytes, known: Task, task: Task, *, keep_until: int, now: int) -> bool:
        """Replace a task by one of the same owner, and keep it longer. Return False if `known` is not there."""
        made = (key, now, task.facts, keep_until, known.owner, known.facts)
        return await self.worker.run(self._renew, made)

    async def find(self, key: bytes, *, now: int) -> Task | None:
        """Return the task of this key, or None."""
        return await self.worker.run(self._find, (key, now))

    async def owned(self, owner: bytes, *, now: int) -> frozenset[bytes]:
        """Return the keys of an owner's tasks."""
        return await self.worker.run(self._list, (owner, now))

    async def aclose(self) -> None:
        """Finish the questions that wait, and close the connection."""
        await self.worker.aclose()

    async def _tend(self, connection: Connection, *, is_checked: bool) -> bool:
        ((deleted,),) = await connection.fetch(self._sweep)
        self._room.add(-deleted)
        if is_checked:
            await self._room.count(connection)
        return deleted == STORE_SWEEP_ROWS

    async def _keep_each(self, connection: Connection, asked: Sequence[_Kept]) -> Sequence[Task | AccreditError]:
        return [await self._keep_one(connection, each) for each in asked]

    async def _keep_one(self, connection: Connection, kept: _Kept) -> Task | AccreditError:
        known = await connection.fetch(_REWRITE, kept.key, kept.now)
        if known:
            return _task(known[0])
        ((until,),) = await connection.fetch(_FORGOTTEN)
        if kept.now <= until:
            return ClockSetBack(until)
        owned = await connection.fetch(_OWNED, kept.task.owner, kept.now)
        if not self._room.left or len(owned) >= MAX_TASKS_PER_OWNER:
            return StoreUnavailable("no room to remember one more task")
        task = kept.task
        row = (task.owner, _bytes(task.method), _bytes(task.target), task.facts, _bytes(task.flow), kept.keep_until)
        written = await connection.fetch(_WRITE, kept.key, *row, kept.now)
        if not written:  # another gateway was first
            written = await connection.fetch(_REWRITE, kept.key, kept.now)
        else:
            self._room.add(1)
        return _task(written[0]) if written else StoreUnavailable("the task ended while it was remembered")


async def _renew_each(
    connection: Connection, asked: Sequence[tuple[bytes, int, bytes, int, bytes, bytes]]
) -> Sequence[bool]:
    return [bool(await connection.fetch(_RENEW, *each)) for each in asked]


async def _find_each(connection: Connection, asked: Sequence[tuple[bytes, int]]) -> Sequence[Task | None]:
    found = [await connection.fetch(_FIND, *each) for each in asked]
    return [_task(rows[0]) if rows else None for rows in found]


async def _fetch_owned(connection: Connection, asked: Sequence[tuple[bytes, int]]) -> Sequence[frozenset[bytes]]:
    return [frozenset(row[0] for row in await connection.fetch(_OWNED, *each)) for each in asked]


def _task(row: Row) -> Task:
    owner, method, target, facts, flow = row
    return Task(owner, _text(method), _text(target), facts, _text(flow))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # a name may hold lone surrogates


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogatepass")
