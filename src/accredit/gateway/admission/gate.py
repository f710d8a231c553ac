"""The gate: decides whether a client's message is forwarded to the upstream, and in which form. Asks the ports; logs.

Every message of a client goes through `admit`, on every transport:

- [known-method] where proofs or tokens are required, a method must be known to its revision or to the configuration.
  Otherwise a request is refused, and a notification dropped. A method that a lenient reader could take for that of a
  guarded call is refused wherever calls are decided, counted or recorded;
- [tokens-removed] tokens are removed (`bearer`), so that proofs are bound to what is forwarded;
- [decision] each request is decided (`judge`). A refused one is answered here and not forwarded. Where definitions are
  pinned, each call of a tool is checked against them, whoever the caller is (`pinned_tools`);
- [state] a `requestState` that the client returns is opened (`request_state`). If it does not open, the request is
  refused;
- [own-tools] a call of one of the gateway's own tools is answered here (`policy.drill`). In any other call, credentials
  are removed, and the caller's authority is added (`policy.passing`);
- [edits] answers are edited: a list is filtered (`list_edits`), and the state in a request for input is sealed
  (`request_state`). An answer that announces a task is held back until the task's owner is stored (`tasks`).

Where calls are recorded, the decision on a guarded call ([decision] and [state]) is in the log before anything else
happens to the call (`recorder`).

Messages of a batch are decided one by one. Where proofs are only observed, [decision] refuses no call for its proof,
and [known-method] only logs what it would refuse. Everything else is as with proofs off: a call can still be refused
for lack of a token, and a client's own statements about its authorization are still removed. Who sent a message is
known before `admit`, and is in its `Call`.
"""

import logging
import operator
from collections.abc import Collection
from functools import partial

from accredit.base.log_events import log_event
from accredit.base.steps import Steps, at_one_go
from accredit.base.text import excerpt
from accredit.errors import (
    AccreditError,
    InsufficientScope,
    KeysUnavailable,
    ProofRefused,
    RequestError,
    StoreUnavailable,
    TokenError,
)
from accredit.gateway.admission.bearer import Bearer
from accredit.gateway.admission.guests import Guest, Guests
from accredit.gateway.admission.judge import Judge
from accredit.gateway.admission.list_edits import ListEdits
from accredit.gateway.admission.pinned_tools import PinnedTools
from accredit.gateway.admission.request_state import RequestStateSealer, brings_state, sealed_for
from accredit.gateway.admission.tasks import Hears, Tasks, of_resumed
from accredit.gateway.admission.tool_directory import ToolDirectory
from accredit.gateway.call import Call
from accredit.gateway.counters import Counters
from accredit.gateway.recording.early_refusals import AnonymousRecordBudget, EarlyRefusals
from accredit.gateway.recording.open_calls import OpenCall, OpenCalls, outcome_of
from accredit.gateway.recording.recorder import Recorder
from accredit.gateway.replies import refusal
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.turns import next_turn
from accredit.jsonrpc.encode import INVALID_REQUEST, METHOD_NOT_FOUND
from accredit.jsonrpc.frames import Frame, Notification, Request, Response, Success, member_id
from accredit.jsonrpc.methods import ALWAYS_KNOWN, MAY_NAME_TASKS, is_known, is_modern
from accredit.jsonrpc.requests import Batch
from accredit.jsonrpc.responses import Edit
from accredit.limits import SHORT_MESSAGE_BYTES
from accredit.policy import refusals
from accredit.policy.drill import DRILLS
from accredit.policy.drill_answers import drill_answer
from accredit.policy.guarded_call import GUARDED, LISTS, GuardedCall, looks_guarded
from accredit.policy.lists import KINDS
from accredit.policy.merging import member_of_name
from accredit.policy.passing import for_upstream, speaker_of
from accredit.ports import ProofStore, Revocations, TaskStore
from accredit.telemetry.operations import Meter
from accredit.telemetry.tracing import trace_field
from accredit.tokens.claims import VerifiedToken

