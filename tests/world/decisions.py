"""A deployment that decides: its catalog, its policy, its store, and the calls that are put before it. No I/O.

Keys are those of `tests.unit.ratify.world`: HUMAN trusts AGENT, SUB_AGENT comes after it, STRANGER is nobody's.
"""

import itertools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar, cast

from msgspec import Raw
from msgspec.structs import replace
from tests.unit.ratify.world import HOLDERS, HUMAN, NOW, certificate

from accredit.pins.definitions import Pins
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.decide import decide
from accredit.policy.decision import (
    CountUses,
    Decision,
    IsRevoked,
    IssueChallenge,
    LookAtChallenge,
    Need,
    Policy,
    SpendChallenge,
    TakeUse,
    drive,
)
from accredit.policy.facts import Facts
from accredit.policy.guarded_call import GuardedCall, guarded_call_from_values
from accredit.ports import Spending
from accredit.ratify import (
    CertificateCache,
    DelegationCert,
    HybridPrivateKey,
    HybridPublicKey,
    IssuedChallenge,
    ProofBundle,
    encode_proof_bundle,
    present,
)
from accredit.stores import MemoryStore
from accredit.tokens.claims import VerifiedToken

T = TypeVar("T")
Answer = Callable[[Need], object]
VERIFIER = "mail-gateway"

CATALOG = Catalog(
    tools={
        "list_inbox": Entry(scope="email:read"),
        "send_email": Entry(scope="email:send", accepts=("comms:email:send",)),
        "wipe": Entry(scope="comms:email:delete"),
        "deploy": Entry(scope="custom:deploy", marked_sensitive=True),
        "pay": Entry(scope="payments:send", facts=Facts({"amount": "/amount", "currency": "/currency"})),
        "write": Entry(
            scope="custom:write",
            facts=Facts({"resource_id": "git:example.com/{/repo}", "requested_path": "/path"}),
        ),
        "visit": Entry(scope="custom:visit", facts=Facts({"lat": "/at/0", "lon": "/at/1", "alt_m": "/at/2"})),
    },
    resource_prefixes={"file:///etc/": Entry(scope="custom:etc")},
)
GRANT = (
    *("email:read", "email:send", "comms:email:delete", "payments:send", "identity:delegate"),
    *("custom:deploy", "custom:write", "custom:visit", "mcp:resource", "mcp:prompt"),
)
"""Everything that the catalog asks for, but `custom:etc`."""

_draws = itertools.count(1)


def draw() -> bytes:
    """A challenge that nobody has had before."""
    return next(_draws).to_bytes(32, "big")


def policy(**changes: Any) -> Policy:
    """The deployment's policy, with HUMAN as its only root."""
    found: dict[str, Any] = {
        "verifier_id": VERIFIER,
        "roots": {HUMAN.public_key: "Owner"},
        "catalog": CATALOG,
        "cert_cache": CertificateCache(),
    }
    found |= changes
    return Policy(**{"vocabulary": found["catalog"].vocabulary(), **found})


def granted(*scope: str, **members: Any) -> tuple[DelegationCert, ...]:
    """A chain of one certificate, from HUMAN to AGENT."""
    return (certificate(scope=scope or GRANT, cert_id=members.pop("cert_id", f"cert-{next(_draws)}"), **members),)


def passed_down(depth: int, *scope: str) -> tuple[DelegationCert, ...]:
    """A chain of so many certificates, leaf first."""
    return tuple(
        certificate(HOLDERS[at], HOLDERS[at + 1].public_key, scope=scope or GRANT, cert_id=f"cert-{at}")
        for at in reversed(range(depth))
    )


def call(
    target: str = "list_inbox",
    arguments: Mapping[str, object] | None = None,
    *,
    method: str = "tools/call",
    session: str = "",
    **params: object,
) -> GuardedCall:
    """A call without a proof."""
    member = {"resources/read": "uri"}.get(method, "name")
    found: dict[str, object] = {member: target, **params}
    if arguments is not None:
        found["arguments"] = arguments
    return guarded_call_from_values(method, found, session, None)


def with_proof(call: GuardedCall, proof: ProofBundle | bytes | None) -> GuardedCall:
    """The call with this proof."""
    text = encode_proof_bundle(proof) if isinstance(proof, ProofBundle) else proof
    return replace(call, proof=None if text is None else Raw(text))


