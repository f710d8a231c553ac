"""The one child that all modern clients share. `SharedUpstream` starts it; after each restart there is a new
`SharedChild`.

Each of its messages is for one client, and must never reach another:

- [request] a response goes to its requester. So does a progress notification, by its token, and a subscription's
  notification, by the subscription's id. Each gets back the id or token that its client gave;
- [log-messages] a log message names no request. It goes to the open request that asked for logging, if exactly one did;
- [other] anything else is dropped. A request of the child that is too long to be read is answered with the reason.

A client that disconnects cancels its request; nothing is resumed in this era. A client that does not read is cut off,
as the others do not wait for it.

Clients number their requests as they like, so each request gets a number of the gateway's own. This is also its
progress token and the name of its subscription. Only these members change; all others keep their text.

The child is started at the first request, and again after it died. The first restart is immediate. If the child dies
before it has answered anything, the wait for the next restart doubles each time. Meanwhile requests fail at once, so
that nobody waits for a server that fails to start.
"""

import asyncio
import itertools
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec import Raw

from accredit.attest import Outcome
from accredit.base.log_events import log_event
from accredit.errors import AnswerError, FrameError, MessageId, UpstreamUnavailable
from accredit.gateway.counters import Counters
from accredit.gateway.settings import GatewaySettings
from accredit.gateway.turns import turn
from accredit.gateway.upstream.large_answers import SERVER, AnswerReservation, LargeAnswers
from accredit.gateway.upstream.reply import Reply, WhileConnected
from accredit.gateway.upstream.stdio.child import Child
from accredit.gateway.upstream.stdio.conversation import Conversation, StreamCall
from accredit.gateway.upstream.stdio.pending_calls import Answered, Notified
from accredit.gateway.upstream.stdio.stream import Stream, answer
from accredit.jsonrpc.encode import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    to_json,
    with_members,
)
from accredit.jsonrpc.frames import Failure, Notification, Request, progress_token
from accredit.jsonrpc.methods import LISTEN, META_LOG_LEVEL, META_PROGRESS, META_SUBSCRIPTION, Era
from accredit.jsonrpc.objects import is_object, members, message_id
from accredit.jsonrpc.responses import Edit
from accredit.jsonrpc.tasks import subject_of, subscribed_tasks, without_state
from accredit.jsonrpc.text import check_structures
from accredit.limits import BACKOFF_FIRST_SECONDS, BACKOFF_MAX_SECONDS, MAX_CALLS, MAX_STREAMS
from accredit.telemetry.tracing import set_current_message, trace_field

SHARED_UNSENT_BYTES = 1_048_576
"""How many bytes may wait for one client of the shared child when more comes for it. If more wait, the client is cut
off, since the others must not wait for it."""


_log = logging.getLogger("accredit.gateway.stdio")

_MISSING_CAPABILITY = -32021
_STATUS = {
    METHOD_NOT_FOUND: 404,
    **dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS), 400),
    **dict.fromkeys((HEADER_MISMATCH, _MISSING_CAPABILITY, UNSUPPORTED_VERSION), 400),
}
"""The HTTP status for an error's code (2026-07-28, basic/transports); 200 for all others."""


class _SharedCall(StreamCall):
    """A request, under the child's number for it."""

    def __init__(
        self, request: Request, number: int, held: AnswerReservation | None = None, edit: Edit | None = None
    ) -> None:
        super().__init__(request, Stream(due=1, held=held), edit, number)
        self.number = number
        self.listens = request.method == LISTEN
        self.tasks = subscribed_tasks(request) if self.listens else ()
        self.wants_log = request.in_meta(META_LOG_LEVEL) is not None


