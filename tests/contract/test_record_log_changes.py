"""Whatever is changed of a log's entries in its file is found by `log verify`: each bit of each column, of records,
checkpoints, notes of pruning and digests; and entries that are missing, repeated, moved, or another log's."""

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.world.recorded import thread, verified
from tests.world.records import DENY, NOW_MS, OK, POLICY, decided, gateway
from tests.world.running import run

from accredit.attest import Checkpoint, Entry, Envelope, LogReport, LogSigner, Stored, sha256_hex, verify_envelope
from accredit.errors import AttestationError
from accredit.stores.audit_log.pruning import prune
from accredit.stores.audit_log.queue import QueuedRecords
from accredit.stores.audit_log.reader import LogFile

pytestmark = [pytest.mark.slow, pytest.mark.holds("stores/audit_log/pruning")]

SIGNER, KEY = gateway()
COLUMNS = ("writer", "number", "key", "payload", "ed25519", "ml_dsa_65", "digest")
UNSIGNED = {"log_writers": ("checkpointed", "turn", "over"), "log_delegations": ("sha256", "certificates")}
"""What `log verify` does not look at: docs/reference/attestation.md says so."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two writers with every kind of entry: two digests, a note, decisions, outcomes, checkpoints."""
    path = tmp_path_factory.mktemp("made") / "accredit.db"

    async def write(now_ms: int, calls: int) -> None:
        records = QueuedRecords(
            thread(path, SIGNER), durable=True, policy_digest=POLICY, on_problem=pytest.fail, clock=lambda: now_ms
        )
        for _ in range(calls):
            call = decided()
            await records.begin(call)
            await records.finish(call, OK)
            await records.begin(decided(decision=DENY))
        await records.aclose()

    async def main() -> None:
        await write(NOW_MS, 1)
        await write(NOW_MS + 2_000, 2)

    run(main())
    assert prune(path, SIGNER, before_ms=NOW_MS + 1_000, now_ms=NOW_MS, on_progress=lambda _: None).records == 3
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")  # one file, that can be copied
    assert verified(path).valid
    return path


