"""Judges a request before it is forwarded, by its proof or by its token. Asks the ports, and logs.

Where proofs are judged, `policy.decide` decides. Where only tokens are taken, `bearer` has already checked each
call, and only requests about tasks are decided here: a task belongs to the subject of the token that made it. Where
definitions are pinned, a called tool's definition is always compared with its pin (`pinned_tools`).

Where proofs are only observed, every call is still decided. But only those rules are enforced that would also apply
with proofs off: pinned definitions, the owner of a task where calls need tokens, and quotas of subjects and servers.
"""

import logging
from functools import partial

from accredit.base.clock import unix_seconds
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
from accredit.gateway.admission.guests import Guest, Guests
from accredit.gateway.admission.held_answer import HeldAnswer, WaitingCall
from accredit.gateway.admission.pinned_tools import PinnedTools
from accredit.gateway.admission.request_state import (
    RequestStateSealer,
    brings_state,
    principal_by_id,
    principal_of,
    state_refused,
    subject_of,
)
from accredit.gateway.admission.tasks import Tasks
from accredit.gateway.call import Call
from accredit.gateway.counters import report_fault
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.turns import in_turns, next_turn
from accredit.jsonrpc.encode import INVALID_PARAMS
from accredit.jsonrpc.frames import Notification, Request, Response
from accredit.jsonrpc.input_required import shows_pages
from accredit.jsonrpc.methods import MAY_NAME_TASKS, TASK_CHANGES, Era
from accredit.limits import SHORT_MESSAGE_BYTES
from accredit.policy import refusals
from accredit.policy.decide import decide
from accredit.policy.decision import Decision, FlowOf, drive
from accredit.policy.drill import DRILLS
from accredit.policy.guarded_call import GuardedCall, guarded_call_in_steps, guarded_call_of
from accredit.policy.quotas import QuotaCaller, QuotaReached
from accredit.policy.tasks import Owner
from accredit.policy.uses import take
from accredit.ports import ProofStore, Revocations
from accredit.tokens.claims import VerifiedToken

