"""Deletes expired rows of a table, and remembers the latest end of those that it deleted. Blocking, within a
transaction."""

import sqlite3
from typing import Literal

from accredit.stores.rules import NEVER

Table = Literal["spent", "uses"]

_KEYS: dict[Table, str] = {
    "spent": "challenge",
    "uses": "cert_id, window_s, mark",
}
_ENDED = "FROM {} WHERE keep_until < ? ORDER BY keep_until LIMIT ?"
_LATEST = {table: f"SELECT max(keep_until) FROM (SELECT keep_until {_ENDED.format(table)})" for table in _KEYS}  # noqa: S608 - of constants
_DELETE = {
    table: f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} {_ENDED.format(table)})"  # noqa: S608 - of constants
    for table, key in _KEYS.items()
}
_NOTE = "INSERT INTO forgotten VALUES (?, ?) ON CONFLICT (kind) DO UPDATE SET until = max(until, excluded.until)"


def sweep(connection: sqlite3.Connection, table: Table, before: int, most: int) -> None:
    """Delete rows that ended before the second `before`, the earliest first, at most `most`. Remember the latest end
    among them."""
    (latest,) = connection.execute(_LATEST[table], (before, most)).fetchone()
    if latest is not None:
        connection.execute(_NOTE, (table, latest))
        connection.execute(_DELETE[table], (before, most))


def read_forgotten_end(connection: sqlite3.Connection, table: Table) -> int:
    """Return the latest end of the rows that were ever deleted from a table by `sweep`."""
    row = connection.execute("SELECT until FROM forgotten WHERE kind = ?", (table,)).fetchone()
    return row[0] if row else NEVER