class SharedChild(Conversation[_SharedCall]):
    """The child, from one start to its end. `proved` says that it has given a valid answer; `lost` is called when it
    ends."""

    def __init__(
        self,
        child: Child,
        settings: GatewaySettings,
        counters: Counters,
        *,
        lost: Callable[["SharedChild"], None],
    ) -> None:
        # Its clients were bounded before, with a reserve for authenticated ones (`gateway.room`).
        super().__init__(child, Era.MODERN, settings, counters, max_open=MAX_CALLS + MAX_STREAMS)
        self.proved = False
        self._on_lost = lost
        self._numbers = itertools.count(1)

    async def post(self, reply: Reply, request: Request, edit: Edit | None, held: AnswerReservation) -> None:
        """Forward a request and answer the client. Raises `AccreditError`."""
        call = _SharedCall(request, next(self._numbers), held, edit)
        if not self._pending.settings.guards:
            call.tasks = ()  # no caller's ownership was checked
        self._begin(call)
        call.record = reply.calls.take(request.id)
        try:
            with WhileConnected(reply):
                await self._send_call(call)
                await answer(reply, call.stream)
        finally:
            self._leave(reply, call)
            call.stream.leave()

    async def ask(self, request: Request, held: AnswerReservation | None = None) -> bytes | None:
        """Send one of the gateway's own requests; return the response's text, or None."""
        call = _SharedCall(request, next(self._numbers), held)
        return await self._ask(call, call.stream, lambda: self._send_call(call))

    def drain(self) -> None:
        """End the streams of subscriptions."""
        for call in self._pending.calls.values():
            if call.listens:
                call.stream.release()

    def _lost(self) -> None:
        self._on_lost(self)

    async def _send_call(self, call: _SharedCall) -> None:
        text = number_request(call.request, call.number, token=call.token is not None)
        await self._child.send(text, self._patience)

    async def _answer(self, answered: Answered[_SharedCall]) -> None:
        for call in answered.calls:
            await self._restore(call, answered)

    async def _restore(self, call: _SharedCall, answered: Answered[_SharedCall]) -> None:
        """Answer a call with its client's id."""
        frame = answered.frame
        try:
            await turn(len(answered.text))
            restored = restore_client_id(answered.text, call.request.id, subscription=call.listens)
        except FrameError as error:
            problem = AnswerError(error.detail)  # only observed, but the client's id can't be put in
            set_current_message(call.request)
            self._counters.refused(problem, method=call.request.method)
            self._fail(call, problem)
            return
        self.proved = self.proved or frame is not None
        status = _STATUS.get(frame.code, 200) if isinstance(frame, Failure) else 200
        await self._answered(call, call.stream, answered, restored, status=status)

    async def _notify(self, notified: Notified[_SharedCall]) -> None:
        """Route a notification ([request] to [other])."""
        notification, call = notified.notification, notified.call
        try:
            if call is not None and (token := progress_token(call.request)) is not None:
                self._send(call, with_param(notification, "progressToken", token))
            elif (call := self._subscriber(notification)) is not None:
                self._send(call, tag_subscription(without_state(notification), call.request.id))
            elif (call := self._logged(notification)) is not None:
                self._send(call, notification.text)
            elif (call := self._closed(notification)) is not None:
                self._pending.abandon(call)
                call.stream.release()
            else:
                self._drop(notification)
        except FrameError:
            self._drop(notification)

    def _subscriber(self, notification: Notification) -> _SharedCall | None:
        named = notification.in_meta(META_SUBSCRIPTION)
        call = self._pending.calls.get(message_id(named)) if named is not None else None
        if call is None or not call.listens or not self._concerns(notification, call):
            return None
        if call.deadline is not None:
            call.deadline.cancel()  # once acknowledged it may be silent for ever
        return call

    def _concerns(self, notification: Notification, call: _SharedCall) -> bool:
        """Return whether a subscription gets a notification: one about a task only if it names the task."""
        subject = subject_of(notification) if self._pending.settings.guards else None
        return subject is None or subject in call.tasks

    def _logged(self, notification: Notification) -> _SharedCall | None:
        if notification.method != "notifications/message":
            return None
        listening = [call for call in self._pending.calls.values() if call.wants_log]
        return listening[0] if len(listening) == 1 else None

    def _closed(self, notification: Notification) -> _SharedCall | None:
        # The one request that a server may cancel (2026-07-28, schema, CancelledNotification).
        call = self._pending.cancelled_by(notification)
        return call if call is not None and call.listens else None

    def _send(self, call: _SharedCall, text: bytes) -> None:
        if call.deadline is not None:
            call.deadline.touch()
        if call.stream.unsent <= SHARED_UNSENT_BYTES:
            try:
                call.stream.tell(text)
            except AnswerError as error:
                set_current_message(call.request)
                self._counters.refused(error, method=call.request.method)
            return
        set_current_message(call.request)
        log_event(_log, logging.WARNING, "client_cut_off", method=call.request.method, **trace_field())
        self._cancel(call, "the client does not read")
        self._settled(call, Outcome(status="cancelled", detail="the client does not read"), call.stream.release)

    def _drop(self, notification: Notification) -> None:
        self._counters.counts["notifications_dropped"] += 1
        log_event(_log, logging.DEBUG, "notification_dropped")


