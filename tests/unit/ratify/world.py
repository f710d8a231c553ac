"""People, agents and what they sign, made from fixed seeds: real keys, real signatures, no clock."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from accredit.ratify import (
    Constraint,
    DelegationCert,
    HybridPrivateKey,
    HybridPublicKey,
    ProofBundle,
    VerifyResult,
    delegation_sign_bytes,
    present,
    read_constraint,
    verify_bundle,
)
from accredit.ratify.hybrid import UNSIGNED

NOW = 1_800_000_000
HOUR = 3600
CHALLENGE = bytes(range(32))
CONTEXT = bytes([7]) * 32
STREAM = bytes([9]) * 32


def key(seed: int) -> HybridPrivateKey:
    """The key of the holder with this number."""
    return HybridPrivateKey(bytes([seed]) * 32, bytes([255 - seed]) * 32)


HOLDERS = [key(seed) for seed in range(101, 112)]
"""The human, then the agents that delegate to each other."""
HUMAN, AGENT, SUB_AGENT = HOLDERS[:3]
STRANGER = key(77)


def certificate(
    issuer: HybridPrivateKey = HUMAN, subject: HybridPublicKey = AGENT.public_key, **members: Any
) -> DelegationCert:
    """A signed certificate: valid, unless its members say otherwise. No rule of issuing is applied."""
    found: dict[str, Any] = {
        "cert_id": f"cert-of-{issuer.id[:6]}",
        "version": 1,
        "issuer_id": issuer.id,
        "issuer_pub_key": issuer.public_key,
        "subject_id": _id_of(subject),
        "subject_pub_key": subject,
        "scope": ("files:read",),
        "constraints": (),
        "issued_at": NOW - HOUR,
        "expires_at": NOW + HOUR,
        "signature": UNSIGNED,
    }
    return signed(DelegationCert(**(found | members)), issuer)


def signed(cert: DelegationCert, issuer: HybridPrivateKey = HUMAN) -> DelegationCert:
    """The certificate with a good signature over what it holds now."""
    return replace(cert, signature=issuer.sign(delegation_sign_bytes(cert)))


def _id_of(public: HybridPublicKey) -> str:
    known = {holder.public_key: holder.id for holder in (*HOLDERS, STRANGER)}
    return known.get(public, "")


def chain(depth: int, scope: tuple[str, ...] = ("files:read", "identity:delegate")) -> tuple[DelegationCert, ...]:
    """A good chain, leaf first: the human, and as many agents as it is deep."""
    return tuple(
        certificate(HOLDERS[at], HOLDERS[at + 1].public_key, scope=scope, cert_id=f"cert-{at}")
        for at in reversed(range(depth))
    )


def proof(
    certs: Sequence[DelegationCert] | None = None, agent: HybridPrivateKey | None = None, **binding: Any
) -> ProofBundle:
    """A proof of the chain's last agent over the fixed challenge, at the fixed time."""
    certs = chain(1) if certs is None else certs
    agent = agent or HOLDERS[len(certs)]
    at = binding.pop("challenge_at", NOW)
    return present(certs, agent, binding.pop("challenge", CHALLENGE), at, **binding)


def constrained(*constraints: dict[str, Any]) -> ProofBundle:
    """A proof whose one certificate has these constraints, as on the wire."""
    return proof([certificate(constraints=tuple(map(read_constraint, constraints)))])


def answering(answer: Any) -> Callable[..., Any]:
    """A callback that answers this, whatever it is asked."""

    def answered(*_asked: object) -> Any:
        return answer

    return answered


def constraint(**members: object) -> Constraint:
    """A constraint from its members on the wire."""
    return read_constraint(members)


def verdict(bundle: ProofBundle, **options: Any) -> tuple[str, str]:
    """The status and the reason of a verification at the fixed time."""
    result = judged(bundle, **options)
    return result.identity_status.value, result.error_reason


def judged(bundle: ProofBundle, **options: Any) -> VerifyResult:
    """A verification at the fixed time; that a result hangs together is checked on the way."""
    options.setdefault("now", NOW)
    result = verify_bundle(bundle, **options)
    assert result.valid is (result.identity_status == "authorized_agent") is (not result.error_reason)
    assert result.valid or result.granted_scope == []
    named = bool(result.human_id and result.agent_id)
    assert named is (result.identity_status in {"authorized_agent", "expired", "revoked"})
    return result
