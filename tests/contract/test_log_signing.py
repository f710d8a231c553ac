"""The gateway signs nothing that it did not see or verify: whoever may write the store, and has no key, gets no record,
no checkpoint and no answer of it for what never was; it is told instead."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.world.logs import FILES, Log, by_database_thread, by_thread, each_executor, in_short, read, records_in
from tests.world.postgres import database_for
from tests.world.raw_server import until
from tests.world.records import DENY, GATEWAY, NOW_MS, Chained, decided, gateway
from tests.world.running import run
from tests.world.thief import Thief

from accredit.attest import (
    CallDecision,
    CallRecord,
    Checkpoint,
    Head,
    LogSigner,
    Place,
    Stored,
    decision_payload,
    sha256_hex,
    verify_envelope,
    verify_log,
)
from accredit.attest.statements import GENESIS
from accredit.errors import AttestationError
from accredit.stores.audit_log import queue
from accredit.stores.audit_log.places import FileLog
from accredit.stores.audit_log.requests import LogExecutor
from accredit.stores.audit_log.writer import LogThread
from accredit.stores.postgres.log_pruning import prune

__all__ = ["each_executor"]

SIGNER, KEY = gateway()
DEAD, OTHER = "f0" * 16, "f1" * 16
pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("each_executor"),
    pytest.mark.holds("stores/audit_log/author"),
    pytest.mark.holds("stores/audit_log/closing"),
    pytest.mark.holds("stores/audit_log/requests"),
]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(queue, "LOG_LOOK_SECONDS", 0.02)
    return tmp_path / "accredit.db"


def signed(path: Path) -> list[CallRecord | Checkpoint]:
    """What the log holds that the gateway has signed: records and checkpoints."""
    found: list[CallRecord | Checkpoint] = []
    with read(path) as log:
        for each in log.entries():
            if isinstance(each.entry, Stored):
                try:
                    said = verify_envelope(each.entry.envelope, [KEY]).predicate
                except AttestationError:
                    continue
                if isinstance(said, CallRecord | Checkpoint):
                    found.append(said)
    return found


def outcomes(path: Path) -> list[tuple[str, str]]:
    return [
        (each.call.id, each.outcome.status)
        for each in signed(path)
        if isinstance(each, CallRecord) and each.outcome is not None
    ]


def place_of(path: Path, call: CallDecision) -> tuple[str, int]:
    (found,) = [each.log for each in records_in(path) if each.call.id == call.call.id and each.decision is not None]
    return found.writer, found.sequence


async def left_open(log: Log) -> None:
    await until(lambda: log.records.unverified() is not None)


Deed = Callable[[Thief, Path, CallDecision, CallDecision], None]


def of_zeros(thief: Thief, path: Path, ended: CallDecision, denied: CallDecision) -> None:
    call = decided("wire_money")
    payload = decision_payload(call, Place(writer=DEAD, sequence=1, previous=GENESIS), NOW_MS)
    thief.add_entry(DEAD, 1, payload, SIGNER.id)
    thief.open(call.call.id, DEAD, DEAD, 1)


def by_another_key(thief: Thief, path: Path, ended: CallDecision, denied: CallDecision) -> None:
    call = decided("wire_money")
    made = Chained("thief", DEAD).decision(call)
    thief.add_entry(DEAD, 1, made.payload, SIGNER.id, made.signatures[0].data)
    thief.open(call.call.id, DEAD, DEAD, 1)


def a_refused_one(thief: Thief, path: Path, ended: CallDecision, denied: CallDecision) -> None:
    thief.open(denied.call.id, DEAD, *place_of(path, denied))


def one_that_has_ended(thief: Thief, path: Path, ended: CallDecision, denied: CallDecision) -> None:
    thief.open(ended.call.id, DEAD, *place_of(path, ended))


def under_another_id(thief: Thief, path: Path, ended: CallDecision, denied: CallDecision) -> None:
    thief.open("dd" * 16, DEAD, *place_of(path, ended))


def with_its_outcome_for_a_decision(thief: Thief, path: Path, ended: CallDecision, denied: CallDecision) -> None:
    writer, number = place_of(path, ended)
    thief.open(ended.call.id, DEAD, writer, number + 1)


def in_another_place(thief: Thief, path: Path, ended: CallDecision, denied: CallDecision) -> None:
    call = decided("wire_money")
    made = Chained("gateway", OTHER).decision(call)  # from another log of this gateway
    thief.add_entry(DEAD, 1, made.payload, SIGNER.id, made.signatures[0].data)
    thief.open(call.call.id, DEAD, DEAD, 1)


def of_another_gateway(thief: Thief, path: Path, ended: CallDecision, denied: CallDecision) -> None:
    call = decided("wire_money", gateway="bank")
    made = Chained("gateway", DEAD).decision(call)
    thief.add_entry(DEAD, 1, made.payload, SIGNER.id, made.signatures[0].data)
    thief.open(call.call.id, DEAD, DEAD, 1)


def without_an_id(thief: Thief, path: Path, ended: CallDecision, denied: CallDecision) -> None:
    thief.open("", DEAD, *place_of(path, ended))


DEEDS = [
    of_zeros,
    by_another_key,
    a_refused_one,
    one_that_has_ended,
    under_another_id,
    with_its_outcome_for_a_decision,
    in_another_place,
    of_another_gateway,
    without_an_id,
]


@pytest.mark.holds("stores/audit_log/author", "open-calls")
@pytest.mark.parametrize("deed", DEEDS, ids=lambda deed: deed.__name__)
def test_no_outcome_is_signed_of_a_call_that_is_not_open_by_its_own_record(path: Path, deed: Deed) -> None:
    async def main() -> list[tuple[str, str]]:
        async with Log(path) as log:
            ended, denied = await log.call(), decided(decision=DENY)
            await log.port.begin(denied)
            before = outcomes(path)
            thief = Thief(path)
            thief.add_writer(DEAD)
            deed(thief, path, ended, denied)
            await left_open(log)
            assert DEAD in str(log.records.unverified())
            assert log.records.left == 1
            last = await log.call()
            assert outcomes(path) == [*before, (last.call.id, "ok")]
            assert thief.run("SELECT count(*) FROM log_open") == [(1,)]
        return outcomes(path)

    assert [status for _, status in run(main())] == ["ok", "ok"]
    assert all(head.writer != DEAD for head in signed(path) if isinstance(head, Checkpoint))


async def test_calls_that_do_not_verify_keep_no_good_one_from_being_closed(path: Path) -> None:
    dead = Log(path)
    calls = [await dead.call(None) for _ in range(3)]
    name = str(dead.records.writer)
    await dead.die()
    thief = Thief(path)
    for number in range(40):
        thief.open(f"{number:032x}", name, name, 1)
    async with Log(path) as log:
        await log.call()
        await left_open(log)
        assert "40 open calls do not verify" in str(log.records.unverified())
    closed = [call for call, status in outcomes(path) if status == "unknown"]
    assert sorted(closed) == sorted(each.call.id for each in calls)


async def test_records_that_somebody_piles_up_of_one_call_keep_no_other_from_being_closed(path: Path) -> None:
    dead = Log(path)
    calls = [await dead.call(None) for _ in range(3)]
    name = str(dead.records.writer)
    await dead.die()
    thief = Thief(path)
    for number in range(60):
        payload = decision_payload(calls[0], Place(writer=name, sequence=100 + number, previous=GENESIS), NOW_MS)
        thief.add_entry(name, 100 + number, payload, SIGNER.id)
    async with Log(path) as log:
        await log.call()
        await left_open(log)
    calls = calls[1:]
    closed = [call for call, status in outcomes(path) if status == "unknown"]
    assert sorted(closed) == sorted(each.call.id for each in calls)


async def test_of_a_call_that_is_claimed_nothing_is_handed_on_but_what_was_signed(path: Path) -> None:
    async with Log(path) as log, Log(path) as second:
        ended, denied = await log.call(), decided(decision=DENY)
        await log.port.begin(denied)
        await second.port.ready()
        thief = Thief(path)
        writer = str(log.records.writer)
        for resume, call in ((b"e" * 32, ended), (b"d" * 32, denied)):
            thief.open(call.call.id, writer, *place_of(path, call), resume)
        payload = decision_payload(decided("wire"), Place(writer=OTHER, sequence=1, previous=GENESIS), NOW_MS)
        thief.add_writer(OTHER)
        thief.add_entry(OTHER, 1, payload, SIGNER.id)
        thief.open("ee" * 16, writer, OTHER, 1, b"z" * 32)
        for resume in (b"e" * 32, b"d" * 32, b"z" * 32):
            with pytest.raises(AttestationError, match="none could be claimed"):
                await second.port.claim(resume)
    assert [status for _, status in outcomes(path)] == ["ok"]


@pytest.mark.parametrize("each_executor", [by_database_thread], indirect=True)
def test_a_decision_that_was_pruned_and_is_put_back_makes_no_call_open(tmp_path: Path, path: Path) -> None:
    """Of a call that has ended both records were pruned; the gateways' role may add entries, and had read it."""

    async def main() -> CallDecision:
        async with Log(path, clock=lambda: NOW_MS - 9_000) as first:
            await first.call()
            call = await first.call()
            await first.call()
        return call

    call = run(main())
    writer, number = place_of(path, call)
    with read(path) as log:
        (envelope,) = [
            each.entry.envelope
            for each in log.entries()
            if isinstance(each.entry, Stored)
            and each.entry.place == f"{writer}/{number}"
            and each.entry.kind == "record"
        ]
    with database_for(tmp_path) as database:
        prune(database, SIGNER, before_ms=NOW_MS + 1, now_ms=NOW_MS, on_progress=lambda _: None)
    assert outcomes(path) == []

    async def later() -> None:
        thief = Thief(path)
        thief.add_writer(DEAD)
        thief.add_entry(writer, number, envelope.payload, SIGNER.id, envelope.signatures[0].data)
        thief.open(call.call.id, DEAD, writer, number, b"e" * 32)
        async with Log(path) as log:
            await log.call()
            await left_open(log)
            with pytest.raises(AttestationError, match="none could be claimed"):
                await log.port.claim(b"e" * 32)

    run(later())
    assert [status for _, status in outcomes(path)] == ["ok"]


