"""The decision: may this call be made, now, by whom it comes from? No I/O.

`decide` is one generator: it yields needs (`needs`), is sent answers (`drive`), and ends in a `Decision`. In order:

1. The message is valid, and the proof a raw slice of it (before: `jsonrpc`, `guarded_call`).
2. The token, where there is one, was verified before (`gateway.bearer`, `server`): what it lacks is a status of HTTP.
   Here it may be tied to the proof: with `bind_agent` its subject is the agent.
3. The target is in the catalog: its scope and sensitivity are known. A sensitive target takes only challenges that
   were issued here, for this very call (Option B); others take the client's own, while it is fresh (Option A).
4. There is a proof, within its bounds and read strictly; its chain ends in a pinned root key; structure, session
   context, ids, keys, times and signatures hold (`ratify.verify`, whose steps run inside this one). A proof over a
   challenge that was spent, or is not ours where it must be, is refused before its signatures are looked at.
5. No certificate of the chain is revoked (asked for each, in the course of 4).
6. Only now the challenge is spent: a forged proof can't burn a real one.
7. The constraints of every certificate hold for the facts of the call; what all certificates grant covers the
   target; a limited number of uses is taken, atomically. (A list does nothing that a constraint could be about.) A
   certificate for one very call (`consent`) has a use taken by the call's first leg, and each later leg, which brings
   back a state that was sealed, is taken once: so the person's yes covers the call's rounds, and no repetition of them.
   What is asked about a task is held against its tool only when it is certain who asks: between 5 and 6 the task is
   looked up, and is this owner's, or it is refused, in one way for all causes. To change it needs the tool's scope, a
   binding to that and, if it is sensitive, a challenge of ours; the constraints are held against the call that made
   it, and no use is taken. To see it needs nothing more.
8. The record: who asks writes it, before anything is forwarded or refused (`gateway.recording`).
9. Allow.

No answer is a no: whatever is raised in place of one ends in a refusal. What is not checked here: whether the person
meant it, what the upstream does with the call, and whether a proof that is not bound to its call comes from its agent
(`binding = "required"` checks that).
"""

import hashlib
import hmac
from collections.abc import Callable, Collection, Generator, Mapping
from functools import cached_property, partial
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from accredit.consent import this_call_only
from accredit.errors import ChallengesFull, ClockSetBack, ProofRefused, StoreUnavailable, WireError
from accredit.limits import (
    CHALLENGE_WINDOW_SECONDS,
    CLOCK_AHEAD_SECONDS,
    CLOCK_LEAD_SECONDS,
    MAX_PROOF_BUNDLE_BYTES,
    MAX_RATE_WINDOW_SECONDS,
    MAX_STATE_SECONDS,
)
from accredit.policy import refusals
from accredit.policy.catalog import Catalog, Entry
from accredit.policy.evaluators import OWN_EVALUATORS
from accredit.policy.facts import CONTEXT_NAMES
from accredit.policy.guarded_call import TASK_CHANGES, GuardedCall
from accredit.policy.needs import (
    CountUses,
    FindTask,
    IsRevoked,
    IssueChallenge,
    LookAtChallenge,
    Need,
    SpendChallenge,
    TakeUse,
)
from accredit.policy.tasks import owner_of, read_made_by, task_key
from accredit.ports import RateLimit, Spending, Task
from accredit.ratify import (
    CallFacts,
    CertificateCache,
    DelegationCert,
    Evaluator,
    HybridPublicKey,
    IdentityStatus,
    IssuedChallenge,
    ProofBundle,
    VerifierContext,
    VerifyResult,
    decode_proof_bundle,
)
from accredit.ratify import needs as proof_needs
from accredit.ratify.constraints import MaxRate
from accredit.ratify.verify import Terms, constraints_fault, verification
from accredit.tokens import VerifiedToken


class Policy(Struct, frozen=True, kw_only=True):
    """What a deployment decides by. `roots` are names by pinned key; times are in seconds.

    `bind_agent` asks for a token whose subject is the id of the proof's agent. `constraint_evaluators` judge the
    constraints of extensions, by their type (`policy.evaluators`).
    """

    verifier_id: str
    roots: Mapping[HybridPublicKey, str]
    catalog: Catalog
    vocabulary: Collection[str]
    binding_required: bool = False
    freshness_seconds: int = 30
    challenge_seconds: int = 60
    bind_agent: bool = False
    cert_cache: CertificateCache
    constraint_evaluators: Mapping[str, Evaluator] = OWN_EVALUATORS

    @property
    def binding(self) -> str:
        """How proofs are to be bound, in the words of the configuration."""
        return "required" if self.binding_required else "optional"


