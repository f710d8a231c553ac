"""The decision: may this call be made, now, by this caller? No I/O.

`decide` is one generator: it yields needs, is sent answers (both in `decision`), and returns a `Decision`. In order:

- [message] The message is valid, and the proof is a raw slice of it (done before: `jsonrpc`, `guarded_call`).
- [token-subject] The token, if there is one, was verified before (`gateway.admission.bearer`, `server`), where an
  invalid one gets an HTTP status. Here it may be tied to the proof: with `bind_agent`, and for a token that the gateway
  gave out to an OAuth client, its subject must be the agent.
- [target] The target is in the catalog, so its scope and sensitivity are known. A sensitive target takes only
  challenges issued here, for this very call (Option B). Other targets also take a challenge that the client made, while
  it is fresh (Option A).
- [proof] There is a proof, within its bounds and strictly decoded. Its chain ends in a root (`decision`). Its
  structure, session context, ids, keys, times and signatures are valid (`ratify.verify`, whose steps run inside this
  one). A challenge that is spent, or not issued here where it must be, is refused before signatures are checked.
- [revocation] No certificate of the chain is revoked (each is asked about, in the course of [proof]).
- [definition] Where definitions are pinned, the tool's current definition, as the server lists it for this caller, is
  the pinned one. The server is asked only for verified callers, and a call that is refused here costs no challenge and
  no use. The gateway's own tools (`drill`) have no definition, and no server is asked for one.
- [replay] Only now is the challenge spent: a forged proof can't use up a real challenge.
- [authority] The constraints of every certificate hold for the facts of the call. The scope that all certificates grant
  covers the target. Limited uses and quotas are taken, all at once or none (`uses`). For a list, constraints are not
  evaluated. A request about a task differs:
  - The task is looked up between [revocation] and [replay], once the sender is certain. If this sender does not own the
    task, the request is refused, with the same text for every cause.
  - To see a task, its owner needs nothing more.
  - A call that continues a task, such as a message to an agent, also needs what the call that created the task needed.
    Each later change of the task needs both as well.
  - To change a task, its owner needs the tool's scope and, if the tool is sensitive, a challenge issued here. A bound
    proof must be bound to that scope. The constraints are evaluated for the call that created the task, and no use is
    taken.
- [record] The caller records the decision before anything is forwarded or refused (`gateway.recording`).
- [allow] The call is allowed.
- [observe] Where the policy `observes`, the steps are the same, but refusals by [target], [proof], [revocation],
  [replay] and [authority] are not enforced. The decision has the refusal that there would have been, and the call is
  forwarded as with proofs off. Challenges are still spent, and uses taken. These things differ:
  - Nobody is asked to sign a challenge, so a sensitive target takes one that the client made.
  - The proof for a target without an entry in the catalog is verified too, to learn who calls.
  - If tasks belong to tokens' subjects (`TaskScope.by_token`), the agent that created the task is not compared.

  These refusals are enforced even then:
  - those where nothing could be decided: the store does not answer, or a clock was set back;
  - those that are not about authority, made elsewhere: for tokens, pins, sealed states, bounds, invalid messages and
    calls that can't be recorded.

If a need is not answered, the call is refused: any exception in place of an answer ends in a refusal. Not checked here:
whether the person meant it, what the upstream does with the call, and whether a proof that is not bound to its call was
sent by its agent (`binding = "required"` checks that).
"""

import hmac
from collections.abc import Callable, Generator
from hashlib import sha256

from msgspec.structs import replace

