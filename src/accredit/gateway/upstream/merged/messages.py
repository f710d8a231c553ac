"""Maps what passes between a client and several servers beside the results of requests: a server's messages (`Outward`)
and events (`EventMapper`) for the client, and a client's messages for their server (`addressee`). No I/O.

Of a server's message:

- [requests] a request's id and a progress token in it are mapped (`ids`), and so is the id of the request that it
  cancels. The id of an elicitation stays: errors name it too, and it gives access to nothing;
- [progress] progress passes, with the client's token, if it is about a call that this server was given;
- [values] the URI of a resource, the id of a task and the name of a logger are mapped, with the server's name;
- [acknowledgement] the same values are mapped in the acknowledgement of a subscription.

Of an event of a server's stream:

- [answers] An answer's text stays: it was mapped where it was judged (`results`). On a resumed stream it passes if it
  answers the stream's own request. Other messages are mapped, or dropped. A request whose id could not be kept apart is
  dropped too; its server waits in vain.
- [event-ids] The id becomes one of the merged endpoint, or is left out if that would be too long.
- [dropped] Notifications that `hears` refuses (others' tasks) are dropped. So are those that name another subscription
  than the stream's.
- [shared-stream] On a stream shared by several servers, neither answers nor comments of a server pass: an answer does
  not end the stream, and comments are the gateway's own.

A client's answer goes back under the server's own names. An answer with another server's task in it goes to no server.

A notification that lacks the member its method requires is dropped, as nothing tells who should get it. Parts without
an id keep their bytes.
"""

import contextlib
import logging
from collections.abc import Callable
from typing import TypeVar

from msgspec import Raw

from accredit.base.log_events import log_event
from accredit.base.steps import Steps, at_one_go
from accredit.errors import FrameError, MessageId
from accredit.gateway.counters import Counters
from accredit.gateway.turns import in_turns, next_turn
from accredit.gateway.upstream.merged.ids import ProgressTokens, inner_id, outer_id
from accredit.jsonrpc.arrays import elements
from accredit.jsonrpc.encode import to_json, with_members
from accredit.jsonrpc.frames import (
    MESSAGE,
    Failure,
    Notification,
    Request,
    Success,
    decode_frame_in_steps,
    frame_of,
    member_id,
    message_id,
    message_in_steps,
)
from accredit.jsonrpc.long_text import may_hold_any
from accredit.jsonrpc.methods import CANCELLED, META_PROGRESS, META_SUBSCRIPTION, TASK_MEMBER, TASK_NOTIFICATION
from accredit.jsonrpc.objects import as_string, is_object, may_name, members, unambiguous_members
from accredit.jsonrpc.sse import Event, SseParser, encode_event, pieces
from accredit.jsonrpc.tasks import RELATED_TASK
from accredit.limits import LONG_ANSWER_BYTES, MAX_MERGED_ITEMS, SHORT_MESSAGE_BYTES
from accredit.policy.merging import member_of_name, merged_name, merged_uri

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
PROGRESS = "notifications/progress"
_CLIENTS_TASK = "notifications/tasks/status"
_ID_LINE = (b"id:", b"id\r", b"id\n")
_log = logging.getLogger("accredit.gateway.merged")

Hears = Callable[[Notification], Notification | None]
_C = TypeVar("_C", Request, Notification)


class Outward:
    """Maps messages of the server `name` for the client. `tokens` are the client's progress tokens at that server."""

    def __init__(self, name: str, tokens: ProgressTokens) -> None:
        self._name = name
        self._tokens = tokens
        self._params: dict[str, tuple[str, Callable[[Raw], Raw | None]]] = {
            PROGRESS: ("progressToken", self._progress),
            CANCELLED: ("requestId", self._id),
            "notifications/resources/updated": ("uri", self._uri),
            _CLIENTS_TASK: (TASK_MEMBER, self._task),
            TASK_NOTIFICATION: (TASK_MEMBER, self._task),
            ACKNOWLEDGED: ("notifications", self._subscribed),
        }

    def request(self, request: Request) -> Request:
        """Return a server's request in the client's form. Raises `FrameError`."""
        request = request.with_id(outer_id(self._name, request.id))
        token = request.in_meta(META_PROGRESS)
        if token is not None:
            request = request.with_meta({META_PROGRESS: self._id(token)})
        return self._related(request)

    def notification(self, notification: Notification) -> Notification | None:
        """Return a server's notification in the client's form, or None to drop it."""
        try:
            notification = self._related(notification)
            if notification.method == "notifications/message":
                logger = as_string(notification.members.get("logger"))
                told = f"{self._name}/{logger}" if logger else self._name
                return notification.with_params({"logger": Raw(to_json(told))})
            named = self._params.get(notification.method)
            if named is None:
                return notification
            member, outside = named
            value = notification.members.get(member)
            if value is None and notification.method == ACKNOWLEDGED:
                return notification
            seen = outside(value) if value is not None else None
            return notification.with_params({member: seen}) if seen is not None else None
        except FrameError:
            return None

    def _related(self, call: _C) -> _C:
        related = call.in_meta(RELATED_TASK)
        if related is None:
            return call
        return call.with_meta({RELATED_TASK: with_task(self._name, related)})

    def _progress(self, token: Raw) -> Raw | None:
        own = self._tokens.inside_out(message_id(token))
        return Raw(to_json(own)) if own is not None else None

    def _id(self, id: Raw) -> Raw:
        return Raw(to_json(outer_id(self._name, message_id(id))))

    def _uri(self, uri: Raw) -> Raw | None:
        text = as_string(uri)
        return Raw(to_json(merged_uri(self._name, text))) if text is not None else None

    def _task(self, task: Raw) -> Raw | None:
        text = as_string(task)
        return Raw(to_json(merged_name(self._name, text))) if text else None

    def _subscribed(self, subscribed: Raw) -> Raw:
        kept: dict[str, object] = {**members(subscribed)}
        for member, outside in (("resourceSubscriptions", self._uri), ("taskIds", self._task)):
            if member in kept:
                texts = list_of(members(subscribed)[member])
                kept[member] = [seen for text in texts if (seen := outside(text)) is not None]
        return Raw(to_json(kept))