class Authority(Struct, frozen=True, kw_only=True):
    """On whose word a call is allowed. `granted_scope` is what all certificates of the chain grant.

    `chain` are these, leaf first. `token_subject` is whom the token that came with the call was issued for.
    """

    principal_id: str
    principal_name: str
    agent_id: str
    granted_scope: tuple[str, ...]
    cert_ids: tuple[str, ...]
    bound: bool
    chain: tuple[DelegationCert, ...] = ()
    token_subject: str | None = None


class Decision(Struct, frozen=True):
    """The verdict. It is allowed when there is no `refusal`; a list without a proof has no `authority`.

    `proved` is who asked, where the proof's signatures are good: of a refused call, too. `fault` is for the log only:
    what kept the decision from being made. `task` is the one that is asked about.
    """

    asked: GuardedCall
    entry: Entry | None
    authority: Authority | None = None
    refusal: ProofRefused | None = None
    fault: Exception | None = None
    proved: Authority | None = None
    task: Task | None = None


CONSTRAINT_REFUSALS = frozenset(
    {
        IdentityStatus.CONSTRAINT_DENIED,
        IdentityStatus.CONSTRAINT_UNVERIFIABLE,
        IdentityStatus.CONSTRAINT_UNKNOWN,
    }
)
"""Their reasons quote the call's arguments."""

Steps = Generator[Need, object, Decision]
_Asking = Generator[Need, object, VerifyResult]


class Flow(NamedTuple):
    """A later leg of a call: the call's name over all its legs, and the leg's number, from 1."""

    name: str
    round: int


FlowOf = Callable[[str, str], Flow | None]
"""Which leg of which call brings back a state, if that was sealed for this principal and this agent (their ids)."""


def decide(
    asked: GuardedCall,
    policy: Policy,
    now: int,
    token: VerifiedToken | None = None,
    *,
    place: str = "",
    flow_of: FlowOf | None = None,
) -> Steps:
    """Decides one call. `now` is in unix seconds, `token` the caller's, and `place` where ids of tasks mean what they
    mean. Without `flow_of` each leg is a call. It raises nothing that depends on the call."""
    entry: Entry | None = None
    case: _Case | None = None
    try:
        if asked.guarded and not asked.about_tasks:
            entry = policy.catalog.find(asked.method, asked.target)
            if entry is None:
                raise refusals.unknown_target(asked)  # 3
        elif asked.proof is None and not asked.guarded:
            return Decision(asked, None)
        case = _Case(asked, entry, policy, now, token, place, flow_of)
        authority = yield from case.authority()
        return Decision(asked, case.entry, authority, proved=authority, task=case.task)  # 9
    except ProofRefused as refusal:
        proved, entry, task = (case.proved, case.entry, case.task) if case is not None else (None, entry, None)
        return Decision(asked, entry, None, refusal, proved=proved, task=task)
    except ChallengesFull as error:
        refusal = refusals.too_many_challenges(asked, entry, policy.challenge_seconds)
        return Decision(asked, entry, None, refusal, error)
    except ClockSetBack as error:
        return Decision(asked, entry, None, refusals.clock_set_back(asked, entry), error)
    except Exception as error:  # fail closed: a store that does not answer, or what nobody thought of
        return Decision(asked, entry, None, refusals.undecided(asked, entry), error)


