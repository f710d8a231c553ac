"""The common base of the gates of HTTP APIs and of agents. Asks the ports; logs.

- [token] Where tokens are on, a token in the request's header is valid, and there is one if one is required.
- [decision] The request is decided as a call of MCP is, by `policy.decide`. Its proof has to be bound to it.
- [record] The decision is on record. If it can't be, the request is refused.

Where proofs are only observed, [decision] refuses a request only for a quota that needs no proof.
"""

import logging
from collections.abc import Sequence
from functools import partial
from time import perf_counter

from accredit.attest import RecordedParams
from accredit.attest.canonical import WORKSPACES
from accredit.base.clock import unix_seconds
from accredit.errors import AccreditError, ConfigurationError, KeysUnavailable, ProofRefused, RequestError, TokenError
from accredit.gateway.admission.bearer import Bearer
from accredit.gateway.admission.request_state import subject_of
from accredit.gateway.call import Call
from accredit.gateway.counters import Counters, report_fault
from accredit.gateway.headers import RawHeaders
from accredit.gateway.recording.early_refusals import AnonymousRecordBudget
from accredit.gateway.recording.recorder import About, Recorder
from accredit.gateway.settings import ApiUpstream, GatewaySettings
from accredit.policy import refusals
from accredit.policy.decide import decide
from accredit.policy.decision import drive
from accredit.policy.guarded_call import GuardedCall
from accredit.policy.passing import CallerIdentity
from accredit.policy.quotas import QuotaCaller, QuotaReached
from accredit.policy.tasks import ONE_SERVER, TaskScope
from accredit.policy.uses import take
from accredit.ports import ProofStore, Revocations, TaskStore
from accredit.telemetry.board import OTHER
from accredit.telemetry.labels import error_of
from accredit.telemetry.operations import Meter
from accredit.telemetry.tracing import RandomIds

_log = logging.getLogger("accredit.gateway.gate")


