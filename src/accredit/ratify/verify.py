"""The verifier (Ratify section 8; where it is stricter, docs/reference/ratify.md). No I/O.

The steps are taken in this order, and the first failure decides (the protocol numbers them from 1 to 16):

- [certificates] there are certificates;
- [chain-length] there are at most eight of them;
- [challenge] there is a challenge, of 32 bytes;
- [bounds] counts and lengths are within bounds;
- [context] the session context is the expected one;
- [acceptance] the store, if there is one, would accept the challenge;
- [stream] the turn is the next one of its stream;
- [key-length] the agent's key has the right lengths;
- [leaf] the agent is the subject of the leaf certificate;
- [ids] every id is derived from its key;
- [chain] certificate by certificate, leaf first: its version, scopes, expiry, start, revocation, signatures and (if
  there is no store) constraints are valid, and its issuer is the subject of the next certificate, which may delegate;
- [freshness] the challenge is fresh;
- [signature] the agent has signed the challenge;
- [consumption] the store, if there is one, consumes the challenge, and only then constraints are evaluated;
- [scopes] all certificates grant the required scope;
- [root] the chain ends in a trusted root, if roots are given.

Not checked here: that the agent itself sent the bundle (bindings are for that), that a certificate's lifetime lies
within its parent's, and that the chain has no loops. Without `roots` anyone can be the principal.

The checks of a signed challenge, from `check_challenge_length` on, also serve to verify a turn of a session (Ratify
section 10). Each returns nothing, or raises `Refusal` with the exact reason. `what` names the verified object in it.
"""

import hmac
from collections.abc import Generator, Sequence
from typing import Protocol

from accredit.limits import CHALLENGE_WINDOW_SECONDS, MAX_DELEGATION_CHAIN_DEPTH
from accredit.ratify.challenges import CHALLENGE_BYTES
from accredit.ratify.constraints import evaluate
from accredit.ratify.hybrid import (
    ED25519_KEY_BYTES,
    ML_DSA_65_KEY_BYTES,
    HybridPublicKey,
    HybridSignature,
    signature_fault,
)
from accredit.ratify.results import IdentityStatus, Refusal, VerifyResult, build_refusal, invalid
from accredit.ratify.scopes import DELEGATE, intersect, unknown_scope
from accredit.ratify.signable import challenge_sign_bytes
from accredit.ratify.structures import (
    PROTOCOL_VERSION,
    DelegationCert,
    ProofBundle,
    StreamContext,
    bounds_fault,
    delegation_sign_bytes,
)
from accredit.ratify.terms import CertificateCache, ConsumeChallenge, IsRevoked, Need, Steps, Terms, ValidateChallenge

_BINDING_BYTES = 32
"""The length of a session context, and of a stream's id."""


def verification(bundle: ProofBundle, terms: Terms) -> Steps:
    """Return a generator that runs the steps above: it yields each `Need` and is sent the answer. No bundle, however
    invalid, makes it raise."""
    return run_to_result(_steps(bundle, terms))


def run_to_result(steps: Steps) -> Steps:
    """Run the steps. If they raise anything, turn that into a result."""
    try:
        return (yield from steps)
    except Refusal as refusal:
        return refusal.result
    except Exception as error:  # fail closed: an object that was not decoded can hold anything
        return invalid("invalid", f"can't be verified ({type(error).__name__})").result


def _steps(bundle: ProofBundle, terms: Terms) -> Steps:
    _check_shape(bundle)  # [certificates] to [bounds]
    check_session("bundle", bundle.session_context, terms.session_context)  # [context]
    if terms.single_use:
        yield from ask_store(ValidateChallenge(bundle.challenge, terms.session_context))  # [acceptance]
    check_stream("bundle", bundle, terms.stream)  # [stream]
    _check_agent(bundle)  # [key-length], [leaf]
    yield from _check_chain(bundle.delegations, terms, judge_now=not terms.single_use)  # [ids], [chain]
    check_freshness(bundle.challenge_at, terms.now, max_age=terms.max_age, max_ahead=terms.max_ahead)
    check_challenge_signature(bundle, bundle.delegations[0].subject_pub_key)  # the agent's, after [leaf]
    if terms.single_use:
        yield from ask_store(ConsumeChallenge(bundle.challenge, terms.session_context))  # [consumption]
        for index, cert in enumerate(bundle.delegations):
            _check_constraints(index, cert, terms)
    granted = intersect([cert.scope for cert in bundle.delegations])
    if terms.required_scope and terms.required_scope not in granted:  # [scopes]
        raise build_refusal(
            IdentityStatus.SCOPE_DENIED,
            f'required scope "{terms.required_scope}" not in effective delegation scope',
        )
    root = bundle.delegations[-1]
    if terms.roots is not None and root.issuer_pub_key not in terms.roots:  # [root]
        raise Refusal(IdentityStatus.INVALID, "untrusted_root: the chain's root is not trusted", root_checked=True)
    return VerifyResult(
        valid=True,
        identity_status=IdentityStatus.VALID,
        human_id=root.issuer_id,
        agent_id=bundle.agent_id,
        granted_scope=granted,
        root_checked=terms.roots is not None,
    )


