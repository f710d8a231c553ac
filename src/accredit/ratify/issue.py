"""Makes delegations and proofs (Ratify sections 3, 7, 8). Never signs a delegation that a verifier would refuse. No
I/O.

A certificate is signed only if it would verify, and if every implementation reads it in the same way:

- [bounds] its scopes are known, its counts and lengths are within bounds, and it does not end before it begins;
- [resource] its constraints name only one resource; their paths are valid, and of any two, one lies below the other;
- [portability] it has no number (too near to zero) and no text that another implementation would print differently;
- [parent] with a parent: the issuer is the parent's subject and may delegate, and the parent chain is valid at this
  time and grants every scope that is passed on.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import cast

from msgspec import Raw, Struct
from msgspec.structs import replace

from accredit.errors import IssueError, WireError
from accredit.limits import MAX_DELEGATION_CHAIN_DEPTH
from accredit.ratify.callbacks import verify_chain
from accredit.ratify.constraints import Constraint, ResourcePath, path_fault, path_is_below
from accredit.ratify.hybrid import UNSIGNED, HybridPublicKey, HybridSigner, derive_id
from accredit.ratify.scopes import DELEGATE, expand, unknown_scope
from accredit.ratify.signable import challenge_sign_bytes
from accredit.ratify.structures import PROTOCOL_VERSION, DelegationCert, ProofBundle, delegation_sign_bytes

MIN_SIGNED_MAGNITUDE = 1e-4
"""The smallest size of a number in a certificate, apart from zero. Other implementations write smaller ones in another
way, so an issuer refuses them (Ratify section 3)."""


_ESCAPED_BY_OTHERS = frozenset("<>&")
_LEVEL_IN_BUNDLE = 3
"""The level of nesting at which a certificate is in a proof bundle."""


class Grant(Struct, frozen=True, kw_only=True):
    """What an issuer is about to delegate. Times are unix seconds, both ends included. Each grant needs a `cert_id` of
    its own."""

    subject: HybridPublicKey
    cert_id: str
    scope: tuple[str, ...]
    issued_at: int
    expires_at: int
    constraints: tuple[Constraint, ...] = ()


def issue_delegation(
    issuer: HybridSigner, grant: Grant, *, parents: Sequence[DelegationCert] = (), vocabulary: Iterable[str] = ()
) -> DelegationCert:
    """Return a signed certificate. If the issuer passes on what was delegated to it, `parents` is its own chain, leaf
    first.

    Raises `IssueError`, and signs nothing, if a rule above refuses it.
    """
    known = frozenset(vocabulary)
    _check_grant(grant, known)
    if parents:
        _check_parents(issuer, grant, parents, known)
    cert = DelegationCert(
        cert_id=grant.cert_id,
        version=PROTOCOL_VERSION,
        issuer_id=issuer.id,
        issuer_pub_key=issuer.public_key,
        subject_id=derive_id(grant.subject),
        subject_pub_key=grant.subject,
        scope=grant.scope,
        constraints=grant.constraints,
        issued_at=grant.issued_at,
        expires_at=grant.expires_at,
        signature=UNSIGNED,
    )
    try:
        cert.encode()
        cert.check("DelegationCert", _LEVEL_IN_BUNDLE)
    except WireError as error:
        raise IssueError(f"no verifier could read this delegation: {error}") from None
    return replace(cert, signature=issuer.sign(delegation_sign_bytes(cert)))


def present(
    chain: Sequence[DelegationCert],
    agent: HybridSigner,
    challenge: bytes,
    challenge_at: int,
    *,
    session_context: bytes = b"",
    stream_id: bytes = b"",
    stream_seq: int = 0,
) -> ProofBundle:
    """Return the agent's proof: the chain, leaf first, and its signature over a 32-byte challenge.

    `challenge_at` is in unix seconds. Raises `IssueError` if the chain does not delegate to this agent. Lengths are not
    checked: verifiers refuse a challenge, a context or a stream's id that has not 32 bytes.
    """
    if not chain or chain[0].subject_pub_key != agent.public_key:
        raise IssueError("the delegation is not for this agent's key")
    message = challenge_sign_bytes(challenge, challenge_at, session_context, stream_id, stream_seq)
    return ProofBundle(
        agent_id=agent.id,
        agent_pub_key=agent.public_key,
        delegations=tuple(chain),
        challenge=challenge,
        challenge_at=challenge_at,
        challenge_sig=agent.sign(message),
        session_context=session_context,
        stream_id=stream_id,
        stream_seq=stream_seq,
    )


def _check_grant(grant: Grant, vocabulary: Collection[str]) -> None:
    unknown = unknown_scope(grant.scope, vocabulary)
    if unknown is not None:
        raise IssueError(f'unknown scope "{unknown}"')
    if grant.expires_at < grant.issued_at:
        raise IssueError("the delegation would end before it begins")
    _check_resources([each for each in grant.constraints if isinstance(each, ResourcePath)])
    for constraint in grant.constraints:
        try:
            _check_portable(constraint.members())
        except WireError as error:
            raise IssueError(f"{constraint.type}: {error.reason}") from None


def _check_resources(constraints: Sequence[ResourcePath]) -> None:
    for constraint in constraints:
        fault = path_fault(constraint.path_prefix) if constraint.path_prefix else None
        if fault:
            raise IssueError(f"resource_path: {fault}")
    for one, other in combinations(constraints, 2):
        if one.resource_id != other.resource_id:
            raise IssueError("resource_path: one delegation names one resource; grant the other one separately")
        first, second = one.path_prefix or "/", other.path_prefix or "/"
        if not path_is_below(first, second) and not path_is_below(second, first):
            raise IssueError("resource_path: no path is below both prefixes, so nothing would be allowed")


def _check_portable(value: object) -> None:
    """Refuse what other implementations are known to print differently. Their verifiers would find the signature
    invalid."""
    if isinstance(value, str) and not _ESCAPED_BY_OTHERS.isdisjoint(value):
        raise IssueError("a constraint can't hold the characters <, > and &: some verifiers would escape them")
    if isinstance(value, float | Raw) and not (isinstance(value, float) and abs(value) >= MIN_SIGNED_MAGNITUDE):
        raise IssueError(f"numbers nearer to zero than {MIN_SIGNED_MAGNITUDE} can't be signed portably")
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        if sorted(members) != sorted(members, key=lambda name: name.encode("utf-16-be", "surrogatepass")):
            raise IssueError("names of parameters that sort differently as UTF-16 can't be signed portably")
        _check_portable(list(members))
        _check_portable(list(members.values()))
    if isinstance(value, list | tuple):
        for item in cast("Sequence[object]", value):
            _check_portable(item)


def _check_parents(
    issuer: HybridSigner, grant: Grant, parents: Sequence[DelegationCert], vocabulary: Collection[str]
) -> None:
    if len(parents) >= MAX_DELEGATION_CHAIN_DEPTH:
        raise IssueError(f"the chain would be longer than {MAX_DELEGATION_CHAIN_DEPTH} certificates")
    if parents[0].subject_pub_key != issuer.public_key:
        raise IssueError("the parent delegation is not for this issuer's key")
    held = verify_chain(parents, now=grant.issued_at, vocabulary=vocabulary)
    if not held.valid:
        raise IssueError(f"the parent delegation is not good: {held.error_reason}")
    if DELEGATE not in parents[0].scope:
        raise IssueError(f"the parent delegation does not grant {DELEGATE}, so it can't be passed on")
    missing = set(expand(grant.scope)).difference(held.granted_scope)
    if missing:
        raise IssueError(f"the parent delegation does not grant {', '.join(sorted(missing))}")