class CallGate:
    """The gate of one API or agent. Raises `ConfigurationError` if the settings need a port that was not given.

    `tasks` and `place` are for agents alone: who remembers their tasks, and where.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        api: ApiUpstream,
        counters: Counters,
        *,
        store: ProofStore | None,
        revocations: Revocations | None,
        bearer: Bearer | None,
        recorder: Recorder | None,
        strangers: AnonymousRecordBudget,
        meter: Meter | None,
        tasks: TaskStore | None = None,
        place: TaskScope = ONE_SERVER,
    ) -> None:
        if settings.proofs is None or not settings.proofs.judged:
            raise ConfigurationError(
                f"{settings.place} is served, and proofs are off", "require proofs, or observe them"
            )
        if store is None or revocations is None:
            raise ConfigurationError("proofs are judged, and there is no store", "give create_app a store")
        if api.agent is not None and tasks is None:
            raise ConfigurationError("an agent is served, and nobody remembers its tasks", "give the gateway tasks")
        self.policy = settings.proofs.policy
        self.place = place
        self._api = api
        self._quotas = settings.quotas
        self.counters = counters
        self._store = store
        self._revocations = revocations
        self._bearer = bearer
        self._recorder = recorder
        self._strangers = strangers
        self._meter = meter
        self._tasks = tasks
        self._ids = RandomIds()
        self._full = settings.records is not None and settings.records.full

    @property
    def workspace(self) -> str:
        """The label of the protocol, to which proofs are bound."""
        return WORKSPACES[self._api.protocol]

    async def _admit_call(
        self,
        guarded: GuardedCall,
        call: Call,
        credentials: RawHeaders,
        *,
        targets: Sequence[str],
        form: bytes | None = None,
    ) -> None:
        """Take a call through [token], [decision] and [record]. Its token must deny none of `targets`. `form` is
        recorded as the arguments where records are full. Raises the error that refuses the call."""
        params = RecordedParams(guarded.digest.hex(), form if self._full else None)
        about = About(guarded.method, guarded.target, params, 0, None, self._ids.draw(), self._api.protocol)
        try:
            await self._check_token(credentials, call, targets)
        except (TokenError, KeysUnavailable, RequestError) as error:
            await self._record_stranger(about, call, error)
            raise
        refused: AccreditError | None = None
        try:
            await self._decide(guarded, call)
        except ProofRefused as error:
            refused = error
        refused = refused or call.refusal or await self._refusal_besides(guarded, call)
        await self._record(about, call, refused)
        if self._meter is not None:
            self._meter.decided(None, refused)
        if refused is not None:
            raise refused
        if call.observed is not None:
            self.counters.refused(call.observed, method=guarded.target, observed=True)

    async def _refusal_besides(self, guarded: GuardedCall, call: Call) -> AccreditError | None:
        """Return the error for a call that `policy.decide` allows, but that breaks another rule; else None."""
        return None

    async def _check_token(self, credentials: RawHeaders, call: Call, targets: Sequence[str]) -> None:
        """Authenticate the request ([token]). Raises `TokenError`, `KeysUnavailable` and `RequestError`."""
        if self._bearer is None:
            return
        call.token = await self._bearer.of_header(credentials)
        self._bearer.require(call.token)
        self._check_targets(call, targets)

    def _check_targets(self, call: Call, targets: Sequence[str]) -> None:
        """Check that a call's token denies none of these. Raises `TokenError`."""
        if self._bearer is not None:
            for target in targets:
                self._bearer.check_tool(target, call.token)

    async def _decide(self, guarded: GuardedCall, call: Call) -> None:
        """Decide a request ([decision]), and store the decision. Raises `ProofRefused` for quotas that count without
        proofs."""
        now = unix_seconds()
        steps = decide(guarded, self.policy, now, call.token, place=self.place)
        decision = await drive(steps, self._store, self._revocations, now, self._tasks)
        call.guarded = guarded
        call.decide(decision)
        if decision.fault is not None:
            report_fault(guarded.method, decision.fault)
        if not decision.enforced and self._quotas.entries and guarded.is_counted:
            await self._take_quotas(guarded, call, now)

    async def _take_quotas(self, guarded: GuardedCall, call: Call, now: int) -> None:
        entry = self.policy.catalog.find(guarded.method, guarded.target)
        facts = entry.facts.of(guarded.arguments) if entry is not None else {}
        try:
            taken = self._quotas.taken_by(guarded.target, QuotaCaller(subject=subject_of(call.token)), facts)
            await drive(take((), taken, None, now), self._store, None, now)
        except QuotaReached as reached:
            raise refusals.quota_reached(guarded, None, reached) from None
        except Exception as error:  # fail closed if the store does not answer
            report_fault(guarded.method, error)
            raise refusals.no_decision(guarded, None) from None

    async def _record(self, about: About, call: Call, refused: AccreditError | None) -> None:
        """Record the decision ([record]). Raises `ProofRefused` for an allowed request that could not be recorded."""
        if call.authority is not None or call.token is not None:
            call.speaker = CallerIdentity(call.authority, call.token, about.call)
        if self._recorder is None:
            return
        try:
            call.open_calls.add(await self._recorder.begin_about(about, call, refused))
        except ProofRefused:
            if refused is None:
                raise
            self.counters.unrecorded(logged=True)

    async def _record_stranger(self, about: About, call: Call, error: AccreditError) -> None:
        """Record a request that is refused for its token, within the budget that anonymous callers have in the log."""
        if self._recorder is None:
            return
        if not self._strangers.take():
            self._strangers.leave_out(self.counters)
            return
        await self._strangers.record(self.counters, partial(self._recorder.begin_about, about, Call(), error))

    def _measure(self, method: str, target: str | None, error: BaseException | None, began: float) -> None:
        """Note how long it took to admit a request. `target` is None if no configured route or skill matches."""
        if self._meter is not None:
            labels = (method, target) if target is not None else (OTHER, "")
            self._meter.served.observe((labels, "" if error is None else error_of(error)), perf_counter() - began)
