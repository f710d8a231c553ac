"""Who may write the store, and who has the gateway's record key besides, can make no allowed call that verifies where
proofs are required: the attacks L1 to L4 on the log, played with the records of today, in a file and in a database.

`test_proved_logs` has what is done to proofs that are kept, and what the gateway itself records of calls that never
were; `test_log_signing` and `test_attest_calls` what a log says where nobody asks for proofs.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace
from tests.unit.ratify.world import AGENT, HUMAN, STRANGER, certificate
from tests.world.decisions import Deployment, call, granted, proven
from tests.world.logs import Log, by_database_thread, by_thread, each_executor, read
from tests.world.proved_calls import INBOX, SETTINGS, calls_come_now, record
from tests.world.raw_server import until
from tests.world.recorded import FailingRecords
from tests.world.records import DENY, NOW_MS, OK, decided, gateway
from tests.world.running import run
from tests.world.thief import Thief

from accredit.attest import (
    CallDecision,
    CallRecord,
    Checkpoint,
    Outcome,
    Place,
    RecordedParams,
    Statement,
    Stored,
    canonical,
    decision_payload,
    decode_statement,
    encode_statement,
    outcome_payload,
    sha256_hex,
)
from accredit.attest.statements import GENESIS
from accredit.policy.evidence import Auditor
from accredit.stores.audit_log import queue
from accredit.stores.audit_log.proving import Judge, Proofs
from accredit.stores.audit_log.verifying import Verifiers

pytestmark = [
    pytest.mark.slow,
    pytest.mark.holds("stores/audit_log/proving"),
    pytest.mark.usefixtures("calls_come_now"),
    pytest.mark.parametrize("each_executor", [by_thread, by_database_thread], ids=["file", "database"], indirect=True),
    pytest.mark.usefixtures("each_executor"),
]
__all__ = ["calls_come_now", "each_executor"]

SIGNER, KEY = gateway()
WRITER, ID = "f0" * 16, "ab" * 16
SEND = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"send_email"}}'


class Honest(NamedTuple):
    """Two calls of one agent that were allowed and are on record, and one that was refused."""

    inbox: CallDecision
    send: CallDecision
    refused: CallDecision


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store's file, or what stands for it."""
    monkeypatch.setattr(queue, "LOG_LOOK_SECONDS", 0.02)
    return tmp_path / "accredit.db"


@pytest.fixture
def honest(path: Path) -> Honest:
    """What is on record before anybody attacks."""

    async def main() -> list[CallDecision]:
        seen = FailingRecords()
        chain = granted()
        for target, text in (("list_inbox", INBOX), ("send_email", SEND)):
            await record_decision(seen, target, text, chain)
        async with Log(path) as log:
            for each in seen.begun:
                await log.port.begin(each)
                await log.port.finish(each, OK)
            refused = replace(seen.begun[0], call=replace(seen.begun[0].call, id="cd" * 16), decision=DENY, proof=None)
            await log.port.begin(refused)
        return [*seen.begun, refused]

    async def record_decision(seen: FailingRecords, target: str, text: bytes, chain: object) -> None:
        asked = proven(call(target, session="s-1"), chain, bound=True)  # type: ignore[arg-type]
        await record(seen, SETTINGS, asked, text)

    found = Honest(*run(main()))
    assert judged(path) == ("", 2)
    return found


def judged(path: Path, *, named: bool = True) -> tuple[str, int]:
    """The first fault of a log, and how many calls are proved, as `accredit log verify --require-proofs` says; with
    `named` the person who may allow calls is named by --root."""
    auditor = Auditor({HUMAN.public_key: "Owner"}, only_these=named)
    judge = Judge(auditor, named=named, required=True)
    with read(path) as log, Verifiers([KEY], 1, judge=judge) as verifiers, Proofs() as proofs:
        report = log.verify([KEY], examiner=lambda entries: proofs.count(verifiers(entries)), proofs=True)
    fault = report.fault or proofs.fault
    return "" if fault is None else fault.reason, proofs.proved


