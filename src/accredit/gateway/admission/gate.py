"""The gate: what of a client's message goes on to the upstream, and in which form. Asks the ports; logs.

Every message of a client comes through `admit`, whatever its transport:

1. where proofs or tokens are required, a method that neither its revision nor the configuration names is none: a
   request of it is refused, a notification dropped;
2. what carries a token is taken off (`bearer`), so that proofs are bound to what goes on;
3. each request is decided (`policy.decide`); one that is refused does not go on, and has its answer from here;
4. a state that it brings back is opened (`request_state`), or it is refused;
5. credentials are taken out and the word of who authorized the call is put in (`policy.passing`);
6. on its way back, an answer that is a list is edited (`policy.lists`), one that asks for input has its state sealed
   (`request_state`), and one that announces a task waits until it is known whose that is (`tasks`).

Where calls are recorded, the decision on a guarded call (3 and 4) is in the log before anything else happens to it
(`recorder`).

The members of a batch are decided one by one. Where proofs are off no call is refused but for want of a token, and what
the client says of its own authorization is still removed. Who sent a message was found out before: each comes with its
`Caller`.
"""

import logging
import operator
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct, field

from accredit.base.clock import unix_seconds
from accredit.base.log_events import log_event
from accredit.base.text import excerpt
from accredit.errors import (
    AccreditError,
    ConfigurationError,
    FrameError,
    KeysUnavailable,
    MessageId,
    MissingToken,
    ProofRefused,
    RequestError,
    StoreUnavailable,
    TokenError,
)
from accredit.gateway.admission.bearer import Bearer, Caller
from accredit.gateway.admission.request_state import (
    Leg,
    RequestStateSealer,
    brings_state,
    principal_by_id,
    principal_of,
)
from accredit.gateway.admission.tasks import Hears, Maker, Tasks, of_resumed
from accredit.gateway.counters import Counters
from accredit.gateway.recording.early_refusals import EarlyRefusals
from accredit.gateway.recording.open_calls import OpenCall, OpenCalls
from accredit.gateway.recording.recorder import Client, Part, Recorder, target_of
from accredit.gateway.replies import refusal
from accredit.gateway.settings import GatewaySettings, ProofSettings
from accredit.gateway.trace import traced
from accredit.gateway.turns import turn
from accredit.gateway.upstream.stdio.pending_calls import member_id
from accredit.jsonrpc.encode import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND
from accredit.jsonrpc.frames import Frame, Notification, Request, Success
from accredit.jsonrpc.methods import LISTEN, is_known, is_modern
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.responses import Edit
from accredit.policy import (
    LISTS,
    TASK_CHANGES,
    TASKS,
    Authority,
    Catalog,
    Decision,
    GuardedCall,
    decide,
    drive,
    guarded_call_of,
    is_guarded,
    looks_guarded,
    refusals,
)
from accredit.policy.decide import FlowOf
from accredit.policy.lists import KINDS, Kind, ListView, kinds_in, listed
from accredit.policy.passing import Speaker, for_upstream, speaker_of
from accredit.policy.tasks import made_by, owner_of
from accredit.ports import ProofStore, Revocations, Task, TaskStore
from accredit.stores import MemoryTasks
from accredit.tokens import VerifiedToken

_log = logging.getLogger("accredit.gateway.gate")


class Admission(Struct, frozen=True):
    """What goes on (None: nothing does), and the responses that requests which do not have from here.

    Without either, it was a notification that was dropped. `edits` are what becomes of the upstream's responses, by the
    request's id; `calls` are to be settled, and `tasks` are the ids of tasks that it names. `proved` says that a proof
    in it was good, `speaker` on whose authority it comes, where it is one request.
    """

    message: Frame | Batch | None
    replies: tuple[bytes, ...] = ()
    edits: Mapping[MessageId, Edit] = {}
    batch: bool = False
    calls: OpenCalls = field(default_factory=OpenCalls)
    proved: bool = False
    tasks: tuple[str, ...] = ()
    speaker: Speaker | None = None

    @property
    def answer(self) -> bytes:
        """The replies as one JSON-RPC message."""
        return b"[" + b",".join(self.replies) + b"]" if self.batch else self.replies[0]