class EventMapper:
    """Maps the bytes of a server's stream to bytes for the client. `id_outside` maps an event's id.

    `subscription` is the id of the request that opened the stream, if that is a subscription. `may_answer` returns
    whether the stream may answer the request with an id. On a shared stream, `answered` gets the text of each answer
    ([shared-stream]). `seen` gets each notification for the client, and returns whether it passes.
    """

    def __init__(
        self,
        outward: Outward,
        id_outside: Callable[[bytes], bytes | None],
        *,
        max_event_bytes: int,
        counters: Counters,
        hears: Hears | None = None,
        subscription: MessageId | None = None,
        may_answer: Callable[[MessageId], bool] | None = None,
        answered: Callable[[bytes], None] | None = None,
        seen: Callable[[Notification], bool] | None = None,
    ) -> None:
        self._outward = outward
        self._id_outside = id_outside
        self._parser = SseParser(max_event_bytes)
        self._counters = counters
        self._hears = hears
        self._subscription = subscription
        self._may_answer = may_answer
        self._answered = answered
        self._seen = seen

    def feed(self, chunk: bytes) -> bytes:
        """Map a stream's next bytes. Raises `AnswerError` if a bound is exceeded."""
        return b"".join(at_one_go(self._mapped(event)) for event in self._parser.feed(chunk))

    async def feed_in_turns(self, chunk: bytes) -> bytes:
        """Map a stream's next bytes as `feed` does, in turns if they are many."""
        if len(chunk) <= SHORT_MESSAGE_BYTES:
            return self.feed(chunk)
        mapped: list[bytes] = []
        for piece in pieces(chunk):
            await next_turn()
            mapped += [await in_turns(self._mapped(event)) for event in self._parser.feed(piece)]
        return b"".join(mapped)

    def _mapped(self, event: Event) -> Steps[bytes]:
        if not event.data:
            return self._without_data(event)
        found = yield from self._members(event.data)
        yield
        if "method" not in found:
            return (yield from self._answer(event, event.data))
        try:
            call = frame_of(found, event.data)
            mapped = (yield from self._call(call)) if isinstance(call, Request | Notification) else None
        except FrameError:
            mapped = None  # an error here would come again whenever the stream is resumed
        if mapped is None:
            self._counters.counts["notifications_dropped"] += 1
            return self._place(event)
        yield
        text = mapped.text
        yield
        return encode_event(text, name=event.name, id=self._id(event))

    def _members(self, text: bytes) -> Steps[dict[str, Raw]]:
        """Return the members of a message that may be a call; none if it is invalid and only observed."""
        try:
            if not (yield from may_hold_any(Raw(text), b"method")):
                return {}
            if len(text) > LONG_ANSWER_BYTES:
                return (yield from message_in_steps(text))
            return unambiguous_members(text, MESSAGE)
        except FrameError:
            return {}

    def _call(self, call: Request | Notification) -> Steps[Request | Notification | None]:
        if isinstance(call, Request):
            return self._outward.request(call)
        mapped = self._outward.notification(call)
        yield
        if mapped is None or self._is_of_another(mapped) or (self._seen is not None and not self._seen(mapped)):
            return None
        if self._hears is None:
            return mapped
        yield
        return self._hears(mapped)

    def _is_of_another(self, notification: Notification) -> bool:
        """Return whether a notification names another subscription than the stream's."""
        named = notification.in_meta(META_SUBSCRIPTION)
        return named is not None and message_id(named) != self._subscription

    def _answer(self, event: Event, text: bytes) -> Steps[bytes]:
        if self._answered is None:
            return self._with_id(event) if (yield from self._is_due(text)) else self._place(event)
        self._answered(text)
        return self._place(event)

    def _is_due(self, text: bytes) -> Steps[bool]:
        if self._may_answer is None:
            return True
        with contextlib.suppress(FrameError):
            response = yield from decode_frame_in_steps(text)
            if isinstance(response, Success | Failure) and response.id is not None and self._may_answer(response.id):
                return True
        log_event(_log, logging.WARNING, "response_dropped", detail="it answers what another server was asked")
        return False

    def _without_data(self, event: Event) -> bytes:
        """Return a comment, or an event with an id only."""
        if event.id is not None:
            return self._place(event) if self._answered is not None else self._with_id(event)
        return b"" if self._answered is not None else event.raw

    def _with_id(self, event: Event) -> bytes:
        if event.id is None:
            return event.raw
        id = self._id(event)
        lines = event.raw.splitlines(keepends=True)
        bare = b"".join([line for line in lines if not line.startswith(_ID_LINE)])
        return b"id: %s\n%s" % (id, bare) if id is not None else bare

    def _place(self, event: Event) -> bytes:
        """Return an event that only marks the stream's position."""
        id = self._id(event)
        return b"id: %s\n\n" % id if id is not None else b""

    def _id(self, event: Event) -> bytes | None:
        return self._id_outside(event.id) if event.id else None


