"""What an administrator of the database rewrites is found by `log verify`, or said not to be: with each table, as the
superuser. docs/reference/attestation.md and the threat model say the same."""

from pathlib import Path

import pytest
from tests.contract.test_log_reader import by_chain
from tests.world.copied_logs import copy_log
from tests.world.logs import Log
from tests.world.postgres import cluster
from tests.world.records import NOW_MS, gateway
from tests.world.running import run

from accredit.attest import Checkpoint, Envelope, LogReport, Stored
from accredit.errors import StoreUnavailable
from accredit.stores import PostgresDatabase, SqliteFile
from accredit.stores.audit_log.proven import Prover
from accredit.stores.postgres.log_pruning import prune

pytestmark = [pytest.mark.slow, pytest.mark.holds("stores/postgres/log_reader")]

SIGNER, KEY = gateway()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of three writers: the first one's two old calls will be pruned, the last one has a call that is open."""
    path = tmp_path_factory.mktemp("whole") / "accredit.db"

    async def main() -> None:
        for now_ms in (NOW_MS, NOW_MS + 2_000):
            async with Log(path, clock=lambda now_ms=now_ms: now_ms) as log:
                await log.call()
                await log.call()
        last = Log(path, clock=lambda: NOW_MS + 3_000)
        await last.call()
        await last.call(None)
        await last.die()

    run(main())
    return path


@pytest.fixture
def database(path: Path) -> PostgresDatabase:
    """Writer 1: three digests and a note for records 1 to 4. Writer 2: records 1 to 4 and a checkpoint. Writer 3: a
    call, and one that is open, and no checkpoint of it."""
    database = cluster().fresh()
    copy_log(path, database)
    assert prune(database, SIGNER, before_ms=NOW_MS + 1_000, now_ms=NOW_MS, on_progress=lambda _: None) == (4, True)
    assert verdict(database) is None
    return database


@pytest.fixture(scope="module")
def kept(path: Path) -> list[Envelope]:
    """The checkpoints that somebody keeps elsewhere."""
    with SqliteFile(path).open_log() as log:
        return [
            each.entry.envelope
            for each in log.summaries()
            if isinstance(each.entry, Stored) and (said := each.statement()) and isinstance(said.predicate, Checkpoint)
        ]


def report_on(database: PostgresDatabase, kept: list[Envelope] | None = None) -> LogReport:
    with database.open_log() as log:
        return log.verify([KEY], kept or [])


def verdict(database: PostgresDatabase, kept: list[Envelope] | None = None) -> str | None:
    """The number of the first bad record, and why; None if all is well."""
    fault = report_on(database, kept).fault
    return fault and f"{fault.place.rpartition('/')[2]}: {fault.reason}"


def change(database: PostgresDatabase, *statements: str) -> None:
    cluster().run(*statements, database=database.database)


def record(number: int, writer: int = 2) -> str:
    return f"WHERE (writer, number, kind) = ({writer}, {number}, 0)"


TOMORROW = "(clock_timestamp() AT TIME ZONE 'UTC')::date + 1"
COLUMNS = "day, writer, kind, number, key, payload, ed25519, ml_dsa_65, members"

UNBOUND = (
    "ALTER TABLE log_entries DROP CONSTRAINT log_entries_pkey",
    *(f"ALTER TABLE log_entries ALTER {column} DROP NOT NULL" for column in ("writer", "kind", "number")),
)
"""What a superuser does so that a row may lack what each has."""