class Case(Struct, frozen=True):
    """What was found out about a request: `decision` where proofs are judged, `token_task` where a token decides."""

    asked: GuardedCall | None = None
    decision: Decision | None = None
    token_task: Task | None = None

    @property
    def refusal(self) -> ProofRefused | None:
        """Why it is refused, if it is."""
        return self.decision.refusal if self.decision is not None else None

    @property
    def authority(self) -> Authority | None:
        """On whose word it comes."""
        return self.decision.authority if self.decision is not None else None

    @property
    def task(self) -> Task | None:
        """The task that it is about."""
        return self.decision.task if self.decision is not None else self.token_task

    @property
    def named(self) -> tuple[str, ...]:
        """The ids of tasks that it names."""
        return self.asked.tasks if self.asked is not None else ()

    def made(self, request: Request, owner: bytes, flow: str) -> Task:
        """The task that comes of it, should it be answered with one."""
        found = made_by({}, b"", None, ())
        if self.asked is not None and self.decision is not None and self.authority is not None:
            asked, entry = self.asked, self.decision.entry
            facts = entry.facts.of(asked.arguments) if entry is not None else {}
            found = made_by(facts, asked.call_digest(), asked.arguments, self.authority.chain)
        return Task(owner, request.method, target_of(request), found, flow)


