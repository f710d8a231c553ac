"""The verifier (Ratify section 8; where it is stricter, docs/reference/ratify.md). No I/O but the default of `now`.

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
"""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence

from msgspec import UNSET, Struct, UnsetType

from accredit.base.caching import RecentlyUsed
from accredit.limits import CHALLENGE_WINDOW_SECONDS, MAX_DELEGATION_CHAIN_DEPTH
from accredit.ratify.challenges import ChallengeStore
from accredit.ratify.constraints import Evaluator, evaluate
from accredit.ratify.facts import VerifierContext
from accredit.ratify.hybrid import (
    ED25519_KEY_BYTES,
    ML_DSA_65_KEY_BYTES,
    HybridPublicKey,
    length_fault,
    signature_fault,
)
from accredit.ratify.needs import (
    ConsumeChallenge,
    IsRevoked,
    Need,
    Steps,
    ValidateChallenge,
    context_of,
    moment_of,
    run,
    scope_of,
)
from accredit.ratify.results import IdentityStatus, Refusal, VerifyResult, build_refusal, invalid
from accredit.ratify.scopes import DELEGATE, intersect, unknown_scope
from accredit.ratify.signable import (
    check_challenge_length,
    check_challenge_signature,
    check_freshness,
    check_session,
    check_stream,
)
from accredit.ratify.structures import (
    PROTOCOL_VERSION,
    DelegationCert,
    ProofBundle,
    StreamContext,
    bounds_fault,
    delegation_sign_bytes,
)

MAX_CACHED_CERTIFICATES = 65_536
"""How many digests of verified certificates a cache remembers: about 8 MiB."""


class CertificateCache:
    """Remembers certificates whose signatures need not be verified again. Calls and threads may share it.

    It holds one digest for each certificate, of everything that was signed and of both signatures. The digest is added
    only after both signatures were verified. All that can change (time, revocation, linkage, scopes, constraints, the
    challenge) is evaluated every time.
    """

    __slots__ = ("_digests",)

    def __init__(self, max_entries: int = MAX_CACHED_CERTIFICATES) -> None:
        """Raise `ValueError` for a bound below 1."""
        if max_entries < 1:
            raise ValueError("max_entries is at least 1")
        self._digests = RecentlyUsed[bytes, bool](max_entries)

    def __len__(self) -> int:
        return len(self._digests)

    def __contains__(self, digest: bytes) -> bool:
        return self._digests.get(digest) is not None

    def add(self, digest: bytes) -> None:
        """Remember a certificate whose signatures were both verified."""
        self._digests.put(digest, True)


class Terms(Struct, frozen=True, kw_only=True):
    """What a verification checks a bundle against.

    `now` is in unix seconds. `vocabulary` is what the deployment adds to the canonical scopes. `session_context` is
    empty or has 32 bytes. `check_revocation` says whether the caller answers questions about revocation, and
    `single_use` whether it answers those about the challenge. `max_age` and `max_ahead` bound the challenge's time, in
    seconds; the defaults are the protocol's. `check_constraints` is False for a request that does nothing to which
    constraints could apply.
    """

    now: int
    required_scope: str = ""
    vocabulary: Collection[str] = ()
    roots: Collection[HybridPublicKey] | None = None
    session_context: bytes = b""
    stream: StreamContext | None = None
    context: VerifierContext = VerifierContext()
    constraint_evaluators: Mapping[str, Evaluator] = {}
    check_revocation: bool = False
    single_use: bool = False
    max_age: int = CHALLENGE_WINDOW_SECONDS
    max_ahead: int = 0
    check_constraints: bool = True
    cert_cache: CertificateCache | None = None


def verify_bundle(
    bundle: ProofBundle,
    required_scope: str | UnsetType = UNSET,
    *,
    now: int | None = None,
    vocabulary: Iterable[str] | None = None,
    roots: Iterable[HybridPublicKey] | None = None,
    is_revoked: Callable[[str], bool] | None = None,
    session_context: bytes | None = None,
    stream: StreamContext | None = None,
    context: VerifierContext | None = None,
    constraint_evaluators: Mapping[str, Evaluator] | None = None,
    challenge_store: ChallengeStore | None = None,
    cert_cache: CertificateCache | None = None,
) -> VerifyResult:
    """Verify a proof. Never raises for what a bundle holds: a faulty bundle gives a result that is not valid.

    `now` is in unix seconds (default: this machine's clock). `vocabulary` is what the deployment adds to the canonical
    scopes. With `roots`, the chain must end in one of these keys. Without, the result's `root_checked` is False, and
    its `human_id` is the id of an unknown signer. `is_revoked(cert_id)` is asked about every certificate. `stream` is
    not advanced here: the caller does that, after success. For the other arguments see `Evaluator` and
    `ChallengeStore`.

    Without `session_context` and `challenge_store` a proof is valid for any call, again and again, until its challenge
    is 300 seconds old. Without `required_scope` no scope is required, which is wrong in a gateway.

    Raises `TypeError` for a `now`, a `required_scope` or a `vocabulary` of another type. Raises `ValueError` for an
    empty `required_scope` or `session_context`: a caller's lookup that finds nothing gives None or "", which must not
    pass.
    """
    if isinstance(vocabulary, str):
        raise TypeError(f"vocabulary is one text, and several are asked for: write vocabulary=[{vocabulary!r}]")
    moment = moment_of(now)
    terms = Terms(
        now=moment,
        required_scope=scope_of(required_scope),
        vocabulary=frozenset(vocabulary or ()),
        roots=None if roots is None else tuple(roots),
        session_context=context_of(session_context),
        stream=stream,
        context=context or VerifierContext(),
        constraint_evaluators=constraint_evaluators or {},
        check_revocation=is_revoked is not None,
        single_use=challenge_store is not None,
        cert_cache=cert_cache,
    )
    return run(verification(bundle, terms), moment, is_revoked, challenge_store)


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


def verify_chain(chain: Sequence[DelegationCert], *, now: int, vocabulary: Iterable[str] = ()) -> VerifyResult:
    """Verify certificates without a proof, before a grant is built on them: [certificates], [chain-length], [bounds],
    [ids] and [chain].

    Not checked: revocation, constraints, the root, and whether anybody holds the subject's key. Raises `TypeError` for
    a `now` that is not a whole number, and nothing else.
    """
    return run(chain_verification(chain, Terms(now=moment_of(now), vocabulary=frozenset(vocabulary))), now)


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
    """Return why a certificate of a chain (leaf first) is invalid at any time, or None. Its ids and its signature are
    checked, and that it fits the certificate above it."""
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
    fault = length_fault(cert.signature, cert.issuer_pub_key)
    if fault is None and cache is not None and cert.digest in cache:
        return
    fault = fault or signature_fault(delegation_sign_bytes(cert), cert.signature, cert.issuer_pub_key)
    if fault:
        raise invalid("bad_signature", f"cert {index}: {fault}")
    if cache is not None:
        cache.add(cert.digest)


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
