"""Decides a recorded call again with another configuration, using `policy.decide` itself. No I/O.

The log says who called, by which chain of certificates, and that the signatures were valid. The proof is not used here.
Of the arguments the log has only a digest, unless they are recorded in full. So:

- [known] These are decided by the steps of `decide`, as of the time of the call: the catalog, roots, expiry, scopes,
  the binding, and the constraints about the time, the gateway, the method and the target.
- [unknown] Unknown facts are not guessed. The following leave the answer open, unless another rule certainly refuses
  the call: a constraint or a quota on arguments that are not recorded, a constraint on how often a certificate was
  used, a definition that was not recorded, a root that only a registry knows, an invalid proof, a token's scopes, and a
  request about a task. A request to an HTTP API leaves the answer open, too, if it matched no route, or may now match
  another one: no path is recorded.
- [same-settings] If the answer is open and the call was decided by this very configuration (its digest is the same),
  the recorded decision stands. There is one exception: an answer that is open because of a definition stays open, as
  the digest does not cover the pins in the lock file.
- [exclusions] Not considered: revocations, earlier uses (of certificates and of quotas), and the ages of challenges.
- [final-refusals] If a call was refused for the content of its message, or because it could not be recorded, every
  configuration refuses it.

The challenge for a sensitive target is assumed to be answered. With proofs off, each call is allowed.
"""

import json
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from functools import partial
from typing import NamedTuple, cast

from msgspec import UNSET
from msgspec.structs import replace

from accredit.attest import CallRecord
from accredit.attest.canonical import PROTOCOLS_WITH_PATH
from accredit.attest.statements import milliseconds
from accredit.consent.call import CALL, CallTerms
from accredit.errors import FrameError, WireError
from accredit.limits import MAX_RECORDED_TARGET
from accredit.pins.definitions import Pins
from accredit.policy.agent_call import is_about_tasks
from accredit.policy.decide import CaseTerms, ProofCheck, decide
from accredit.policy.decision import (
    CountUses,
    Decision,
    FindDefinition,
    FindRoom,
    FindRoot,
    FindTask,
    IssueChallenge,
    LookAtChallenge,
    Need,
    Policy,
    SpendChallenge,
    TakeUse,
)
from accredit.policy.guarded_call import ApiCall, GuardedCall, guarded_call_from_values
from accredit.policy.merging import member_of_target
from accredit.policy.suggesting import UNKNOWN, UNSIGNED
from accredit.ports import Spending
from accredit.ratify import (
    Constraint,
    DelegationCert,
    Extension,
    HybridSignature,
    IdentityStatus,
    IssuedChallenge,
    ProofBundle,
    VerifyResult,
)
from accredit.ratify.challenges import CHALLENGE_BYTES
from accredit.ratify.constraints import MaxRate, TimeWindow
from accredit.ratify.terms import IsRevoked
from accredit.ratify.verify import chain_verification, constraints_fault
from accredit.tokens.claims import VerifiedToken

OPEN = {
    "arguments": "a constraint or a quota is about arguments, and the log holds a digest of them",
    "uses": "a constraint or a quota is about what was used before",
    "definition": "what the server said of the tool then is not on record",
    "proof": "their proof was not good, and is not on record",
    "chain": "their certificates are not in the log",
    "token": "it goes by a token that is not on record",
    "task": "they are about tasks",
    "cut": "the log holds the beginning of their name alone",
    "route": "their route depends on their path, and the log holds no paths",
    "endpoint": "their name means two things, here and at the merged endpoint",
    "undecided": "they could not be decided when they came",
    "gateway": "another gateway recorded them",
}
"""Why a decision is open: the code for programs, and the words for people."""

_TOKEN_ERRORS = frozenset({"missing_token", "invalid_token", "insufficient_scope", "keys_unavailable"})
_CHANGED = "definition_changed"
_OF_AUTHORITY = UNSIGNED | UNKNOWN | _TOKEN_ERRORS | {_CHANGED}
_FOR_GOOD = frozenset({"ratify_replayed", "ratify_expired"})
"""Refusals of an invalid proof that would be the same with any configuration."""
_Steps = Generator[Need, object, Decision]