_log = logging.getLogger("accredit.gateway.gate")


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
        guests: Guests | None = None,
    ) -> None:
        proofs = settings.proofs
        self._policy = proofs.policy if proofs is not None and proofs.judged else None
        self._ports = (store, revocations) if store is not None and revocations is not None else None
        if self._policy is not None and self._ports is None:
            raise ConfigurationError("proofs are judged, and there is no store", "give create_app a store")
        self.of_proofs = self._policy is not None
        """Whether proofs are judged here."""
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
        self._guests = guests

    async def judge(self, request: Request, call: Call) -> None:
        """Judge a request, and store in its call what it asks for and the decision.

        Raises `RequestError`. Where no proofs are judged, also raises `ProofRefused` and `TokenError`.
        """
        if self._policy is None or self._ports is None:
            await self._without_proofs(request, call)
            return
        guarded = await _guarded_call(request, call)
        if guarded is None:
            return
        decision, waits = await self._decision(guarded, request, call)
        if isinstance(decision.fault, FrameError):  # the call can't be digested
            detail = f"Invalid params: {decision.fault.detail}"
            raise RequestError(INVALID_PARAMS, detail, id=request.id, status=200)
        call.guarded = decision.call
        call.decide(decision)
        if waits is not None and request.era is Era.MODERN and (brings_state(request) or shows_pages(request)):
            try:
                call.instead = self._sealer.ask(request, call, waits)
            except SealError as error:
                call.refusal = state_refused(request, error)
        if isinstance(decision.fault, SealError):
            call.refusal = state_refused(request, decision.fault)
            return
        if decision.fault is not None:
            report_fault(decision.call.method, decision.fault)
        if not decision.enforced:
            try:
                await self._without_proofs(request, call)
            except (ProofRefused, TokenError, RequestError) as error:
                call.refusal = error

    async def settles(self, message: Notification | Response, call: Call) -> bool:
        """Handle a guest's message about a call that waits for a person. Return False for any other message."""
        guest = call.token
        if self._guests is None or not isinstance(guest, Guest):
            return False
        return await self._guests.settles(message, guest, call.session)

    async def _decision(
        self, guarded: GuardedCall, request: Request, call: Call
    ) -> tuple[Decision, WaitingCall | None]:
        """Decide a call. If a guest makes it, it is proved first, and a person may be asked."""
        guest = call.token
        if self._guests is None or not isinstance(guest, Guest):
            return await self._decided(guarded, request, call), None
        call.id = self._guests.draw_id()
        place = self._tasks.place
        decided = partial(self._decided, request=request, call=call)
        # A host that shows pages to people is told at once where to go, and waits when it comes back.
        wait = brings_state(request) or not shows_pages(request)
        answer = HeldAnswer(call.reply, request, call.session) if call.reply is not None else None
        try:
            return await self._guests.decide(guarded, guest, call.id, place, decided, wait=wait, answer=answer)
        except (FrameError, StoreUnavailable) as error:
            return Decision(guarded, None, None, refusals.no_decision(guarded, None), error), None

    async def _decided(self, guarded: GuardedCall, request: Request, call: Call) -> Decision:
        if self._policy is None or self._ports is None:
            raise TypeError("a call that can't be decided")
        now, place, pinned = unix_seconds(), self._tasks.place, self._pinned
        flow_of = self._flow_of(request, call.token) if brings_state(request) else None
        pins = pinned.pins if pinned is not None else None
        steps = decide(guarded, self._policy, now, call.token, place=place, flow_of=flow_of, pins=pins)
        look = pinned.look(request, call.way, call.token) if pinned is not None else None
        return await drive(steps, *self._ports, now, self._tasks.store, look)

    async def _without_proofs(self, request: Request, call: Call) -> None:
        """Judge a request as if proofs were off. Raises `RequestError`, `ProofRefused` and `TokenError`."""
        if request.method == "tools/call" and request.target not in DRILLS:
            if self._pinned is not None:
                await self._pinned.check(request, call.way, call.token)
            if self._quotas.entries:
                await self._take_quotas(request, call)
        if self._guards and request.method in MAY_NAME_TASKS:
            await self._by_token(request, call)

    async def _by_token(self, request: Request, call: Call) -> None:
        """Judge a request about tasks by its token. Raises `ProofRefused` and `TokenError`."""
        guarded = call.guarded or await _guarded_call(request, call)
        if guarded is None:
            return
        try:
            task = await self._tasks.of(guarded, Owner(token=call.token))
        except StoreUnavailable as error:
            report_fault(guarded.method, error)
            raise refusals.no_decision(guarded, None) from None
        if task is not None and request.method in TASK_CHANGES and self._bearer is not None:
            self._bearer.check_tool(task.target, call.token)
        call.guarded = guarded
        if call.decision is None:
            call.task = task

    async def _take_quotas(self, request: Request, call: Call) -> None:
        """Count a call that is judged without proofs against the quotas. Raises `ProofRefused`, and `RequestError` for
        an invalid sealed state."""
        guarded = call.guarded or await _guarded_call(request, call)
        if guarded is None or self._store is None:
            raise TypeError("a call that can't be counted")
        subject = subject_of(call.token)
        entry = self._catalog.find(guarded.method, guarded.target) if self._catalog is not None else None
        facts = entry.facts.of(guarded.arguments) if entry is not None else {}
        try:
            flow = self._sealer.place(request, principal_of(None, subject)) if brings_state(request) else None
        except SealError as error:
            raise state_refused(request, error) from None
        now = unix_seconds()
        try:
            taken = self._quotas.taken_by(guarded.target, QuotaCaller(subject=subject), facts)
            await drive(take((), taken, flow, now), self._store, None, now)
        except QuotaReached as reached:
            raise refusals.quota_reached(guarded, None, reached) from None
        except Exception as error:  # fail closed if the store does not answer
            report_fault(guarded.method, error)
            raise refusals.no_decision(guarded, None) from None

    def _flow_of(self, request: Request, token: VerifiedToken | None) -> FlowOf:
        subject = subject_of(token)
        if self._policy is not None and self._policy.observes:
            return lambda _principal, _agent: self._sealer.place(request, principal_of(None, subject))
        return lambda principal, agent: self._sealer.place(request, principal_by_id(principal, agent, subject))


async def _guarded_call(request: Request, call: Call) -> GuardedCall | None:
    """Return what a request asks for, or None if it is not guarded. Raises `RequestError`."""
    if request.size <= SHORT_MESSAGE_BYTES:
        return guarded_call_of(request, call.session)
    guarded = await in_turns(guarded_call_in_steps(request, call.session))
    await next_turn()
    return guarded
