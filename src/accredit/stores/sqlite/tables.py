"""Jobs on the tables of spent challenges and uses, for one SQLite file. Blocking; used by one thread.

Once a second, a bounded number of expired rows is deleted and the tables' rows are counted. Between two counts, this
process knows only of the rows that it has added itself. So a table's bound can be exceeded by the rows that other
processes add in a second.
"""

import sqlite3
from collections.abc import Sequence
from typing import NamedTuple

from accredit.limits import CLOCK_BACK_SECONDS, MAX_USE_MARKS, STORE_SWEEP_ROWS, USE_TOTAL_TURN
from accredit.ports import RateLimit, Spending
from accredit.stores.minted import Issued, read
from accredit.stores.rules import NEVER, Series, UseMark, certain, judge, made_before, mark, room_at, strictest
from accredit.stores.sqlite.forgetting import Table, read_forgotten_end, sweep

MAX_SPENT_CHALLENGES = 262_144
"""The most spent challenges that a store remembers, some 200 bytes each (measured): 870 a second, if each is remembered
for 300 seconds. Each has cost somebody a valid proof; issued challenges are not remembered."""

_KEPT_LONGER: dict[Table, int] = {"spent": 0, "uses": CLOCK_BACK_SECONDS}
_KNOWN = (
    "SELECT EXISTS (SELECT 1 FROM spent WHERE challenge = ?), (SELECT key FROM challenge_key),"
    " (SELECT until FROM forgotten WHERE kind = 'spent'), (SELECT until FROM forgotten WHERE kind = 'since')"
)
_COUNTS = {table: f"SELECT count(*) FROM {table}" for table in _KEPT_LONGER}  # noqa: S608 - of constants

_SERIES = (
    "SELECT before + uses - coalesce((SELECT before FROM uses WHERE cert_id = ?1 AND window_s = ?2 AND mark > ?3"
    " ORDER BY mark LIMIT 1), before + uses), mark, before + uses"
    " FROM uses WHERE cert_id = ?1 AND window_s = ?2 ORDER BY mark DESC LIMIT 1"
)


class _Counted(NamedTuple):
    """The state of a series: the uses in its window, its latest mark, and the total of all its uses."""

    used: int
    latest: int
    total: int