_log = logging.getLogger("accredit.gateway.gate")
_HELLO = frozenset({"initialize", "server/discover"})
"""Methods whose answers contain the server's instructions."""
_REFUSALS = (ProofRefused, TokenError, KeysUnavailable, RequestError)


class _InForce:
    """Points to a server's current gate. The gates from before and after a reload share it."""

    def __init__(self, gate: "Gate") -> None:
        self.gate = gate


class Gate:
    """One per server. Raises `ConfigurationError` if the settings need a port that was not given."""

    def __init__(
        self,
        settings: GatewaySettings,
        counters: Counters,
        tools: ToolDirectory,
        *,
        store: ProofStore | None = None,
        revocations: Revocations | None = None,
        bearer: Bearer | None = None,
        recorder: Recorder | None = None,
        tasks: TaskStore | None = None,
        before: "Gate | None" = None,
        pinned: PinnedTools | None = None,
        strangers: AnonymousRecordBudget | None = None,
        meter: Meter | None = None,
        guests: Guests | None = None,
    ) -> None:
        """`before` is the server's previous gate, whose sessions, tasks and definitions are kept. `pinned`, if given,
        checks definitions in place of the check that this gate would make from its own settings' pins. `strangers` is
        as for `EarlyRefusals`. `meter` counts decisions. `guests` proves the calls of OAuth clients."""
        self._in_force = before._in_force if before is not None else _InForce(self)
        self._guards = settings.guards
        self._observes = settings.observes
        self._identity = settings.identity
        self._is_merged = bool(settings.members)
        if pinned is None and settings.pins is not None:
            pinned = before._looks_as(settings) if before is not None else None
            pinned = pinned or PinnedTools(settings.pins, counters)
        self._pinned = pinned
        asks_nothing = bearer is None and recorder is None and self._pinned is None and not settings.quotas.entries
        self._is_open = not (settings.guards or settings.observes) and asks_nothing
        self._tells = settings.tells_identity
        self._methods = ALWAYS_KNOWN | frozenset(settings.methods)
        self._counters = counters
        self._bearer = bearer
        self._recorder = recorder
        self._meter = meter
        self._tasks = Tasks(tasks, settings, counters, before._tasks if before is not None else None)
        self._sealer = RequestStateSealer(settings.rounds, settings.server)
        self._judge = Judge(settings, store, revocations, self._tasks, self._sealer, bearer, self._pinned, guests)
        self._lists = ListEdits(settings, tools)
        self.early_refusals = EarlyRefusals(recorder, bearer, counters, strangers)
        """Records requests that are refused before they reach `admit`."""

    async def admit(self, call: Call) -> None:
        """Decide what is done with a message, and store it in its call. Raises `RequestError` if that can't be
        decided."""
        message = call.message
        if isinstance(message, Batch):
            await self._admit_each(message, call)
            return
        try:
            if isinstance(message, Request):
                self._check_method(message, call)
            if self._bearer is not None and message is not None:
                message = self._bearer.without(message, call.brought)
            if message is None:
                return
            if not isinstance(message, Request):
                call.onward = await self._no_request(message, call)
            elif self._is_open:
                await self._pass(message, call)
            else:
                await self._decide(message, call)
        except _REFUSALS as error:
            lacks_scope = isinstance(error, InsufficientScope) and isinstance(call.token, Guest)
            in_head = lacks_scope or (isinstance(error, RequestError) and error.status != 200)
            if not isinstance(message, Request) or in_head:
                raise
            self._counters.refused(error, method=message.method)
            call.replies = (_refusal_of(message, error),)
            return
        if isinstance(message, Request) and _log.isEnabledFor(logging.DEBUG):
            log_event(_log, logging.DEBUG, "request_passed", method=message.method, **trace_field())

    @property
    def pinned(self) -> PinnedTools | None:
        """Checks the server's tools against its pinned definitions, if there are any."""
        return self._pinned

    def begin(self) -> None:
        """Take effect: from now on open streams use this gate, whichever gate admitted them."""
        self._in_force.gate = self

    def _looks_as(self, settings: GatewaySettings) -> PinnedTools | None:
        """Return this gate's check of definitions, with what it has learned, for use with new `settings`. Return None
        if these have other pins, or another `identity`."""
        same = self._pinned is not None and self._pinned.pins == settings.pins and self._identity == settings.identity
        return self._pinned if same else None

    def hears(self, session_id: str, ids: Collection[str] = ()) -> Hears | None:
        """Return the filter of a stream's notifications, or None if all may pass. It depends on the stream's session
        and on the tasks (`ids`) that its requests name."""
        return partial(self._tasks.heard, session_id, ids) if self._guards else None

    def always_hears(self, session_id: str, ids: Collection[str] = ()) -> Hears:
        """Return a filter like that of `hears` for a standing stream. For each notification it asks the gate in force
        at that time. If nothing is guarded now, `ids` are ignored, even when a later gate guards tasks."""
        in_force, ids = self._in_force, ids if self._guards else ()

        def hears(notification: Notification) -> Notification | None:
            now = in_force.gate.hears(session_id, ids)
            return notification if now is None else now(notification)

        return hears

    def otherwise(self, token: VerifiedToken | None, calls: OpenCalls) -> Edit:
        """Return the edit for responses in a resumed stream. Each response is edited by the gate in force at that time.
        `token` is the token of the request that resumed the stream."""
        in_force = self._in_force
        return lambda response: in_force.gate._resumed(response, token, calls)

    def _resumed(self, response: Success, token: VerifiedToken | None, calls: OpenCalls) -> Steps[bytes]:
        """Edit a response in a resumed stream. If it answers one of `calls` that has an edit, use that. Otherwise its
        request is unknown, and it is edited without that knowledge."""
        edit = self._lists.of_unknown(token)
        if not self._guards:
            return (yield from edit(response))
        call = calls.get(response.id)
        if call is not None and call.edit is not None:
            return (yield from call.edit(response))
        return (yield from of_resumed(response, (yield from edit(response))))

    def resumed(self, session_id: str) -> OpenCalls:
        """Return the calls whose answers may come in a stream resumed in this session."""
        return (self._recorder or self._tasks.unrecorded).in_session(session_id)

    def refused_early(self, message: Frame | Batch | None, error: AccreditError) -> None:
        """Count the decisions on a message that was refused before `admit`. A message that was not even read, as its
        request had no valid token, counts as one decision."""
        if self._meter is None:
            return
        if message is None and isinstance(error, TokenError | KeysUnavailable):
            self._meter.decided(None, error)
        for frame in message.frames if isinstance(message, Batch) else (message,):
            if isinstance(frame, Request) and not self._is_open:
                self._count(frame, error)

    def _count(self, request: Request, refused: AccreditError | None) -> None:
        if self._meter is not None and request.method in GUARDED:
            self._meter.decided(request.watcher, refused)

    def _is_known(self, method: str, call: Call) -> bool:
        """Return whether the method is known to the revision or named by the configuration ([known-method])."""
        judged = self._guards or self._observes
        return not judged or method in self._methods or is_known(method, call.revision)

    def _check_method(self, request: Request, call: Call) -> None:
        """Refuse a request whose method is unknown, or only resembles that of a guarded call ([known-method]). Raises
        `RequestError`."""
        resembles = not self._is_open and request.method not in GUARDED and looks_guarded(request.method)
        if not resembles and self._is_known(request.method, call):
            return
        # In sessions a status of 404 means that the session is gone.
        status = 404 if call.revision is not None and is_modern(call.revision) else 200
        error = RequestError(METHOD_NOT_FOUND, "Method not found", id=request.id, status=status)
        if self._guards or resembles:
            raise error
        self._counters.refused(error, method=excerpt(request.method), observed=True)

    async def _no_request(self, message: Notification | Response, call: Call) -> Frame | None:
        """Return a notification or response in the form in which it is forwarded, or None to drop it. Raises
        `RequestError`."""
        if await self._judge.settles(message, call):
            return None
        return self._notification(message, call) if isinstance(message, Notification) else message

    def _notification(self, notification: Notification, call: Call) -> Notification | None:
        if self._recorder is not None and notification.method == "notifications/cancelled":
            self._recorder.taken_back(call.session, member_id(notification, "requestId"))
        guarded = (not self._is_open and looks_guarded(notification.method)) or self._is_own_tool(notification)
        if brings_state(notification) or guarded:
            # A server might act on it, though no answer is expected.
            raise RequestError(INVALID_REQUEST, "Invalid Request: a call needs an id")
        if self._guards and not self._is_known(notification.method, call):
            self._counters.dropped(notification.method)
            return None
        return for_upstream(notification, judged=self._judge.of_proofs)

    async def _admit_each(self, batch: Batch, call: Call) -> None:
        """Decide each message of a batch, and store the results for the whole batch in its call. An error that concerns
        one message is not raised, but becomes its response."""
        kept: list[Frame] = []
        for frame, one in zip(batch.frames, call.each(), strict=True):
            one.way = call.way
            try:
                if len(batch.text) > SHORT_MESSAGE_BYTES:
                    await next_turn()
                await self.admit(one)
            except RequestError as error:
                self._counters.refused(error)
                one.replies = (_refusal_of(frame, error),)
            except BaseException:
                call.open_calls.add_all(one.open_calls)
                call.open_calls.drop()
                raise
            call.replies += one.replies
            call.open_calls.add_all(one.open_calls)
            call.proved = call.proved or one.proved
            call.tasks += one.tasks
            if one.onward is not None and not isinstance(one.onward, Batch):
                kept.append(one.onward)
        if len(kept) == len(batch.frames) and all(map(operator.is_, batch.frames, kept)):
            call.onward = batch
        elif kept:
            call.onward = Batch(tuple(kept), b"[" + b",".join(frame.text for frame in kept) + b"]")

    async def _pass(self, request: Request, call: Call) -> None:
        """Admit a request where callers need no authority and nothing is recorded ([state] to [edits]). Raises
        `RequestError`, and `ProofRefused`."""
        if request.size > SHORT_MESSAGE_BYTES:
            await next_turn()
        self._check_own_tools(request)
        onward = self._sealer.open(request, call)
        if request.method in KINDS:
            call.edit = self._lists.of(request.method, None, None)
        call.onward = for_upstream(onward, judged=False, tell=False)

    async def _decide(self, request: Request, call: Call) -> None:
        """Decide a request ([decision] to [edits]). Raises `ProofRefused`, `RequestError`, and the error that the call
        has for its caller's token, if any."""
        onward, refused = request, None
        try:
            onward = await self._authorize(request, call)
        except _REFUSALS as error:
            refused = error
        try:
            opened = await self._record(request, call, refused)
        except AccreditError as error:
            self._count(request, error)
            raise
        self._count(request, refused)
        if call.instead is not None:
            call.replies = (call.instead,)
            return
        if refused is not None:
            raise refused
        if call.observed is not None:
            self._counters.refused(call.observed, method=request.method, observed=True)
        if self._is_own_tool(request):  # `_authorize` has refused it if it is not there
            call.replies = (await _answer_drill(request, call),)
            return
        if request.method == "tools/call":
            self._tasks.watch_answer(request, call, opened)
        # A caller that enforcement would refuse hears of no task once it is switched on.
        is_shown = self._guards or call.observed is None
        if request.method in MAY_NAME_TASKS and call.guarded is not None and is_shown:
            call.tasks = call.guarded.tasks
            self._tasks.named(call.session, call.tasks)
        call.proved = call.authority is not None
        id_on_record = opened.decided.call.id if opened is not None and opened.decided is not None else ""
        call.speaker = speaker_of(request, call.authority, call.token, id_on_record)
        call.onward = for_upstream(
            onward, judged=self._judge.of_proofs, authority=call.authority, token=call.token, tell=self._tells
        )

    async def _authorize(self, request: Request, call: Call) -> Request:
        """Judge a request ([decision] to [edits]). Return it in the form in which it is forwarded. Raises the error
        that refuses it."""
        is_long = request.size > SHORT_MESSAGE_BYTES
        if is_long:
            await next_turn()
        self._check_caller(request, call)
        self._check_own_tools(request)
        await self._judge.judge(request, call)
        if call.refusal is not None:
            raise call.refusal
        if is_long:
            await next_turn()
        onward = self._sealer.open(request, call, sealed_for(call))
        call.edit = await self._edit(request, call)
        return onward

    def _check_own_tools(self, request: Request) -> None:
        """Refuse a call of one of the gateway's own tools if there is no such tool here. Raises `ProofRefused`.

        The gateway has such tools only where proofs are judged. At a merged endpoint they don't exist under the name of
        a member.
        """
        if not self._is_own_tool(request):
            return
        if request.target not in DRILLS or not self._judge.of_proofs:
            raise refusals.unknown_target(GuardedCall(request.method, request.target or "", "", b"", None, None))

    def _is_own_tool(self, call: Request | Notification) -> bool:
        """Return whether a call is for one of the gateway's own tools (`policy.drill`)."""
        if call.method != "tools/call" or call.target is None:
            return False
        member = member_of_name(call.target) if self._is_merged else None
        return call.target in DRILLS or (member is not None and member.own in DRILLS)

    def _check_caller(self, request: Request, call: Call) -> None:
        """Raise the error that the call has for its caller's token. If there is none, raise the refusal of a guarded
        call or a list without a token."""
        if call.error is not None:
            raise call.error
        needs_token = request.method in GUARDED or request.method in LISTS
        if needs_token and call.token is None and self._bearer is not None:
            self._bearer.require(None)

    async def _record(self, request: Request, call: Call, refused: AccreditError | None) -> OpenCall | None:
        """Record the decision, and return the call if it is open from now on. Raises `ProofRefused` for an allowed call
        that could not be recorded. A refused call keeps its own refusal, whether or not that could be recorded."""
        if self._recorder is None or request.method not in GUARDED:
            return None
        if request.size > SHORT_MESSAGE_BYTES:
            await next_turn()
        try:
            opened = await self._recorder.begin(request, call, refused)
        except ProofRefused:
            if refused is None:
                raise
            self._counters.unrecorded(logged=True)
            return None
        call.open_calls.add(opened)
        return opened

    async def _edit(self, request: Request, call: Call) -> Edit | None:
        """Return the edit for the response. Raises `ProofRefused` if the store can't tell the owner of a task."""
        pinned = self._pinned
        if request.method in KINDS:
            authority, token = call.authority, call.token
            on_other = (pinned.on_other(request, call.way, authority, token),) if pinned is not None else ()
            return self._lists.of(request.method, authority, token, *on_other)
        if pinned is not None and request.method in _HELLO:
            return pinned.hello
        if call.guarded is None or request.method not in MAY_NAME_TASKS or not self._guards:
            return call.edit
        try:
            return await self._tasks.edit(request, call.guarded, call)
        except StoreUnavailable:
            raise refusals.no_decision(call.guarded, None) from None


def _refusal_of(frame: Frame, error: AccreditError) -> bytes:
    """Return the response that refuses a message, and end its measurement."""
    if isinstance(frame, Request):
        frame.failed(error)
    error.let_go()
    return refusal(error).frame(frame.id if isinstance(frame, Request) else None)


async def _answer_drill(request: Request, call: Call) -> bytes:
    """Return the answer to a call of one of the gateway's own tools, once its outcome is on record."""
    answer = drill_answer(request, call.round)
    text = at_one_go(call.edit(answer)) if call.edit is not None else answer.text
    if request.watcher is not None:
        request.watcher.answered(answer)
    opened = call.open_calls.take(request.id)
    withheld = await opened.settle(await outcome_of(answer)) if opened is not None else None
    return text if withheld is None else withheld
