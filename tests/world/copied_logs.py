"""A log in a file, copied into a database: the same entries in another engine. I/O: the file, the database."""

import datetime
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.world.postgres import cluster, database_for

from accredit.attest import Checkpoint, decode_statement
from accredit.stores import LogStore, SqliteFile
from accredit.stores.lasting import PostgresDatabase
from accredit.stores.postgres.driver import Connection
from accredit.stores.postgres.log_reader import CHECKPOINT, NOTE, RECORD
from accredit.stores.postgres.session import run_once

Day = datetime.date

_WRITERS = "SELECT writer, name, '', '', records, head, checkpointed, turn, over FROM log_writers"
_ENTRIES = """
SELECT entry, writer, number, key, payload, ed25519, ml_dsa_65, members, proof, digest FROM log_entries
ORDER BY entry"""
_OPEN = "SELECT call, log_open.writer, log_open.writer, number, entry FROM log_open JOIN log_entries USING (entry)"
_ADD = """
INSERT INTO log_entries (entry, day, writer, kind, number, key, payload, ed25519, ml_dsa_65, members,
  proof)
SELECT * FROM unnest($1::bigint[], $2::date[], $3::bigint[], $4::smallint[], $5::bigint[], $6::int[], $7::bytea[],
  $8::bytea[], $9::bytea[], $10::bytea[], $11::bytea[])"""
_ADD_WRITER = "INSERT INTO log_writers OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, now())"
_TODAY = "SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date"
_AT_ONCE = 2_000


def copy_log(path: Path, database: PostgresDatabase, day_of: Callable[[int], Day] | None = None) -> None:
    """Copies all that is in a file's log. `day_of` gives an entry's day for its number in the file, else it is
    today."""
    with closing(sqlite3.connect(path, check_same_thread=False)) as file:
        run_once(database, lambda to: _copy(file, to, day_of))


async def _copy(file: sqlite3.Connection, to: Connection, day_of: Callable[[int], Day] | None) -> None:
    ((today,),) = await to.fetch(_TODAY)

    def days(entry: int) -> Day:
        return day_of(entry) if day_of else today

    entries = file.execute(_ENTRIES).fetchall()
    for day in {days(entry) for entry, *_ in entries}:
        await make_day(to, day)
    for *row, over in file.execute(_WRITERS).fetchall():
        await to.fetch(_ADD_WRITER, *row, bool(over))
    for row in file.execute("SELECT key, id FROM log_keys").fetchall():
        await to.fetch("INSERT INTO log_keys OVERRIDING SYSTEM VALUE VALUES ($1, $2)", *row)
    for row in file.execute("SELECT sha256, certificates FROM log_delegations").fetchall():
        await to.fetch("INSERT INTO log_delegations VALUES ($1, $2)", *row)
    for *row, entry in file.execute(_OPEN).fetchall():
        await to.fetch("INSERT INTO log_open VALUES ($1, $2, $3, $4, $5)", *row, days(entry))
    kept = [_entry(row, days(row[0])) for row in entries if row[4] is not None]
    for first in range(0, len(kept), _AT_ONCE):
        await to.fetch(_ADD, *map(list, zip(*kept[first : first + _AT_ONCE], strict=True)))
    for writer, digests in _digests(entries).items():
        await to.fetch("INSERT INTO log_pruned VALUES ($1, 1, $2, $3)", writer, len(digests), b"".join(digests))
    await to.fetch("SELECT setval('log_entry', greatest(max(entry), 1)) FROM log_entries")
    for table, column in (("log_writers", "writer"), ("log_keys", "key")):
        sequence = f"pg_get_serial_sequence('{table}', '{column}')"
        await to.fetch(f"SELECT setval({sequence}, greatest(max({column}), 1)) FROM {table}")


def _digests(entries: Sequence[Sequence[Any]]) -> dict[int, list[bytes]]:
    found: defaultdict[int, list[bytes]] = defaultdict(list)
    for _, writer, *_, digest in entries:
        if digest is not None:
            found[writer].append(digest)
    return found


async def make_day(connection: Connection, day: Day) -> None:
    """Makes the table of a day, unless it is there."""
    name, after = f"log_entries_{day:%Y%m%d}", day + datetime.timedelta(1)
    if (await connection.fetch("SELECT to_regclass($1::text)", name))[0][0] is None:
        await connection.fetch(f"CREATE TABLE {name} PARTITION OF log_entries FOR VALUES FROM ('{day}') TO ('{after}')")


def _entry(row: Sequence[Any], day: Day) -> tuple[Any, ...]:
    entry, writer, number, key, payload, ed25519, ml_dsa_65, members, proof, _ = row
    kind = RECORD
    if ml_dsa_65 is not None:
        kind = CHECKPOINT if isinstance(decode_statement(payload).predicate, Checkpoint) else NOTE
    return entry, day, writer, kind, number, key, payload, ed25519, ml_dsa_65, members, proof


@contextmanager
def in_store(kind: str, path: Path) -> Generator[LogStore]:
    """The log of a file as it is now: there, or copied into a database."""
    if kind == "sqlite":
        yield SqliteFile(path)
        return
    with database_for(path.parent) as database:
        cluster().renew(database)
        copy_log(path, database)
        yield database