# --- who has the gateway's record key -----------------------------------------------------------------


class Forged(NamedTuple):
    """What somebody signs as the gateway, one record after the other, and what they keep with the first."""

    payloads: list[bytes]
    proof: bytes | None = None
    certificates: bytes | None = None


def place(number: int = 1, previous: bytes | None = None) -> Place:
    return Place(writer=WRITER, sequence=number, previous=GENESIS if previous is None else sha256_hex(previous))


def forged(made: CallDecision, *, id: str = ID) -> Forged:
    """A decision of another call than was made."""
    payload = decision_payload(replace(made, call=replace(made.call, id=id)), place(), NOW_MS)
    return Forged([payload], made.proof, made.certificates)


def saying(made: CallDecision, **members: object) -> CallDecision:
    """The decision, whose authority says something else."""
    assert made.authority is not None
    return replace(made, authority=replace(made.authority, **members))


def of_version(version: int, honest: Honest) -> Forged:
    names = ("proof", "proof_sha256", "verifier_id", "request_sha256", "call_sha256", "granted_scope")
    said = decode_statement(forged(honest.inbox).payloads[0])
    assert isinstance(said.predicate, CallRecord)
    decision, authority = said.predicate.decision, said.predicate.authority
    assert decision is not None
    assert authority is not None
    record = replace(said.predicate, authority=replace(authority, **dict.fromkeys(names)))
    if version == 1:
        record = replace(record, policy=None, decision=replace(decision, enforced=None))
    return Forged([encode_statement(Statement(record, said.sha256, version))], None, honest.inbox.certificates)


def with_the_proof_of_another_call(honest: Honest) -> Forged:
    send = honest.send.authority
    assert send is not None
    swapped = saying(honest.inbox, proof_sha256=send.proof_sha256, request_sha256=send.request_sha256)
    return forged(replace(swapped, proof=honest.send.proof))


def with_all_that_is_kept_of_another_call(honest: Honest) -> Forged:
    return forged(replace(honest.send, call=honest.inbox.call, params=honest.inbox.params))


def by_another_person(honest: Honest) -> Forged:
    """Who makes a root, an agent and a proof of their own: all of it is good."""
    theirs = (certificate(STRANGER, AGENT.public_key, scope=("email:read",)),)
    seen = FailingRecords()
    deployment = Deployment(roots={STRANGER.public_key: "Owner"})
    asked = proven(call(session="s-1"), theirs, bound=True)
    run(record(seen, SETTINGS, asked, by=deployment))
    return forged(seen.begun[0])


def with_a_chain_that_was_altered(honest: Honest) -> Forged:
    """It covers more than the person has signed."""
    chain = json.loads(honest.inbox.certificates or b"")
    chain[0]["scope"] = [*chain[0]["scope"], "custom:bank"]
    text = canonical(json.dumps(chain).encode())
    return forged(replace(saying(honest.inbox, chain_sha256=sha256_hex(text)), certificates=text))


def with_other_arguments(honest: Honest) -> Forged:
    other = replace(honest.inbox, params=RecordedParams("ab" * 32))
    return forged(saying(other, call_sha256="ab" * 32))


def of_another_tool(honest: Honest) -> Forged:
    return forged(replace(honest.inbox, call=replace(honest.inbox.call, target="wire_money")))


def at_another_gateway(honest: Honest) -> Forged:
    return forged(saying(replace(honest.inbox, gateway="bank"), verifier_id="bank"))