def addressee(message: Success | Failure | Notification) -> tuple[str, Success | Failure | Notification] | None:
    """Return the server that a client's message is for, and the message in that server's form. Return None if it is for
    all.

    A response goes to the server whose request it answers, and so does progress. A cancellation does not name its
    server: only the code that forwarded the request knows. Raises `FrameError` for a message to one server that does
    not say which.
    """
    if isinstance(message, Notification):
        if message.method == _CLIENTS_TASK:
            raise FrameError("of a client's task nobody knows whose it is")
        if message.method != PROGRESS:
            return None
        found = inner_id(member_id(message, "progressToken"))
        if found is None:
            raise FrameError("progress of no server's request")
        inner = message.with_params({"progressToken": Raw(to_json(found[1]))})
        related = message.in_meta(RELATED_TASK)
        return found[0], inner.with_meta({RELATED_TASK: _own_task(found[0], related)}) if related is not None else inner
    found = inner_id(message.id)
    if found is None:
        raise FrameError("a response to no server's request")
    name, id = found
    if isinstance(message, Success):
        result = _with_own_task(name, message.result)
        return name, Success(id, result, with_members(members(message.text), {"id": id, "result": result}))
    text = with_members(members(message.text), {"id": id})
    return name, Failure(id, message.code, message.message, message.error, text)


def cancelled_id(notification: Notification) -> MessageId | None:
    """Return the id of the request that a cancellation names, or None."""
    return member_id(notification, "requestId") if notification.method == CANCELLED else None


def merged_task(name: str, own: Raw | None) -> str:
    """Return the client's id of a server's task. Raises `FrameError`."""
    task = as_string(own)
    if not task:
        raise FrameError("a task without an id")
    return merged_name(name, task)


def with_task(name: str, named: Raw) -> Raw:
    """Return an object with the server's `taskId` replaced by the client's. Raises `FrameError`."""
    found = members(named) if is_object(named) else {}
    return Raw(with_members(found, {TASK_MEMBER: merged_task(name, found.get(TASK_MEMBER))}))


def _with_own_task(name: str, result: Raw) -> Raw:
    """Return a client's result with its related task's id replaced by the server's own."""
    if not is_object(result) or not may_name(result, TASK_MEMBER.encode()):
        return result
    found = members(result)
    meta = found.get("_meta")
    in_meta = members(meta) if meta is not None and is_object(meta) else {}
    if RELATED_TASK not in in_meta:
        return result
    own = {**in_meta, RELATED_TASK: _own_task(name, in_meta[RELATED_TASK])}
    return Raw(with_members(found, {"_meta": own}))


def _own_task(name: str, named: Raw) -> Raw:
    found = members(named) if is_object(named) else {}
    member = member_of_name(as_string(found.get(TASK_MEMBER)) or "")
    if member is None or member.server != name or not member.own:
        raise FrameError("a task that is not the server's")
    return Raw(with_members(found, {TASK_MEMBER: member.own}))


def list_of(raw: Raw) -> list[Raw]:
    """Return the elements of a subscription's array. Raises `FrameError`."""
    return at_one_go(elements(raw, "what should be an array", MAX_MERGED_ITEMS))
