"""Counts uses of certificates, many in one transaction.

- [locks] A series is one certificate's uses in windows of one length. A batch of uses locks all its series, in sorted
  order, before it reads their counts. So batches of other gateways wait, and no two batches can take the same last use.
- [clock] The time is the database's, read once all series are locked. Gateways' clocks differ: a gateway whose clock is
  ahead would not see, in its window, the uses just recorded by a gateway whose clock is behind.
- [snapshot] Each statement has a snapshot of its own, so a later batch sees everything committed before.
- [repetition] A failed batch is never repeated: perhaps only its answer was lost, and its uses were counted.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from accredit.errors import AccreditError, ClockSetBack, StoreUnavailable
from accredit.limits import USE_TOTAL_TURN
from accredit.ports import RateLimit
from accredit.stores import rules
from accredit.stores.postgres.driver import Connection
from accredit.stores.postgres.forgetting import RowCount, forgotten_end
from accredit.stores.rules import Series, UseMark, WindowUse, mark, strictest

_LOCK = """
INSERT INTO use_series SELECT cert, window_s, 0, -1, 0 FROM unnest($1::bytea[], $2::bigint[]) AS t (cert, window_s)
ORDER BY 1, 2
ON CONFLICT (cert, window_s) DO UPDATE SET total = use_series.total RETURNING cert, window_s, total, latest, {clock}"""
_BEFORE = f"""
SELECT place, (SELECT before FROM uses WHERE uses.cert = asked.cert AND uses.window_s = asked.window_s
  AND mark > after ORDER BY mark LIMIT 1), {forgotten_end("uses")}
