"""No row of a log's file is read by a list and passed over by `log verify`, whatever number it is under: somebody with
the file and without the key put it there."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.contract.test_record_log_file import pruned
from tests.world.logs import Log
from tests.world.records import NOW_MS, gateway
from tests.world.running import run

from accredit.errors import AttestationError
from accredit.stores.audit_log.reader import LogFile
from accredit.stores.audit_log.reading import LogReader

pytestmark = pytest.mark.holds("stores/audit_log/reader")

KEY = gateway()[1]
COLUMNS = "entry, writer, number, key, payload, ed25519, ml_dsa_65, digest, members, proof"
FIRST = "-9223372036854775808"
PAYLOAD = "CAST(replace(CAST(payload AS TEXT), 'send_email', 'wire_money') AS BLOB)"


def row(**changes: str) -> str:
    """A copy of a genuine record of a call, but for what is changed, under a signature of 64 zero bytes."""
    values = {"entry": FIRST, "payload": PAYLOAD, "ed25519": "zeroblob(64)", **changes}
    chosen = ", ".join(values.get(name.strip(), name.strip()) for name in COLUMNS.split(","))
    genuine = "SELECT max(entry) FROM log_entries WHERE ml_dsa_65 IS NULL AND payload IS NOT NULL"
    return f"INSERT INTO log_entries SELECT {chosen} FROM log_entries WHERE entry = ({genuine})"


MADE_ANEW = (
    "CREATE TABLE other (entry, writer, number, key, payload, ed25519, ml_dsa_65, digest, members, proof)",
    f"INSERT INTO other SELECT {COLUMNS} FROM log_entries",
    "DROP TABLE log_entries",
    "ALTER TABLE other RENAME TO log_entries",
)
"""The table without a primary key, and with columns of any type."""

HIDDEN = {
    "a call that never was": (row(),),
    "of a writer that nobody knows": (row(writer="99"),),
    "of no writer": (*MADE_ANEW, row(writer="NULL")),
    "posing as a checkpoint": (row(ml_dsa_65="zeroblob(3309)"),),
    "under no key": (row(key="NULL"),),
    "its own digest": (row(payload="NULL", key="NULL", ed25519="NULL", digest="zeroblob(32)"),),
    "its number a text": (*MADE_ANEW, row(number="CAST(number AS TEXT)")),
    "its number a real": (*MADE_ANEW, row(number="number + 0.5")),
    "under the least of all numbers": (*MADE_ANEW, row()),
    "under a real number": (*MADE_ANEW, row(entry="-1e300")),
    "under several real numbers": (*MADE_ANEW, row(entry="-1e300"), row(entry="-2e300"), row(entry="1e300")),
    "under half a number": (*MADE_ANEW, row(entry="0.5")),
    "under NULL": (*MADE_ANEW, row(entry="NULL")),
    "under a text": (*MADE_ANEW, row(entry="'12'")),
    "under bytes": (*MADE_ANEW, row(entry="x'12'")),
    "with a genuine signature, under NULL": (*MADE_ANEW, row(entry="NULL", payload="payload", ed25519="ed25519")),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with every kind of entry, in one file."""
    path = tmp_path_factory.mktemp("written") / "accredit.db"

    async def main() -> None:
        for now_ms in (NOW_MS, NOW_MS + 2_000):
            async with Log(path, clock=lambda now_ms=now_ms: now_ms) as each:
                await each.call()
                await each.call()

    run(main())
    assert pruned(path, NOW_MS + 1) == 4
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    return path


@pytest.fixture
def log(written: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copy(written, tmp_path))


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize("what", HIDDEN)
def test_a_row_that_somebody_put_in_is_found__whatever_it_is_under(log: Path, what: str) -> None:
    with LogFile(log) as before:
        assert before.verify([KEY]).valid
    change(log, *HIDDEN[what])
    with LogFile(log) as after:
        assert not after.verify([KEY]).valid


def readers(log: LogReader) -> Iterator[int]:
    """Reads a log in each way that there is, one after the other, as far as it can be read."""
    call = "".join(f"{each:x}" for each in range(16))
    ways = (
        *(log.entries, log.newest_first, log.summaries, log.latest_checkpoints, log.open_calls, log.heads),
        *(lambda: log.newest_first(10**9), lambda: log.holding(call[:1]), lambda: log.of_calls("0")),
        *(lambda: log.after(log.position()) or (), lambda: [log.count()], lambda: [log.covering("0a" * 16, 1)]),
    )
    for way in ways:
        try:
            yield sum(1 for _ in way())
        except AttestationError:
            yield -1


@pytest.mark.parametrize("what", HIDDEN)
def test_no_reader_fails_but_for_damage(log: Path, what: str) -> None:
    change(log, *HIDDEN[what])
    with LogFile(log) as after:
        assert len(list(readers(after))) == 12


def test_a_table_that_was_only_made_anew_is_the_same_log(log: Path) -> None:
    """What it says is what is verified, and not how the table came to be."""
    original = Path(shutil.copy(log, log.with_name("original.db")))
    change(log, *MADE_ANEW)
    with LogFile(log) as after, LogFile(original) as before:
        assert after.verify([KEY]).valid
        assert [each.entry for each in after.entries()] == [each.entry for each in before.entries()]
