"""Somebody who may write where the log is and has no key: into its file, or into the database that stands for its
folder as a user of the gateways' role. I/O: the file, the database."""

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from tests.world.postgres import a_user, cluster, database_for

from accredit.attest import canonical, sha256_hex
from accredit.attest.statements import GENESIS
from accredit.stores.postgres.driver import Connection
from accredit.stores.postgres.session import run_once

Values = tuple[object, ...]


class Thief:
    """`Thief(path)`: of the log in that file or, where there is none, in the database."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.has_file = path.exists()
        self._user = "" if self.has_file else a_user("IN ROLE accredit_gateway")
        self._waiting: list[tuple[str, Values]] | None = None

    @contextmanager
    def at_once(self) -> Generator[None]:
        """What is done within is one transaction: a gateway that looks meanwhile finds all of it, or nothing."""
        waiting = self._waiting = list[tuple[str, Values]]()
        yield
        self._waiting = None
        self._run(waiting)

    def run(self, statement: str, *values: object) -> list[Values]:
        """Runs one statement, with `?` for values. What waits for its turn has no rows yet."""
        if self._waiting is not None:
            self._waiting.append((statement, values))
            return []
        return self._run([(statement, values)])

    def _run(self, statements: Sequence[tuple[str, Values]]) -> list[Values]:
        rows: list[Values] = []
        if self.has_file:
            with closing(sqlite3.connect(self._path, timeout=10)) as connection, connection:
                connection.execute("BEGIN IMMEDIATE")
                for statement, values in statements:
                    rows = connection.execute(statement, values).fetchall()
            return rows

        async def run(connection: Connection) -> list[Values]:
            rows: list[Values] = []
            async with connection.transaction():
                for statement, values in statements:
                    numbered = statement
                    for number in range(1, len(values) + 1):
                        numbered = numbered.replace("?", f"${number}", 1)
                    rows = [tuple(row) for row in await connection.fetch(numbered, *values)]
            return rows

        with database_for(self._path.parent) as database:
            return run_once(cluster().named(database.database, self._user), run)

    def add_writer(self, name: str, records: int = 0, head: str = GENESIS) -> None:
        """A writer that has died, of so many records."""
        if self.has_file:
            columns, values = "(name, records, head, checkpointed, turn, over)", "(?, ?, ?, 0, 0, 0)"
        else:
            columns = "(name, records, head, checkpointed, turn, over, gateway, host, beat)"
            values = "(?, ?, ?, 0, 0, false, 'g', 'h', now() - interval '1 hour')"
        self.run(f"INSERT INTO log_writers {columns} VALUES {values}", name, records, head)

    def add_entry(
        self,
        name: str,
        number: int,
        payload: bytes,
        key_id: str,
        signature: bytes = bytes(64),
        proof: bytes | None = None,
    ) -> None:
        """An entry in a writer's chain, with a signature of zeros, and what is kept with it."""
        day = "" if self.has_file else "kind, day, "
        today = "" if self.has_file else "0, (now() AT TIME ZONE 'UTC')::date, "
        self.run(
            f"INSERT INTO log_entries ({day}writer, number, key, payload, ed25519, proof)"
            f" SELECT {today}w.writer, ?, k.key, ?, ?, ? FROM log_writers w, log_keys k WHERE w.name = ? AND k.id = ?",
            *(number, payload, signature, proof, name, key_id),
        )

    def add_chain(self, certificates: bytes) -> None:
        """A chain of certificates, where calls' records look for it."""
        named = sha256_hex(canonical(certificates))
        self.run("INSERT INTO log_delegations VALUES (?, ?) ON CONFLICT DO NOTHING", named, certificates)

    def open(self, call: str, name: str, decided_by: str, number: int, resume: bytes | None = None) -> None:
        """A call that is said to be open, a writer's to close, with the record of its decision."""
        if self.has_file:
            columns, of_entry, kind = "(call, writer, entry, resume)", "e.entry", "e.ml_dsa_65 IS NULL"
        else:
            columns, of_entry = "(call, writer, decided_by, number, day, resume)", "e.writer, e.number, e.day"
            kind = "e.kind = 0"
        self.run(
            f"INSERT INTO log_open {columns} SELECT ?, w.writer, {of_entry}, ? FROM log_writers w, log_writers d"
            f" JOIN log_entries e ON e.writer = d.writer AND {kind} WHERE w.name = ? AND d.name = ? AND e.number = ?",
            *(call, resume, name, decided_by, number),
        )

    def set(self, name: str, **values: object) -> None:
        """Other values in a writer's row."""
        named = ", ".join(f"{each} = ?" for each in values)
        self.run(f"UPDATE log_writers SET {named} WHERE name = ?", *values.values(), name)

    @property
    def no(self) -> object:
        """False, as the store has it."""
        return 0 if self.has_file else False
