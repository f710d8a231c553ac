"""Judges a request before it is forwarded, by its proof or by its token. Asks the ports, and logs.

Where proofs are judged, `policy.decide` decides. Where only tokens are taken, `bearer` has already checked each
call, and only requests about tasks are decided here: a task belongs to the subject of the token that made it. Where
definitions are pinned, a called tool's definition is always compared with its pin (`pinned_tools`).

Where proofs are only observed, every call is still decided. But only those rules are enforced that would also apply
with proofs off: pinned definitions, the owner of a task where calls need tokens, and quotas of subjects and servers.
"""

import logging

from msgspec import Struct
from msgspec.structs import replace

from accredit.base.clock import unix_seconds
from accredit.base.log_events import log_event
from accredit.base.text import excerpt
from accredit.errors import (
    ConfigurationError,
    FrameError,
    ProofRefused,
    RequestError,
    SealError,
    StoreUnavailable,
    TokenError,
)
from accredit.gateway.admission.bearer import Bearer
from accredit.gateway.admission.pinned_tools import PinnedTools
from accredit.gateway.admission.request_state import (
    RequestStateSealer,
    brings_state,
    principal_by_id,
    principal_of,
    state_refused,
)
from accredit.gateway.admission.tasks import Tasks
from accredit.gateway.call import Call
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.trace import trace_field
from accredit.gateway.turns import in_turns, turn
from accredit.jsonrpc.encode import INVALID_PARAMS
from accredit.jsonrpc.frames import Request
from accredit.jsonrpc.methods import LISTEN, TASK_CHANGES, TASKS
from accredit.limits import SHORT_MESSAGE_BYTES
from accredit.policy import (
    Authority,
    Decision,
    GuardedCall,
    drive,
    guarded_call_in_steps,
    guarded_call_of,
    refusals,
)
from accredit.policy.decide import decide
from accredit.policy.decision import FlowOf
from accredit.policy.drill import DRILLS
from accredit.policy.quotas import QuotaCaller, QuotaReached
from accredit.policy.tasks import Owner, TaskScope, encode_task_facts
from accredit.policy.uses import take
from accredit.ports import ProofStore, Revocations, Task
from accredit.tokens import VerifiedToken

_log = logging.getLogger("accredit.gateway.gate")


class Judgement(Struct, frozen=True):
    """The judgement on a request. `token` has been verified. `decision` is set where proofs are judged, and
    `token_task` where a token decides about a task. `stopped` is a refusal that is enforced although the request is
    only observed, or the refusal of a request whose state does not open."""

    token: VerifiedToken | None = None
    call: GuardedCall | None = None
    decision: Decision | None = None
    token_task: Task | None = None
    stopped: ProofRefused | TokenError | RequestError | None = None

    @property
    def refusal(self) -> ProofRefused | TokenError | RequestError | None:
        """The enforced refusal, if there is one."""
        if self.stopped is not None or self.decision is None or not self.decision.enforced:
            return self.stopped
        return self.decision.refusal

    @property
    def observed(self) -> ProofRefused | None:
        """The refusal that is only observed, if there is one."""
        return self.decision.refusal if self.decision is not None and not self.decision.enforced else None

    @property
    def authority(self) -> Authority | None:
        """The authority that a proof gave the request, if any."""
        return self.decision.authority if self.decision is not None else None

    @property
    def task(self) -> Task | None:
        """The task that the request is about."""
        return self.decision.task if self.decision is not None else self.token_task

    @property
    def tasks(self) -> tuple[str, ...]:
        """The ids of the tasks that the request names."""
        return self.call.tasks if self.call is not None else ()

    def owner(self, place: TaskScope) -> Owner:
        """Return who owns the tasks that the request's answers announce."""
        if self.authority is None:
            return Owner(token=self.token)
        return place.owner(self.authority.principal_id, self.authority.agent_id, self.token)

    @property
    def principal(self) -> tuple[str, ...]:
        """For whom a state in the answer is sealed. Where proofs are only observed, that is not whom the proof names: a
        follow-up with another proof, or none, must not be refused because its state does not open."""
        is_enforced = self.decision is not None and self.decision.enforced
        return principal_of(self.authority if is_enforced else None, _subject(self.token))

    def task_of(self, request: Request, flow: str, place: TaskScope) -> Task:
        """Return the task to store if the request's answer announces one."""
        target = request.target or ""
        remembered = encode_task_facts({}, b"", None, ())
        if self.call is not None and self.decision is not None and self.authority is not None:
            entry = self.decision.entry
            facts = entry.facts.of(self.call.arguments) if entry is not None else {}
            remembered = encode_task_facts(facts, self.call.call_digest(), self.call.arguments, self.authority.chain)
        return Task(self.owner(place).at(place.server_of(target)), request.method, target, remembered, flow)