BY_KEY: dict[str, tuple[Callable[[Honest], Forged], str]] = {
    "L1: a call that never was, of nobody": (
        lambda honest: forged(replace(honest.inbox, authority=None, proof=None, certificates=None)),
        "nobody's authority",
    ),
    "L1: a call that never was, of another tool": (of_another_tool, "for another target"),
    "L1: with other arguments": (with_other_arguments, "for another call"),
    "L1: at another gateway": (at_another_gateway, "for another gateway"),
    "the proof left out": (lambda honest: forged(replace(honest.inbox, proof=None)), "is not there"),
    "the proof said not to be kept": (
        lambda honest: forged(replace(saying(honest.inbox, proof="digest"), proof=None)), "its proof was not kept"
    ),
    "the proof said to be bound to nothing": (
        lambda honest: forged(
            replace(saying(honest.inbox, proof="digest", bound=False, verifier_id=None, request_sha256=None,
                           call_sha256=None), proof=None)
        ), "bound to no call"
    ),
    "predicate 2": (partial(of_version, 2), "records of this version keep no proof"),
    "predicate 1": (partial(of_version, 1), "records of this version keep no proof"),
    "the proof of another call": (with_the_proof_of_another_call, "for another"),
    "all that is kept of another call": (with_all_that_is_kept_of_another_call, "for another"),
    "one proof twice": (lambda honest: forged(honest.inbox), "spent before"),
    "another person": (by_another_person, "none of the keys that were named"),
    "a chain that was altered": (with_a_chain_that_was_altered, "bad_signature"),
}  # fmt: skip


def write(path: Path, made: Forged, *, signed: bool = True) -> None:
    """Puts it into the log, as a chain of a writer that has ended."""
    thief = Thief(path)
    thief.add_writer(WRITER, len(made.payloads), sha256_hex(made.payloads[-1]))
    if made.certificates is not None:
        thief.add_chain(made.certificates)
    for number, payload in enumerate(made.payloads, 1):
        signature = SIGNER.record(payload).signatures[0].data if signed else bytes(64)
        thief.add_entry(WRITER, number, payload, SIGNER.id, signature, made.proof if number == 1 else None)


@pytest.mark.parametrize("what", BY_KEY)
def test_who_has_the_record_key_adds_no_allowed_call(path: Path, honest: Honest, what: str) -> None:
    forge, why = BY_KEY[what]
    write(path, forge(honest))
    reason, proved = judged(path)
    assert (why in reason, proved) == (True, 2), reason
    if what == "another person":
        assert "compared with no key of yours" in judged(path, named=False)[0]


def twice_decided(honest: Honest) -> list[bytes]:
    return [decision_payload(honest.inbox, place(), NOW_MS)]


def of_a_refused_call(honest: Honest) -> list[bytes]:
    return [outcome_payload(honest.refused, OK, place(), NOW_MS)]


def once_more(honest: Honest) -> list[bytes]:
    return [outcome_payload(honest.inbox, Outcome(status="tool_error"), place(), NOW_MS)]


def of_no_call(honest: Honest) -> list[bytes]:
    return [outcome_payload(replace(honest.inbox, call=replace(honest.inbox.call, id=ID)), OK, place(), NOW_MS)]


def allowed_after_all(honest: Honest) -> list[bytes]:
    return [decision_payload(replace(honest.inbox, call=honest.refused.call), place(), NOW_MS)]


def before_its_decision(honest: Honest) -> list[bytes]:
    made = replace(honest.inbox, call=replace(honest.inbox.call, id=ID))
    first = outcome_payload(made, OK, place(), NOW_MS)
    return [first, decision_payload(made, place(2, first), NOW_MS)]


OF_CALLS = [twice_decided, of_a_refused_call, once_more, of_no_call, allowed_after_all, before_its_decision]


@pytest.mark.parametrize("forge", OF_CALLS, ids=lambda each: each.__name__)
def test_l4_no_call_is_decided_twice_or_ends_otherwise_than_it_did(
    path: Path, honest: Honest, forge: Callable[[Honest], list[bytes]]
) -> None:
    """Though each record is signed by the gateway's own key, and what is kept of the honest call is there for it."""
    payloads = forge(honest)
    with_proof = forge in (twice_decided, allowed_after_all)
    write(path, Forged(payloads, honest.inbox.proof if with_proof else None, honest.inbox.certificates))
    reason, proved = judged(path)
    assert reason
    assert proved <= 2


# --- who may write the store --------------------------------------------------------------------------


