"""A whole log of honest calls of several kinds is judged by the published package as by us, call by call: chain,
challenge, and that what the agent signed is this call; and so is each call of which one thing was changed.

Constraints are not compared here: their evaluators say yes to what a record can't answer. The deployment's own scopes
are added to their vocabulary, which knows the protocol's alone.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import ratify_protocol as published
import rfc8785
from msgspec.structs import replace
from ratify_protocol.types import VerifierContext as PublishedContext
from tests.world.audited import Audited
from tests.world.authorization import Trust
from tests.world.kinds_of_calls import KINDS
from tests.world.running import run
from tests.world.scenes import Scene

from accredit.attest import CallRecord, RecordedAuthority, Statement, Stored, decode_statement, encode_statement
from accredit.attest.canonical import KeptProof, kept_proof
from accredit.attest.statements import milliseconds, timestamp
from accredit.jsonrpc.methods import Era
from accredit.keys import load_public_key
from accredit.keys.load import log_key
from accredit.policy.evidence import Auditor
from accredit.stores.audit_log import reading
from accredit.stores.audit_log.proving import Judge, Proofs
from accredit.stores.audit_log.reader import LogFile
from accredit.stores.audit_log.verifying import Verifiers

TRUST = Trust()
PLAYED = (
    ("over HTTP", Era.MODERN), ("over HTTP", Era.LEGACY), ("passed on", Era.MODERN), ("sensitive", Era.LEGACY),
    ("under another scope", Era.MODERN), ("tasks", Era.MODERN), ("tasks of before", Era.LEGACY),
    ("rounds", Era.MODERN), ("merged", Era.LEGACY), ("at one of several", Era.MODERN), ("observed", Era.MODERN),
    ("with tokens", Era.MODERN), ("within terms", Era.MODERN),
)  # fmt: skip


class Kept(NamedTuple):
    """An allowed call as a log has it: the record of its decision, its certificates, and its proof, packed."""

    payload: bytes
    certificates: bytes
    proof: bytes | None

    @property
    def record(self) -> CallRecord:
        """What the record says."""
        record = decode_statement(self.payload).predicate
        assert isinstance(record, CallRecord)
        return record

    @property
    def chain_sha256(self) -> str:
        """The digest by which the record names its certificates."""
        authority = self.record.authority
        assert authority is not None
        return authority.chain_sha256

    def saying(self, subject: str | None = None, **members: Any) -> "Kept":
        """The call with a record that says something else, as who has the gateway's key can make it."""
        said = decode_statement(self.payload)
        record = self.record
        parts: dict[str, Any] = {"call": record.call, "times": record.times, "authority": record.authority}
        for name, part in parts.items():
            own = {member: members.pop(member) for member in part.__struct_fields__ if member in members}
            parts[name] = replace(part, **own)
        changed = replace(record, **(parts | members))
        return self._replace(payload=encode_statement(Statement(changed, subject or said.sha256, 3)))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of all of them."""
    audited = Audited(tmp_path_factory.mktemp("log"), TRUST.owner)
    for name, era in PLAYED:
        run(KINDS[name].play(Scene(TRUST, audited, era)))
    return audited.log


@pytest.fixture(scope="module")
def calls(log: Path) -> list[Kept]:
    """The allowed ones."""

    def each_call(reader: LogFile) -> Iterator[Kept]:
        for entry in reader.entries(proofs=True):
            record = entry.record()
            if record is None or record.decision is None or record.decision.verdict != "allow":
                continue
            assert isinstance(entry.entry, Stored)
            assert record.authority is not None
            chain = reader.certificates(record.authority.chain_sha256)
            yield Kept(entry.entry.envelope.payload, chain or b"", entry.proof)

    with LogFile(log) as reader:
        return list(each_call(reader))


@pytest.fixture(autouse=True)
def scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their vocabulary has those of the deployment."""
    own = {"email:read", "email:send", "mcp:resource", "mcp:prompt"}
    monkeypatch.setattr("ratify_protocol.scope._VALID_SCOPES", frozenset(published.vocabulary()) | own)


def judge() -> Judge:
    """The judge of `accredit log verify --root owner.key.pub --require-proofs`."""
    return Judge(Auditor({TRUST.owner.public_key: "Owner"}, only_these=True), named=True, required=True)


def ours(*calls: Kept) -> list[bool]:
    """Whether we take each for proved, as the only one of its log."""
    found: list[bool] = []
    for each in calls:
        named = hashlib.sha256(each.certificates).hexdigest() == each.chain_sha256
        entry = reading.EntryWithEvidence(b"", each.proof, each.certificates if named else None)
        judged = judge()._judge(entry, decode_statement(each.payload))
        found.append(judged is not None and judged.fault is None and judged.is_proved)
    return found


class Yes:
    """An evaluator of what no record answers."""

    def evaluate(self, *_: object) -> tuple[bool, str]:
        """It holds."""
        return True, ""


