"""`log verify` tells what the list of open calls says, and no record does: the row of a call that nobody may close
keeps its writer open for ever. Who put it there may write the store, and has no key."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.world.logs import Log, by_database_thread, by_thread, each_executor, read, records_in, verified
from tests.world.postgres import cluster, database_for
from tests.world.records import DENY, NOW_MS, decided, gateway
from tests.world.running import run
from tests.world.thief import Thief

from accredit.attest import CallDecision, Fault
from accredit.errors import AttestationError
from accredit.stores.audit_log import open_rows

__all__ = ["each_executor"]

STRANGE = "dd" * 16
pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("each_executor", [by_thread, by_database_thread], ids=["file", "database"], indirect=True),
    pytest.mark.usefixtures("each_executor"),
    pytest.mark.holds("stores/audit_log/open_rows"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "accredit.db"


def place_of(path: Path, call: CallDecision) -> tuple[str, int]:
    (found,) = [each.log for each in records_in(path) if each.call.id == call.call.id and each.decision is not None]
    return found.writer, found.sequence


async def written(path: Path) -> tuple[CallDecision, CallDecision, CallDecision]:
    """A log of a writer that was killed: a call that is open, one that has ended, and one that was refused."""
    log = Log(path)
    is_open, ended, denied = await log.call(None), await log.call(), decided(decision=DENY)
    await log.port.begin(denied)
    await log.die()
    return is_open, ended, denied


Deed = Callable[[Thief, str, int, CallDecision, CallDecision], str]


def a_refused_one(thief: Thief, writer: str, number: int, ended: CallDecision, denied: CallDecision) -> str:
    thief.open(denied.call.id, writer, writer, number + 2)
    return denied.call.id


def one_that_has_ended(thief: Thief, writer: str, number: int, ended: CallDecision, denied: CallDecision) -> str:
    thief.open(ended.call.id, writer, writer, number)
    return ended.call.id


def with_its_outcome_for_a_decision(
    thief: Thief, writer: str, number: int, ended: CallDecision, denied: CallDecision
) -> str:
    thief.open(ended.call.id, writer, writer, number + 1)
    return ended.call.id


def one_that_never_was(thief: Thief, writer: str, number: int, ended: CallDecision, denied: CallDecision) -> str:
    thief.open(STRANGE, writer, writer, number)
    return STRANGE


def one_without_a_decision(thief: Thief, writer: str, number: int, ended: CallDecision, denied: CallDecision) -> str:
    one_that_never_was(thief, writer, number, ended, denied)
    if thief.has_file:
        thief.run("UPDATE log_open SET entry = 99 WHERE call = ?", STRANGE)
    else:
        thief.run("DELETE FROM log_open WHERE call = ?", STRANGE)
        thief.run(
            "INSERT INTO log_open (call, writer, decided_by, number, day)"
            " SELECT ?, writer, writer, 99, current_date FROM log_writers LIMIT 1",
            STRANGE,
        )
    return STRANGE


FOUND: dict[Deed, str] = {
    a_refused_one: "its decision is a refusal",
    one_that_has_ended: "what came of it is on record already",
    with_its_outcome_for_a_decision: "it is filed with what is no decision",
    one_that_never_was: "it is filed with the decision on another call",
    one_without_a_decision: "the record of its decision is not there, or is damaged",
}


@pytest.mark.parametrize("deed", FOUND, ids=lambda deed: deed.__name__)
def test_a_row_of_the_open_calls_that_no_record_bears_out_is_found(path: Path, deed: Deed) -> None:
    _, ended, denied = run(written(path))
    call = deed(Thief(path), *place_of(path, ended), ended, denied)
    assert verified(path).fault == Fault(f"open call {call}", FOUND[deed])


@pytest.mark.parametrize("how", ["ended", "unknown", "by a name that no writer has"])
def test_a_row_that_no_writer_has_to_close_is_found__it_would_be_open_for_ever(path: Path, how: str) -> None:
    is_open, ended, _ = run(written(path))
    assert verified(path).valid
    thief = Thief(path)
    match how:
        case "ended":
            thief.set(place_of(path, ended)[0], over=1 if thief.has_file else True)
        case "unknown":
            thief.run("UPDATE log_open SET writer = 99")
        case _:
            thief.add_writer("F0" * 16)
            thief.run("UPDATE log_open SET writer = (SELECT writer FROM log_writers WHERE name = ?)", "F0" * 16)
    reason = "nobody has it to close: its writer has ended, or is not there"
    assert verified(path).fault == Fault(f"open call {is_open.call.id}", reason)


def test_what_is_wrong_with_a_chain_is_told_before_what_is_wrong_with_an_open_call(path: Path) -> None:
    _, ended, denied = run(written(path))
    thief = Thief(path)
    writer, number = place_of(path, ended)
    one_that_never_was(thief, writer, number, ended, denied)
    thief.add_entry(writer, number + 3, b"{}", gateway()[0].id)
    fault = verified(path).fault
    assert fault is not None
    assert fault.place == f"{writer}/{number + 3}"


def test_calls_that_are_under_way__or_were_when_their_gateway_was_killed__are_no_fault(path: Path) -> None:
    async def main() -> list[bool]:
        found: list[bool] = []
        await written(path)
        async with Log(path, clock=lambda: NOW_MS + 1_000) as log:
            calls = [decided() for _ in range(3)]
            for call in calls:
                await log.port.begin(call)
                found.append(verified(path).valid)
        return [*found, verified(path).valid]

    assert run(main()) == [True] * 4


def test_what_is_no_calls_id_is_told_without_it(path: Path) -> None:
    _, ended, _ = run(written(path))
    writer, number = place_of(path, ended)
    Thief(path).open("\x1b[2J" + "ok " * 400, writer, writer, number)
    fault = verified(path).fault
    assert fault is not None
    assert fault.place == "the list of open calls, a row without a call's id"


async def test_a_list_without_an_end_is_a_fault_and_is_not_read_to_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_rows, "MAX_VERIFIED_OPEN_CALLS", 2)

    log = Log(path)
    await log.call(None)
    await log.call(None)
    assert verified(path).valid
    await log.call(None)
    await log.die()
    fault = verified(path).fault
    assert fault is not None
    assert fault.place == "the list of open calls"
    with read(path) as log:
        assert len(list(log.open_rows(2))) == 2


def test_a_list_that_cannot_be_read_is_a_fault(path: Path) -> None:
    run(written(path))
    with _without_its_list(path):
        fault = verified(path).fault
        assert fault is not None
        assert fault.place == "the list of open calls"
        with read(path) as log, pytest.raises(AttestationError):
            list(log.open_rows(1))


@contextmanager
def _without_its_list(path: Path) -> Generator[None]:
    """The log without its list of open calls; a database, which other tests are lent after this one, has it again."""
    if path.exists():
        Thief(path).run("DROP TABLE log_open")
        yield
        return
    with database_for(path.parent) as database:
        cluster().run("ALTER TABLE log_open RENAME TO taken", database=database.database)
        try:
            yield
        finally:
            cluster().run("ALTER TABLE taken RENAME TO log_open", database=database.database)