class _Case:
    """One proof before the decision, steps 4 to 7."""

    def __init__(
        self,
        asked: GuardedCall,
        entry: Entry | None,
        policy: Policy,
        now: int,
        token: VerifiedToken | None,
        place: str,
        flow_of: FlowOf | None,
    ) -> None:
        self.proved: Authority | None = None
        self.entry = entry
        """What is asked for; of a task, once it is certain whose that is."""
        self.task: Task | None = None
        self._place = place
        self._changes_task = asked.method in TASK_CHANGES
        self._asked = asked
        self._token = token
        self._policy = policy
        self._now = now
        self._scope = entry.scope if entry is not None else ""
        self._issued = entry is not None and entry.sensitive
        self._seen: Spending | None = None
        self._fault: Exception | None = None
        self._uses: dict[tuple[str, int], int] = {}
        self._flow_of = flow_of
        self._flow: Flow | None = None

    @cached_property
    def _request_hash(self) -> bytes:
        return self._asked.request_hash(self._scope)

    def authority(self) -> Generator[Need, object, Authority]:
        """Steps 4 to 7. Raises `ProofRefused`."""
        bundle = yield from self._read()
        root = bundle.delegations[-1].issuer_pub_key if bundle.delegations else None
        name = self._policy.roots.get(root) if root is not None else None
        if name is None:
            raise refusals.untrusted_root(self._asked, self.entry)
        self._tied(bundle)
        if self._changes_task:
            # Whether it has to be one of ours is known only with the task.
            seen = yield LookAtChallenge(bundle.challenge, self._request_hash, issued=True)
            self._issued = seen is Spending.FIRST
        result = yield from self._verified(bundle)
        authority = Authority(
            principal_id=bundle.delegations[-1].issuer_id,
            principal_name=name,
            agent_id=bundle.agent_id,
            granted_scope=tuple(result.granted_scope),
            cert_ids=tuple(cert.cert_id for cert in bundle.delegations),
            bound=bool(bundle.session_context),
            chain=tuple(bundle.delegations),
            token_subject=self._token.subject if self._token is not None else None,
        )
        self.proved = authority if result.valid or result.identity_status in _PROVED else None
        if not result.valid:
            yield from self._refuse(result)
        yield from self._covered(bundle, result)
        return authority

    def _read(self) -> Generator[Need, object, ProofBundle]:
        proof = self._asked.proof
        if proof is None:
            if self._issued:
                yield from self._challenge()
            policy = self._policy
            raise refusals.missing_proof(self._asked, self.entry, policy.verifier_id, policy.binding)
        if self._asked.two_proofs:
            raise self._invalid("_meta holds two proofs that differ")
        text = memoryview(proof)
        if len(text) > MAX_PROOF_BUNDLE_BYTES:
            raise self._invalid(f"the proof has more than {MAX_PROOF_BUNDLE_BYTES} bytes")
        try:
            return decode_proof_bundle(bytes(text))
        except WireError as error:
            raise self._invalid(str(error)) from None

    def _tied(self, bundle: ProofBundle) -> None:
        """Step 2. That the agent is who the proof says is shown by the signatures."""
        if self._policy.bind_agent and (self._token is None or self._token.subject != bundle.agent_id):
            reason = "token_mismatch: the token was not issued to the agent of the proof"
            result = VerifyResult(valid=False, identity_status=IdentityStatus.INVALID, error_reason=reason)
            raise refusals.denied(self._asked, self.entry, result)

    def _verified(self, bundle: ProofBundle) -> _Asking:
        """Runs the verifier, whose needs become ours."""
        steps = verification(bundle, self._terms(bundle))
        try:
            need = next(steps)
            while True:
                try:
                    answer = yield from self._answer(need, bundle)
                except ProofRefused:
                    raise
                except Exception as error:
                    self._fault = error  # its text may name a file: it is for the log
                    need = steps.throw(StoreUnavailable("no answer"))
                else:
                    need = steps.send(answer)
        except StopIteration as stop:
            return stop.value

    def _terms(self, bundle: ProofBundle) -> Terms:
        context = b""
        if bundle.session_context or self._policy.binding_required:
            context = self._asked.session_context(self._policy.verifier_id, bundle.agent_id, self._scope)
        if self._changes_task and bundle.session_context:
            context = bundle.session_context  # looked at when the tool's scope is known
        return Terms(
            now=self._now,
            vocabulary=self._policy.vocabulary,
            roots=self._policy.roots.keys(),
            session_context=context,
            context=self._facts(),
            constraint_evaluators=self._policy.constraint_evaluators,
            check_revocation=True,
            single_use=True,
            # A challenge of ours has its own, shorter life; so the clock of who signed it does not matter.
            max_age=CHALLENGE_WINDOW_SECONDS if self._issued else self._policy.freshness_seconds,
            max_ahead=CLOCK_AHEAD_SECONDS if self._issued else CLOCK_LEAD_SECONDS,
            check_constraints=not self._asked.about_tasks and self.entry is not None,
            cert_cache=self._policy.cert_cache,
        )

    def _facts(self) -> VerifierContext:
        found = self.entry.facts.of(self._asked.arguments) if self.entry is not None else {}
        if self.task is not None:
            found = read_made_by(self.task).facts
        known = {CONTEXT_NAMES[name]: value for name, value in found.items()}
        return replace(VerifierContext(invocations_in_window=self._used, call=self._call()), **known)

    def _call(self) -> CallFacts:
        """The call itself; of what is asked about a task, the call that made it."""
        asked, task, gateway = self._asked, self.task, self._policy.verifier_id
        if task is None:
            return CallFacts(
                verifier_id=gateway,
                method=asked.method,
                target=asked.target,
                arguments=asked.arguments,
                params_digest=asked.call_digest,
            )
        made = read_made_by(task)
        return CallFacts(
            verifier_id=gateway,
            method=task.method,
            target=task.target,
            arguments=None,
            argument_digests=made.args,
            params_digest=partial(bytes.fromhex, made.params),
        )

    def _used(self, cert_id: str, window_s: int) -> int:
        # The use of the call that made a task was taken then.
        return 0 if self.task is not None else self._uses[cert_id, window_s]

    def _answer(self, need: proof_needs.Need, bundle: ProofBundle) -> Generator[Need, object, object]:
        match need:
            case proof_needs.IsRevoked(cert_id):
                revoked = yield IsRevoked(cert_id)  # 5
                if not isinstance(revoked, bool):
                    raise TypeError("nobody said whether it is revoked")
                return revoked
            case proof_needs.ValidateChallenge(challenge, _):
                return (yield from self._spending(LookAtChallenge(challenge, self._request_hash, self._issued)))
            case proof_needs.ConsumeChallenge(challenge, _):
                yield from self._own_tasks(bundle)
                # Of the proof alone: the store tells by it what it may have forgotten.
                keep_until = bundle.challenge_at + CHALLENGE_WINDOW_SECONDS + 1
                spend = SpendChallenge(challenge, self._request_hash, self._issued, keep_until)
                refused = yield from self._spending(spend)  # 6
                if refused is None:
                    yield from self._count(bundle)
                return refused

    def _spending(self, need: LookAtChallenge | SpendChallenge) -> Generator[Need, object, str | None]:
        seen = yield need
        if not isinstance(seen, Spending):
            raise TypeError("the store gave no answer")
        self._seen = seen
        return None if seen is Spending.FIRST else seen.value

    def _own_tasks(self, bundle: ProofBundle) -> Generator[Need, object, None]:
        """Finds the tasks that are asked about, for the agent whose signatures hold. Raises `ProofRefused`."""
        owner = owner_of(bundle.delegations[-1].issuer_id, bundle.agent_id, self._token)
        task: Task | None = None
        for id in self._asked.tasks:
            found = yield FindTask(task_key(self._place, id))
            if found is not None and not isinstance(found, Task):
                raise TypeError("the store gave no answer")
            if found is None or not hmac.compare_digest(found.owner, owner):
                raise refusals.unknown_task(self._asked)
            task = found
        if task is None or self._asked.subscribed:
            return
        entry = self._policy.catalog.find(task.method, task.target)
        if entry is None:  # the tool is not in the catalog any more
            raise refusals.unknown_task(self._asked)
        self.task, self.entry = task, entry
        if not self._changes_task:
            return
        bound_to = self._asked.session_context(self._policy.verifier_id, bundle.agent_id, entry.scope)
        if bundle.session_context and not hmac.compare_digest(bundle.session_context, bound_to):
            raise self._invalid("the proof is bound to something else")
        if entry.sensitive and not self._issued:
            yield from self._challenge()

    def _count(self, bundle: ProofBundle) -> Generator[Need, object, None]:
        chain = bundle.delegations
        own = [cert for cert in chain if this_call_only(cert.constraints)]
        if self._flow_of is not None and own:
            self._flow = self._flow_of(chain[-1].issuer_id, bundle.agent_id)
        for cert in own if self._flow is not None else ():
            self._uses |= {(cert.cert_id, each.window_s): 0 for each in cert.constraints if isinstance(each, MaxRate)}
        for cert_id, limit in () if self._asked.about_tasks else _limits(bundle, self._flow):
            if limit.window_s > MAX_RATE_WINDOW_SECONDS:
                continue  # nobody counts for so long: the constraint can't be verified
            used = yield CountUses(limit.cert_id, limit.window_s)
            if not isinstance(used, int):
                raise TypeError("the store gave no answer")
            self._uses[cert_id, limit.window_s] = used

    def _covered(self, bundle: ProofBundle, result: VerifyResult) -> Generator[Need, object, None]:
        """Step 7, what is left of it."""
        entry, granted = self.entry, result.granted_scope
        if entry is None or (self._asked.about_tasks and not self._changes_task):
            return
        if not entry.allows(granted):
            reason = f'scope_denied: required scope "{entry.scope}" not in effective delegation scope'
            raise self._denied(result, IdentityStatus.SCOPE_DENIED, reason)
        if self.task is not None:
            terms = replace(self._terms(bundle), check_constraints=True)
            fault = constraints_fault(bundle.delegations, terms)
            if fault is not None:
                raise self._denied(result, fault.identity_status, fault.error_reason)
            return
        limits = tuple(limit for _, limit in _limits(bundle, self._flow))
        if limits and (yield TakeUse(limits)) is not True:
            # Others were faster since the uses were counted, or this leg of the call was made before.
            raise self._denied(result, IdentityStatus.CONSTRAINT_DENIED, "constraint_denied: rate limit exceeded")

    def _denied(self, result: VerifyResult, status: IdentityStatus, reason: str) -> ProofRefused:
        named = VerifyResult(
            valid=False, identity_status=status, human_id=result.human_id, agent_id=result.agent_id, error_reason=reason
        )
        return refusals.denied(self._asked, self.entry, named, granted=result.granted_scope)

    def _refuse(self, result: VerifyResult) -> Generator[Need, object, None]:
        """Raises the refusal of a proof that the verifier did not accept."""
        if self._fault is not None:
            raise self._fault
        if self._seen is Spending.SPENT:
            raise refusals.replayed(self._asked, self.entry)
        if self._seen is Spending.NOT_ISSUED:
            yield from self._challenge()
        raise refusals.denied(self._asked, self.entry, result)

    def _challenge(self) -> Generator[Need, object, None]:
        """Raises -31002 with a fresh challenge for this call."""
        policy, expires_at = self._policy, self._now + self._policy.challenge_seconds
        issued = yield IssueChallenge(self._request_hash, expires_at)
        if not isinstance(issued, IssuedChallenge):
            raise TypeError("the store gave no answer")
        raise refusals.challenge_required(self._asked, self.entry, issued, policy.verifier_id, policy.binding)

    def _invalid(self, text: str) -> ProofRefused:
        result = VerifyResult(valid=False, identity_status=IdentityStatus.INVALID, error_reason=f"invalid: {text}")
        return refusals.denied(self._asked, self.entry, result)