def chain_verification(chain: Sequence[DelegationCert], terms: Terms) -> Steps:
    """Return a generator that runs the steps of `verify_chain`: it yields each `Need` and is sent the answer. `terms`
    says whether revocations are checked."""
    return run_to_result(_chain_steps(chain, terms))


def constraints_fault(chain: Sequence[DelegationCert], terms: Terms) -> VerifyResult | None:
    """Return the result for the first violated constraint, or None. This is for a chain that was verified without its
    constraints."""
    try:
        for index, cert in enumerate(chain):
            _check_constraints(index, cert, terms)
    except Refusal as refusal:
        return refusal.result
    return None


def certificate_fault(chain: Sequence[DelegationCert], index: int) -> str | None:
    """Return why a certificate of a chain (leaf first) is invalid whatever the time is, or None. The checks: its ids,
    its signature, and that the certificate after it lets its issuer delegate."""
    cert = chain[index]
    for whose, holder_id, key in (
        ("issuer", cert.issuer_id, cert.issuer_pub_key),
        ("subject", cert.subject_id, cert.subject_pub_key),
    ):
        if holder_id != key.id:
            return f"the {whose}'s id is not that of its key"
    fault = signature_fault(delegation_sign_bytes(cert), cert.signature, cert.issuer_pub_key)
    if fault is not None or index + 1 == len(chain):
        return fault
    parent = chain[index + 1]
    if cert.issuer_pub_key != parent.subject_pub_key:
        return "not issued by the subject of the certificate after it"
    return None if DELEGATE in parent.scope else f"its issuer was not granted {DELEGATE}"


def _chain_steps(chain: Sequence[DelegationCert], terms: Terms) -> Steps:
    _check_depth(chain)
    _check_bounds(chain)
    yield from _check_chain(chain, terms, judge_now=False)
    return VerifyResult(
        valid=True,
        identity_status=IdentityStatus.VALID,
        human_id=chain[-1].issuer_id,
        agent_id=chain[0].subject_id,
        granted_scope=intersect([cert.scope for cert in chain]),
    )


def ask_revoked(index: int, cert_id: str) -> Generator[Need, object, bool]:
    """[chain] of `verify`: ask whether a certificate is revoked. If the lookup fails or has no answer, refuse the
    certificate."""
    try:
        revoked = yield IsRevoked(cert_id)
    except Exception as error:
        raise invalid("revocation_error", f"cert {index}: revocation lookup failed: {error}") from None
    if revoked is None:
        raise invalid("revocation_error", f"cert {index}: revocation lookup failed: no answer")
    return bool(revoked)


def ask_store(need: ValidateChallenge | ConsumeChallenge) -> Generator[Need, object, None]:
    """[acceptance] and [consumption] of `verify`: ask the store about the challenge. However the store refuses or
    fails, the text of the refusal is the same."""
    try:
        refusal = yield need
    except Exception as error:
        refusal = error
    if refusal is not None:
        raise invalid("unknown_challenge", "challenge was not issued by this verifier or has already been used")


def _check_depth(chain: Sequence[DelegationCert]) -> None:
    if not chain:
        raise invalid("no_delegations", "proof bundle contains no delegation certificates")
    if len(chain) > MAX_DELEGATION_CHAIN_DEPTH:
        raise invalid("chain_too_deep", "delegation chain exceeds maximum depth")


def _check_shape(bundle: ProofBundle) -> None:
    _check_depth(bundle.delegations)
    if not bundle.challenge:
        raise invalid("no_challenge", "proof bundle contains no challenge")
    check_challenge_length(bundle.challenge)
    _check_bounds(bundle.delegations)


def _check_bounds(chain: Sequence[DelegationCert]) -> None:
    for index, cert in enumerate(chain):
        fault = bounds_fault(cert)
        if fault:
            raise invalid("invalid", f"cert {index} {fault}")