async def looked_at(path: Path, deed: Callable[[Thief], None]) -> None:
    """Does something behind the back of a gateway at work, which has looked at it then."""
    async with Log(path) as log:
        await log.port.begin(decided(decision=DENY))
        thief = Thief(path)
        with thief.at_once():
            deed(thief)
        await until(lambda: log.records.unverified() is not None)


@pytest.mark.parametrize("what", ["never was", "was refused", "has ended"])
def test_l1_the_gateway_closes_no_call_that_somebody_says_is_open(path: Path, honest: Honest, what: str) -> None:
    """One that never was is there with all that is kept of an honest one."""
    made = forged(honest.inbox)
    of = {"was refused": honest.refused, "has ended": honest.inbox}.get(what)
    with read(path) as log:
        records = [record for each in log.newest_first() if (record := each.record()) and record.decision is not None]

    def deed(thief: Thief) -> None:
        thief.add_writer(WRITER, 1, sha256_hex(made.payloads[0]))
        if of is None:
            thief.add_entry(WRITER, 1, made.payloads[0], SIGNER.id, proof=made.proof)
            thief.open(ID, WRITER, WRITER, 1)
        else:
            (place,) = [each.log for each in records if each.call.id == of.call.id]
            thief.open(of.call.id, WRITER, place.writer, place.sequence)

    before = outcomes(path)
    run(looked_at(path, deed))
    assert outcomes(path) == before
    reason, proved = judged(path)
    assert (bool(reason), proved <= 2) == (True, True)


def outcomes(path: Path) -> list[str]:
    """The calls whose outcome is on record."""
    with read(path) as log:
        return [record.call.id for each in log.newest_first() if (record := each.record()) and record.outcome]


async def test_l2_the_gateway_counts_no_call_because_a_row_says_so(path: Path, honest: Honest) -> None:
    dead = Log(path)
    await dead.port.begin(decided(decision=DENY))
    name = str(dead.records.writer)
    await dead.die()
    thief = Thief(path)
    thief.set(name, records=501, head="ab" * 32)
    thief.add_writer(WRITER, 7, "cd" * 32)
    async with Log(path) as log:
        await log.port.begin(decided(decision=DENY))
        await until(lambda: log.records.left == 2)
    with read(path) as reader:
        said = [each.statement() for each in reader.summaries()]
    counted = [each.predicate for each in said if each is not None and isinstance(each.predicate, Checkpoint)]
    assert max(each.count for each in counted) == 5, "the honest calls, and the refused one"
    assert {name, WRITER}.isdisjoint(each.writer for each in counted)
    reason, proved = judged(path)
    assert ("it was there, and the log ends before it" in reason, proved) == (True, 2)


NOWHERE = -(2**63)
"""The least of all numbers, which no reader may pass over."""


@pytest.mark.parametrize("genuine", [True, False], ids=["a copy", "of another tool"])
def test_l3_a_row_at_the_end_of_all_numbers_allows_nothing(path: Path, honest: Honest, genuine: bool) -> None:
    """With the signature, the certificates and the proof of an honest call."""
    with read(path) as log:
        entry = next(each.entry for each in log.entries() if (record := each.record()) and record.decision is not None)
    assert isinstance(entry, Stored)
    payload = entry.envelope.payload
    changed = payload if genuine else payload.replace(b"list_inbox", b"wire_money")
    thief = Thief(path)
    named = entry.place.partition("/")[0]
    thief.add_entry(named, NOWHERE, changed, SIGNER.id, entry.envelope.signatures[0].data, honest.inbox.proof)
    if thief.has_file:
        thief.run("UPDATE log_entries SET entry = ? WHERE number = ?", NOWHERE, NOWHERE)
    reason, proved = judged(path)
    assert (bool(reason), proved <= 2) == (True, True)


def test_what_has_no_signature_is_no_record__with_all_that_is_kept_of_an_honest_call(
    path: Path, honest: Honest
) -> None:
    write(path, forged(honest.inbox), signed=False)
    reason, proved = judged(path)
    assert ("signature is not good" in reason, proved) == (True, 2), reason
