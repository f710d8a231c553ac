"""Deletes expired rows, and remembers how far. Rows expire by the database's clock.

- [expiry] A row is deleted when it expired `DATABASE_KEEP_SECONDS` ago; so a gateway whose clock is ahead takes nothing
  from others.
- [late-rows] A row that would have expired `DATABASE_LATE_SECONDS` ago is never added: so nothing is added that a
  concurrent deletion could miss.
- [latest-end] For each table the latest end of the deleted rows is kept with it, in the same statement.
- [backlog] A process that finds a full batch of expired rows looks again soon: it deletes more than it can add.
"""

from typing import Literal

from accredit.limits import STORE_SWEEP_ROWS
from accredit.stores.postgres.driver import Connection
from accredit.stores.rules import NEVER

DATABASE_KEEP_SECONDS = 60
"""How long a row of a database is kept after its end, by the database's clock: longer than clocks may differ."""
DATABASE_LATE_SECONDS = 30
"""How long after its end, by the database's clock, a row can still be added, for clocks that differ. It is shorter than
rows are kept, so that none is added again while another process is deleting it."""


Table = Literal["spent", "use_series", "uses", "tasks"]

CLOCK = "extract(epoch FROM clock_timestamp())::bigint"
"""The database's time, in SQL."""


def sweeping(table: Table, kind: str, clock: str) -> str:
    """Return the statement that deletes some expired rows, and returns how many. It remembers them as `kind`.

    The clock is read once: an index can't be searched for a value that may differ from row to row.
    """
    return f"""
WITH gone AS (
  DELETE FROM {table} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {table} WHERE keep_until < (SELECT {clock} - {DATABASE_KEEP_SECONDS})
    ORDER BY keep_until LIMIT {STORE_SWEEP_ROWS} FOR UPDATE SKIP LOCKED))
  RETURNING keep_until),
noted AS (
  INSERT INTO forgotten SELECT '{kind}', max(keep_until) FROM gone HAVING count(*) > 0
  ON CONFLICT (kind) DO UPDATE SET until = greatest(forgotten.until, EXCLUDED.until))
SELECT count(*) FROM gone"""  # noqa: S608 - of constants


def forgotten_end(kind: str) -> str:
    """Return an SQL expression for the latest end of the rows deleted as `kind`."""
    return f"coalesce((SELECT until FROM forgotten WHERE kind = '{kind}'), {NEVER})"  # noqa: S608 - of constants


def bound(kind: str, clock: str) -> str:
    """Return an SQL expression for the time after which a new row must end."""
    return f"greatest({forgotten_end(kind)}, {clock} - {DATABASE_LATE_SECONDS})"


class RowCount:
    """The number of a table's rows: counted when it is opened and every `STORE_CHECK_SECONDS`, and adjusted for what
    this process adds and deletes meanwhile. Above `_FEW` rows the count is the database's estimate."""

    def __init__(self, table: Table, most: int) -> None:
        self._table: Table = table
        self._most = most
        self._rows = 0

    @property
    def left(self) -> int:
        """How many rows may be added."""
        return max(0, self._most - self._rows)

    def add(self, rows: int) -> None:
        """Count added rows, or deleted ones with a negative number."""
        self._rows += rows

    async def count(self, connection: Connection) -> None:
        """Count the rows."""
        ((few, estimate),) = await connection.fetch(
            f"SELECT (SELECT count(*) FROM (SELECT FROM {self._table} LIMIT {_FEW + 1}) AS few_rows),"  # noqa: S608
            f" pg_stat_get_live_tuples('{self._table}'::regclass)"
        )
        self._rows = few if few <= _FEW else max(few, estimate)


_FEW = 10_000
