"""Memory of tasks and their owners: in this process, or in an SQLite file, with I/O in a thread of its own.

An expired task can't be found any more. Its row is deleted when a later task is stored. Bounds are checked when a task
is stored, so that processes that share a file see each other's tasks. If a task was forgotten, and the clock was then
set back to before that task's end, no task is stored: the forgotten one may have had the same id, and would be valid
again.
"""

import sqlite3
from functools import partial
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from accredit.errors import StoreUnavailable
from accredit.limits import CLOCK_BACK_SECONDS, MAX_TASK_BYTES, MAX_TASKS, MAX_TASKS_PER_OWNER, STORE_SWEEP_ROWS
from accredit.ports import Task
from accredit.stores.rules import NEVER, certain
from accredit.stores.sqlite.forgetting import read_forgotten_end, sweep
from accredit.stores.sqlite.worker import Worker

_FULL = "no room to remember one more task"
_COLUMNS = "owner, method, target, facts, flow"
# A longer row, or one of another type, was not written by a gateway: it is no task, and not read.
_IS_BYTES = " AND ".join(f"typeof({each}) = 'blob'" for each in _COLUMNS.split(", "))
_SIZE = " + ".join(f"length({each})" for each in _COLUMNS.split(", "))
_FIND = (
    f"SELECT {_COLUMNS} FROM tasks WHERE key = ? AND keep_until >= ?"  # noqa: S608 - of constants
    f" AND {_IS_BYTES} AND {_SIZE} <= {MAX_TASK_BYTES}"
)
_OWNED = f"SELECT key FROM tasks WHERE owner = ? AND keep_until >= ? AND length(key) = 32 LIMIT {MAX_TASKS_PER_OWNER}"  # noqa: S608 - of constants
_RENEW = (
    "UPDATE tasks SET facts = ?, keep_until = max(keep_until, ?)"
    " WHERE key = ? AND keep_until >= ? AND owner = ? AND facts = ?"
)


class _Kept(NamedTuple):
    task: Task
    keep_until: int


class MemoryTasks:
    """A `TaskStore` for one process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tasks: dict[bytes, _Kept] = {}
        self._owned: dict[bytes, set[bytes]] = {}
        self._forgotten = NEVER

    async def keep(self, key: bytes, task: Task, *, keep_until: int, now: int) -> Task:
        """Store a task and return it. If the key has a task already, return that one. Raises `StoreUnavailable`."""
        with self._lock:
            known = self._alive(key, now)
            if known is not None:
                return known
            certain(now, self._forgotten)
            if key in self._tasks:
                self._forget(key)
            if self._is_full(task.owner):
                for each, kept in [(each, kept) for each, kept in self._tasks.items() if kept.keep_until < now]:
                    self._forgotten = max(self._forgotten, kept.keep_until)
                    self._forget(each)
            if self._is_full(task.owner):
                raise StoreUnavailable(_FULL)
            self._tasks[key] = _Kept(task, keep_until)
            self._owned.setdefault(task.owner, set()).add(key)
        return task

    async def renew(self, key: bytes, known: Task, task: Task, *, keep_until: int, now: int) -> bool:
        """Replace a task by one of the same owner, and keep it longer. Return False if `known` is not there."""
        with self._lock:
            if self._alive(key, now) != known:
                return False
            self._tasks[key] = _Kept(task, max(keep_until, self._tasks[key].keep_until))
        return True

    async def find(self, key: bytes, *, now: int) -> Task | None:
        """Return the task of this key, or None."""
        with self._lock:
            return self._alive(key, now)

    async def owned(self, owner: bytes, *, now: int) -> frozenset[bytes]:
        """Return the keys of an owner's tasks."""
        with self._lock:
            return frozenset(key for key in self._owned.get(owner, ()) if self._tasks[key].keep_until >= now)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to release."""

    def _alive(self, key: bytes, now: int) -> Task | None:
        kept = self._tasks.get(key)
        return kept.task if kept is not None and kept.keep_until >= now else None

    def _is_full(self, owner: bytes) -> bool:
        return len(self._tasks) >= MAX_TASKS or len(self._owned.get(owner, ())) >= MAX_TASKS_PER_OWNER

    def _forget(self, key: bytes) -> None:
        owner = self._tasks.pop(key).task.owner
        self._owned[owner].discard(key)
        if not self._owned[owner]:
            del self._owned[owner]


class SqliteTasks:
    """A `TaskStore` in the file at `path`, shared by all processes of a machine."""

    def __init__(self, path: Path) -> None:
        self._worker = Worker(path)

    async def keep(self, key: bytes, task: Task, *, keep_until: int, now: int) -> Task:
        """Store a task and return it. If the key has a task already, return that one. Raises `StoreUnavailable`."""
        kept = await self._worker.run(partial(_keep, key=key, task=task, keep_until=keep_until, now=now))
        if kept is None:
            raise StoreUnavailable(_FULL)
        return kept

    async def renew(self, key: bytes, known: Task, task: Task, *, keep_until: int, now: int) -> bool:
        """Replace a task by one of the same owner, and keep it longer. Return False if `known` is not there."""
        made = (task.facts, keep_until, key, now, known.owner, known.facts)
        return await self._worker.run(lambda connection: connection.execute(_RENEW, made).rowcount == 1)

    async def find(self, key: bytes, *, now: int) -> Task | None:
        """Return the task of this key, or None."""
        return await self._worker.run(partial(_find, key=key, now=now), writes=False)

    async def owned(self, owner: bytes, *, now: int) -> frozenset[bytes]:
        """Return the keys of an owner's tasks."""
        return await self._worker.run(partial(_read_owned, owner=owner, now=now), writes=False)

    async def aclose(self) -> None:
        """End the thread and close the file."""
        await self._worker.aclose()


def _keep(connection: sqlite3.Connection, *, key: bytes, task: Task, keep_until: int, now: int) -> Task | None:
    known = _find(connection, key=key, now=now)
    if known is not None:
        return known
    certain(now, read_forgotten_end(connection, "tasks"))
    connection.execute("DELETE FROM tasks WHERE key = ?", (key,))
    sweep(connection, "tasks", now - CLOCK_BACK_SECONDS, STORE_SWEEP_ROWS)
    of_all = connection.execute("SELECT count(*) FROM tasks WHERE keep_until >= ?", (now,)).fetchone()[0]
    if of_all >= MAX_TASKS or len(_read_owned(connection, owner=task.owner, now=now)) >= MAX_TASKS_PER_OWNER:
        return None
    row = (key, task.owner, _bytes(task.method), _bytes(task.target), task.facts, _bytes(task.flow), keep_until)
    connection.execute("INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    return task


def _find(connection: sqlite3.Connection, *, key: bytes, now: int) -> Task | None:
    row = connection.execute(_FIND, (key, now)).fetchone()
    if row is None:
        return None
    owner, method, target, facts, flow = row
    return Task(owner, _text(method), _text(target), facts, _text(flow))


def _read_owned(connection: sqlite3.Connection, *, owner: bytes, now: int) -> frozenset[bytes]:
    rows = connection.execute(_OWNED, (owner, now))
    return frozenset(key for (key,) in rows)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # a name may hold lone surrogates


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogatepass")