@FILES
def test_a_second_outcome_by_a_gateway_that_did_not_see_the_first_is_found(path: Path) -> None:
    """Who may write all of the file hides the first one, has the call closed once more, and puts it back."""

    async def main() -> None:
        dead = Log(path)
        call = await dead.call()
        place = place_of(path, call)
        await dead.die()
        thief = Thief(path)
        hidden = thief.run("SELECT entry, payload FROM log_entries WHERE number = 2")
        thief.run("UPDATE log_entries SET payload = X'00' WHERE number = 2")
        thief.open(call.call.id, place[0], *place)
        async with Log(path) as log:
            await log.port.ready()
        for entry, payload in hidden:
            thief.run("UPDATE log_entries SET payload = ? WHERE entry = ?", payload, entry)

    run(main())
    assert [status for _, status in outcomes(path)] == ["ok", "unknown"]
    with read(path) as log:
        report = log.verify([KEY])
    assert report.fault is not None
    assert "a second outcome of its call" in report.fault.reason


@pytest.mark.holds("stores/audit_log/author", "other-chains")
@pytest.mark.parametrize("records", [1, 500])
async def test_no_head_is_signed_or_told_that_a_row_counts_and_no_record_says(path: Path, records: int) -> None:
    dead = Log(path)
    await dead.call()
    name = str(dead.records.writer)
    await dead.die()
    thief = Thief(path)
    thief.set(name, records=2 + records, head="ab" * 32)
    thief.add_writer(DEAD, 7, "cd" * 32)
    async with Log(path) as log:
        await log.call()
        await until(lambda: log.records.left == 2)
    assert {head.writer for head in log.heads} == {log.heads[0].writer}
    assert log.heads[0].writer not in (name, DEAD)
    assert {each.count for each in signed(path) if isinstance(each, Checkpoint)} == {2}


