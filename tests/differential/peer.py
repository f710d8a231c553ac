"""The published package beside ours: the same bytes and the same question, both answers in one form."""

from dataclasses import dataclass
from typing import Any

import ratify_protocol as published
from msgspec import UNSET
from ratify_protocol.types import VerifierContext as PublishedContext

from accredit.errors import WireError
from accredit.ratify import (
    HybridPublicKey,
    HybridSignature,
    ProofBundle,
    StreamContext,
    VerifierContext,
    decode_proof_bundle,
    verify_bundle,
)

Answer = tuple[str, str, str, str, list[str]]
"""Status, reason, human, agent, scopes."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """What both verifiers are asked."""

    now: int
    required_scope: str = ""
    session_context: bytes = b""
    stream: tuple[bytes, int] | None = None
    facts: dict[str, Any] | None = None
    revoked: frozenset[str] | None = None


def read_by_them(text: bytes) -> Any:
    """Their bundle, or None where they refuse the text, in whichever way."""
    try:
        return published.decode_proof_bundle(text)
    except Exception:  # the differences are in what they raise
        return None


def read_by_us(text: bytes) -> ProofBundle | None:
    """Our bundle, or None where we refuse the text."""
    try:
        return decode_proof_bundle(text)
    except WireError:
        return None


@dataclass(frozen=True)
class _Revoked:
    """A revocation provider as the published package wants it."""

    certs: frozenset[str]

    def is_revoked(self, cert_id: str) -> tuple[bool, str | None]:
        return cert_id in self.certs, None


def their_answer(bundle: Any, asked: Question) -> Answer:
    """What the published verifier says; it may raise."""
    options = published.VerifyOptions(
        required_scope=asked.required_scope,
        now=asked.now,
        session_context=asked.session_context,
        stream=published.StreamContext(*asked.stream) if asked.stream else None,
        context=their_context(asked.facts),
        revocation=None if asked.revoked is None else _Revoked(asked.revoked),
    )
    found = published.verify_bundle(bundle, options)
    scopes = sorted(found.granted_scope)
    return found.identity_status, found.error_reason, found.human_id, found.agent_id, scopes


def their_context(facts: dict[str, Any] | None) -> Any:
    """The facts as the published package wants them."""
    known = dict(facts or {})
    return PublishedContext(**known, has_resource=bool(known.get("requested_resource_id")))


def our_answer(bundle: ProofBundle, asked: Question) -> Answer:
    """What our verifier says."""
    found = verify_bundle(
        bundle,
        asked.required_scope or UNSET,
        now=asked.now,
        session_context=asked.session_context or None,
        stream=StreamContext(*asked.stream) if asked.stream else None,
        context=VerifierContext(**(asked.facts or {})),
        is_revoked=None if asked.revoked is None else asked.revoked.__contains__,
    )
    return found.identity_status.value, found.error_reason, found.human_id, found.agent_id, found.granted_scope


def both(text: bytes, asked: Question) -> tuple[Answer, Answer]:
    """Their answer and ours about a text that both read."""
    theirs, ours = read_by_them(text), read_by_us(text)
    assert theirs is not None
    assert ours is not None
    return their_answer(theirs, asked), our_answer(ours, asked)


def ours_key(key: Any) -> HybridPublicKey:
    """Their public key as ours."""
    return HybridPublicKey(key.ed25519, key.ml_dsa_65)


def theirs_key(key: HybridPublicKey) -> Any:
    """Our public key as theirs."""
    return published.HybridPublicKey(key.ed25519, key.ml_dsa_65)


def theirs_signature(signature: HybridSignature) -> Any:
    """Our signature as theirs."""
    return published.HybridSignature(signature.ed25519, signature.ml_dsa_65)