_PROVED = CONSTRAINT_REFUSALS | {IdentityStatus.SCOPE_DENIED}
"""What is refused for only after all signatures were found good."""


def _limits(bundle: ProofBundle, flow: Flow | None) -> Generator[tuple[str, RateLimit]]:
    """The limits of a chain, each with the id of its certificate. A later leg of a call that a certificate is for, and
    for no other, is limited to be made once; what is left of its rate was for the first leg to take."""
    for cert in bundle.delegations:
        if flow is not None and this_call_only(cert.constraints):
            yield cert.cert_id, RateLimit(_leg_of(cert, flow), MAX_STATE_SECONDS, 1)
            continue
        for constraint in cert.constraints:
            if isinstance(constraint, MaxRate):
                yield cert.cert_id, RateLimit(_counted_as(cert), constraint.window_s, constraint.count)


def _leg_of(cert: DelegationCert, flow: Flow) -> str:
    text = f"leg/{cert.issuer_id}/{flow.name}/{flow.round}/{cert.cert_id}"
    return hashlib.sha256(text.encode()).hexdigest()


def _counted_as(cert: DelegationCert) -> str:
    # Whoever may delegate chooses the ids of what it issues, at any length: nobody is to use up another's limit so.
    return hashlib.sha256(f"{cert.issuer_id}/{cert.cert_id}".encode()).hexdigest()
