"""An outcome is not pruned before the decision that it is of, which may lie in another chain and stay longer: the call
was told to be open again, and a row that says so would have had a gateway sign that nobody knows what came of it."""

import secrets
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.contract.test_record_log_file import pruned as pruned_file
from tests.world.logs import Log, by_database_thread, by_thread, each_executor, in_short, records_in, verified
from tests.world.postgres import database_for
from tests.world.records import NOW_MS, OK, decided, gateway

from accredit.attest import CallDecision
from accredit.stores.audit_log import pruning
from accredit.stores.postgres import log_pruning
from accredit.stores.postgres.log_pruning import prune

__all__ = ["each_executor"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("each_executor", [by_thread, by_database_thread], ids=["file", "database"], indirect=True),
    pytest.mark.usefixtures("each_executor"),
    pytest.mark.holds("stores/audit_log/pruning", "records"),
]


@pytest.fixture(params=[1, 1_000], ids=["in many steps", "in one"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (pruning, log_pruning):
        monkeypatch.setattr(module, "PRUNE_ENTRIES", request.param)
    return tmp_path / "accredit.db"


def pruned(path: Path) -> int:
    if path.exists():
        return pruned_file(path, NOW_MS + 1)
    with database_for(path.parent) as database:
        done = prune(database, gateway()[0], before_ms=NOW_MS + 1, now_ms=NOW_MS, on_progress=lambda _: None)
    return done.records


async def claimed(by: Log, call: CallDecision) -> None:
    """Its answer comes to another writer, whose chain has the outcome."""
    taken = await by.port.claim(call.resume or b"")
    assert taken is not None
    await by.port.finish(taken, OK)


def told_of(path: Path, call: CallDecision) -> list[str]:
    return [said for each, said in in_short(records_in(path)) if each == call.call.id]


@pytest.mark.parametrize("begins_first", [True, False])
async def test_an_outcome_stays_as_long_as_its_decision_in_another_chain(path: Path, begins_first: bool) -> None:
    async with AsyncExitStack() as stack:
        first, second = [await stack.enter_async_context(Log(path)) for _ in range(2)]
        await first.call()
        await second.call()
        decides, ends = (first, second) if begins_first else (second, first)
        is_open, call = decided(), decided(resume=secrets.token_bytes(32))
        await decides.port.begin(is_open)
        await decides.port.begin(call)
        await claimed(ends, call)
        await ends.call()
        assert pruned(path) == 4  # what came before
        assert told_of(path, call) == ["decision", "ok"]
        await decides.port.finish(is_open, OK)
        assert pruned(path) == 6
        assert records_in(path) == []
        assert verified(path).fault is None