from accredit.attest.canonical import HybridPair, KeptProof
from accredit.consent.call import names_definition
from accredit.errors import ChallengesFull, ClockSetBack, ProofRefused, StoreUnavailable, WireError
from accredit.limits import CHALLENGE_WINDOW_SECONDS, CLOCK_BACK_SECONDS, CLOCK_LEAD_SECONDS, MAX_PROOF_BUNDLE_BYTES
from accredit.pins.definitions import Pins
from accredit.policy import refusals
from accredit.policy.catalog import Entry
from accredit.policy.constraint_words import why_refused
from accredit.policy.decision import (
    CONSTRAINT_REFUSALS,
    Authority,
    Decision,
    FindDefinition,
    FindTask,
    FlowOf,
    IssueChallenge,
    LookAtChallenge,
    Need,
    Policy,
    SpendChallenge,
    find_root,
)
from accredit.policy.drill import DRILLS
from accredit.policy.facts import CONTEXT_NAMES
from accredit.policy.guarded_call import GuardedCall
from accredit.policy.quotas import QuotaCaller, QuotaReached, Taken
from accredit.policy.tasks import ONE_SERVER, TaskScope, facts_of_call_that_made, read_made_by
from accredit.policy.uses import Uses
from accredit.ports import Spending, Task
from accredit.ratify import (
    CallFacts,
    HybridPublicKey,
    IdentityStatus,
    IssuedChallenge,
    ProofBundle,
    VerifierContext,
    VerifyResult,
    decode_proof_bundle,
)
from accredit.ratify.terms import ConsumeChallenge, IsRevoked, Terms, ValidateChallenge
from accredit.ratify.terms import Need as ProofNeed
from accredit.ratify.verify import constraints_fault, verification
from accredit.tokens.claims import VerifiedToken

CLOCK_AHEAD_SECONDS = 60
"""How many seconds the signer's clock may be ahead, for a challenge issued here. That challenge's lifetime is measured
by our own clock."""


_Steps = Generator[Need, object, Decision]
_Verification = Generator[Need, object, VerifyResult]


def decide(
    call: GuardedCall,
    policy: Policy,
    now: int,
    token: VerifiedToken | None = None,
    *,
    place: TaskScope = ONE_SERVER,
    flow_of: FlowOf | None = None,
    pins: Pins | None = None,
    case_of: "CaseOf | None" = None,
) -> _Steps:
    """Decide one call. Raises nothing that depends on the call.

    `now` is in unix seconds. `token` is the caller's. `place` is the scope of task ids. Without `flow_of`, each leg
    (one request of a multi-round-trip call) counts as a call of its own. Without `pins`, no definition is pinned.
    `case_of` is only for recorded calls, whose proofs are gone (`replaying`): it makes the object that runs the steps
    from [proof] to [authority].
    """
    entry: Entry | None = None
    case: ProofCheck | None = None
    unknown = False
    try:
        if call.guarded and not call.about_tasks:
            entry = policy.catalog.find(call.method, call.target)
            unknown = entry is None
            if unknown and not policy.observes:
                raise refusals.unknown_target(call)  # 3
        elif call.proof is None and not call.guarded:
            return Decision(call, None)
        case = (case_of or ProofCheck)(call, entry, policy, now, token, place, flow_of, pins)
        authority = yield from case.authority()
        if unknown:
            raise refusals.unknown_target(call)
        enforced = not policy.observes
        return Decision(call, case.entry, authority, proved=authority, task=case.task, enforced=enforced)  # 10
    except ProofRefused as refusal:
        if case is None:
            return Decision(call, entry, None, refusal)
        told = refusals.unknown_target(call) if unknown else refusal
        told = refusals.with_definition(told, case.enforced_definition)
        enforced = not policy.observes  # 11
        return Decision(call, case.entry, None, told, proved=case.proved, task=case.task, enforced=enforced)
    except ChallengesFull as error:
        refusal = refusals.too_many_challenges(call, entry, policy.challenge_seconds)
        return Decision(call, entry, None, refusal, error)
    except ClockSetBack as error:
        return Decision(call, entry, None, refusals.clock_set_back(call, entry), error)
    except Exception as error:  # fail closed: no answer of the store, a state that does not open, any fault
        proved = case.proved if case is not None else None
        return Decision(call, entry, None, refusals.no_decision(call, entry), error, proved=proved)