class Verdict(NamedTuple):
    """How a call would be decided. `error` is the code of a refusal. `open` is why the answer is unknown, "" if it is
    known."""

    allows: bool
    error: str = ""
    open: str = ""


class TokenTerms(NamedTuple):
    """The settings of `[tokens]` that replaying uses: whether calls need a token, and the accepted issuers (None:
    tokens are off)."""

    required: bool = False
    issuers: Collection[str] | None = None


class ServerTerms(NamedTuple):
    """The settings for decisions at one endpoint. Without a `policy`, proofs are off. `token_scopes` are the scopes
    that tools require of a token. `route_now` is given a recorded route of an HTTP API, and returns the route that
    matches its requests now (`http_api.routes`)."""

    policy: Policy | None
    pins: Pins | None = None
    token_scopes: Mapping[str, str] = {}
    route_now: Callable[[str], str | None] | None = None


class ReplayConfiguration(NamedTuple):
    """A configuration: the gateway's id, the configuration's digest (`policy.digest`), the settings of each server by
    name ("" for a single one), and those of the merged endpoint."""

    gateway: str
    digest: str
    servers: Mapping[str, ServerTerms]
    merged: ServerTerms | None = None
    tokens: TokenTerms = TokenTerms()


class Replayer:
    """Decides recorded calls by one configuration."""

    def __init__(self, configured: ReplayConfiguration) -> None:
        self._configured = configured

    def decide(self, record: CallRecord, digest: bytes, chain: Sequence[DelegationCert] | None) -> Verdict:
        """Return how a recorded call would be decided. `digest` is that of its params (the record's subject). `chain`
        are its certificates, if it has any and the log holds them."""
        found = self._verdict(record, _RecordedCall(record, digest, chain))
        same = record.policy is not None and record.policy.digest == self._configured.digest
        if same and found.open not in ("", "gateway", "definition"):
            return Verdict(was_allowed(record), _error(record))  # 3
        return found

    def _verdict(self, record: CallRecord, past: "_RecordedCall") -> Verdict:
        configured, call = self._configured, record.call
        known = _by_what_is_known(configured, record)
        if known is not None:
            return known
        server = call.server or ""
        terms = configured.servers.get(server)
        if terms is None:
            return Verdict(False, "no_server")
        if call.protocol is not None and terms.route_now is not None:
            route = terms.route_now(past.call.target)
            if route is None:
                return Verdict(False, open="route")
            past.call = replace(past.call, target=route)
        places = [terms]
        member = member_of_target(call.method, call.target or "") if configured.merged is not None else None
        if configured.merged is not None and member is not None and member.server == server:
            places.append(configured.merged)
        verdicts = {self._at(each, record, past) for each in places}
        return verdicts.pop() if len(verdicts) == 1 else Verdict(False, open="endpoint")

    def _at(self, terms: ServerTerms, record: CallRecord, past: "_RecordedCall") -> Verdict:
        """Return the verdict at one endpoint."""
        refused = self._by_token(terms, record)
        if refused is not None and not refused.open:
            return refused
        found = self._by_proof(terms, record, past)
        return refused if refused is not None and found.allows else found

    def _by_token(self, terms: ServerTerms, record: CallRecord) -> Verdict | None:
        tokens, token = self._configured.tokens, record.token
        if tokens.issuers is None:
            return None
        if token is None:
            return Verdict(False, "missing_token") if tokens.required else None
        if token.issuer not in tokens.issuers:
            return Verdict(False, "invalid_token")
        is_tool = record.call.method == "tools/call"
        return Verdict(False, open="token") if is_tool and terms.token_scopes.get(record.call.target or "") else None

    def _by_proof(self, terms: ServerTerms, record: CallRecord, past: "_RecordedCall") -> Verdict:
        policy = terms.policy
        if policy is None:
            return past.pinned(terms.pins)
        if record.authority is None:
            return _without_authority(past, policy, record)
        if not past.chain:
            return Verdict(False, open="chain")
        token = record.token
        known = VerifiedToken(token.issuer, token.subject, 0, token.sha256) if token is not None else None
        steps = decide(past.call, policy, past.at, known, pins=terms.pins, case_of=partial(_PastCase, past))
        found = past.driven(steps)  # 1
        is_sum_unknown = found.error == "quota_exceeded" and not past.has_arguments
        return Verdict(False, open="arguments") if is_sum_unknown else found


