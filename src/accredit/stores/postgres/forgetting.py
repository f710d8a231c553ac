"""Deletes expired rows, and remembers the latest end of those that it deleted. Rows expire by the database's clock.

- [expiry] A row is deleted once it expired `DATABASE_KEEP_SECONDS` ago. So a gateway whose clock is ahead deletes
  nothing that others still need.
- [late-rows] A row that expired more than `DATABASE_LATE_SECONDS` ago is never added. So no row is added that a
  concurrent deletion should have deleted.
- [latest-end] For each table, the latest end of its deleted rows is stored, in the statement that deletes them.
- [backlog] A process that finds a full batch of expired rows looks for more soon: it deletes more than it can add.
"""

from typing import Literal

from accredit.limits import STORE_SWEEP_ROWS
from accredit.stores.postgres.driver import Connection
from accredit.stores.rules import NEVER

DATABASE_KEEP_SECONDS = 60
"""How long a row of a database is kept after its end, by the database's clock. This is more than the clocks may
differ."""
DATABASE_LATE_SECONDS = 30
"""How long after its end, by the database's clock, a row can still be added, as clocks differ. Rows are kept for longer
than this, so that no row is added while another process deletes rows of that age."""


Table = Literal["spent", "use_series", "uses"]

CLOCK = "extract(epoch FROM clock_timestamp())::bigint"
"""SQL for the database's time."""


def sweeping(table: Table, kind: str, clock: str) -> str:
    """Return the statement that deletes some expired rows, and returns how many. Their latest end is stored under
    `kind`.

    The statement reads the clock once: an index can't be searched for a value that may change from row to row.
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
    """Return an SQL expression for a time; a new row is added only if it ends later."""
    return f"greatest({forgotten_end(kind)}, {clock} - {DATABASE_LATE_SECONDS})"


class RowCount:
    """The number of a table's rows. They are counted when a connection is opened and every `STORE_CHECK_SECONDS`; in
    between, what this process adds and deletes is taken into account. Above `_FEW` rows the count is the database's
    estimate."""

    def __init__(self, table: Table, most: int) -> None:
        self._table: Table = table
        self._most = most
        self._rows = 0

    @property
    def left(self) -> int:
        """How many more rows may be added."""
        return max(0, self._most - self._rows)

    def add(self, rows: int) -> None:
        """Take into account that rows were added, or deleted if the number is negative."""
        self._rows += rows

    async def count(self, connection: Connection) -> None:
        """Count the rows in the database."""
        ((few, estimate),) = await connection.fetch(
            f"SELECT (SELECT count(*) FROM (SELECT FROM {self._table} LIMIT {_FEW + 1}) AS few_rows),"  # noqa: S608
            f" pg_stat_get_live_tuples('{self._table}'::regclass)"
        )
        self._rows = few if few <= _FEW else max(few, estimate)


_FEW = 10_000
