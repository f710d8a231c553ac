"""A log whose records are of version 2, which keep no proof: it is read and verified for ever, says what it can't show,
and goes on in version 3. What is in `tests/vectors/log_v2` was made by the last version that wrote such records."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from tests.unit.ratify.world import HUMAN
from tests.world.logs import Log, read, records_in, verified
from tests.world.records import gateway

from accredit.attest import CallRecord, Stored, decode_call_bundle, encode_envelope, verify_call_bundle, verify_log
from accredit.policy.evidence import Auditor
from accredit.stores.audit_log.pruning import prune

VECTORS = Path(__file__).parents[1] / "vectors" / "log_v2"
EXPORT = (VECTORS / "calls.jsonl").read_bytes().splitlines()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The old store's file."""
    with closing(sqlite3.connect(tmp_path / "accredit.db")) as connection:
        connection.executescript((VECTORS / "log.sql").read_text("utf-8"))
    return tmp_path / "accredit.db"


def versions(path: Path) -> Counter[int]:
    with read(path) as log:
        said = [each.statement() for each in log.entries(proofs=True)]
    return Counter(each.version for each in said if each is not None and isinstance(each.predicate, CallRecord))


def test_a_log_of_version_2_verifies_for_ever__in_its_store_and_as_it_was_exported(path: Path) -> None:
    assert verify_log(EXPORT, [gateway()[1]]).valid
    assert verified(path).valid
    with read(path) as log:
        entries = [each.entry for each in log.entries()]
    assert [encode_envelope(each.envelope) for each in entries if isinstance(each, Stored)] == EXPORT
    assert versions(path) == {2: 13}


def test_a_call_of_version_2_says_who_allowed_it__and_that_its_proof_was_not_kept(path: Path) -> None:
    bundle = decode_call_bundle((VECTORS / "call.bundle.json").read_bytes())
    assert verify_call_bundle(bundle, [gateway()[1]])
    auditor = Auditor({HUMAN.public_key: "Owner"})
    with read(path) as log:
        told = [
            found
            for each in log.entries()
            if (statement := each.statement()) is not None
            and isinstance(statement.predicate, CallRecord)
            and (found := auditor.judge(statement, *log.kept_of(statement.predicate))) is not None
        ]
    assert len(told) == 5
    assert {(each.allowed.verified, each.signed.verified) for each in told} == {(True, None)}
    assert all("keep no proof" in each.signed.why for each in told)


async def test_a_log_of_version_2_goes_on_in_version_3__and_its_open_call_is_closed(path: Path) -> None:
    async with Log(path) as each:
        await each.call()
    assert verified(path).valid
    assert versions(path) == {2: 13, 3: 3}
    statuses = Counter(each.outcome.status for each in records_in(path) if each.outcome is not None)
    assert statuses["unknown"] == 1
    prune(path, gateway()[0], before_ms=2_000_000_000_000, now_ms=2_000_000_000_001, on_progress=print)
    assert verified(path).valid