class SharedUpstream:
    """The current child, and what remains of earlier ones."""

    def __init__(
        self,
        settings: GatewaySettings,
        start: Callable[[], Coroutine[Any, Any, Child]],
        counters: Counters,
        large: LargeAnswers,
    ) -> None:
        """`start` starts a child. Raises `UpstreamUnavailable`."""
        self._settings = settings
        self._start_child = start
        self._counters = counters
        self._life: SharedChild | None = None
        self._lives: set[SharedChild] = set()
        self._starting = asyncio.Lock()
        self._deaths = 0
        self._not_before = 0.0
        self._large = large

    def go_by(self, settings: GatewaySettings) -> None:
        """Apply these settings from now on."""
        self._settings = settings
        for life in self._lives:
            life.go_by(settings)

    async def living(self) -> SharedChild:
        """Return the child, started if there is none. Raises `UpstreamUnavailable`."""
        async with self._starting:
            if self._life is not None:
                return self._life
            if self.resting():
                raise UpstreamUnavailable("the upstream has ended repeatedly, and is not started again yet")
            child = await self._start_child()
            life = self._life = SharedChild(child, self._settings, self._counters, lost=self._lost)
            life.line = self._large.of(SERVER)
            self._lives.add(life)
            life.over.add_done_callback(lambda _: self._lives.discard(life))
            return life

    def resting(self) -> bool:
        """Return whether the child died and waits to be restarted."""
        return self._life is None and asyncio.get_running_loop().time() < self._not_before

    def drain(self) -> None:
        """End the streams of subscriptions."""
        if self._life is not None:
            self._life.drain()

    async def aclose(self) -> None:
        """End the child, and the remains of earlier ones."""
        await asyncio.gather(*(life.aclose() for life in self._lives))

    def _lost(self, life: SharedChild) -> None:
        self._life = None
        self._deaths = 1 if life.proved else self._deaths + 1
        wait = min(BACKOFF_FIRST_SECONDS * 2 ** (self._deaths - 2), BACKOFF_MAX_SECONDS) if self._deaths > 1 else 0.0
        self._not_before = asyncio.get_running_loop().time() + wait


def number_request(request: Request, number: int, *, token: bool) -> bytes:
    """Return a client's request under its number. `token` says that it has a progress token."""
    renamed = request.with_id(number)
    return (renamed.with_meta({META_PROGRESS: Raw(b"%d" % number)}) if token else renamed).text


def restore_client_id(text: bytes, id: MessageId, *, subscription: bool) -> bytes:
    """Return a response, which may be invalid where answers are only observed, with the client's id put back.
    `subscription` says that the response may end a subscription; the id by which it names that is put back too. Raises
    `FrameError`."""
    check_structures(text)
    found = members(text)
    changes: dict[str, object] = {"id": id}
    result = found.get("result")
    if subscription and result is not None and is_object(result):
        outer = members(result)
        inner = members(outer["_meta"]) if is_object(outer.get("_meta")) else {}
        if META_SUBSCRIPTION in inner:
            named = Raw(with_members(inner, {META_SUBSCRIPTION: id}))
            changes["result"] = Raw(with_members(outer, {"_meta": named}))
    return with_members(found, changes)


def tag_subscription(notification: Notification, id: MessageId) -> bytes:
    """Return a notification with `id`, that of the client's subscribing request, as subscription id."""
    return notification.with_meta({META_SUBSCRIPTION: Raw(to_json(id))}).text


def with_param(notification: Notification, name: str, value: MessageId) -> bytes:
    """Return a notification with another value of one member of its params."""
    return notification.with_params({name: Raw(to_json(value))}).text