class Tables:
    """The jobs. Each takes the connection as its first argument, and returns None if a table has no room."""

    def __init__(self, since: int = NEVER) -> None:
        self._since = since
        self._swept_at: int | None = None
        self._rows = dict.fromkeys(_KEPT_LONGER, 0)

    def key(self, connection: sqlite3.Connection) -> bytes | None:
        """Return the key with which challenges issued here are made, or None if there is none yet."""
        row = connection.execute("SELECT key FROM challenge_key").fetchone()
        return row[0] if row else None

    def first_key(self, connection: sqlite3.Connection, drawn: bytes) -> bytes:
        """Return the key. If there is none, store `drawn` as the key. So all processes that share the file use the
        first key stored."""
        connection.execute("INSERT OR IGNORE INTO challenge_key VALUES (1, ?)", (drawn,))
        return self.key(connection) or drawn

    def look(
        self, connection: sqlite3.Connection, challenge: bytes, request_hash: bytes, *, issued: bool, now: int
    ) -> Spending:
        """Return what `spend` would return now. Changes nothing."""
        spent, ours, _, _ = _look_up(connection, challenge, request_hash)
        return judge(spent=spent, ours=ours, issued=issued, now=now)

    def spend(
        self,
        connection: sqlite3.Connection,
        challenge: bytes,
        request_hash: bytes,
        *,
        issued: bool,
        keep_until: int,
        now: int,
    ) -> Spending | None:
        """Spend a challenge if it is valid, and return the verdict."""
        spent, ours, forgotten_until, since = _look_up(connection, challenge, request_hash)
        if since is None:
            since = self._since
            connection.execute("INSERT INTO forgotten VALUES ('since', ?)", (since,))
        issued = issued or made_before(since, keep_until)
        verdict = judge(spent=spent, ours=ours, issued=issued, now=now)
        if verdict is not Spending.FIRST:
            return verdict
        if ours:
            keep_until = max(keep_until, ours.expires_at)
        certain(keep_until, forgotten_until)
        if not self._has_room(connection, "spent", MAX_SPENT_CHALLENGES, now):
            return None
        connection.execute("INSERT INTO spent VALUES (?, ?)", (challenge, keep_until))
        return verdict

    def count(self, connection: sqlite3.Connection, series: Series, now: int) -> int:
        """Return how many uses a series has in its window."""
        certain(now + 1, read_forgotten_end(connection, "uses"))
        return _count(connection, series, now).used

    def use(self, connection: sqlite3.Connection, limits: Sequence[RateLimit], now: int) -> bool | None:
        """Record one use for each limit, unless that exceeds one of them. Return whether it was recorded."""
        takings = strictest(limits)
        if takings:
            certain(now + 1, read_forgotten_end(connection, "uses"))
        found = [(series, taking, _count(connection, series, now)) for series, taking in takings.items()]
        if any(counted.used + taking.amount > taking.most for _, taking, counted in found):
            return False
        if not self._has_room(connection, "uses", MAX_USE_MARKS, now, more=len(takings)):
            return None
        for series, (amount, _, parts), (_, latest, total) in found:
            began = _begin_anew(connection, series) if total > USE_TOTAL_TURN else 0
            at = max(latest, mark(series.window_s, now, parts))
            connection.execute(
                "INSERT INTO uses VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (cert_id, window_s, mark) DO UPDATE SET uses = uses + excluded.uses",
                (*_key(series), at, total - began, amount, at + series.window_s),
            )
        return True

    def room_at(self, connection: sqlite3.Connection, limit: RateLimit, now: int) -> int | None:
        """Return when (unix seconds) there is room for one more use; None if never."""
        certain(now + 1, read_forgotten_end(connection, "uses"))
        series = Series(limit.cert_id, limit.window_s)
        rows = connection.execute(
            "SELECT mark, before FROM uses WHERE cert_id = ? AND window_s = ? AND mark > ? ORDER BY mark",
            (*_key(series), now - series.window_s),
        )
        return room_at([UseMark(*row) for row in rows], _count(connection, series, now).total, limit, now)

    def _has_room(self, connection: sqlite3.Connection, table: Table, most: int, now: int, *, more: int = 1) -> bool:
        if now != self._swept_at:
            self._swept_at = now
            for each, longer in _KEPT_LONGER.items():
                sweep(connection, each, now - longer, STORE_SWEEP_ROWS)
                (self._rows[each],) = connection.execute(_COUNTS[each]).fetchone()
        self._rows[table] += more
        return self._rows[table] <= most


def _look_up(
    connection: sqlite3.Connection, challenge: bytes, request_hash: bytes
) -> tuple[bool, Issued | None, int, int | None]:
    """Return four things about a challenge: whether it is spent; its content if it was issued here; the
    `read_forgotten_end` of spent challenges; and since when spent challenges are known. This is one statement, as each
    call needs it twice."""
    spent, key, until, since = connection.execute(_KNOWN, (challenge,)).fetchone()
    ours = read(key, challenge, request_hash) if key is not None else None
    return bool(spent), ours, NEVER if until is None else until, since


def _key(series: Series) -> tuple[bytes, int]:
    # As bytes: an id may hold lone surrogates.
    return series.cert_id.encode("utf-8", "surrogatepass"), series.window_s


def _count(connection: sqlite3.Connection, series: Series, now: int) -> _Counted:
    row = connection.execute(_SERIES, (*_key(series), now - series.window_s)).fetchone()
    return _Counted(*row) if row else _Counted(0, -1, 0)


def _begin_anew(connection: sqlite3.Connection, series: Series) -> int:
    """Subtract the smallest count among the kept marks of a series from all of them, and return it."""
    (began,) = connection.execute(
        "SELECT min(before) FROM uses WHERE cert_id = ? AND window_s = ?", _key(series)
    ).fetchone()
    connection.execute("UPDATE uses SET before = before - ? WHERE cert_id = ? AND window_s = ?", (began, *_key(series)))
    return began