def none_yet(_cert_id: str, _seconds: int) -> int:
    """How often a certificate was used."""
    return 0


ANSWERS = PublishedContext(requested_amount=0.0, requested_currency="EUR", invocations_in_window=none_yet)


def theirs(call: Kept) -> bool:
    """Whether the published package takes it for allowed by the person and signed by the agent, for what the record
    says."""
    record = call.record
    authority = record.authority
    proof = kept_proof(authority, call.proof, call.certificates) if authority is not None else None
    if authority is None or not isinstance(proof, KeptProof) or proof.context is None:
        return False
    text = proof.text()
    if hashlib.sha256(text).hexdigest() != authority.proof_sha256:
        return False
    chain = json.loads(call.certificates)
    if hashlib.sha256(rfc8785.dumps(chain)).hexdigest() != authority.chain_sha256:
        return False
    context = their_context(decode_statement(call.payload), authority, json.loads(text)["context"])
    members = {name: value for name, value in json.loads(text).items() if name != "context"}
    bundle = {**members, "agent_id": authority.agent_id, "delegations": chain}
    options = published.VerifyOptions(
        required_scope=authority.granted_scope or ("" if looks_only(record) else "-"),
        now=milliseconds(record.times.received) // 1000,
        session_context=context,
        context=ANSWERS,
        constraint_evaluators={"dev.accredit.call": Yes()},
    )
    try:
        found = published.verify_bundle(published.decode_proof_bundle(json.dumps(bundle).encode()), options)
    except Exception:  # the differences are in what they raise
        return False
    ids = found.human_id, TRUST.owner.id, tuple(each["cert_id"] for each in chain)
    return found.identity_status == "authorized_agent" and ids == (
        authority.principal_id,
        authority.principal_id,
        authority.cert_ids,
    )


def looks_only(record: CallRecord) -> bool:
    """Whether it is a request that any proof of a task's owner is enough for."""
    return record.call.method in ("tasks/get", "tasks/result", "tasks/list")


def their_context(said: Statement, authority: RecordedAuthority, signed: dict[str, Any]) -> bytes:
    """What the agent must have signed for this record, by their functions; no bytes if that can't be. A record has the
    beginning of a long target, and the digest of a session's id that is sealed."""
    record = said.predicate
    assert isinstance(record, CallRecord)
    session, target = str(signed["session_id"]), str(signed["resource_id"])
    sealed = f"sha256:{hashlib.sha256(session.encode()).hexdigest()[:32]}" if session else ""
    names_it = (record.call.session or "") in (session, sealed) and target[:2_048] == (record.call.target or "")
    digest = "" if record.call.method == "tasks/list" else said.sha256
    here = {record.gateway, f"{record.gateway}/{record.call.server}"}
    if not names_it or authority.verifier_id not in here or (authority.call_sha256 or "") != digest:
        return b""
    operation = published.OperationContext(
        required_scope="" if looks_only(record) else authority.scope,
        operation=record.call.method,
        resource_id=target,
        payload_digest=bytes.fromhex(digest),
    )
    request = published.operation_context_hash(operation)
    if authority.request_sha256 != request.hex():
        return b""
    return published.build_session_context(
        published.SessionContextInputs(
            verifier_id=authority.verifier_id, agent_id=authority.agent_id, session_id=session, request_hash=request
        )
    )


@pytest.mark.slow
def test_a_whole_log_of_honest_calls_is_good_to_both(log: Path, calls: list[Kept]) -> None:
    assert len(calls) > 30
    assert [theirs(each) for each in calls] == [True] * len(calls) == ours(*calls)
    keys = [log_key(load_public_key(log.parent / "gateway.key.pub"))]
    with LogFile(log) as reader, Verifiers(keys, 1, judge=judge()) as verifiers, Proofs() as proofs:
        report = reader.verify(keys, examiner=lambda entries: proofs.count(verifiers(entries)), proofs=True)
    assert report.fault is None
    assert (proofs.fault, proofs.proved, proofs.untold) == (None, len(calls), 0)


# --- one thing changed --------------------------------------------------------------------------------

Change = Callable[[Kept, Kept], Kept]
"""The call, changed; the other is another one of the log."""


def in_certificates(call: Kept, change: Callable[[list[dict[str, Any]]], object]) -> Kept:
    """Other certificates, which the record names."""
    chain = json.loads(call.certificates)
    change(chain)
    text = rfc8785.dumps(chain)
    ids = tuple(str(each["cert_id"]) for each in chain)
    named = call.saying(chain_sha256=hashlib.sha256(text).hexdigest(), cert_ids=ids)
    return named._replace(certificates=text)


def flipped(text: str) -> str:
    """Base64 of one bit less or more."""
    return {"A": "B"}.get(text[0], "A") + text[1:]