FOUND: dict[str, tuple[str | tuple[str, ...], str]] = {
    "a changed payload": (
        f"UPDATE log_entries SET payload = set_byte(payload, 300, get_byte(payload, 300) # 1) {record(3)}", "3: "),
    "a changed payload, and the head after it": (
        ("UPDATE log_entries SET payload = payload || ' ' " + record(4),
         "UPDATE log_writers SET head = (SELECT encode(sha256(payload), 'hex') FROM log_entries " + record(4) + ")"
         " WHERE writer = 2"), "4: "),
    "a changed signature": (
        f"UPDATE log_entries SET ed25519 = set_byte(ed25519, 9, get_byte(ed25519, 9) # 4) {record(2)}",
        "2: the Ed25519 signature is not good"),
    "a checkpoint's second signature changed": (
        "UPDATE log_entries SET ml_dsa_65 = set_byte(ml_dsa_65, 9, get_byte(ml_dsa_65, 9) # 4) WHERE kind = 1",
        "4: the ML-DSA-65 signature is not good"),
    "a checkpoint's second signature gone": (
        "UPDATE log_entries SET ml_dsa_65 = NULL WHERE kind = 1", "4: a checkpoint or note has two signatures"),
    "members added to a signature": (f"UPDATE log_entries SET members = '{{}}' {record(2)}", "2: "),
    "another key named": (f"UPDATE log_entries SET key = 77 {record(2)}", "2: it is signed by a key that is not known"),
    "the name of the key changed": ("UPDATE log_keys SET id = 'other'", "4: it is signed by a key that is not known"),
    "all keys gone": ("DELETE FROM log_keys", "4: it is signed by a key that is not known"),
    "a record gone": (f"DELETE FROM log_entries {record(2)}", "3: its number is 3, and 2 is expected"),
    "the first record gone": (f"DELETE FROM log_entries {record(1)}", "2: its number is 2, and 1 is expected"),
    "the last record gone": (f"DELETE FROM log_entries {record(4)}", "4: its number is 4, and 3 is expected"),
    "records gone from the end, with their checkpoint": (
        "DELETE FROM log_entries WHERE writer = 2 AND number > 2", "4: it was there, and the log ends before it"),
    "all records of a writer gone": (
        "DELETE FROM log_entries WHERE writer = 2", "4: it was there, and the log ends before it"),
    "all records gone": ("DELETE FROM log_entries", "3: the note of the pruning is missing"),
    "two records swapped": (
        ("UPDATE log_entries SET number = 99 " + record(2), "UPDATE log_entries SET number = 2 " + record(3),
         "UPDATE log_entries SET number = 3 " + record(99)), "2: the record here is"),
    "a record moved to another chain": (f"UPDATE log_entries SET writer = 3, number = 9 {record(4)}", "4: "),
    "a record added again": (
        f"INSERT INTO log_entries ({COLUMNS}) SELECT day, writer, kind, 5, key, payload, ed25519, ml_dsa_65, members"
        f" FROM log_entries {record(4)}", "5: the record here is"),
    "a record added again, on another day": (
        f"INSERT INTO log_entries ({COLUMNS}) SELECT {TOMORROW}, writer, kind, number, key, payload, ed25519,"
        f" ml_dsa_65, members FROM log_entries {record(4)}", "4: its number is 4, and 5 is expected"),
    "a copy of a record under the least of all numbers": (
        f"INSERT INTO log_entries ({COLUMNS}) SELECT day, writer, kind, -9223372036854775808, key, payload, zeroed,"
        f" ml_dsa_65, members FROM log_entries, (SELECT decode(repeat('00', 64), 'hex') AS zeroed) z {record(4)}",
        "-9223372036854775808: "),
    "a record of no kind at all": ((*UNBOUND, f"UPDATE log_entries SET kind = NULL {record(2)}"), "2 is damaged"),
    "a record of no writer at all": (
        (*UNBOUND, f"UPDATE log_entries SET writer = NULL {record(4)}"), "4: its number is 4, and 3 is expected"),
    "a record of no number": (
        (*UNBOUND, f"UPDATE log_entries SET number = NULL {record(4)}"), "the next entry has no writer or number"),
    "a record under no place in the list": (
        ("ALTER TABLE log_entries ALTER entry DROP NOT NULL", f"UPDATE log_entries SET entry = NULL {record(4)}"),
        "the next entry has no writer or number"),
    "numbers that are texts": (
        (*UNBOUND, "ALTER TABLE log_entries ALTER number TYPE text"), "the next entry has no writer or number"),
    "a checkpoint of somebody else's chain": (
        f"INSERT INTO log_entries ({COLUMNS}) SELECT day, 3, kind, 3, key, payload, ed25519, ml_dsa_65, members"
        " FROM log_entries WHERE kind = 1", "3: the record here is"),
    "a record filed as a checkpoint": (
        f"UPDATE log_entries SET kind = 1 {record(3)}", "3: it is stored as a checkpoint, and is a record"),
    "a note filed as a checkpoint": (
        "UPDATE log_entries SET kind = 1 WHERE kind = 2", "4: it is stored as a checkpoint, and is a note"),
    "an entry of a kind that there is not": (f"UPDATE log_entries SET kind = 3 {record(4)}", "4 is damaged"),
    "a writer's records": ("UPDATE log_writers SET records = 3 WHERE writer = 2", "3: another record was there before"),
    "a writer's records, more of them": (
        "UPDATE log_writers SET records = 9 WHERE writer = 2", "9: it was there, and the log ends before it"),
    "a writer's head": (
        "UPDATE log_writers SET head = repeat('0', 64) WHERE writer = 2", "4: another record was there before"),
    "a writer's name": ("UPDATE log_writers SET name = repeat('a', 32) WHERE writer = 2", "1: the record here is"),
    "a writer gone": ("DELETE FROM log_writers WHERE writer = 2", "the next entry has no writer or number"),
    "all writers gone": ("DELETE FROM log_writers", "the next entry has no writer or number"),
    "a digest changed": (
        "UPDATE log_pruned SET digests = set_byte(digests, 33, get_byte(digests, 33) # 1)",
        "4: the digests are not those of the note"),
    "a digest gone": (
        "UPDATE log_pruned SET digests = substr(digests, 1, 64), last = 2", "4: its number is 4, and 3 is expected"),
    "all digests gone": ("DELETE FROM log_pruned", "4: the digests of what was pruned are missing"),
    "the note gone": ("DELETE FROM log_entries WHERE kind = 2", "3: the note of the pruning is missing"),
    "a record in the place of what was pruned": (
        "UPDATE log_entries SET writer = 1, number = 2 " + record(2), "2: "),
    "the day of the decision on an open call, where gateways look for it": (
        f"UPDATE log_entries SET day = {TOMORROW}", "the record of its decision is not there"),
}  # fmt: skip