async def test_a_head_that_a_row_says_is_signed_already_is_told_only_where_an_entry_says_so(path: Path) -> None:
    dead = Log(path)
    await dead.call()
    name = str(dead.records.writer)
    await dead.die()
    Thief(path).set(name, checkpointed=2)
    async with Log(path) as log:
        await log.call()
        await until(lambda: any(head.writer == name for head in log.heads))
    assert (name, 2) in {(each.writer, each.count) for each in signed(path) if isinstance(each, Checkpoint)}


@pytest.mark.holds("stores/audit_log/author", "own-chain")
async def test_a_chain_goes_on_from_where_its_writer_left_it__and_from_nowhere_that_a_row_says(path: Path) -> None:
    async with Log(path) as log:
        await log.call()
        name = str(log.records.writer)
        Thief(path).set(name, records=502, head="ab" * 32, checkpointed=502)
        await log.call()
        assert log.records.writer != name
        assert any("was changed by somebody else" in problem for problem in log.problems)
        await left_open(log)
    assert all(head.sequence <= 2 for head in log.heads)
    records = [each for each in signed(path) if isinstance(each, CallRecord)]
    assert [each.log.sequence for each in records] == [1, 2, 1, 2]
    assert max(each.count for each in signed(path) if isinstance(each, Checkpoint)) == 2


