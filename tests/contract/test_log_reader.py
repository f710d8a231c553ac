"""A log is read alike from a file and from a database: the same entries, verdicts, and calls."""

import datetime
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.contract.test_record_log_file import marked_call, pruned
from tests.world.copied_logs import copy_log, in_store
from tests.world.logs import Log
from tests.world.postgres import a_user, cluster
from tests.world.records import DENY, NOW_MS, decided, gateway
from tests.world.running import run

from accredit.attest import CallDecision, Checkpoint, Entry, Stored, verify_log
from accredit.errors import AttestationError, StoreUnavailable
from accredit.limits import MAX_ATTESTATION_BYTES
from accredit.stores import LogStore, PostgresDatabase
from accredit.stores.audit_log.calls import join_newest_first, read_call_records
from accredit.stores.audit_log.reading import Bookmark, LogAway, LogReader, NumberedEntry, key_range, windows
from accredit.stores.audit_log.schema import OF_CALL
from accredit.stores.postgres.schema import CALL_KEY
from accredit.stores.postgres.session import SchemaUnknown
from accredit.stores.postgres.snapshot import Snapshot
from accredit.stores.sqlite.schema import SCHEMA

pytestmark = [
    pytest.mark.holds("stores/audit_log/reading"),
    pytest.mark.holds("stores/postgres/log_reader"),
    pytest.mark.holds("stores/postgres/snapshot"),
]

KEY = gateway()[1]


class Written(NamedTuple):
    """A log, and calls in it: one that was pruned, one that is open, and one that was refused."""

    path: Path
    old: CallDecision
    open: CallDecision
    refused: CallDecision


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A log of three writers: one's beginning was pruned, another one died with an open call."""
    path = tmp_path_factory.mktemp("written") / "accredit.db"

    async def main() -> tuple[CallDecision, CallDecision, CallDecision]:
        async with Log(path) as log:
            calls = [await log.call() for _ in range(3)]
            await marked_call(log, b"large", 40_000)
            assert pruned(path, NOW_MS + 1) == 8
        refused = decided(decision=DENY, certificates=b'["chain"]')
        first = Log(path, clock=lambda: NOW_MS + 2_000)
        async with Log(path, clock=lambda: NOW_MS + 3_000) as second:
            await marked_call(second, b"large", 40_000)
            for _ in range(3):
                await first.call()
                await second.call()
            await second.port.begin(refused)
            left_open = await first.call(None)
            await first.die()
        return calls[0], left_open, refused

    return Written(path, *run(main()))


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, written: Written) -> Iterator[LogStore]:
    with in_store(request.param, written.path) as found:
        yield found


@pytest.fixture
def log(store: LogStore) -> Iterator[LogReader]:
    with store.open_log() as found:
        yield found


def by_chain(entries: list[Entry]) -> dict[str, list[Entry]]:
    """The entries of each chain, without what only one kind of store says of them."""
    found: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        writer = entry.place[:32] if isinstance(entry, Stored) else entry.writer
        found[writer].append(entry._replace(kind="") if isinstance(entry, Stored) else entry)
    return found


@pytest.mark.holds("stores/postgres/log_reader", "order")
def test_each_store_has_the_same_entries_in_each_chain__and_the_same_verdict(written: Written, log: LogReader) -> None:
    with store_of(written).open_log() as file:
        assert by_chain([each.entry for each in log.entries()]) == by_chain([each.entry for each in file.entries()])
        assert sorted(log.heads()) == sorted(file.heads())
        report, expected = log.verify([KEY]), file.verify([KEY])
    assert report.valid, report.fault
    assert sorted(report.writers) == sorted(expected.writers)
    assert not log.verify([gateway("stranger")[1]]).valid
    exported = [each.entry.envelope for each in log.entries() if isinstance(each.entry, Stored)]
    assert verify_log(exported, [KEY]).valid


def store_of(written: Written) -> LogStore:
    with in_store("sqlite", written.path) as file:
        return file


