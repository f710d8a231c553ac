"""Calls that are recorded, and a gateway's key that signs for them, made by the real code. No I/O."""

import hashlib
import json
import secrets
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey
from msgspec.structs import replace
from tests.unit.ratify.world import AGENT, HUMAN, certificate

from accredit.attest import (
    Call,
    CallDecision,
    Envelope,
    LogKey,
    LogSigner,
    Outcome,
    Place,
    RecordedAuthority,
    RecordedDecision,
    RecordedToken,
    checkpoint_payload,
    decision_payload,
    outcome_payload,
    recorded_chain,
    recorded_params,
    sha256_hex,
)
from accredit.attest.statements import GENESIS

NOW_MS = 1_800_000_000_000
SECRET = "swordfish-7f3a"
POLICY = "d1" * 32
"""The digest of the configuration by which calls are decided."""
GATEWAY = "mail-gateway"
"""The gateway's id in records."""
ALLOW = RecordedDecision(verdict="allow")
DENY = RecordedDecision(verdict="deny", error="ratify_scope_denied", reason="this delegation covers email:read")
OK = Outcome(status="ok", result={"sha256": "ab" * 32})


@cache
def gateway(name: str = "gateway") -> tuple[LogSigner, LogKey]:
    """A gateway's key, both halves; the same for the same name."""
    seed = hashlib.sha256(name.encode()).digest()
    ed25519, ml_dsa_65 = Ed25519PrivateKey.from_private_bytes(seed), MLDSA65PrivateKey.from_seed_bytes(seed)
    key_id = sha256_hex(name.encode())[:32]
    key = LogKey(key_id, ed25519.public_key().public_bytes_raw(), ml_dsa_65.public_key().public_bytes_raw())
    return LogSigner(key_id, seed, seed), key


def decided(
    target: str = "send_email", decision: RecordedDecision = ALLOW, certificates: bytes = b"[]", **more: Any
) -> CallDecision:
    """A call of a tool on which was decided."""
    call = Call(id=secrets.token_hex(16), method="tools/call", target=target, session="s-1", revision="2025-11-25")
    params = {"name": target, "arguments": {"to": "bob", "n": 1.5}, "_meta": {"token": SECRET}}
    authority = RecordedAuthority(
        principal_id="aa" * 16,
        principal_name="Owner",
        agent_id="bb" * 16,
        cert_ids=("cc" * 16,),
        chain_sha256=sha256_hex(certificates),
        scope="email:send",
        bound=True,
        proof="digest",
        proof_sha256="ee" * 32,
        verifier_id=GATEWAY,
        request_sha256="e1" * 32,
        call_sha256="e2" * 32,
        granted_scope="email:send",
    )
    token = RecordedToken(
        issuer="https://issuer.example", subject="agent", sha256=sha256_hex(SECRET.encode()), jti="1", kid="k"
    )
    made = CallDecision(
        gateway=GATEWAY,
        call=call,
        params=recorded_params(json.dumps(params).encode(), token_argument=False),
        decision=decision,
        received_ms=NOW_MS,
        policy_digest=POLICY,
        authority=authority,
        token=token,
        certificates=certificates,
    )
    return replace(made, **more)


def allowed_by_a_person(target: str = "send_email", **more: Any) -> CallDecision:
    """An allowed call whose certificates are good."""
    chain = recorded_chain([certificate(cert_id="cc" * 16, scope=("email:send",)).encode()])
    call = decided(target, certificates=chain.text, **more)
    assert call.authority is not None
    return replace(call, authority=replace(call.authority, principal_id=HUMAN.id, agent_id=AGENT.id))


class Chained:
    """A writer's chain in memory, one envelope after the other."""

    def __init__(self, name: str = "gateway", writer: str | None = None) -> None:
        self.signer, self.key = gateway(name)
        self.writer = writer or secrets.token_hex(16)
        self.envelopes: list[Envelope] = []
        self.count, self._head = 0, GENESIS

    def decision(self, call: CallDecision) -> Envelope:
        return self._add(decision_payload(call, self._place(), NOW_MS + self.count))

    def outcome(self, call: CallDecision, outcome: Outcome = OK) -> Envelope:
        return self._add(outcome_payload(call, outcome, self._place(), NOW_MS + self.count))

    def checkpoint(self) -> Envelope:
        payload = checkpoint_payload(self.writer, self.count, self._head, NOW_MS + self.count)
        self.envelopes.append(self.signer.summary(payload))
        return self.envelopes[-1]

    def calls(self, number: int) -> list[Envelope]:
        """So many calls, each with both of its records, and a checkpoint; returns all that there is."""
        for _ in range(number):
            call = decided()
            self.decision(call)
            self.outcome(call)
        self.checkpoint()
        return self.envelopes

    def _place(self) -> Place:
        return Place(writer=self.writer, sequence=self.count + 1, previous=self._head)

    def _add(self, payload: bytes) -> Envelope:
        self.count, self._head = self.count + 1, sha256_hex(payload)
        self.envelopes.append(self.signer.record(payload))
        return self.envelopes[-1]