def _check_agent(bundle: ProofBundle) -> None:
    key, leaf = bundle.agent_pub_key, bundle.delegations[0]
    for what, data, size in (
        ("Ed25519", key.ed25519, ED25519_KEY_BYTES),
        ("ML-DSA-65", key.ml_dsa_65, ML_DSA_65_KEY_BYTES),
    ):
        if len(data) != size:
            raise invalid("invalid_agent_key", f"agent {what} public key has wrong length: {len(data)}")
    if key != leaf.subject_pub_key:
        raise invalid("key_mismatch", "agent public key does not match delegation subject")
    if bundle.agent_id != leaf.subject_id:
        raise invalid("id_mismatch", "agent ID does not match delegation subject ID")


def _check_chain(chain: Sequence[DelegationCert], terms: Terms, *, judge_now: bool) -> Generator[Need, object, None]:
    for index, cert in enumerate(chain):
        if cert.issuer_pub_key.id != cert.issuer_id:
            raise invalid("id_derivation", f"cert {index} issuer_id does not match its key")
        if cert.subject_pub_key.id != cert.subject_id:
            raise invalid("id_derivation", f"cert {index} subject_id does not match its key")
    for index, cert in enumerate(chain):
        yield from _check_certificate(index, cert, chain, terms)
        _check_signature(index, cert, terms.cert_cache)
        if judge_now:
            _check_constraints(index, cert, terms)
        if index + 1 < len(chain):
            _check_link(index, cert, chain[index + 1])


def _check_certificate(
    index: int, cert: DelegationCert, chain: Sequence[DelegationCert], terms: Terms
) -> Generator[Need, object, None]:
    human_id, agent_id = chain[-1].issuer_id, chain[0].subject_id
    if cert.version != PROTOCOL_VERSION:
        raise invalid("version_mismatch", f"cert {index} has unsupported version {cert.version}")
    unknown = unknown_scope(cert.scope, terms.vocabulary)
    if unknown is not None:
        text = f'cert {index}: unknown scope "{unknown}": not in canonical vocabulary and not a custom: extension'
        raise build_refusal(IdentityStatus.INVALID_SCOPE, text)
    if terms.now > cert.expires_at:
        reason = "delegation certificate has expired"
        raise Refusal(IdentityStatus.EXPIRED, reason, human_id=human_id, agent_id=agent_id)
    if terms.now < cert.issued_at:
        raise invalid("not_yet_valid", f"cert {index} is not yet valid")
    if terms.check_revocation and (yield from ask_revoked(index, cert.cert_id)):
        reason = "delegation certificate has been revoked"
        raise Refusal(IdentityStatus.REVOKED, reason, human_id=human_id, agent_id=agent_id)


def _check_signature(index: int, cert: DelegationCert, cache: CertificateCache | None) -> None:
    if cache is not None and cache.get(cert.digest):
        return
    fault = signature_fault(delegation_sign_bytes(cert), cert.signature, cert.issuer_pub_key)
    if fault:
        raise invalid("bad_signature", f"cert {index}: {fault}")
    if cache is not None:
        cache.put(cert.digest, True)


def _check_constraints(index: int, cert: DelegationCert, terms: Terms) -> None:
    if not terms.check_constraints:
        return
    for position, constraint in enumerate(cert.constraints):
        outcome = evaluate(constraint, terms.context, cert.cert_id, terms.now, terms.constraint_evaluators)
        if outcome is not None:
            where = f"cert {index}: constraint[{position}] ({constraint.type})"
            raise build_refusal(outcome.status, f"{where}: {outcome.detail}")


def _check_link(index: int, cert: DelegationCert, parent: DelegationCert) -> None:
    if cert.issuer_id != parent.subject_id:
        raise invalid("broken_chain", f"cert {index} issuer does not match cert {index + 1} subject")
    if cert.issuer_pub_key != parent.subject_pub_key:
        raise invalid("broken_chain_keys", f"cert {index} issuer key does not match cert {index + 1} subject key")
    if DELEGATE not in parent.scope:
        text = f'cert {index} issued by a subject whose parent cert {index + 1} did not grant "{DELEGATE}"'
        raise build_refusal(IdentityStatus.DELEGATION_NOT_AUTHORIZED, text)