@pytest.mark.holds("stores/audit_log/author", "repeated-turns")
async def test_no_call_is_forwarded_because_a_row_says_that_its_turn_was_written(path: Path) -> None:
    async with Log(path) as log:
        calls = [await log.call()]
        Thief(path).set(str(log.records.writer), turn=1_000_000)
        calls += [await log.call(), await log.call()]
    assert in_short(records_in(path)) == [(each.call.id, said) for each in calls for said in ("decision", "ok")]


@FILES
@pytest.mark.parametrize("name", ["../gateway.key", "..", "F0" * 16, "f0" * 17])
async def test_no_file_is_touched_that_a_row_names(path: Path, name: str) -> None:
    """A writer's name is also that of a file, which is made, and removed when the writer has ended."""
    key = path.with_name("gateway.key")

    async with Log(path) as log:
        await log.call()
        key.write_text("secret")
        Thief(path).add_writer(name)
        await left_open(log)
        assert len(list(path.with_name("accredit.db-writers").iterdir())) == 1
    assert key.read_text() == "secret"


@FILES
async def test_what_another_key_has_signed_is_left_to_whoever_trusts_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trusting(path: Path, signer: LogSigner, durable: bool) -> LogExecutor:
        return LogThread(FileLog(path, "FULL", GATEWAY, (KEY,)), signer)

    dead = Log(path)
    call = await dead.call(None)
    name = str(dead.records.writer)
    await dead.die()
    async with Log(path, signer=gateway("new")[0]) as log:
        await log.call()
        await left_open(log)
        assert "a key that is not known here" in str(log.records.unverified())
        monkeypatch.setattr(Log, "executors", staticmethod(trusting))
        async with Log(path, signer=gateway("new")[0]) as third:
            await third.port.ready()
            assert third.records.unverified() is None
        await until(lambda: log.records.unverified() is None)
    _, call = name, call
    assert (call.call.id, "unknown") in in_short(records_in(path))
    with read(path) as reader:
        assert reader.verify([KEY, gateway("new")[1]]).valid


@FILES
async def test_a_chain_that_was_cut_is_vouched_for_as_it_is_left__and_found_by_a_checkpoint_that_was_kept(
    path: Path,
) -> None:
    """Who may write all of the file takes the end of a chain, and what says that there was one."""

    dead = Log(path)
    for _ in range(3):
        await dead.call()
    name = str(dead.records.writer)
    await dead.records._closing.sign(name, name)
    await dead.die()
    (kept,) = dead.heads
    thief = Thief(path)
    with read(path) as found:
        fifth = next(record for each in found.newest_first() if (record := each.record()) and record.log.sequence == 5)
        last = fifth.log.previous
    thief.run("DELETE FROM log_entries WHERE number > 4")
    thief.set(name, records=4, head=last, checkpointed=0)
    async with Log(path) as log:
        await log.call()
        await until(lambda: Head(name, 4, last) in log.heads)
        assert log.records.unverified() is None
    with read(path) as found:
        assert found.verify([KEY]).valid
        report = found.verify([KEY], [kept])
    assert report.fault is not None
    assert "the log ends before it" in report.fault.reason


@pytest.mark.slow
@pytest.mark.parametrize("each_executor", [by_thread, by_database_thread], ids=["file", "database"], indirect=True)
async def test_what_somebody_brings_in_of_another_log_of_this_gateway_passes_for_this_ones__and_both_together_are_found(
    path: Path,
) -> None:
    """Nothing that is signed names the store. Of a call that has ended there the outcome is left out."""
    elsewhere, (ended, cut) = Chained("gateway", OTHER), (decided(), decided())
    brought = [elsewhere.decision(ended), elsewhere.outcome(ended), elsewhere.decision(cut)]
    elsewhere.outcome(cut)

    async with Log(path) as log:
        await log.call()
        await until(lambda: log.heads != [])
        kept = [*log.heads]
        thief = Thief(path)
        for number, envelope in enumerate(brought, 1):
            if number == 1:
                thief.add_writer(OTHER, len(brought), sha256_hex(brought[-1].payload))
            thief.add_entry(OTHER, number, envelope.payload, SIGNER.id, envelope.signatures[0].data)
        thief.open(cut.call.id, OTHER, OTHER, len(brought))
        await until(lambda: (cut.call.id, "unknown") in outcomes(path))
        assert log.records.unverified() is None
    assert (ended.call.id, "ok") in outcomes(path)
    with read(path) as log:
        assert log.verify([KEY], kept).valid
        stored = [each.entry for each in log.entries() if isinstance(each.entry, Stored)]
    own = [each.envelope for each in stored if not each.place.startswith(OTHER)]
    report = verify_log([*own, *elsewhere.envelopes], [KEY])
    assert report.fault is not None
    assert "a second outcome of its call" in report.fault.reason