class ProofCheck:
    """One call and its proof while they are decided: the steps from [proof] to [authority]. `replaying` has a subclass
    for recorded calls."""

    def __init__(
        self,
        call: GuardedCall,
        entry: Entry | None,
        policy: Policy,
        now: int,
        token: VerifiedToken | None,
        place: TaskScope,
        flow_of: FlowOf | None,
        pins: Pins | None,
    ) -> None:
        self.proved: Authority | None = None
        self.entry = entry
        """The target's entry in the catalog. For a request about a task it becomes the entry of the task's tool, once
        the owner is verified."""
        self.task: Task | None = None
        self._place = place
        self._about_tasks = call.about_tasks
        self._changes_task = call.changes_task
        self._tasks = call.tasks
        self._continues_task = call.one_task is not None and not self._about_tasks
        self._call = call
        self._token = token
        self._policy = policy
        self._now = now
        self._scope = entry.scope if entry is not None else ""
        self._issued = entry is not None and entry.sensitive and not policy.observes
        self._known_hash = b""
        self._seen: Spending | None = None
        self._fault: Exception | None = None
        self._uses = Uses(flow_of)
        self._pins = pins
        self._root: HybridPublicKey | None = None

    @property
    def _request_hash(self) -> bytes:
        if not self._known_hash:
            found, server = self._call.request_hash(self._scope), self._policy.server
            own = sha256(b"accredit server 1\0" + server.encode() + b"\0" + found).digest() if server else found
            self._known_hash = own
        return self._known_hash

    @property
    def enforced_definition(self) -> str | None:
        """The digest that the called tool's definition must have, even if other refusals are not enforced; None if any
        definition is accepted."""
        enforced = self._pins is not None and self._pins.enforced
        return self._pinned(self._call.method, self._call.target) if enforced else None

    def authority(self) -> Generator[Need, object, Authority]:
        """Run the steps from [proof] to [authority]. Raises `ProofRefused`."""
        bundle = yield from self._read()
        found = yield from find_root(bundle, self._policy)
        if found is None:
            raise refusals.untrusted_root(self._call, self.entry)
        self._root, name = found
        self._tied(bundle)
        if (self._changes_task or self._continues_task) and not self._issued and not self._policy.observes:
            # Whether it must be one issued here is known only once the task is found.
            seen = yield LookAtChallenge(bundle.challenge, self._request_hash, issued=True)
            self._issued = seen is Spending.FIRST
        result = yield from self._verified(bundle)
        proof, hash = self._signed(bundle)
        authority = Authority(
            principal_id=bundle.delegations[-1].issuer_id,
            principal_name=name,
            agent_id=bundle.agent_id,
            granted_scope=tuple(result.granted_scope),
            cert_ids=tuple(cert.cert_id for cert in bundle.delegations),
            bound=bool(bundle.session_context),
            chain=tuple(bundle.delegations),
            token_subject=self._token.subject if self._token is not None else None,
            judged_at=self._now,
            proof=proof,
            fresh_until=self._fresh_until(bundle.challenge_at),
            request_hash=hash,
        )
        self.proved = authority if result.valid or result.identity_status in _PROVED else None
        if not result.valid:
            yield from self._refuse(bundle, result)
        yield from self._covered(bundle, result)
        return authority

    def _read(self) -> Generator[Need, object, ProofBundle]:
        proof = self._call.proof
        if proof is None:
            if self.entry is not None and self.entry.sensitive:
                yield from self._challenge()
            policy = self._policy
            raise refusals.missing_proof(self._call, self.entry, policy.verifier_id, policy.binding)
        if self._call.two_proofs:
            raise self._invalid("_meta holds two proofs that differ")
        text = memoryview(proof)
        if len(text) > MAX_PROOF_BUNDLE_BYTES:
            raise self._invalid(f"the proof has more than {MAX_PROOF_BUNDLE_BYTES} bytes")
        try:
            return decode_proof_bundle(bytes(text))
        except WireError as error:
            raise self._invalid(str(error)) from None

    def _tied(self, bundle: ProofBundle) -> None:
        """Check that the token was issued to the proof's agent ([token-subject]). The signatures, which are checked
        later, prove that the agent has this id."""
        token = self._token
        is_tied = self._policy.bind_agent or (token is not None and token.client is not None)
        if is_tied and (token is None or token.subject != bundle.agent_id):
            reason = "token_mismatch: the token was not issued to the agent of the proof"
            raise refusals.denial(self._call, self.entry, IdentityStatus.INVALID, reason)

    def _verified(self, bundle: ProofBundle) -> _Verification:
        """Run the verifier, and yield its needs as needs of this decision."""
        steps = verification(bundle, self._terms(bundle))
        try:
            need = next(steps)
            while True:
                try:
                    answer = yield from self._answer(need, bundle)
                except ProofRefused:
                    raise
                except Exception as error:
                    self._fault = error  # its text may name a file: for the log only
                    need = steps.throw(StoreUnavailable("no answer"))
                else:
                    need = steps.send(answer)
        except StopIteration as stop:
            return stop.value

    def _terms(self, bundle: ProofBundle) -> Terms:
        context = b""
        if bundle.session_context or self._policy.binding_required:
            signed, verifier_id = bundle.session_context, self._policy.verifier_id
            context = self._call.context_meant(signed, verifier_id, bundle.agent_id, self._scope)
        if self._changes_task and bundle.session_context:
            context = bundle.session_context  # checked in `_own_tasks`, once the tool's scope is known
        return Terms(
            now=self._now,
            vocabulary=self._policy.vocabulary,
            roots=() if self._root is None else (self._root,),
            session_context=context,
            context=self._facts() if any(cert.constraints for cert in bundle.delegations) else VerifierContext(),
            constraint_evaluators=self._policy.constraint_evaluators,
            check_revocation=True,
            single_use=True,
            # A challenge issued here expires by our own clock, and sooner: the signer's clock does not matter.
            max_age=CHALLENGE_WINDOW_SECONDS if self._issued else self._policy.freshness_seconds,
            max_ahead=CLOCK_AHEAD_SECONDS if self._issued else CLOCK_LEAD_SECONDS,
            check_constraints=not self._about_tasks and self.entry is not None,
            cert_cache=self._policy.cert_cache,
        )

    def _fresh_until(self, challenge_at: int) -> int:
        """Return the time after which no gateway with this policy accepts the challenge, whatever its store
        remembers."""
        made = challenge_at + self._policy.freshness_seconds
        return CLOCK_BACK_SECONDS + (max(made, self._now + self._policy.challenge_seconds) if self._issued else made)

    def _signed(self, bundle: ProofBundle) -> tuple[KeptProof, bytes]:
        """Return what the agent signed, without the certificate chain, with the parts of the call that the signature
        covers. Return also the hash of the request, b"" if the signature does not cover it."""
        key, signature = bundle.agent_pub_key, bundle.challenge_sig
        context, hash = None, b""
        if bundle.session_context:
            scope = self.entry.scope if self._changes_task and self.entry is not None else self._scope
            context = self._call.signed_context(self._policy.verifier_id, bundle.agent_id, scope)
            hash = self._call.request_hash(scope)
        proof = KeptProof(
            HybridPair(key.ed25519, key.ml_dsa_65),
            bundle.challenge,
            bundle.challenge_at,
            HybridPair(signature.ed25519, signature.ml_dsa_65),
            context,
            bundle.session_context,
        )
        return proof, hash

    def _facts(self) -> VerifierContext:
        facts = self.entry.facts.of(self._call.arguments) if self.entry is not None else {}
        if self.task is not None:
            facts = read_made_by(self.task).facts
        known = {CONTEXT_NAMES[name]: value for name, value in facts.items()}
        return replace(VerifierContext(invocations_in_window=self._used, call=self._call_facts()), **known)

    def _call_facts(self) -> CallFacts:
        """Return the facts of the call. For a request about a task, return those of the call that created the task."""
        call, task, gateway = self._call, self.task, self._policy.verifier_id
        if task is None:
            return call.facts(gateway, self._pinned(call.method, call.target))
        return replace(facts_of_call_that_made(task, gateway), definition=self._pinned(task.method, task.target))

    def _pinned(self, method: str, target: str) -> str | None:
        pins = self._pins if method == "tools/call" else None
        return pins.tools.get(target) if pins is not None else None

    def _used(self, cert_id: str, window_s: int) -> int:
        # The use was taken when the task was created.
        return 0 if self.task is not None else self._uses.of(cert_id, window_s)

    def _answer(self, need: ProofNeed, bundle: ProofBundle) -> Generator[Need, object, object]:
        match need:
            case IsRevoked():
                revoked = yield need  # 5
                if not isinstance(revoked, bool):
                    raise TypeError("nobody said whether it is revoked")
                return revoked
            case ValidateChallenge(challenge, _):
                return (yield from self._spending(LookAtChallenge(challenge, self._request_hash, self._issued)))
            case ConsumeChallenge(challenge, _):
                if self._tasks:
                    yield from self._own_tasks(bundle)
                yield from self._definition(bundle)  # 6
                # Computed from the proof alone, so that it is the same at each presentation: by it the store tells
                # whether it may have forgotten the challenge.
                keep_until = bundle.challenge_at + CHALLENGE_WINDOW_SECONDS + 1
                spend = SpendChallenge(challenge, self._request_hash, self._issued, keep_until)
                refused = yield from self._spending(spend)  # 7
                if refused is None and not self._about_tasks:
                    yield from self._uses.count(bundle)
                return refused

    def _spending(self, need: LookAtChallenge | SpendChallenge) -> Generator[Need, object, str | None]:
        seen = yield need
        if not isinstance(seen, Spending):
            raise TypeError("the store gave no answer")
        self._seen = seen
        return None if seen is Spending.FIRST else seen.value

    def _own_tasks(self, bundle: ProofBundle) -> Generator[Need, object, None]:
        """Look up the tasks that the request names, and check that the verified agent owns them. Raises
        `ProofRefused`."""
        owner = self._place.owner(bundle.delegations[-1].issuer_id, bundle.agent_id, self._token)
        task: Task | None = None
        for id in self._tasks:
            stored = yield FindTask(self._place.key(id, self._call.session_id))
            if stored is not None and not isinstance(stored, Task):
                raise TypeError("the store gave no answer")
            if stored is None or not owner.has(stored, self._place.server_of(id)):
                raise refusals.unknown_task(self._call)
            if id == self._call.one_task:
                task = stored
        if task is None:
            return
        skills = (task.target, *read_made_by(task).also)
        entry, *also = (self._policy.catalog.find(task.method, each) for each in skills)
        if entry is None or None in also:  # the tool is no longer in the catalog
            raise refusals.unknown_task(self._call)
        entry = entry.with_also(*filter(None, also)) if also else entry
        if self._continues_task:
            self.entry = self.entry.with_also(entry) if self.entry is not None else None
        else:
            self.task, self.entry = task, entry
            if not self._changes_task:
                return
            self._check_bound_to(entry, bundle)
        if entry.sensitive and not self._issued and not self._policy.observes:
            yield from self._challenge()

    def _check_bound_to(self, entry: Entry, bundle: ProofBundle) -> None:
        """Check that a bound proof is bound to the scope of the task's tool. Raises `ProofRefused`."""
        bound_to = self._call.session_context(self._policy.verifier_id, bundle.agent_id, entry.scope)
        if bundle.session_context and not hmac.compare_digest(bundle.session_context, bound_to):
            raise self._invalid("the proof is bound to something else")

    def _definition(self, bundle: ProofBundle) -> Generator[Need, object, None]:
        """Compare the tool's definition with the pinned one ([definition]). Raises `ProofRefused`.

        A delegation that names a definition is valid for that definition only, even if pins are not enforced.
        """
        pins, call = self._pins, self._call
        if pins is None or call.method != "tools/call" or call.target in DRILLS:
            return
        expected = pins.tools.get(call.target)
        found = yield FindDefinition(call.target, bundle.delegations[-1].issuer_id, bundle.agent_id)
        if found is not None and not isinstance(found, str):
            raise TypeError("nobody said what the server lists")
        if expected is not None and found == expected:
            return
        if pins.enforced or any(names_definition(cert.constraints) for cert in bundle.delegations):
            raise refusals.definition_changed(call, self.entry, expected, found)

    def _covered(self, bundle: ProofBundle, result: VerifyResult) -> Generator[Need, object, None]:
        """Check the scope and the constraints, and take the uses: the rest of [authority]. Raises `ProofRefused`."""
        entry, granted = self.entry, result.granted_scope
        if entry is None or (self._about_tasks and not self._changes_task):
            return
        missing = entry.missing_from(granted)
        if missing is not None:
            raise self.scope_denied(result, missing)
        if self.task is not None:
            terms = replace(self._terms(bundle), check_constraints=True)
            fault = constraints_fault(bundle.delegations, terms)
            if fault is not None:
                words = self._words(bundle, fault.error_reason)
                raise self._denied(result, fault.identity_status, fault.error_reason, words)
            return
        try:
            taken = yield from self._uses.take(bundle, self._quotas(bundle), self._now)
        except QuotaReached as reached:
            raise refusals.quota_reached(self._call, entry, reached) from None
        if not taken:
            # Others took the use after it was counted, or this leg of the call was made before.
            words = "the calls that this delegation allows are used up for now; wait, or ask for another one"
            reason = "constraint_denied: rate limit exceeded"
            raise self._denied(result, IdentityStatus.CONSTRAINT_DENIED, reason, words)

    def _quotas(self, bundle: ProofBundle) -> Taken:
        """Return what the call takes of each quota. Raises `QuotaReached`."""
        call, token = self._call, self._token
        if not self._policy.quotas.entries or not call.is_counted:
            return ()
        subject = (token.issuer, token.subject) if token is not None else None
        caller = QuotaCaller(bundle.delegations[-1].issuer_id, bundle.agent_id, subject)
        facts = self.entry.facts.of(call.arguments) if self.entry is not None else {}
        return self._policy.quotas.taken_by(call.target, caller, facts)

    def _words(self, bundle: ProofBundle, reason: str) -> str:
        return why_refused(reason, bundle.delegations, self._facts(), self._call, self.entry)

    def scope_denied(self, by: VerifyResult | Authority, missing: str) -> ProofRefused:
        """Return the refusal of a call that needs a scope which was not granted."""
        reason = f'scope_denied: required scope "{missing}" not in effective delegation scope'
        return self._denied(by, IdentityStatus.SCOPE_DENIED, reason)

    def _denied(
        self, by: VerifyResult | Authority, status: IdentityStatus, reason: str, words: str = ""
    ) -> ProofRefused:
        return refusals.denial(
            self._call,
            self.entry,
            status,
            reason,
            words,
            granted=by.granted_scope,
            principal_id=by.principal_id,
            agent_id=by.agent_id,
        )

    def _refuse(self, bundle: ProofBundle, result: VerifyResult) -> Generator[Need, object, None]:
        """Raise the refusal of a proof that the verifier did not accept. `result` is the verifier's."""
        if self._fault is not None:
            raise self._fault
        if self._seen is Spending.SPENT:
            raise refusals.replay(self._call, self.entry)
        if self._seen is Spending.NOT_ISSUED:
            yield from self._challenge()
        reason = result.error_reason
        raise self._denied(result, result.identity_status, reason, self._words(bundle, reason))

    def _challenge(self) -> Generator[Need, object, None]:
        """Raise -31002 with a fresh challenge for this call. If decisions are only observed, the challenge is empty, as
        it is never sent."""
        policy, expires_at = self._policy, self._now + self._policy.challenge_seconds
        issued: object = IssuedChallenge(b"", expires_at)
        if not policy.observes:
            issued = yield IssueChallenge(self._request_hash, expires_at)
        if not isinstance(issued, IssuedChallenge):
            raise TypeError("the store gave no answer")
        raise refusals.challenge_required(self._call, self.entry, issued, policy.verifier_id, policy.binding)

    def _invalid(self, text: str) -> ProofRefused:
        return refusals.denial(self._call, self.entry, IdentityStatus.INVALID, f"invalid: {text}")


CaseTerms = tuple[GuardedCall, Entry | None, Policy, int, VerifiedToken | None, TaskScope, FlowOf | None, Pins | None]
"""The arguments of `ProofCheck`, and of what replaces it."""
CaseOf = Callable[[*CaseTerms], ProofCheck]
"""Makes an object that decides a call, as `ProofCheck(...)` does."""

_PROVED = CONSTRAINT_REFUSALS | {IdentityStatus.SCOPE_DENIED}
"""Statuses of the verifier that are reached only after all signatures were verified."""
