"""Allowed calls that a person allowed and an agent signed, as a gateway records them, and as one that lies could. No
I/O."""

import json
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace
from tests.unit.ratify.world import CHALLENGE, HOLDERS, HUMAN, NOW, chain
from tests.world.records import ALLOW, GATEWAY, POLICY

from accredit.attest import (
    Call,
    CallRecord,
    Place,
    RecordedAuthority,
    Statement,
    Times,
    canonical,
    decode_statement,
    encode_statement,
    recorded_chain,
    sha256_hex,
    timestamp,
)
from accredit.attest.canonical import HybridPair, KeptProof, SignedContext
from accredit.attest.statements import GENESIS, PolicyDigest
from accredit.policy.evidence import Auditor, Evidence
from accredit.ratify import DelegationCert, HybridPrivateKey, HybridPublicKey, build_session_context, present
from accredit.ratify.signable import operation_context_hash

SCOPE = "files:read"
PARAMS = sha256(b'{"name":"read_file"}').digest()
SESSION = "s-1"


class SignedCall(NamedTuple):
    """What is kept of a call: its decision's statement, the text of its chain, and that of its proof."""

    decision: Statement
    certificates: bytes | None
    proof: bytes | None


def signed_call(
    certs: tuple[DelegationCert, ...] | None = None, agent: HybridPrivateKey | None = None, **changed: Any
) -> SignedCall:
    """A good call over a chain of two. `changed` are members of the signed context, and `challenge_at`."""
    certs = chain(2) if certs is None else certs
    agent = agent or HOLDERS[len(certs)]
    at = changed.pop("challenge_at", NOW)
    members: dict[str, Any] = {
        "agent_id": agent.id,
        "invocation_id": "",
        "operation": "tools/call",
        "payload_digest": PARAMS,
        "requested_path": "",
        "required_scope": SCOPE,
        "resource_id": "read_file",
        "session_id": SESSION,
        "verifier_id": GATEWAY,
        "workspace_id": "",
    }
    context = SignedContext(**(members | changed))
    bound_to = _session_context(context)
    signed = present(certs, agent, CHALLENGE, at, session_context=bound_to)
    proof = KeptProof(
        HybridPair(signed.agent_pub_key.ed25519, signed.agent_pub_key.ml_dsa_65),
        signed.challenge,
        signed.challenge_at,
        HybridPair(signed.challenge_sig.ed25519, signed.challenge_sig.ml_dsa_65),
        context,
        bound_to,
    )
    texts = recorded_chain(cert.encode() for cert in certs)
    authority = RecordedAuthority(
        principal_id=certs[-1].issuer_id,
        agent_id=agent.id,
        cert_ids=tuple(cert.cert_id for cert in certs),
        chain_sha256=texts.sha256,
        scope=SCOPE,
        bound=True,
        proof="kept",
        proof_sha256=sha256_hex(proof.text()),
        verifier_id=GATEWAY,
        request_sha256=_request(context).hex(),
        call_sha256=PARAMS.hex(),
        granted_scope=SCOPE,
    )
    record = CallRecord(
        gateway=GATEWAY,
        phase="decision",
        call=Call(id="ab" * 16, method="tools/call", target="read_file", session=SESSION),
        times=Times(received=timestamp(NOW * 1000), recorded=timestamp(NOW * 1000)),
        log=Place(writer="cd" * 16, sequence=1, previous=GENESIS),
        decision=replace(ALLOW, enforced=True),
        authority=authority,
        policy=PolicyDigest(digest=POLICY),
    )
    return SignedCall(read_back(Statement(record, PARAMS.hex(), 3)), texts.text, proof.text())


def read_back(statement: Statement) -> Statement:
    """The statement as somebody reads it."""
    return decode_statement(encode_statement(statement))


def lied(call: SignedCall, certificates: object = None, proof: object = None) -> SignedCall:
    """The call with other certificates, or another proof (as JSON), and a record that says that these are the ones: as
    who has the gateway's key can make it."""
    record = call.decision.predicate
    assert isinstance(record, CallRecord)
    assert record.authority is not None
    authority, texts = record.authority, {"certificates": call.certificates, "proof": call.proof}
    if certificates is not None:
        text = texts["certificates"] = json.dumps(certificates).encode()
        ids = tuple(str(each.get("cert_id", "")) for each in msgspec.json.decode(text))
        authority = replace(authority, chain_sha256=recorded_text(text), cert_ids=ids)
    if proof is not None:
        text = texts["proof"] = json.dumps(proof).encode()
        authority = replace(authority, proof_sha256=recorded_text(text))
    said = read_back(replace(call.decision, predicate=replace(record, authority=authority)))
    return SignedCall(said, **texts)


def said(call: SignedCall, **members: Any) -> SignedCall:
    """The call with a record that says something else: members of the record, its call, its times, its authority, or
    the digest of its params (`subject`)."""
    record = call.decision.predicate
    assert isinstance(record, CallRecord)
    assert record.authority is not None
    subject = members.pop("subject", call.decision.sha256)
    parts: dict[str, Any] = {"call": record.call, "times": record.times, "authority": record.authority}
    for name, part in parts.items():
        own = {member: members.pop(member) for member in part.__struct_fields__ if member in members}
        parts[name] = replace(part, **own)
    changed = replace(record, **(parts | members))
    return call._replace(decision=read_back(Statement(changed, subject, 3)))


def judged(call: SignedCall, *, roots: dict[HybridPublicKey, str] | None = None, only_these: bool = False) -> Evidence:
    """What the record of a call proves to who trusts the person's key."""
    trusted = {HUMAN.public_key: "Owner"} if roots is None else roots
    found = Auditor(trusted, only_these=only_these).judge(*call)
    assert found is not None
    return found


def recorded_text(text: bytes) -> str:
    """The digest by which a record names a text."""
    return sha256_hex(canonical(text))


def _request(context: SignedContext) -> bytes:
    return operation_context_hash(
        context.required_scope,
        context.operation,
        context.resource_id,
        context.requested_path,
        context.payload_digest,
    )


def _session_context(context: SignedContext) -> bytes:
    return build_session_context(
        context.verifier_id,
        context.workspace_id,
        context.agent_id,
        context.session_id,
        context.invocation_id,
        _request(context),
    )