class Gate:
    """One per gateway. Raises `ConfigurationError` where proofs are to be judged and there is no one to ask."""

    def __init__(
        self,
        settings: GatewaySettings,
        counters: Counters,
        store: ProofStore | None,
        revocations: Revocations | None,
        bearer: Bearer | None = None,
        recorder: Recorder | None = None,
        tasks: TaskStore | None = None,
    ) -> None:
        self._tasks = Tasks((tasks or MemoryTasks()) if settings.guards else None, settings, counters)
        self._proofs = settings.proofs
        self._named_only = settings.guards
        self._tells = settings.tells_identity
        self._methods = frozenset(settings.methods)
        self._bearer = bearer
        self._sealer = RequestStateSealer(settings.rounds)
        self._counters = counters
        self._recorder = recorder
        self.early_refusals = EarlyRefusals(recorder, bearer, counters)
        """For what is refused before it comes here."""
        self._ports = (store, revocations) if store is not None and revocations is not None else None
        if self._judging is not None and self._ports is None:
            raise ConfigurationError("proofs are required, and there is no store", "give create_app a store")

    async def admit(self, message: Frame | Batch, client: Client, callers: Sequence[Caller] | None = None) -> Admission:
        """Decides a message. Raises `RequestError` for one that can't be decided.

        `callers` are one for each message of a batch.
        """
        if isinstance(message, Batch):
            return await self._batch(message, client, callers)
        if isinstance(message, Request) and not self._named(message.method, client):
            return self._unnamed(message, client)
        if self._bearer is not None:
            message = self._bearer.without(message)
        if isinstance(message, Notification):
            return Admission(self._notification(message, client))
        if not isinstance(message, Request):
            return Admission(message)
        try:
            admission = await self._request(message, client, callers[0] if callers else Caller())
        except (ProofRefused, TokenError, KeysUnavailable, RequestError) as error:
            if isinstance(error, RequestError) and error.status != 200:
                raise
            return Admission(None, (self._refused(message, error),))
        if _log.isEnabledFor(logging.DEBUG):
            log_event(_log, logging.DEBUG, "request_passed", method=message.method, **traced())
        return admission

    def hears(self, session_id: str, ids: Collection[str] = ()) -> Hears | None:
        """Which notifications go to a stream of a session whose requests name these tasks; None: all."""
        return self._tasks.hears(session_id, ids) if self._named_only else None

    def _named(self, method: str, client: Client) -> bool:
        """Rule 1."""
        return not self._named_only or is_known(method, client.revision) or method in self._methods

    def _unnamed(self, request: Request, client: Client) -> Admission:
        # In sessions a status of 404 says that there is none any more.
        status = 404 if client.revision is not None and is_modern(client.revision) else 200
        error = RequestError(METHOD_NOT_FOUND, "Method not found", id=request.id, status=status)
        if status != 200:
            raise error
        return Admission(None, (self._refused(request, error),))

    def _notification(self, notification: Notification, client: Client) -> Notification | None:
        if self._recorder is not None and notification.method == "notifications/cancelled":
            self._recorder.taken_back(client.session_id, member_id(notification, "requestId"))
        guards = self._judging is not None or self._bearer is not None or self._recorder is not None
        if brings_state(notification) or (guards and looks_guarded(notification.method)):
            # A server might do what it asks for, though nobody waits for an answer.
            raise RequestError(INVALID_REQUEST, "Invalid Request: a call needs an id")
        if not self._named(notification.method, client):
            self._counters.dropped(notification.method)
            return None
        return for_upstream(notification, judged=self._judging is not None)

    def otherwise(self, token: VerifiedToken | None, calls: OpenCalls) -> Edit | None:
        """What becomes of a response whose request is not known, unless it is one of these calls'. The stream was
        resumed, by whose token this is."""
        view = self._view(None, token)

        def resumed(response: Success) -> bytes:
            call = calls.get(response.id)
            if call is not None and call.edit is not None:
                return call.edit(response)
            return of_resumed(response, self._edited(response, view, kinds_in(response)))

        if self._named_only:
            return resumed
        if self._bearer is None and not any(map(view.edits, KINDS.values())):
            return None
        return lambda response: self._edited(response, view, kinds_in(response))

    def resumed(self, session_id: str) -> OpenCalls:
        """The calls that a stream may answer that is resumed in a session."""
        return (self._recorder or self._tasks.unrecorded).in_session(session_id)

    async def _batch(self, batch: Batch, client: Client, callers: Sequence[Caller] | None) -> Admission:
        kept: list[Frame] = []
        replies: list[bytes] = []
        edits: dict[MessageId, Edit] = {}
        calls = OpenCalls()
        proved = False
        tasks: list[str] = []
        for frame, caller in zip(batch.frames, callers or [Caller()] * len(batch.frames), strict=True):
            try:
                await turn(len(batch.text))
                admission = await self.admit(frame, client, (caller,))
            except RequestError as error:
                self._counters.refused(error)
                replies.append(refusal(error).frame())
                continue
            except BaseException:
                calls.drop()
                raise
            replies += admission.replies
            edits |= admission.edits
            calls.add_all(admission.calls)
            proved = proved or admission.proved
            tasks += admission.tasks
            if admission.message is not None and not isinstance(admission.message, Batch):
                kept.append(admission.message)
        if len(kept) == len(batch.frames) and all(map(operator.is_, batch.frames, kept)):
            return Admission(batch, edits=edits, batch=True, calls=calls, proved=proved, tasks=tuple(tasks))
        rest = Batch(tuple(kept), b"[" + b",".join(frame.text for frame in kept) + b"]") if kept else None
        return Admission(rest, tuple(replies), edits, batch=True, calls=calls, proved=proved, tasks=tuple(tasks))

    async def _request(self, request: Request, client: Client, caller: Caller) -> Admission:
        """What goes on of a request. Raises `ProofRefused`, `RequestError`, and what its caller is, if an error."""
        token = caller.token
        refused: AccreditError | None = caller.error or self._missing(request, token)
        case, leg, edit = Case(), Leg(request), None
        await turn(len(request.text))
        if refused is None:
            try:
                case = await self._decide(request, client, token)
                refused = case.refusal
                await turn(len(request.text))
                if refused is None:
                    leg = self._sealer.leg(request, principal_of(case.authority, _subject(token)))
                    edit = await self._edit(request, client, case, token, leg)
            except (RequestError, ProofRefused, TokenError) as error:
                refused = error
        call = None
        if self._recorder is not None and is_guarded(request):
            part = Part(leg.flow, leg.round + 1) if leg.flow else None
            if case.task is not None:
                part = Part(case.task.flow)
            decision = case.decision
            await turn(len(request.text))
            try:
                call = await self._recorder.begin(request, decision, client, refused, token=token, part=part)  # 8
            except ProofRefused:  # it could not be recorded: no call; a refusal stays what it is
                if refused is None:
                    raise
                self._counters.unrecorded(logged=True)
        if refused is not None:
            raise refused
        speaker = speaker_of(request, case.authority, token, _id_on_record(call))
        if request.method == "tools/call" and (call is not None or self._tasks.store is not None):
            maker = Maker(case.made(request, owner_of_case(case.authority, token), leg.flow), client)
            call, edit = self._tasks.opened(call, request, maker, leg.edit)
        judged = self._judging is not None
        authority = case.authority
        passed = for_upstream(leg.request, judged=judged, authority=authority, token=token, tell=self._tells)
        self._tasks.named(client, case.named)
        edits = {} if edit is None else {request.id: edit}
        calls = OpenCalls([call] if call is not None else ())
        proved = authority is not None
        return Admission(passed, edits=edits, calls=calls, proved=proved, tasks=case.named, speaker=speaker)

    def _missing(self, request: Request, token: VerifiedToken | None) -> MissingToken | None:
        """What a request is refused for that came without being asked for its token, on whatever way."""
        if token is None and self._bearer is not None and (request.method in LISTS or is_guarded(request)):
            try:
                self._bearer.require(None)
            except MissingToken as error:
                return error
        return None

    async def _decide(self, request: Request, client: Client, token: VerifiedToken | None) -> Case:
        """Raises `RequestError`; where no proofs are judged, `ProofRefused` and `TokenError` as well."""
        place = self._tasks.place(client)
        if self._judging is None or self._ports is None:
            return await self._of_token(request, client, token) if self._named_only else Case()
        asked = guarded_call_of(request, client.session_id)
        if asked is None:
            return Case()
        await turn(len(request.text))
        now = unix_seconds()
        flow_of = self._flow_of(request, token) if brings_state(request) else None
        steps = decide(asked, self._judging.policy, now, token, place=place, flow_of=flow_of)
        decision = await drive(steps, *self._ports, now, self._tasks.store)
        if isinstance(decision.fault, FrameError):  # what is asked has no digest
            detail = f"Invalid params: {decision.fault.detail}"
            raise RequestError(INVALID_PARAMS, detail, id=request.id, status=200)
        if decision.fault is not None:
            _report(decision, decision.fault)
        return Case(asked, decision)

    async def _of_token(self, request: Request, client: Client, token: VerifiedToken | None) -> Case:
        """What is asked about tasks where a token decides."""
        if request.method not in TASKS and request.method != LISTEN:
            return Case()
        asked = guarded_call_of(request, client.session_id)
        if asked is None:
            return Case()
        try:
            task = await self._tasks.of(asked, owner_of_case(None, token), client)
        except StoreUnavailable as error:
            refusal = refusals.undecided(asked, None)
            _report(Decision(asked, None, None, refusal, error), error)
            raise refusal from None
        if task is not None and request.method in TASK_CHANGES and self._bearer is not None:
            self._bearer.check_tool(task.target, token)
        return Case(asked, None, task)

    async def _edit(
        self, request: Request, client: Client, case: Case, token: VerifiedToken | None, leg: Leg
    ) -> Edit | None:
        """What becomes of the response. Raises `ProofRefused` where nobody can tell whose a task is."""
        if request.method in KINDS:
            return self._listed(request.method, case.authority, token)
        if case.asked is None or not case.asked.about_tasks or not self._named_only:
            return leg.edit
        owner = owner_of_case(case.authority, token)
        try:
            return await self._tasks.edit(request, case.asked, owner, client, leg.edit)
        except StoreUnavailable:
            raise refusals.undecided(case.asked, None) from None

    def _flow_of(self, request: Request, token: VerifiedToken | None) -> FlowOf:
        subject = _subject(token)
        return lambda principal, agent: self._sealer.place(request, principal_by_id(principal, agent, subject))

    def _refused(self, request: Request, error: AccreditError) -> bytes:
        self._counters.refused(error, method=request.method)
        return refusal(error).frame(request.id)

    @property
    def _judging(self) -> ProofSettings | None:
        return self._proofs if self._proofs is not None and self._proofs.required else None

    def _listed(self, method: str, authority: Authority | None, token: VerifiedToken | None) -> Edit | None:
        """What becomes of a list: what is told and shown of its items, and what is learned from it."""
        view, kind = self._view(authority, token), KINDS[method]
        if self._bearer is None and not view.edits(kind):
            return None
        return lambda response: self._edited(response, view, (kind,))

    def _edited(self, response: Success, view: ListView, kinds: Sequence[Kind]) -> bytes:
        if self._bearer is not None and KINDS["tools/list"] in kinds:
            self._bearer.learn(response.result)
        edited = [kind for kind in kinds if view.edits(kind)]
        return listed(response, view, *edited) if edited else response.text

    def _view(self, authority: Authority | None, token: VerifiedToken | None) -> ListView:
        proofs = self._proofs
        if proofs is None:
            return ListView(catalog=Catalog(), token=token)
        return ListView(
            catalog=proofs.policy.catalog,
            verifier_id=proofs.policy.verifier_id if proofs.required else "",
            binding=proofs.policy.binding if proofs.required else "",
            granted=authority.granted_scope if authority is not None and proofs.filter_tools else None,
            token=token,
        )


def owner_of_case(authority: Authority | None, token: VerifiedToken | None) -> bytes:
    """Whose the tasks are that come of a call."""
    if authority is None:
        return owner_of("", "", token)
    return owner_of(authority.principal_id, authority.agent_id, token)


def _id_on_record(call: OpenCall | None) -> str:
    return call.decided.call.id if call is not None and call.decided is not None else ""


def _subject(token: VerifiedToken | None) -> tuple[str, str] | None:
    return (token.issuer, token.subject) if token is not None else None


def _report(decision: Decision, fault: Exception) -> None:
    detail = excerpt(f"{fault!r}")
    log_event(_log, logging.ERROR, "decision_failed", method=decision.call.method, detail=detail, **traced())