def test_calls_are_listed_newest_first__whichever_writer_they_are_of(written: Written, log: LogReader) -> None:
    rows = list(join_newest_first(read_call_records(log.newest_first())))
    assert [row.decision.call.id for row in rows[:2]] == [written.open.call.id, written.refused.call.id]
    assert [row.status for row in rows] == ["open", "", *["ok"] * 7]
    assert len({row.decision.log.writer for row in rows[2:4]}) == 2


def test_open_calls_are_those_without_an_outcome(written: Written, log: LogReader) -> None:
    (found,) = [record for each in log.open_calls() if (record := each.record())]
    assert found.call.id == written.open.call.id


def test_a_calls_records_are_found_by_its_id__and_those_that_were_pruned_are_not(
    written: Written, log: LogReader
) -> None:
    assert [record.phase for each in log.holding(written.open.call.id) if (record := each.record())] == ["decision"]
    for nothing in (written.old.call.id, "\0", "\udcff", "' OR true --", "%"):
        assert list(log.holding(nothing)) == []


def test_a_calls_records_come_the_newest_first__and_in_order_from_a_bookmark_on(log: LogReader) -> None:
    rows = {row.decision.call.id: row for row in join_newest_first(read_call_records(log.newest_first()))}
    numbers = {
        record.call.id: each.number for each in log.newest_first() if (record := each.record()) and record.decision
    }
    for call_id, row in rows.items():
        outcome = ["outcome"] if row.outcome is not None else []
        begin = Bookmark(numbers[call_id], row.decision.log.writer, row.decision.log.sequence)
        assert phases(log.holding(call_id)) == [*outcome, "decision"]
        assert phases(log.holding(call_id, begin)) == ["decision", *outcome]
        beyond = begin._replace(number=begin.number + 1, sequence=begin.sequence + 1)
        assert phases(log.holding(call_id, beyond)) == outcome
        assert phases(log.holding(call_id, Bookmark(10**9, "nobody", 10**9))) == []


def phases(entries: Iterable[NumberedEntry]) -> list[str]:
    return [record.phase for each in entries if (record := each.record())]


@pytest.mark.parametrize(
    ("first", "last"), [(1, 0), (1, 1), (1, 256), (1, 257), (-5, 1_000_000), (-(1 << 63), (1 << 63) - 1)]
)
def test_windows_make_up_the_whole(first: int, last: int) -> None:
    found = list(windows(first, last))
    assert len(found) < 40
    for one, other in pairwise(found):
        assert other[0] == one[1] + 1
    assert not found if first > last else (found[0][0], found[-1][1]) == (first, last)


def test_checkpoints_and_notes_come_in_the_order_of_their_chain(log: LogReader) -> None:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for each in log.summaries():
        statement = each.statement()
        assert statement is not None
        if isinstance(statement.predicate, Checkpoint):
            found[statement.predicate.writer].append(statement.predicate.count)
    assert found
    assert all(counts == sorted(counts) for counts in found.values())


def test_the_latest_checkpoint_of_each_chain_is_found__and_the_first_that_counts_a_record(
    written: Written, log: LogReader
) -> None:
    def places(found: Iterable[NumberedEntry]) -> list[str]:
        return [each.entry.place for each in found if isinstance(each.entry, Stored)]

    latest = places(log.latest_checkpoints())
    assert len(latest) == 1  # of one chain all was pruned, with its checkpoints, and of another one none was signed
    writer, _, count = latest[0].partition("/")
    for sequence in (1, int(count)):
        assert places([found] if (found := log.covering(writer, sequence)) else []) == latest
    assert log.covering(writer, int(count) + 1) is None
    assert log.covering("00" * 16, 1) is None


