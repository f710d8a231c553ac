"""Memory of tasks and their owners (`ports.TaskStore`), in any kind of store. No I/O of its own (`runners`).

An expired task can't be found any more. Its row is deleted when a later task is stored. If a task was forgotten, and
the clock was then set back to before that task's end, no task is stored: the forgotten one may have had the same id,
and would be valid again.

Tasks are counted when one is stored, at most once in `COUNTED_SECONDS`. In between, a process knows only of those that
it has added itself.

A task is written even if it was known already: only a successful write shows that it is kept. A row that can be read
from a database may still be on one machine alone.
"""

# ruff: noqa: S608 - statements are made of constants

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from accredit.errors import StoreUnavailable
from accredit.limits import CLOCK_BACK_SECONDS, MAX_TASKS_PER_OWNER, STORE_SWEEP_ROWS
from accredit.ports import Task
from accredit.stores.rules import certain
from accredit.stores.runners import Runner, SteppedStore, Steps, reads, writes

MAX_TASKS = 100_000
"""The most tasks that a store remembers: at some 400 bytes each, 40 MB."""
MAX_TASK_BYTES = 65_536
"""The most bytes that are stored for a task: its facts, and 8,192 characters of its target. A longer row was not
written by a gateway, and does not count as a task."""
COUNTED_SECONDS = 10
"""How long a count of all tasks is used: in a full store, counting takes some 20 ms."""

_COLUMNS = "owner, method, target, facts, flow"
# A longer row was not written by a gateway: it is no task, and not read.
_SIZE = " + ".join(f"length({each})" for each in _COLUMNS.split(", "))
_FIND = f"SELECT {_COLUMNS} FROM tasks WHERE key = $1 AND keep_until >= $2 AND {_SIZE} <= {MAX_TASK_BYTES}"
_OWNED = f"SELECT key FROM tasks WHERE owner = $1 AND keep_until >= $2 AND length(key) = 32 LIMIT {MAX_TASKS_PER_OWNER}"
_COUNT = "SELECT count(*) FROM tasks WHERE keep_until >= $1"
_TOUCH = "UPDATE tasks SET flow = flow WHERE key = $1"
_RENEW = (
    "UPDATE tasks SET facts = $2, keep_until = CASE WHEN keep_until < $3 THEN $3 ELSE keep_until END WHERE key = $1"
)
_DROP = "DELETE FROM tasks WHERE key = $1"
_ADD = f"INSERT INTO tasks (key, {_COLUMNS}, keep_until) VALUES ($1, $2, $3, $4, $5, $6, $7)"
_FORGOTTEN = "SELECT until FROM forgotten WHERE kind = 'tasks'"
_ENDED = f"SELECT key, keep_until FROM tasks WHERE keep_until < $1 ORDER BY keep_until LIMIT {STORE_SWEEP_ROWS}"
_LATEST = f"SELECT max(keep_until) FROM ({_ENDED}) AS ended"
_NOTE = (
    "INSERT INTO forgotten (kind, until) VALUES ('tasks', $1) ON CONFLICT (kind) DO UPDATE"
    " SET until = CASE WHEN forgotten.until < excluded.until THEN excluded.until ELSE forgotten.until END"
)
_SWEEP = f"DELETE FROM tasks WHERE key IN (SELECT key FROM ({_ENDED}) AS ended)"


class Tasks(SteppedStore):
    """A `TaskStore`."""

    def __init__(self, runner: Runner | None = None) -> None:
        super().__init__(runner)
        self._count, self._counted_at = 0, -COUNTED_SECONDS

    @writes
    def keep(self, key: bytes, task: Task, *, keep_until: int, now: int) -> Steps[Task]:
        """Store a task and return it. If the key has a task already, return that one. Raises `StoreUnavailable`."""
        known = yield from _find(key, now)
        if known is not None:
            yield _TOUCH, (key,)
            return known
        for (until,) in (yield _FORGOTTEN, ()):
            certain(now, until)
        yield _DROP, (key,)
        yield from _sweep(now - CLOCK_BACK_SECONDS)
        owned = yield _OWNED, (task.owner, now)
        if not (yield from self._has_room(now)) or len(owned) >= MAX_TASKS_PER_OWNER:
            raise StoreUnavailable("no room to remember one more task")
        row = (task.owner, _bytes(task.method), _bytes(task.target), task.facts, _bytes(task.flow), keep_until)
        yield _ADD, (key, *row)
        self._count += 1
        return task

    @writes
    def renew(self, key: bytes, known: Task, task: Task, *, keep_until: int, now: int) -> Steps[bool]:
        """Replace a task by one of the same owner, and keep it longer. Return False if `known` is not there."""
        if (yield from _find(key, now)) != known:
            return False
        yield _RENEW, (key, task.facts, keep_until)
        return True

    @reads
    def find(self, key: bytes, *, now: int) -> Steps[Task | None]:
        """Return the task of this key, or None."""
        return (yield from _find(key, now))

    @reads
    def owned(self, owner: bytes, *, now: int) -> Steps[frozenset[bytes]]:
        """Return the keys of an owner's tasks."""
        return frozenset(key for (key,) in (yield _OWNED, (owner, now)))

    def _has_room(self, now: int) -> Steps[bool]:
        if not 0 <= now - self._counted_at < COUNTED_SECONDS:
            ((self._count,),) = yield _COUNT, (now,)
            self._counted_at = now
        return self._count < MAX_TASKS


def _find(key: bytes, now: int) -> Steps[Task | None]:
    return _first((yield _FIND, (key, now)))


def _first(rows: Sequence[Sequence[Any]]) -> Task | None:
    """Return the task of the first row, or None. A row with names that are not text, or (as an SQLite file allows) with
    values of another type than a task's, holds no task."""
    for owner, method, target, facts, flow in rows:
        if {*map(type, (owner, method, target, facts, flow))} == {bytes}:
            with suppress(UnicodeDecodeError):
                return Task(owner, _text(method), _text(target), facts, _text(flow))
    return None


def _sweep(before: int) -> Steps[None]:
    """Delete tasks that ended before this second, the earliest first, and note the latest end among them."""
    ((latest,),) = yield _LATEST, (before,)
    if latest is not None:
        yield _NOTE, (latest,)
        yield _SWEEP, (before,)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # a name may hold lone surrogates


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogatepass")