def was_allowed(record: CallRecord) -> bool:
    """Return whether a call was allowed, or would have been if decisions were enforced."""
    return record.decision is not None and record.decision.verdict == "allow"


def _by_what_is_known(configured: ReplayConfiguration, record: CallRecord) -> Verdict | None:
    """Return the verdict if no endpoint's settings are needed for it, else None."""
    call, error = record.call, _error(record)
    if record.gateway != configured.gateway:
        return Verdict(False, open="gateway")
    if is_about_tasks(record):
        return Verdict(False, open="task")
    if len(call.target or "") >= MAX_RECORDED_TARGET:
        return Verdict(False, open="cut")
    if error == "unknown_route":
        return Verdict(False, open="route")
    if error == "quota_exceeded":
        return Verdict(False, open="uses")
    if error in _TOKEN_ERRORS and configured.tokens.issuers is not None:
        return Verdict(False, open="token")
    if error and not error.startswith("ratify_") and error not in _OF_AUTHORITY:
        return Verdict(False, error)  # 5
    return None


def _without_authority(past: "_RecordedCall", policy: Policy, record: CallRecord) -> Verdict:
    """Decide a call without verified signatures: it had no proof, an invalid one, or one that was never verified."""
    error = _error(record)
    if error in UNSIGNED or was_allowed(record):
        return past.driven(decide(past.call, policy, past.at))
    if policy.catalog.find(past.call.method, past.call.target) is None:
        of_mcp = past.call.method.partition("/")[0].removesuffix("s")
        kind = {None: of_mcp, "a2a": "skill"}.get(record.call.protocol, "route")
        return Verdict(False, f"unknown_{kind}")
    if error in _FOR_GOOD:
        return Verdict(False, error)
    if error == _CHANGED:
        return Verdict(False, open="definition")
    return Verdict(False, open="undecided" if "store_unavailable" in _reason(record) else "proof")


def _error(record: CallRecord) -> str:
    return (record.decision.error if record.decision is not None else None) or ""


def _reason(record: CallRecord) -> str:
    return (record.decision.reason if record.decision is not None else None) or ""


