"""A whole log is held against what its allowed calls prove: what was taken out, changed or exchanged of a proof, one
challenge for two calls, and calls that a gateway, or a thief of its key, made up."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.ratify.world import HUMAN, NOW, STRANGER
from tests.world.decisions import call, proven
from tests.world.logs import Log, by_database_thread, by_thread, each_executor, read
from tests.world.proved_calls import SETTINGS, calls_come_now, record, recorded
from tests.world.recorded import FailingRecords
from tests.world.records import decided, gateway
from tests.world.running import run

from accredit.attest import CallDecision, Fault
from accredit.limits import MAX_PROOF_BUNDLE_BYTES
from accredit.policy.evidence import Auditor
from accredit.policy.guarded_call import GuardedCall
from accredit.ratify import HybridPublicKey
from accredit.stores.audit_log.proving import Judge, Proofs
from accredit.stores.audit_log.verifying import Verifiers

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("stores/audit_log/proving"),
    pytest.mark.usefixtures("calls_come_now"),
]

__all__ = ["calls_come_now", "each_executor"]

WRITERS = [by_thread, by_database_thread]
PLACES = pytest.mark.parametrize("each_executor", WRITERS, ids=["file", "database"], indirect=True)
OWNER = {HUMAN.public_key: "Owner"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The store's file, or what stands for it."""
    return tmp_path / "accredit.db"


def judged(
    path: Path, people: dict[HybridPublicKey, str] = OWNER, *, named: bool = False, required: bool = False
) -> tuple[Fault | None, int, int]:
    """The first fault of a log that verifies, how many calls are proved, and of how many that can't be told: the same
    on one core and on several."""
    keys = [gateway()[1]]
    judge = Judge(Auditor(people, only_these=named), named=named, required=required)

    def on(processes: int) -> tuple[Fault | None, int, int]:
        with Verifiers(keys, processes, judge=judge) as verifiers, read(path) as log, Proofs() as proofs:
            report = log.verify(keys, examiner=lambda entries: proofs.count(verifiers(entries)), proofs=True)
            assert report.fault is None
        return proofs.fault, proofs.proved, proofs.untold

    found = on(1)
    assert on(2) == found
    return found


def reason(path: Path, **how: Any) -> str:
    found, *_ = judged(path, **how)
    return "" if found is None else found.reason


def calls(number: int = 2) -> list[GuardedCall]:
    return [proven(call(session="s-1"), bound=True) for _ in range(number)]


@pytest.mark.slow
@pytest.mark.holds("stores/audit_log/proving", "requirement")
@PLACES
def test_each_allowed_call_of_a_log_is_proved(path: Path, each_executor: None) -> None:
    recorded(path, *calls(3))
    assert judged(path, required=True, named=True) == (None, 3, 0)
    recorded(path, proven(call()))
    assert judged(path) == (None, 3, 1), "an unbound proof is not kept"
    assert "proofs are required, and the proof was bound to no call" in reason(path, required=True)
    assert judged(path, {}) == (None, 0, 4), "nobody is trusted"
    assert "none of the keys that were named" in reason(path, people={STRANGER.public_key: "x"}, named=True)


OF_FIRST = "WHERE entry = (SELECT min(entry) FROM log_entries WHERE proof IS NOT NULL)"
OTHER = "(SELECT proof FROM log_entries WHERE entry = (SELECT max(entry) FROM log_entries WHERE proof IS NOT NULL))"


@pytest.mark.holds("stores/audit_log/proving", "proof", "stray-proof")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (f"UPDATE log_entries SET proof = NULL {OF_FIRST}", "was kept, but is not there"),
        (f"UPDATE log_entries SET proof = X'' {OF_FIRST}", "was kept, but is not there"),
        (f"UPDATE log_entries SET proof = substr(proof, 1, 3000) {OF_FIRST}", "was kept, but is not there"),
        (f"UPDATE log_entries SET proof = proof || X'00' {OF_FIRST}", "was kept, but is not there"),
        (f"UPDATE log_entries SET proof = 'text' {OF_FIRST}", "was kept, but is not there"),
        (f"UPDATE log_entries SET proof = {OTHER} {OF_FIRST}", "not the one that the record names"),
        (
            "UPDATE log_entries SET proof = X'00' WHERE instr(payload, CAST('phase\":\"outcome' AS BLOB))",
            "a proof is kept with it",
        ),
        ("UPDATE log_entries SET proof = X'00' WHERE ml_dsa_65 IS NOT NULL", "a proof is kept with it"),
        ("UPDATE log_delegations SET certificates = X'5B5D'", "was kept, but is not there"),
        ("DELETE FROM log_delegations", "was kept, but is not there"),
    ],
)
def test_what_somebody_did_to_a_kept_proof_is_found__whoever_may_write_the_store(
    path: Path, change: str, why: str
) -> None:
    recorded(path, *calls())
    with closing(sqlite3.connect(path)) as file, file:
        assert file.execute(change).rowcount > 0
    assert why in reason(path)