FROM unnest($1::bytea[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS asked (cert, window_s, after, place)
ORDER BY place"""  # noqa: S608 - of constants
_WRITE = """
WITH added AS (
  INSERT INTO uses SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
  ON CONFLICT (cert, window_s, mark) DO NOTHING)
UPDATE use_series SET total = now.total, latest = now.latest, keep_until = now.keep_until
FROM unnest($6::bytea[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[]) AS now
  (cert, window_s, total, latest, keep_until)
WHERE use_series.cert = now.cert AND use_series.window_s = now.window_s"""
# The clock is read once in each: an index can't be searched for a value that may change from row to row.
_COUNT = f"""
SELECT coalesce((SELECT total FROM use_series WHERE cert = $1 AND window_s = $2)
  - (SELECT before FROM uses WHERE cert = $1 AND window_s = $2 AND mark > (SELECT {{clock}} - $2)
    ORDER BY mark LIMIT 1), 0),
  {forgotten_end("uses")}, {{clock}}"""  # noqa: S608 - of constants
_MARKS = f"""
SELECT mark, before, 0::bigint, 0::bigint FROM uses
WHERE cert = $1 AND window_s = $2 AND mark > (SELECT {{clock}} - $2)
UNION ALL
SELECT NULL, coalesce((SELECT total FROM use_series WHERE cert = $1 AND window_s = $2), 0), {forgotten_end("uses")},
  {{clock}}
ORDER BY mark NULLS LAST"""  # noqa: S608 - of constants
_BEGIN_ANEW = """
WITH began AS (SELECT cert, window_s, min(before) AS at FROM uses
    WHERE (cert, window_s) IN (SELECT * FROM unnest($1::bytea[], $2::bigint[])) GROUP BY 1, 2),
  moved AS (UPDATE uses SET before = before - at
    FROM began WHERE (uses.cert, uses.window_s) = (began.cert, began.window_s))
UPDATE use_series SET total = total - coalesce(at, total)
FROM unnest($1::bytea[], $2::bigint[]) AS asked (cert, window_s) LEFT JOIN began USING (cert, window_s)
WHERE (use_series.cert, use_series.window_s) = (asked.cert, asked.window_s)
RETURNING use_series.cert, use_series.window_s, total, latest"""


class _Key(NamedTuple):
    cert: bytes  # its SHA-256: an id may be long, and hold lone surrogates
    window_s: int


class _Tally:
    """The uses of a series while a batch is processed: the count before the batch, and what the batch adds."""

    def __init__(self, total: int, latest: int) -> None:
        self.total = self.began = total
        self.latest = latest
        self.marks: dict[int, int] = {}
        """New marks (seconds), each with the number of uses before it."""

    def add(self, at: int, amount: int) -> None:
        """Count a use under the mark `at`, or under the latest mark if the clock went back."""
        at = max(self.latest, at)
        if at > self.latest:
            self.marks[at] = self.total
        self.latest = at
        self.total += amount


class Counter:
    """Counts uses by the database's time, for which `clock` is SQL. `room` says how many rows may still be added for
    them."""

    def __init__(self, clock: str, room: RowCount) -> None:
        self._lock, self._count, self._marks = (each.format(clock=clock) for each in (_LOCK, _COUNT, _MARKS))
        self._room = room

    async def uses(self, connection: Connection, asked: Sequence[Series]) -> Sequence[int | AccreditError]:
        """Return the number of uses in each series' window."""
        answers: list[int | AccreditError] = []
        for series in asked:
            ((count, until, now),) = await connection.fetch(self._count, *_key(series))
            answers.append(ClockSetBack(until) if now + 1 <= until else count)
        return answers

    async def room_in(self, connection: Connection, asked: Sequence[RateLimit]) -> Sequence[int | AccreditError | None]:
        """Return, for each limit, in how many seconds it has room for one more use; None if never."""
        answers: list[int | AccreditError | None] = []
        for limit in asked:
            rows = await connection.fetch(self._marks, *_key(Series(limit.cert_id, limit.window_s)))
            total, until, clock = rows[-1][1:]
            marks = [UseMark(at, before) for at, before, *_ in rows[:-1]]
            at = rules.room_at(marks, total, limit, clock)
            answers.append(ClockSetBack(until) if clock + 1 <= until else None if at is None else at - clock)
        return answers

    async def use(self, connection: Connection, asked: Sequence[Sequence[RateLimit]]) -> Sequence[bool | AccreditError]:
        """For each question, record one use for each of its limits, if all have room. Return, for each, whether its
        uses were recorded."""
        takings = [{_key(series): taking for series, taking in strictest(each).items()} for each in asked]
        keys = sorted({key for each in takings for key in each})
        if not keys:
            return [True] * len(asked)
        async with connection.transaction():
            locked = await connection.fetch(self._lock, *_columns(keys, 2))
            now = max(row[-1] for row in locked)
            if any(total > USE_TOTAL_TURN for _, _, total, *_ in locked):
                locked = await connection.fetch(_BEGIN_ANEW, *_columns(keys, 2))
            tallies = {_Key(cert, window_s): _Tally(total, latest) for cert, window_s, total, latest, *_ in locked}
            rows = await connection.fetch(_BEFORE, *_columns([(*key, now - key.window_s) for key in keys], 3))
            first = {key: before for key, (_, before, _) in zip(keys, rows, strict=True)}
            until = rows[0][2]
            answers = [_judge_takings(each, now, tallies, first, until, self._room) for each in takings]
            await _write(connection, tallies, self._room)
        return answers


def _judge_takings(
    takings: dict[_Key, WindowUse],
    now: int,
    tallies: dict[_Key, _Tally],
    first: dict[_Key, int | None],
    until: int,
    room: RowCount,
) -> bool | AccreditError:
    if takings and now + 1 <= until:
        return ClockSetBack(until)
    for key, (amount, most, _) in takings.items():
        tally, before = tallies[key], first[key]
        if tally.total - (tally.began if before is None else before) + amount > most:
            return False
    if sum(len(tally.marks) for tally in tallies.values()) + len(takings) > room.left:
        return StoreUnavailable("no room to note one more use of a certificate")
    for key, (amount, _, parts) in takings.items():
        tallies[key].add(mark(key.window_s, now, parts), amount)
    return True


async def _write(connection: Connection, tallies: dict[_Key, _Tally], room: RowCount) -> None:
    added = [
        (*key, at, before, at + key.window_s) for key, tally in tallies.items() for at, before in tally.marks.items()
    ]
    changed = [
        (*key, tally.total, tally.latest, tally.latest + key.window_s)
        for key, tally in tallies.items()
        if tally.total > tally.began or tally.marks
    ]
    if changed:  # as it was if a mark was added
        await connection.fetch(_WRITE, *_columns(added, 5), *_columns(changed, 5))
        room.add(len(added))


def _key(series: Series) -> _Key:
    return _Key(sha256(series.cert_id.encode("utf-8", "surrogatepass")).digest(), series.window_s)


def _columns(rows: Sequence[Sequence[object]], width: int) -> list[list[object]]:
    return [[row[column] for row in rows] for column in range(width)]
