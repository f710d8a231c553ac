"""Verification by callbacks: for callers that have the answers at hand (Ratify section 8). No I/O but the default of
`now`. What is passed in is checked first (`moment_of`, `scope_of`, `context_of`)."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import UNSET, UnsetType

from accredit.base.clock import unix_seconds
from accredit.ratify.challenges import ChallengeStore
from accredit.ratify.constraints import Evaluator
from accredit.ratify.facts import VerifierContext
from accredit.ratify.hybrid import HybridPublicKey
from accredit.ratify.results import VerifyResult
from accredit.ratify.structures import DelegationCert, ProofBundle, StreamContext
from accredit.ratify.terms import CertificateCache, ConsumeChallenge, IsRevoked, Need, Steps, Terms, ValidateChallenge
from accredit.ratify.verify import chain_verification, verification


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


def verify_chain(chain: Sequence[DelegationCert], *, now: int, vocabulary: Iterable[str] = ()) -> VerifyResult:
    """Verify certificates without a proof, before a grant is built on them: [certificates], [chain-length], [bounds],
    [ids] and [chain].

    Not checked: revocation, constraints, the root, and whether anybody holds the subject's key. Raises `TypeError` for
    a `now` that is not a whole number, and nothing else.
    """
    return run(chain_verification(chain, Terms(now=moment_of(now), vocabulary=frozenset(vocabulary))), now)


def run(
    steps: Steps, now: int, is_revoked: Callable[[str], bool] | None = None, store: ChallengeStore | None = None
) -> VerifyResult:
    """Run steps, and answer their needs by these callbacks. If a callback raises, its exception is raised in the step
    that asked."""
    try:
        need = next(steps)
        while True:
            try:
                answer = _answer(need, now, is_revoked, store)
            except Exception as error:
                need = steps.throw(error)
            else:
                need = steps.send(answer)
    except StopIteration as stop:
        return stop.value


def _answer(need: Need, now: int, is_revoked: Callable[[str], bool] | None, store: ChallengeStore | None) -> object:
    match need:
        case IsRevoked(cert_id) if is_revoked is not None:
            return is_revoked(cert_id)
        case ValidateChallenge(challenge, binding) if store is not None:
            return store.validate(challenge, binding, now)
        case ConsumeChallenge(challenge, binding) if store is not None:
            return store.consume(challenge, binding, now)
        case _:
            raise LookupError("there is no one to ask")


def moment_of(now: object) -> int:
    """Return a time in unix seconds; for None, that of this machine. Raises `TypeError`: a NaN would pass every check
    of time."""
    if now is None:
        return unix_seconds()
    if type(now) is not int:
        raise TypeError(f"now is {type(now).__name__}, not whole unix seconds: write now=int(time.time())")
    return now


def scope_of(required: object) -> str:
    """Return the required scope, "" for `UNSET`. Raises `TypeError`, and `ValueError` for an empty one."""
    if required is UNSET:
        return ""
    if not isinstance(required, str):
        found = type(required).__name__
        raise TypeError(f"required_scope is {found}, not a text: refuse a tool that is not known before its proof")
    if not required:
        raise ValueError("required_scope is empty, and would require nothing: leave it out if that is meant")
    return required


def context_of(session_context: bytes | None) -> bytes:
    """Return the required session context; if it's None, b"". Raises `ValueError` if it's empty, of whatever type."""
    if session_context is None:
        return b""
    if not session_context:
        raise ValueError("session_context is empty, and would bind a proof to nothing: leave it out if that is meant")
    return session_context