def prove(
    chain: Sequence[DelegationCert] | None = None,
    *,
    to: GuardedCall | None = None,
    scope: str | None = None,
    challenge: bytes | None = None,
    at: int = NOW,
    by: HybridPrivateKey | None = None,
    verifier: str = VERIFIER,
) -> ProofBundle:
    """A proof by the chain's holder, bound to the call `to` if there is one."""
    chain = granted() if chain is None else chain
    agent = by or HOLDERS[len(chain)]
    context = b""
    if to is not None:
        context = to.session_context(verifier, agent.id, scope_of(to) if scope is None else scope)
    return present(chain, agent, challenge or draw(), at, session_context=context)


def scope_of(call: GuardedCall) -> str:
    """The scope that the catalog asks of a call."""
    entry = CATALOG.find(call.method, call.target)
    return entry.scope if entry is not None else ""


def proven(
    call: GuardedCall, chain: Sequence[DelegationCert] | None = None, *, bound: bool = False, **more: Any
) -> GuardedCall:
    """The call with a fresh proof."""
    return with_proof(call, prove(chain, to=call if bound else None, **more))


def renamed(key: HybridPublicKey, name: str) -> Mapping[HybridPublicKey, str]:
    """Another deployment's roots."""
    return {key: name}


class Known:
    """What a deployment knows of revocations: a `Revocations`."""

    def __init__(self, *revoked: str) -> None:
        self.revoked = set(revoked)

    async def is_revoked(self, cert_id: str) -> bool:
        return cert_id in self.revoked

    async def list_of(self, issuer_id: str) -> bytes | None:
        return None

    def has_list(self, sha256: str) -> bool:
        return False

    def problem(self) -> str | None:
        return None


class Deployment:
    """A policy with a real store and real revocations."""

    def __init__(self, **changes: Any) -> None:
        self.policy = policy(**changes)
        self.store = MemoryStore()
        self.known = Known()

    def decides(self, call: GuardedCall, now: int = NOW) -> Decision:
        """The decision of a call."""
        return finished(drive(decide(call, self.policy, now), self.store, self.known, now))

    def error(self, call: GuardedCall, now: int = NOW) -> str:
        """The word for why a call is refused, or "" when it is allowed."""
        refusal = self.decides(call, now).refusal
        return "" if refusal is None else refusal.error

    def challenge_for(self, call: GuardedCall, now: int = NOW) -> bytes:
        """The challenge that is issued for a call."""
        request_hash = call.request_hash(scope_of(call))
        expires_at = now + self.policy.challenge_seconds
        return finished(self.store.issue(request_hash, expires_at=expires_at)).challenge


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never has to wait."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return cast("T", stop.value)
    raise AssertionError("it waits")


ISSUED = IssuedChallenge(bytes(31) + b"\x07", NOW + 60)
GOOD: dict[type[object], object] = {
    IsRevoked: False,
    LookAtChallenge: Spending.FIRST,
    SpendChallenge: Spending.FIRST,
    IssueChallenge: ISSUED,
    CountUses: 0,
    TakeUse: True,
}
"""The answer to each need with which a good call passes."""


def script(
    call: GuardedCall,
    policy: Policy,
    answers: Answer | None = None,
    now: int = NOW,
    pins: Pins | None = None,
    token: VerifiedToken | None = None,
) -> tuple[Decision, list[Need]]:
    """A decision driven by hand: what it comes to, and what it asked. An answer that is an exception is raised."""
    steps = decide(call, policy, now, token, pins=pins)
    needs: list[Need] = []
    try:
        need = next(steps)
        while True:
            needs.append(need)
            answer = GOOD[type(need)] if answers is None else answers(need)
            need = steps.throw(answer) if isinstance(answer, BaseException) else steps.send(answer)
    except StopIteration as stop:
        decision: Decision = stop.value
    assert decision.call is call
    return decision, needs


def but(**other: object) -> Answer:
    """Good answers, but for the needs that are named (by class)."""

    def answered(need: Need) -> object:
        return other.get(type(need).__name__, GOOD[type(need)])

    return answered


def kinds(needs: Sequence[Need]) -> list[type[Need]]:
    """The kinds of needs, in order."""
    return [type(need) for need in needs]