def with_proof(call: Kept, proof: bytes | None, certificates: bytes) -> Kept:
    """Another proof, which the record names if it is one."""
    authority = call.record.authority
    assert authority is not None
    read = kept_proof(authority, proof, certificates)
    named = call
    if isinstance(read, KeptProof):
        named = call.saying(proof_sha256=hashlib.sha256(read.text()).hexdigest())
    return named._replace(proof=proof)


def with_bit(call: Kept, at: int) -> Kept:
    """One bit of the proof changed, at a byte from its beginning, or from its end if that is negative."""
    assert call.proof is not None
    data = bytearray(call.proof)
    data[at] ^= 4
    return with_proof(call, bytes(data), call.certificates)


def later(call: Kept, _: Kept, *, seconds: int) -> Kept:
    at = milliseconds(call.record.times.received)
    return call.saying(received=timestamp(at + 1_000 * seconds))


CHANGES: dict[str, Change] = {
    "the proof gone": lambda call, _: call._replace(proof=None),
    "the certificates gone": lambda call, _: call._replace(certificates=b"[]"),
    "the proof of another call": lambda call, other: with_proof(call, other.proof, call.certificates),
    "what is kept of another call": lambda call, other: Kept(call.payload, other.certificates, other.proof),
    "another call's record": lambda call, other: call._replace(payload=other.payload),
    "another agent": lambda call, _: call.saying(agent_id="ab" * 16),
    "another person": lambda call, _: call.saying(principal_id="ab" * 16),
    "another gateway": lambda call, _: call.saying(gateway="bank"),
    "another gateway for the proof": lambda call, _: call.saying(verifier_id="bank"),
    "both": lambda call, _: call.saying(gateway="bank", verifier_id="bank"),
    "another server": lambda call, _: call.saying(server="bank"),
    "another method": lambda call, _: call.saying(method="prompts/get", target="x"),
    "another target": lambda call, _: call.saying(target="wire_money"),
    "another session": lambda call, _: call.saying(session="s-2"),
    "no session": lambda call, _: call.saying(session=None),
    "other params": lambda call, _: call.saying("ab" * 32),
    "other params, and their digest": lambda call, _: call.saying("ab" * 32, call_sha256="ab" * 32),
    "another request": lambda call, _: call.saying(request_sha256="ab" * 32),
    "another scope": lambda call, _: call.saying(scope="custom:bank"),
    "another scope that was granted": lambda call, _: call.saying(granted_scope="custom:bank"),
    "a scope that was granted, and not asked for": lambda call, _: call.saying(granted_scope="email:send"),
    "other ids of certificates": lambda call, _: call.saying(cert_ids=("cert",)),
    "four minutes later": lambda call, other: later(call, other, seconds=240),
    "six minutes later": lambda call, other: later(call, other, seconds=360),
    "six minutes before": lambda call, other: later(call, other, seconds=-360),
    "two days later": lambda call, other: later(call, other, seconds=172_800),
    "a wider scope": lambda call, _: in_certificates(call, lambda chain: chain[0]["scope"].append("custom:bank")),
    "a longer life": lambda call, _: in_certificates(call, lambda chain: chain[-1].update(expires_at=2**40)),
    "no constraint": lambda call, _: in_certificates(call, lambda chain: chain[0].update(constraints=[])),
    "a certificate twice": lambda call, _: in_certificates(call, lambda chain: chain.append(chain[0])),
    **{
        f"a bit of a certificate's {half}": lambda call, _, half=half: in_certificates(
            call, lambda chain: chain[-1]["signature"].update({half: flipped(chain[-1]["signature"][half])})
        )
        for half in ("ed25519", "ml_dsa_65")
    },
    **{f"a bit of the proof at {at}": lambda call, _, at=at: with_bit(call, at) for at in (12, 40, 60, 140, 2_000, -1)},
}  # fmt: skip
GATEWAYS_WORD = {
    "another server", "no session", "a scope that was granted, and not asked for", "four minutes later",
    "no constraint", "another scope",
}  # fmt: skip
"""What may be the gateway's word, or what it was before: of some of the calls."""


def differing(calls: list[Kept], at: int) -> Iterator[Kept]:
    """The calls after one, or before it, for which its agent would sign something else."""
    mine = calls[at].record.authority
    for each in (*calls[at + 1 :], *calls[:at]):
        other = each.record.authority
        if mine is not None and other is not None and other.request_sha256 != mine.request_sha256:
            yield each


@pytest.mark.slow
@pytest.mark.parametrize("what", CHANGES)
def test_each_call_of_a_log_in_which_one_thing_is_changed_is_judged_alike(calls: list[Kept], what: str) -> None:
    change = CHANGES[what]
    changed = [change(call, next(differing(calls, at))) for at, call in enumerate(calls)]
    found = [theirs(each) for each in changed]
    assert found == ours(*changed)
    good = {call.record.call.method for call, is_good in zip(changed, found, strict=True) if is_good}
    assert what in GATEWAYS_WORD or good <= {"tasks/list"}, "whose params nobody signs"