class Judge:
    """One per gateway. Raises `ConfigurationError` where proofs are judged without a store or revocations."""

    def __init__(
        self,
        settings: GatewaySettings,
        store: ProofStore | None,
        revocations: Revocations | None,
        tasks: Tasks,
        sealer: RequestStateSealer,
        bearer: Bearer | None,
        pinned: PinnedTools | None = None,
    ) -> None:
        proofs = settings.proofs
        self._policy = proofs.policy if proofs is not None and proofs.judged else None
        self._ports = (store, revocations) if store is not None and revocations is not None else None
        if self._policy is not None and self._ports is None:
            raise ConfigurationError("proofs are judged, and there is no store", "give create_app a store")
        self._quotas = settings.quotas
        self._catalog = proofs.policy.catalog if proofs is not None else None
        if self._quotas.entries and store is None:
            raise ConfigurationError("there are quotas, and no store to count in", "give create_app a store")
        self._store = store
        self._guards = settings.guards
        self._tasks = tasks
        self._sealer = sealer
        self._bearer = bearer
        self._pinned = pinned

    @property
    def of_proofs(self) -> bool:
        """Whether proofs are judged here."""
        return self._policy is not None

    async def case(self, request: Request, asked: Call) -> Judgement:
        """Judge a request. If its proof is refused, the refusal is part of the judgement that is returned.

        Raises `RequestError`. Where no proofs are judged, also raises `ProofRefused` and `TokenError`.
        """
        if self._policy is None or self._ports is None:
            return await self._without_proofs(request, asked)
        call = await _call_of(request, asked)
        if call is None:
            return Judgement(asked.token)
        await turn(request.size)
        now, place = unix_seconds(), self._tasks.place(asked.session)
        flow_of = self._flow_of(request, asked.token) if brings_state(request) else None
        pinned = self._pinned
        pins = pinned.pins if pinned is not None else None
        steps = decide(call, self._policy, now, asked.token, place=place, flow_of=flow_of, pins=pins)
        look = pinned.look(request, asked.way, asked.token) if pinned is not None else None
        decision = await drive(steps, *self._ports, now, self._tasks.store, look)
        if isinstance(decision.fault, FrameError):  # the call can't be digested
            detail = f"Invalid params: {decision.fault.detail}"
            raise RequestError(INVALID_PARAMS, detail, id=request.id, status=200)
        case = Judgement(asked.token, call, decision)
        if isinstance(decision.fault, SealError):
            return replace(case, stopped=state_refused(request, decision.fault))
        if decision.fault is not None:
            _report(decision, decision.fault)
        if decision.enforced:
            return case
        try:
            await self._without_proofs(request, asked)
        except (ProofRefused, TokenError, RequestError) as error:
            return replace(case, stopped=error)
        return case

    async def _without_proofs(self, request: Request, asked: Call) -> Judgement:
        """Judge a request as if proofs were off. Raises `RequestError`, `ProofRefused` and `TokenError`."""
        if request.method == "tools/call" and request.target not in DRILLS:
            if self._pinned is not None:
                await self._pinned.check(request, asked.way, asked.token)
            if self._quotas.entries:
                await self._take_quotas(request, asked)
        return await self._by_token(request, asked) if self._guards else Judgement(asked.token)

    async def _by_token(self, request: Request, asked: Call) -> Judgement:
        """Judge a request about tasks by its token. Raises `ProofRefused` and `TokenError`."""
        asks = request.method in TASKS or request.method == LISTEN
        call = await _call_of(request, asked) if asks else None
        if call is None:
            return Judgement(asked.token)
        try:
            task = await self._tasks.of(call, Owner(token=asked.token), asked.session)
        except StoreUnavailable as error:
            refusal = refusals.no_decision(call, None)
            _report(Decision(call, None, None, refusal, error), error)
            raise refusal from None
        if task is not None and request.method in TASK_CHANGES and self._bearer is not None:
            self._bearer.check_tool(task.target, asked.token)
        return Judgement(asked.token, call, None, task)

    async def _take_quotas(self, request: Request, asked: Call) -> None:
        """Count a call against the quotas that apply without a proof's decision. Raises `ProofRefused`, and
        `RequestError` for a state that does not open."""
        call = await _call_of(request, asked)
        if call is None or self._store is None:
            raise TypeError("a call that can't be counted")
        subject = _subject(asked.token)
        entry = self._catalog.find(call.method, call.target) if self._catalog is not None else None
        facts = entry.facts.of(call.arguments) if entry is not None else {}
        try:
            flow = self._sealer.place(request, principal_of(None, subject)) if brings_state(request) else None
        except SealError as error:
            raise state_refused(request, error) from None
        now = unix_seconds()
        try:
            taken = self._quotas.taken_by(call.target, QuotaCaller(subject=subject), facts)
            await drive(take((), taken, flow, now), self._store, None, now)
        except QuotaReached as reached:
            raise refusals.quota_reached(call, None, reached) from None
        except Exception as error:  # fail closed if the store does not answer
            refusal = refusals.no_decision(call, None)
            _report(Decision(call, None, None, refusal, error), error)
            raise refusal from None

    def _flow_of(self, request: Request, token: VerifiedToken | None) -> FlowOf:
        subject = _subject(token)
        if self._policy is not None and self._policy.observes:
            return lambda _principal, _agent: self._sealer.place(request, principal_of(None, subject))
        return lambda principal, agent: self._sealer.place(request, principal_by_id(principal, agent, subject))


async def _call_of(request: Request, asked: Call) -> GuardedCall | None:
    """Return the call that a request makes, or None if it is not guarded. Raises `RequestError`."""
    if request.size <= SHORT_MESSAGE_BYTES:
        return guarded_call_of(request, asked.session)
    return await in_turns(guarded_call_in_steps(request, asked.session))


def _subject(token: VerifiedToken | None) -> tuple[str, str] | None:
    return (token.issuer, token.subject) if token is not None else None


def _report(decision: Decision, fault: Exception) -> None:
    detail = excerpt(f"{fault!r}")
    log_event(_log, logging.ERROR, "decision_failed", method=decision.call.method, detail=detail, **trace_field())