class _RecordedCall:
    """A recorded call. It answers what `decide` asks. `open` is why the verdict is uncertain."""

    def __init__(self, record: CallRecord, digest: bytes, chain: Sequence[DelegationCert] | None) -> None:
        self.chain = tuple(chain or ())
        self.at = milliseconds(record.times.received) // 1000
        self.open = ""
        self.is_bound = record.authority is not None and record.authority.bound
        self.has_digest = record.call.round in (None, 1) and record.call.protocol not in PROTOCOLS_WITH_PATH
        """Whether the record has the digest of the params that a constraint names. It has that of a first leg, and
        none that covers a path."""
        self._was_allowed = was_allowed(record)
        self._definition = record.call.definition if _error(record) != _CHANGED else None
        self._root = (record.authority.principal_name if record.authority is not None else None) or ""
        self.has_arguments = len(record.call.params) > 0
        self.call = _call(record, digest)

    def driven(self, steps: _Steps) -> Verdict:
        """Run a decision to its end."""
        self.open = ""
        try:
            need = next(steps)
            while True:
                need = steps.send(self._answer(need))
        except StopIteration as stop:
            decision: Decision = stop.value
        if decision.fault is not None:
            return Verdict(False, open="undecided")
        if decision.refusal is not None and decision.refusal.error == _CHANGED and self.open:
            return Verdict(False, open=self.open)
        if decision.refusal is not None:
            return Verdict(False, decision.refusal.error)
        return Verdict(not self.open, open=self.open)

    def pinned(self, pins: Pins | None) -> Verdict:
        """Return the verdict if only the pins decide."""
        if pins is None or not pins.enforced or self.call.method != "tools/call":
            return Verdict(True)
        if self._definition is None or not self._was_allowed:
            return Verdict(False, open="definition")
        same = self._definition == pins.tools.get(self.call.target)
        return Verdict(same, "" if same else _CHANGED)

    def _answer(self, need: Need) -> object:
        match need:
            case IsRevoked():
                return False  # 4
            case LookAtChallenge() | SpendChallenge():
                return Spending.FIRST
            case IssueChallenge(_, expires_at):
                return IssuedChallenge(bytes(CHALLENGE_BYTES), expires_at)
            case CountUses():
                return 0
            case TakeUse():
                return True
            case FindTask() | FindRoom():
                return None
            case FindRoot():
                self.open = self.open or "registry"
                return self._root
            case FindDefinition():
                if self._definition is None or not self._was_allowed:
                    self.open = "definition"
                return self._definition

    def judged(self, cert: DelegationCert) -> DelegationCert:
        """Return a certificate with only those constraints that can be judged. If it has others, note that."""
        kept = tuple(each for each in cert.constraints if self._can_be_judged(each))
        return cert if len(kept) == len(cert.constraints) else replace(cert, constraints=kept)

    def _can_be_judged(self, constraint: Constraint) -> bool:
        why = "uses" if isinstance(constraint, MaxRate) else ""
        if not why and not isinstance(constraint, TimeWindow) and not self.has_arguments:
            why = "" if isinstance(constraint, Extension) and self._is_of_target(constraint) else "arguments"
        self.open = self.open or why
        return not why

    def _is_of_target(self, constraint: Extension) -> bool:
        """Return whether a constraint can be judged without the missing arguments: because it needs none of them, or
        refuses the call anyway."""
        if constraint.name != CALL:
            return False
        try:
            terms = CallTerms.read(constraint)
        except WireError:
            return True  # it refuses every call
        elsewhere = terms.method != self.call.method or self.call.target not in terms.target
        needs = terms.args is not UNSET or (terms.params_sha256 is not UNSET and not self.has_digest)
        return elsewhere or not needs


class _PastCase(ProofCheck):
    """The steps of a decision for a recorded call whose signatures were valid when it was recorded."""

    def __init__(self, past: _RecordedCall, *terms: *CaseTerms) -> None:
        super().__init__(*terms)
        self._past = past

    def _read(self) -> Generator[Need, object, ProofBundle]:
        yield from ()
        leaf = self._past.chain[0]
        return ProofBundle(
            agent_id=leaf.subject_id,
            agent_pub_key=leaf.subject_pub_key,
            delegations=self._past.chain,
            challenge=bytes(CHALLENGE_BYTES),
            challenge_at=self._now,
            challenge_sig=HybridSignature(b"", b""),
        )

    def _verified(self, bundle: ProofBundle) -> Generator[Need, object, VerifyResult]:
        """Verify the certificates and judge their constraints, as far as possible ([known] and [unknown])."""
        if self._policy.binding_required and not self._past.is_bound:
            return VerifyResult(
                valid=False, identity_status=IdentityStatus.INVALID, error_reason="invalid: the proof was not bound"
            )
        terms = self._terms(bundle)
        steps = chain_verification(bundle.delegations, terms)
        answer: object = None
        try:
            while True:
                need = steps.send(answer)
                answer = (yield need) if isinstance(need, IsRevoked) else None
        except StopIteration as stop:
            result: VerifyResult = stop.value
        if not result.valid:
            return result
        yield from self._definition(bundle)
        fault = constraints_fault([self._past.judged(cert) for cert in bundle.delegations], terms)
        return result if fault is None else fault


def _call(record: CallRecord, digest: bytes) -> GuardedCall:
    """Return a recorded call without its proof. It has its arguments if they are recorded."""
    method, target = record.call.method, record.call.target or ""
    if record.call.protocol is not None:
        return ApiCall(method, target, "", digest, None, None)
    if len(record.call.params) > 0:
        try:
            params = cast("dict[str, object]", json.loads(bytes(record.call.params)))
            return guarded_call_from_values(method, params, "", None)
        except (FrameError, ValueError, RecursionError):
            pass
    return GuardedCall(method, target, "", digest, None, None)