@PLACES
def test_a_proof_that_is_longer_than_what_brought_it_is_not_read__a_batch_of_rows_would_fill_the_memory(
    path: Path, each_executor: None
) -> None:
    async def kept(size: int) -> None:
        async with Log(path) as log:
            await log.port.begin(decided(proof=bytes(size)))

    run(kept(MAX_PROOF_BUNDLE_BYTES))
    run(kept(MAX_PROOF_BUNDLE_BYTES + 1))
    with read(path) as log:
        found = [len(each.proof) for each in log.entries(proofs=True) if each.proof is not None]
    assert sorted(found) == [0, MAX_PROOF_BUNDLE_BYTES]


@pytest.mark.holds("stores/audit_log/proving", "challenge")
@PLACES
def test_one_challenge_is_good_for_one_call__in_whatever_chains(path: Path, each_executor: None) -> None:
    """A gateway that lost its store, or lies, records what an agent signed once as two calls."""
    (once,) = calls(1)
    recorded(path, once)
    assert judged(path, required=True) == (None, 1, 0)
    recorded(path, once)
    found, proved, _ = judged(path)
    assert found is not None
    assert "a challenge that was spent before (the other record is " in found.reason
    assert proved == 1


def lying(path: Path, change: Callable[[CallDecision], CallDecision]) -> None:
    """Records a call, and what who has the gateway's record key makes of it besides."""

    async def main() -> None:
        seen = FailingRecords()
        await record(seen, SETTINGS, calls(1)[0], hides=False)
        async with Log(path) as log:
            await log.port.begin(seen.begun[0])
            made = change(seen.begun[0])
            await log.port.begin(replace(made, call=replace(made.call, id="ab" * 16)))

    run(main())


def with_authority(**members: Any) -> Callable[[CallDecision], CallDecision]:
    def change(seen: CallDecision) -> CallDecision:
        assert seen.authority is not None
        proof = None if members.get("proof") == "digest" else seen.proof
        return replace(seen, authority=replace(seen.authority, **members), proof=proof)

    return change


def with_call(**members: Any) -> Callable[[CallDecision], CallDecision]:
    return lambda seen: replace(seen, call=replace(seen.call, **members))


def altered(**members: Any) -> Callable[[CallDecision], CallDecision]:
    return lambda seen: replace(seen, **members)


def later(seen: CallDecision) -> CallDecision:
    return replace(seen, received_ms=seen.received_ms + 301_000)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (altered(), "spent before"),
        (altered(proof=None), "is not there"),
        (later, "made at another time"),
        (with_call(target="send_email"), "for another target"),
        (with_call(session="s-2"), "for another session"),
        (altered(gateway="another-gateway"), "for another gateway"),
        (with_authority(agent_id="ab" * 16), "for somebody else"),
        (with_authority(granted_scope="files:read"), "does not cover files:read"),
    ],
)
def test_who_has_the_gateways_record_key_can_add_no_call_that_was_allowed(
    path: Path, change: Callable[[CallDecision], CallDecision], told: str
) -> None:
    lying(path, change)
    assert reason(path)
    assert told in reason(path) or "signed:" in reason(path)


def test_what_says_that_its_proof_was_not_kept_passes_only_where_proofs_are_not_required(path: Path) -> None:
    """The gateway's word, as ever: `--require-proofs` takes none of it."""
    lying(path, with_authority(proof="digest"))
    assert judged(path) == (None, 1, 1)
    assert "proofs are required, and its proof was not kept" in reason(path, required=True)


async def test_a_record_of_nobodys_authority_is_no_proof_either(path: Path) -> None:
    async with Log(path, clock=lambda: NOW * 1000) as log:
        await log.port.begin(replace(decided(), authority=None, certificates=None))
    assert judged(path) == (None, 0, 1)
    assert "nobody's authority is on record" in reason(path, required=True)