@pytest.fixture
def log(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return Path(shutil.copy(made, tmp_path))


def flipped_bits(data: bytes, step: int = 1) -> Iterator[bytes]:
    """The bytes with each bit flipped."""
    for bit in range(0, 8 * len(data), step):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        yield bytes(flipped)


def others(value: object) -> Iterator[object]:
    """Other values of a cell: another kind, and with some bits flipped."""
    yield from (None, b"", b"x", 0, 0.5, "", "x")
    match value:
        case int():
            yield from (value ^ (1 << bit) for bit in (*range(8), 15, 16, 31, 32, 62))
        case bytes():
            yield from (value[:-1], value + b"\0", *list(flipped_bits(value, step=8 * len(value) // 3))[:3])
        case str():
            yield from (value.swapcase(), value[:-1], value + "0")
        case _:
            yield bytes(32)


def content(path: Path) -> dict[str, list[Entry]]:
    """What each chain says. How chains are interleaved says nothing."""
    found: dict[str, list[Entry]] = {}
    with LogFile(path) as log:
        for each in log.entries():
            writer = each.entry.place[:32] if isinstance(each.entry, Stored) else each.entry.writer
            found.setdefault(writer, []).append(each.entry)
    return found


def test_the_log_has_every_kind_of_entry(made: Path) -> None:
    with closing(sqlite3.connect(made)) as connection:
        kinds = connection.execute(
            "SELECT digest IS NOT NULL, ml_dsa_65 IS NOT NULL, count(*) FROM log_entries GROUP BY 1, 2 ORDER BY 1, 2"
        ).fetchall()
        assert kinds == [(0, 0, 6), (0, 1, 2), (1, 0, 2)]
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'log_%' AND type = 'table'")
        assert {name for (name,) in tables} == {
            "log_entries", "log_writers", "log_keys", "log_delegations", "log_open",
            "log_sinks",  # how far each sink has come: no part of what is verified
        }  # fmt: skip


def test_each_bit_of_each_payload_and_signature_counts(made: Path) -> None:
    """An envelope that is not good makes its log one that is not. Of ML-DSA-65's 3,309 bytes, every seventh bit."""
    with LogFile(made) as log:
        envelopes = [each.entry.envelope for each in log.entries() if isinstance(each.entry, Stored)]
    note, decision, outcome, checkpoint = envelopes[0], envelopes[1], envelopes[2], envelopes[-1]
    assert len(note.signatures) == len(checkpoint.signatures) == 2
    for envelope in (note, decision, outcome, checkpoint):
        verify_envelope(envelope, [KEY])
        for payload in flipped_bits(envelope.payload):
            assert not is_good(envelope._replace(payload=payload))
        for number, signature in enumerate(envelope.signatures):
            for data in flipped_bits(signature.data, step=7 if number else 1):
                signatures = list(envelope.signatures)
                signatures[number] = signature._replace(data=data)
                assert not is_good(envelope._replace(signatures=tuple(signatures)))


def is_good(envelope: Envelope) -> bool:
    try:
        verify_envelope(envelope, [KEY])
    except AttestationError:
        return False
    return True


def cells(path: Path, table: str) -> list[tuple[int, str, Any]]:
    """Each cell of a table: the row's place, the column, the value."""
    with closing(sqlite3.connect(path)) as connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        rows = connection.execute(f"SELECT * FROM {table}").fetchall()
    return [
        (place, column, value) for place, row in enumerate(rows) for column, value in zip(columns, row, strict=True)
    ]


def changed(log: Path, table: str, place: int, column: str, value: object) -> None:
    with closing(sqlite3.connect(log)) as connection, connection:
        key = {"log_entries": "entry", "log_writers": "writer", "log_keys": "key"}.get(table, "sha256")
        connection.execute(
            f"UPDATE {table} SET {column} = ? WHERE {key} = (SELECT {key} FROM {table} LIMIT 1 OFFSET ?)",
            (value, place),
        )


@pytest.mark.parametrize("table", ["log_entries", "log_writers", "log_keys"])
def test_each_cell_counts__one_of_its_bits_as_well_as_what_kind_it_has(table: str, made: Path, tmp_path: Path) -> None:
    original = content(made)
    for place, column, value in cells(made, table):
        for other in others(value):
            log = Path(shutil.copy(made, tmp_path))
            try:
                changed(log, table, place, column, other)
            except sqlite3.IntegrityError:  # NOT NULL
                continue
            if column in UNSIGNED.get(table, ()):
                assert verified(log).valid
            else:
                # A number that only says where an entry comes may be another, while the chain's order is the same.
                assert not verified(log).valid or content(log) == original, (table, place, column, other)


def checkpoints(path: Path) -> list[Envelope]:
    """The latest of each writer, as `log checkpoint` writes them."""
    latest: dict[str, Envelope] = {}
    with LogFile(path) as log:
        for each in log.summaries():
            statement = each.statement()
            assert statement is not None
            if isinstance(statement.predicate, Checkpoint) and isinstance(each.entry, Stored):
                latest[statement.predicate.writer] = each.entry.envelope
    return list(latest.values())


def execute(log: Path, *statements: str, kept: Sequence[Envelope] = ()) -> LogReport:
    """The verdict on the log after some statements of SQL. Entries 1 to 3 are two digests and a note of writer 1, 5 to
    10 the records of writer 2 (decision, outcome, a refusal, twice), 11 its checkpoint."""
    with closing(sqlite3.connect(log)) as connection:
        connection.create_function("sha256", 1, sha256_hex)
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    with LogFile(log) as changed_log:
        return changed_log.verify([KEY], kept)


@pytest.mark.parametrize(
    "statements",
    [
        ("DELETE FROM log_entries WHERE entry = 7",),
        ("UPDATE log_entries SET entry = 20 WHERE entry = 6", "UPDATE log_entries SET entry = 6 WHERE entry = 7"),
        ("INSERT INTO log_entries SELECT 20, writer, number, key, payload, ed25519, ml_dsa_65, digest, members, proof"
         " FROM log_entries WHERE entry = 10",),
        ("UPDATE log_entries SET writer = 1, number = 4 WHERE entry = 5",),
        ("UPDATE log_entries SET (payload, ed25519) = (SELECT payload, ed25519 FROM log_entries WHERE entry = 5)"
         " WHERE entry = 8",),
        ("UPDATE log_entries SET (payload, ed25519, ml_dsa_65) = (SELECT payload, ed25519, ml_dsa_65 FROM log_entries"
         " WHERE entry = 3) WHERE entry = 11",),
        ("DELETE FROM log_entries WHERE entry = 1",),
        ("DELETE FROM log_entries WHERE entry = 3",),
        ("UPDATE log_entries SET digest = (SELECT sha256(payload) FROM log_entries WHERE entry = 5), payload = NULL,"
         " key = NULL, ed25519 = NULL WHERE entry = 5",),
    ],
    ids=["removed", "swapped", "duplicated", "another writer's", "repeated in place", "a note for a checkpoint",
         "a digest removed", "a note removed", "pruned by a stranger"],
)  # fmt: skip
def test_entries_that_were_changed_consistently_are_found(log: Path, statements: tuple[str, ...]) -> None:
    assert not execute(log, *statements).valid


CUT = (
    "DELETE FROM log_entries WHERE entry > 7",
    "UPDATE log_writers SET records = 3, head = (SELECT sha256(payload) FROM log_entries WHERE entry = 7)"
    " WHERE writer = 2",
)
REMOVED = ("DELETE FROM log_entries WHERE writer = 2", "DELETE FROM log_writers WHERE writer = 2")


@pytest.mark.parametrize("statements", [CUT, REMOVED], ids=["a cut tail", "a whole writer removed"])
def test_what_is_missing_at_the_end_is_seen_with_a_checkpoint_only(
    log: Path, tmp_path: Path, statements: tuple[str, ...]
) -> None:
    kept = checkpoints(log)
    report = execute(log, *statements, kept=kept)
    assert report.fault is not None
    assert report.fault.reason == "it was there, and the log ends before it"
    assert execute(log).valid


def test_a_chain_of_certificates_that_is_none_is_damage_and_no_error_of_ours(log: Path) -> None:
    execute(log, "UPDATE log_delegations SET certificates = 7")
    (sha256,) = [value for _, column, value in cells(log, "log_delegations") if column == "sha256"]
    with LogFile(log) as changed_log, pytest.raises(AttestationError, match="damaged"):
        changed_log.certificates(sha256)


def test_two_logs_of_one_gateway_are_one_log_of_more_writers(log: Path, tmp_path: Path) -> None:
    """Each of its chains is whole. Of another gateway, whose key is not trusted, no record is taken."""

    async def write(other: Path, signer: LogSigner) -> None:
        records = QueuedRecords(
            thread(other, signer), durable=True, policy_digest=POLICY, on_problem=pytest.fail, clock=lambda: NOW_MS
        )
        await records.begin(decided(decision=DENY))
        await records.aclose()

    for name, trusted in (("gateway", True), ("stranger", False)):
        other = tmp_path / f"{name}.db"
        run(write(other, gateway(name)[0]))
        report = execute(
            log,
            f"ATTACH '{other}' AS other",
            "INSERT OR IGNORE INTO log_keys (id) SELECT id FROM other.log_keys",
            "INSERT INTO log_writers SELECT writer + 10, name, records, head, checkpointed, turn, over"
            " FROM other.log_writers",
            "INSERT INTO log_entries SELECT entry + 100, writer + 10, number, main.log_keys.key, payload, ed25519,"
            " ml_dsa_65, digest, members, proof FROM other.log_entries JOIN other.log_keys AS theirs USING (key)"
            " JOIN main.log_keys ON main.log_keys.id = theirs.id",
        )
        assert report.valid is trusted
        execute(log, "DELETE FROM log_entries WHERE entry > 100", "DELETE FROM log_writers WHERE writer > 10")