def test_chains_of_certificates_are_found_by_their_digest(written: Written, log: LogReader) -> None:
    authority = written.refused.authority
    assert authority is not None
    assert log.certificates(authority.chain_sha256) == b'["chain"]'
    assert log.certificates("00" * 32) is None
    assert sorted(log.chains()) == [b'["chain"]', b"[]"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_what_comes_after_a_position_is_all_that_came__and_nothing_twice(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "accredit.db"

    async with Log(path) as first, Log(path) as second:
        await first.call()
        with in_store(kind, path) as store, store.open_log() as log:
            position = log.position()
            new = [await first.call(), await second.call(), await first.call()]
            assert list(log.after(position) or ()) == []  # it shows one state until it is renewed
            log.release()
            if isinstance(store, PostgresDatabase):
                cluster().renew(store)
                copy_log(path, store)
            log.renew()
            found = [record.call.id for each in log.after(position) or () if (record := each.record())]
            assert found == [call.call.id for call in new for _ in range(2)]
            assert list(log.after(log.position()) or ()) == []


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_log_that_has_lost_records_is_told_from_one_that_goes_on(written: Written, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "accredit.db"
    run(_one_call(path))
    with in_store(kind, written.path) as store, store.open_log() as log:
        position = log.position()
    with in_store(kind, path) as store, store.open_log() as log:
        assert log.after(position) is None


async def _one_call(path: Path) -> None:
    async with Log(path) as log:
        await log.call()


@pytest.mark.slow
def test_records_of_several_days_are_one_log(written: Written) -> None:
    database = cluster().fresh()
    copy_log(written.path, database, lambda entry: datetime.date(2026, 1, 1) + datetime.timedelta(entry // 4))
    with database.open_log() as log:
        assert log.verify([KEY]).valid
        numbers = [each.number for each in log.newest_first()]
        assert len(numbers) == 16
        assert numbers == sorted(numbers, reverse=True)
        assert [record.call.id for each in log.open_calls() if (record := each.record())] == [written.open.call.id]


@pytest.mark.slow
@pytest.mark.holds("stores/postgres/log_reader", "large-entries")
def test_entries_that_are_too_large_to_come_with_others_come_by_themselves__or_are_damage(written: Written) -> None:
    with in_store("postgres", written.path) as store:
        assert isinstance(store, PostgresDatabase)
        with store.open_log() as log:
            assert (
                max(len(each.entry.envelope.payload) for each in log.newest_first() if isinstance(each.entry, Stored))
                > 40_000
            )
        cluster().run(
            f"UPDATE log_entries SET members = repeat('x', {MAX_ATTESTATION_BYTES})::bytea"
            " WHERE number = 2 AND kind = 0",
            database=store.database,
        )
        with store.open_log() as log:
            fault = log.verify([KEY]).fault
    assert fault is not None
    assert fault.reason == f"{fault.place} is damaged"


def test_fewer_rows_than_there_are_entries_are_in_memory(
    written: Written, store: LogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Snapshot.rows, "__kwdefaults__", {"at_a_time": 2})
    with store.open_log() as log:
        assert log.verify([KEY]).valid


def test_a_log_that_is_half_read_can_be_closed(store: LogStore) -> None:
    log = store.open_log()
    with log:
        entries = log.entries()
        next(entries)
    with closing(log), pytest.raises((AttestationError, StoreUnavailable)):
        log.count()


def test_a_connection_that_is_lost_says_nothing_about_the_log__and_another_one_is_made(written: Written) -> None:
    with in_store("postgres", written.path) as store, store.open_log() as log:
        for _ in range(2):
            count = log.count()
            reader = cluster().wait_for("state = 'idle in transaction'")
            cluster().run(f"SELECT pg_terminate_backend({reader})")
            with pytest.raises(LogAway):
                log.verify([KEY])
            log.release()
            log.renew()
            assert log.count() == count


@pytest.mark.holds("ops/log_place")
def test_a_database_that_is_away_is_told_from_one_without_a_log() -> None:
    with pytest.raises(LogAway), cluster().named("nowhere").open_log():
        pass
    with pytest.raises(SchemaUnknown), cluster().empty().open_log():
        pass


@pytest.mark.parametrize("role", ["accredit_gateway", "accredit_admin"])
def test_either_role_may_read_the_log(written: Written, role: str) -> None:
    with in_store("postgres", written.path) as store:
        assert isinstance(store, PostgresDatabase)
        with cluster().named(store.database, a_user(f"IN ROLE {role}")).open_log() as log:
            assert log.verify([KEY]).valid
            assert len(list(log.newest_first())) == 16
            assert len(list(log.open_calls())) == 1


def test_a_user_of_neither_role_may_not(written: Written) -> None:
    with in_store("postgres", written.path) as store:
        assert isinstance(store, PostgresDatabase)
        with pytest.raises(StoreUnavailable, match="42501"), cluster().named(store.database, a_user()).open_log():
            pass


def test_a_list_goes_on_where_it_ended(log: LogReader) -> None:
    numbers = [each.number for each in log.newest_first()]
    middle = numbers[len(numbers) // 2]
    assert [each.number for each in log.newest_first(middle)] == [each for each in numbers if each < middle]
    assert list(log.newest_first(numbers[-1])) == []


def ids(entries: Iterable[NumberedEntry]) -> list[str]:
    return sorted(record.call.id for each in entries if (record := each.record()))


def test_the_records_of_calls_are_found_by_how_their_ids_begin(log: LogReader, written: Written) -> None:
    every = ids(log.entries())
    for whole in set(every):
        for length in (0, 1, 4, 15, 16, 17, 32):
            found = [each for each in ids(log.of_calls(whole[:length])) if each.startswith(whole[:length])]
            assert found == [each for each in every if each.startswith(whole[:length])]
    upper = f"{written.open.call.id[:8]}%"
    for nothing in ("%", "_", upper, "A" * 4, "send_email", written.old.call.id, "\udcff", "\xff" * 40, "' OR true --"):
        assert list(log.of_calls(nothing)) == []


def test_a_call_of_a_large_file_is_not_looked_for_in_all_of_it() -> None:
    """Whatever numbers the entries of a damaged one have."""
    with closing(sqlite3.connect(":memory:")) as file:
        for statement in (statement for step in SCHEMA for statement in step):
            file.execute(statement)
        rows = [(n, b'{"call":{"id":"%s"}}' % sha256(b"%d" % n).hexdigest()[:32].encode()) for n in range(20_000)]
        rows += [(number, rows[0][1]) for number in (1 << 61, -(1 << 62))]
        file.executemany("INSERT INTO log_entries (entry, writer, number, payload) VALUES (?, 1, 1, ?)", rows)
        steps: list[None] = []
        file.set_progress_handler(lambda: steps.append(None), 100)
        key = sha256(b"7777").hexdigest()[:8]
        found = file.execute(f"SELECT entry FROM log_entries WHERE {OF_CALL} ORDER BY entry", key_range(key)).fetchall()
        assert (7777,) in found
        assert len(steps) < 20_000 / 100


@pytest.mark.slow
def test_a_call_of_a_large_database_is_not_looked_for_in_all_of_it(written: Written) -> None:
    with in_store("postgres", written.path) as database:
        assert isinstance(database, PostgresDatabase)
        text = "convert_to('{\"call\":{\"id\":\"' || md5(n::text) || '\"}}', 'UTF8')"
        fill = (
            "INSERT INTO log_entries (day, writer, kind, number, key, payload, ed25519)"
            f" SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date, 99, 0, n, 1, {text}, ''"
            " FROM generate_series(1, 20000) n"
        )
        plan = f"EXPLAIN SELECT entry FROM log_entries WHERE kind = 0 AND {CALL_KEY} >= 'abcd' AND {CALL_KEY} < 'abce'"
        lines = [line for (line,) in cluster().run(fill, "ANALYZE log_entries", plan, database=database.database)]
        assert any("Index" in str(line) for line in lines)
        assert not any(
            "Seq Scan on log_entries_" + f"{datetime.datetime.now(datetime.UTC):%Y%m%d}" in str(line) for line in lines
        )