class _SignedChallenge(Protocol):
    """A challenge with everything that its signature covers: a part of a bundle, or of a streamed turn."""

    @property
    def challenge(self) -> bytes: ...
    @property
    def challenge_at(self) -> int: ...
    @property
    def challenge_sig(self) -> HybridSignature: ...
    @property
    def session_context(self) -> bytes: ...
    @property
    def stream_id(self) -> bytes: ...
    @property
    def stream_seq(self) -> int: ...


def check_challenge_length(challenge: bytes) -> None:
    """[challenge] of `verify`: the decoded challenge has 32 bytes. If other lengths were allowed, two bindings could
    have the same signed bytes."""
    if len(challenge) != CHALLENGE_BYTES:
        raise invalid("invalid_challenge", f"challenge must be {CHALLENGE_BYTES} bytes, got {len(challenge)}")


def check_session(what: str, bound_to: bytes, expected: bytes) -> None:
    """[context] of `verify`: both sides name the same session context, or neither names one."""
    code = "invalid_session_context"
    if bound_to and len(bound_to) != _BINDING_BYTES:
        raise invalid(code, f"session_context must be {_BINDING_BYTES} bytes, got {len(bound_to)}")
    if expected and len(expected) != _BINDING_BYTES:
        raise invalid(code, f"verify option session_context must be {_BINDING_BYTES} bytes, got {len(expected)}")
    if expected and not bound_to:
        raise invalid(
            "missing_session_context",
            f"verifier requires a session-bound challenge but {what} has no session_context",
        )
    if expected and not hmac.compare_digest(bound_to, expected):
        raise invalid("session_context_mismatch", f"{what} session_context does not match verifier context")
    if bound_to and not expected:
        raise invalid("session_context_unverifiable", f"{what} has session_context but verifier did not provide one")


def check_stream(what: str, signed: _SignedChallenge, stream: StreamContext | None) -> None:
    """[stream] of `verify`: the turn is well formed, and it is the next one of the stream that the verifier knows."""
    stream_id, seq = signed.stream_id, signed.stream_seq
    if stream_id and len(stream_id) != _BINDING_BYTES:
        raise invalid("invalid_stream_id", f"stream_id must be {_BINDING_BYTES} bytes, got {len(stream_id)}")
    if seq and not stream_id:
        raise invalid("invalid_stream_seq", "stream_seq set without stream_id")
    if stream_id and seq < 1:
        raise invalid("invalid_stream_seq", f"stream_seq must be >=1, got {seq}")
    if stream is not None:
        _check_turn(what, stream_id, seq, stream)
    elif stream_id:
        raise invalid(
            "stream_context_unverifiable", f"{what} has stream_id but verifier did not provide a stream context"
        )


def _check_turn(what: str, stream_id: bytes, seq: int, stream: StreamContext) -> None:
    if len(stream.stream_id) != _BINDING_BYTES:
        size = len(stream.stream_id)
        raise invalid("invalid_stream_id", f"verify option stream_id must be {_BINDING_BYTES} bytes, got {size}")
    if not stream_id:
        raise invalid(
            "missing_stream_context", f"verifier requires a stream-bound challenge but {what} has no stream_id"
        )
    if not hmac.compare_digest(stream_id, stream.stream_id):
        raise invalid("stream_id_mismatch", f"{what} stream_id does not match verifier stream context")
    if seq <= stream.last_seen_seq:
        raise invalid("stream_seq_replay", f"stream_seq {seq} already seen (last={stream.last_seen_seq})")
    if seq != stream.last_seen_seq + 1:
        raise invalid("stream_seq_skip", f"stream_seq {seq} skips expected {stream.last_seen_seq + 1}")


def check_freshness(
    challenge_at: int, now: int, *, max_age: int = CHALLENGE_WINDOW_SECONDS, max_ahead: int = 0
) -> None:
    """[freshness] of `verify`: the challenge is at most `max_age` seconds old, and at most `max_ahead` seconds in the
    future."""
    age = now - challenge_at
    if not -max_ahead <= age <= max_age:
        raise invalid("stale_challenge", f"challenge is {age} seconds old (max {max_age})")


def check_challenge_signature(signed: _SignedChallenge, key: HybridPublicKey) -> None:
    """[signature] of `verify`: the agent signed the challenge, its time and everything that it is bound to."""
    message = challenge_sign_bytes(
        signed.challenge, signed.challenge_at, signed.session_context, signed.stream_id, signed.stream_seq
    )
    fault = signature_fault(message, signed.challenge_sig, key)
    if fault:
        raise invalid("bad_challenge_sig", f"challenge signature verification failed: {fault}")