@pytest.mark.holds("stores/postgres/log_reader", "damage")
@pytest.mark.parametrize("what", FOUND)
def test_what_was_rewritten_is_found(database: PostgresDatabase, what: str) -> None:
    statements, expected = FOUND[what]
    change(database, *([statements] if isinstance(statements, str) else statements))
    found = verdict(database)
    assert found is not None
    assert expected in found


FORGED_HEAD = (
    "UPDATE log_writers SET records = 2, head = (SELECT encode(sha256(payload), 'hex') FROM log_entries "
    + record(2)
    + ") WHERE writer = 2"
)
WITH_A_CHECKPOINT: dict[str, tuple[str, ...]] = {
    "a chain that was cut, with the head that it has then": (
        "DELETE FROM log_entries WHERE writer = 2 AND number > 2",
        FORGED_HEAD,
    ),
    "a whole chain, with its writer": (
        "DELETE FROM log_entries WHERE writer = 2",
        "DELETE FROM log_writers WHERE writer = 2",
    ),
    "a pruned chain, with its writer and its digests": (
        "DELETE FROM log_entries WHERE writer = 1",
        "DELETE FROM log_pruned",
        "DELETE FROM log_writers WHERE writer = 1",
    ),
    "all": ("TRUNCATE log_entries, log_writers, log_pruned, log_open, log_keys",),
}


@pytest.mark.parametrize("what", WITH_A_CHECKPOINT)
def test_what_is_gone_without_a_trace_is_found_with_a_checkpoint_that_was_kept__and_not_without(
    database: PostgresDatabase, kept: list[Envelope], what: str
) -> None:
    change(database, *WITH_A_CHECKPOINT[what])
    assert verdict(database) is None
    assert "it was there, and the log ends before it" in str(verdict(database, kept))


