"""The proof of an allowed call, kept with the record of its decision, in a file and in a database: it proves the call
to who trusts the person alone, it is shown once it is worth nothing, and it goes with its record."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.ratify.world import AGENT, HUMAN, NOW, chain
from tests.world.decisions import VERIFIER, Deployment, call, proven
from tests.world.logs import by_database_thread, by_thread, each_executor, read, verified
from tests.world.proved_calls import INBOX, SETTINGS, calls_come_now, recorded, statement_of
from tests.world.records import gateway

from accredit.attest import CallRecord, RecordedAuthority, sha256_hex
from accredit.attest.canonical import KeptProof, decode_proof, hold_left, kept_proof
from accredit.gateway.settings import RecordSettings
from accredit.limits import CLOCK_BACK_SECONDS, SESSION_ID_SECONDS
from accredit.policy.evidence import Auditor, Evidence
from accredit.policy.guarded_call import GuardedCall
from accredit.stores.audit_log.pruning import prune
from accredit.stores.postgres.log_pruning import prune as prune_database

__all__ = ["calls_come_now", "each_executor"]

WRITERS = [by_thread, by_database_thread]
PLACES = pytest.mark.parametrize("each_executor", WRITERS, ids=["file", "database"], indirect=True)
AUTHORITY = RecordedAuthority(
    principal_id="p", agent_id="a", cert_ids=(), chain_sha256="ab" * 32, scope="s", bound=True, proof="kept"
)
FRESH_UNTIL = NOW + 30 + CLOCK_BACK_SECONDS
pytestmark = pytest.mark.usefixtures("calls_come_now")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The store's file, or what stands for it."""
    return tmp_path / "accredit.db"


def judged(path: Path, record: CallRecord) -> Evidence:
    """What the record of a call and what is kept with it prove to who trusts the person."""
    auditor = Auditor({HUMAN.public_key: "Owner"}, only_these=True)
    with read(path) as log:
        found = auditor.judge(statement_of(log, record), *log.kept_of(record))
    assert found is not None
    return found


def packed(path: Path) -> list[bytes]:
    """All proofs that are kept."""
    with read(path) as log:
        return [each.proof for each in log.entries(proofs=True) if each.proof is not None]


def shown(path: Path, record: CallRecord, at: int) -> bytes | None:
    with read(path) as log:
        return log.shown_of(record, at)


@PLACES
def test_an_allowed_call_is_proved_by_what_is_kept__whoever_recorded_it(path: Path, each_executor: None) -> None:
    said = recorded(path, proven(call(), bound=True))
    evidence = judged(path, said)
    assert (evidence.allowed.verified, evidence.signed.verified) == (True, True), evidence
    assert (evidence.allowed.who, evidence.signed.who) == ("Owner", AGENT.id)
    assert said.authority is not None
    assert (said.authority.proof, said.authority.verifier_id) == ("kept", VERIFIER)
    assert said.authority.granted_scope == said.authority.scope
    assert verified(path).valid
    (kept,) = packed(path)
    assert len(kept) < 4_096


@PLACES
def test_a_proof_is_shown_once_it_is_worth_nothing__and_not_before(path: Path, each_executor: None) -> None:
    said = recorded(path, proven(call(session="s-1"), bound=True))
    assert shown(path, said, NOW) is None
    assert shown(path, said, FRESH_UNTIL) is None
    text = shown(path, said, FRESH_UNTIL + 1)
    assert text is not None
    assert said.authority is not None
    assert sha256_hex(decode_proof(text).text()) == said.authority.proof_sha256
    sealed = recorded(path, proven(call(session="s-1"), bound=True), hides=True)
    assert shown(path, sealed, NOW + SESSION_ID_SECONDS) is None, "it holds the id that opens the session"
    assert shown(path, sealed, NOW + SESSION_ID_SECONDS + 1) is not None
    assert judged(path, sealed).signed.verified, "who reads the log itself is told at once"


@PLACES
@pytest.mark.parametrize(
    ("asked", "text", "settings"),
    [
        (proven(call()), INBOX, SETTINGS),
        (proven(call(), bound=True), INBOX, replace(SETTINGS, keeps_proofs=False)),
        (proven(call(), chain(1), bound=True), INBOX, SETTINGS),
    ],
    ids=["unbound", "by-configuration", "refused"],
)
def test_only_the_bound_proof_of_an_allowed_call_is_kept__any_other_may_be_worth_something(
    path: Path, each_executor: None, asked: GuardedCall, text: bytes, settings: RecordSettings
) -> None:
    said = recorded(path, asked, text=text, settings=settings)
    assert packed(path) == []
    assert said.authority is None or said.authority.proof == "digest"
    assert said.authority is None or said.authority.proof_sha256
    assert shown(path, said, NOW + 2 * SESSION_ID_SECONDS) is None
    assert verified(path).valid


def test_a_proof_goes_with_its_record__from_a_file(path: Path) -> None:
    recorded(path, proven(call(), bound=True), proven(call(), bound=True))
    found = packed(path)
    assert len(found) == 2
    prune(path, gateway()[0], before_ms=NOW * 1000 + 1, now_ms=NOW * 1000 + 2, on_progress=print)
    assert packed(path) == []
    assert all(each not in path.read_bytes() for each in found)
    assert verified(path).valid


@pytest.mark.slow
@pytest.mark.parametrize("each_executor", [by_database_thread], indirect=True)
def test_a_proof_goes_with_its_record__from_a_database(path: Path, each_executor: None) -> None:
    recorded(path, proven(call(), bound=True), proven(call(), bound=True))
    assert len(packed(path)) == 2
    with read(path) as log:
        database = log._snapshot._link.database  # pyright: ignore[reportAttributeAccessIssue]
    prune_database(database, gateway()[0], before_ms=NOW * 1000 + 1, now_ms=NOW * 1000 + 2, on_progress=print)
    assert packed(path) == []
    assert verified(path).valid


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x90", b"\xc0" * 6])
def test_what_can_be_no_proof_is_told_as_such(data: bytes) -> None:
    certificates = b'[{"subject_pub_key":{"ed25519":"","ml_dsa_65":""}}]'
    assert kept_proof(AUTHORITY, data, certificates) == b""
    assert not hold_left(data, NOW)


def test_a_proof_without_its_certificates_is_none__they_have_the_agents_key() -> None:
    signed = proven(call(), bound=True)
    proved = Deployment().decides(signed).proved
    assert proved is not None
    assert isinstance(proved.proof, KeptProof)
    kept = proved.proof.packed(FRESH_UNTIL)
    for certificates in (None, b"[]", b"{", b"[7]", b'[{"subject_pub_key":7}]'):
        assert kept_proof(AUTHORITY, kept, certificates) == b""