def test_a_row_that_a_superuser_put_in_is_listed_nowhere_as_true(database: PostgresDatabase) -> None:
    """Under the least of all numbers, or any other: what goes by records goes by those that verify."""
    with database.open_log() as log:
        before = [each.entry.entry for each in Prover([KEY]).records(log.newest_first())]
    for number in ("-9223372036854775808", "9223372036854775807"):
        change(
            database,
            f"INSERT INTO log_entries (entry, {COLUMNS}) SELECT {number}, day, writer, kind, {number}, key,"
            " convert_to(replace(convert_from(payload, 'UTF8'), 'send_email', 'wire_money'), 'UTF8'),"
            f" decode(repeat('00', 64), 'hex'), ml_dsa_65, members FROM log_entries {record(1)}",
        )
    prover = Prover([KEY])
    with database.open_log() as log:
        assert b"wire_money" in b"".join(
            each.entry.envelope.payload for each in log.newest_first() if isinstance(each.entry, Stored)
        )
        assert [each.entry.entry for each in prover.records(log.newest_first())] == before
    assert prover.left.entries == 2
    assert verdict(database) is not None


NOT_LOOKED_AT: dict[str, str] = {
    "a record's day": f"UPDATE log_entries SET day = {TOMORROW} {record(2)}",
    "the days of all whose calls have ended": (
        f"UPDATE log_entries SET day = {TOMORROW}"
        " WHERE (writer, number) NOT IN (SELECT decided_by, number FROM log_open)"
    ),
    "the order for people": "UPDATE log_entries SET entry = -entry",
    "which calls are open": "DELETE FROM log_open",
    "when a writer was alive": "UPDATE log_writers SET beat = 'epoch', turn = 0, checkpointed = 0",
    "that one without open calls has ended": (
        "UPDATE log_writers SET over = true WHERE writer NOT IN (SELECT writer FROM log_open)"
    ),
    "what a writer's gateway and host are called": "UPDATE log_writers SET gateway = 'x', host = 'y'",
    "chains of certificates": "UPDATE log_delegations SET certificates = 'x'",
    "all chains of certificates": "DELETE FROM log_delegations",
}


@pytest.mark.parametrize("what", NOT_LOOKED_AT)
def test_what_is_not_looked_at_changes_nothing_that_a_record_says(
    database: PostgresDatabase, kept: list[Envelope], what: str
) -> None:
    with database.open_log() as log:
        before = by_chain([each.entry for each in log.entries()])
    change(database, NOT_LOOKED_AT[what])
    assert verdict(database, kept) is None
    with database.open_log() as log:
        assert by_chain([each.entry for each in log.entries()]) == before


def test_a_call_that_is_not_among_the_open_ones_any_more_is_still_listed_as_open(database: PostgresDatabase) -> None:
    change(database, "DELETE FROM log_open")
    with database.open_log() as log:
        newest = next(log.newest_first()).record()
        assert newest is not None
        assert newest.phase == "decision"
        assert list(log.open_calls()) == []


def test_to_date_a_record_back_does_not_have_it_pruned(database: PostgresDatabase) -> None:
    """What is pruned is said by the record itself."""
    change(
        database,
        "CREATE TABLE log_entries_20200101 PARTITION OF log_entries FOR VALUES FROM ('2020-01-01') TO ('2020-01-02')",
        "UPDATE log_entries SET day = '2020-01-01' WHERE writer = 2",
    )
    assert prune(database, SIGNER, before_ms=NOW_MS + 1_000, now_ms=NOW_MS, on_progress=lambda _: None).records == 0
    assert verdict(database) is None
    assert report_on(database).records == 11


@pytest.mark.parametrize(
    "statement",
    ["DROP TABLE log_keys", "DROP TABLE log_entries", "DROP TABLE log_writers", "ALTER TABLE log_entries DROP payload"],
)
def test_a_table_that_is_gone_is_never_a_good_log(database: PostgresDatabase, statement: str) -> None:
    change(database, statement)
    try:
        found = verdict(database)
    except StoreUnavailable as error:
        found = str(error)
    assert found is not None
    assert "does not exist" in found
