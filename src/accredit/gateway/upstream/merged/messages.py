"""Maps messages other than answers between a client and several servers: a server's for the client (`Outward`), and a
client's for its server (`addressee`). No I/O.

Of a server's message:

1. a request's id and a progress token in it are mapped (`ids`), and so is the id of the request that it cancels. The id
   of an elicitation stays: errors name it too, and it opens nothing;
2. progress passes if it is of a call that this server was given, with the client's token;
3. the URI of a resource, the id of a task and the name of a logger are mapped, with the server's name;
4. so are those in the acknowledgement of a subscription.

A client's answer goes back under the server's own names, and to no server with another's task in it.

A notification that lacks the member its method requires is dropped: nothing tells its recipient. Parts without an id
keep their bytes.
"""

from collections.abc import Callable
from typing import TypeVar

from msgspec import Raw

from accredit.base.steps import at_one_go
from accredit.errors import FrameError, MessageId
from accredit.gateway.upstream.merged.ids import ProgressTokens, inner_id, outer_id
from accredit.jsonrpc.arrays import elements
from accredit.jsonrpc.encode import to_json, with_members
from accredit.jsonrpc.frames import Failure, Notification, Request, Success, message_id
from accredit.jsonrpc.methods import META_PROGRESS, TASK_MEMBER, TASK_NOTIFICATION
from accredit.jsonrpc.objects import as_string, is_object, may_name, members
from accredit.jsonrpc.tasks import RELATED_TASK
from accredit.limits import MAX_MERGED_ITEMS
from accredit.policy.merging import member_of_name, merged_name, merged_uri

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
_CLIENTS_TASK = "notifications/tasks/status"

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


def addressee(message: Success | Failure | Notification) -> tuple[str, Success | Failure | Notification] | None:
    """Return a client's message's server and the message in its form; None for a message to all.

    A response goes to the server whose request it answers, and so does progress. A cancellation does not name its
    server: only the code that forwarded the request knows. Raises `FrameError` for a message to one server that does
    not say which.
    """
    if isinstance(message, Notification):
        if message.method == _CLIENTS_TASK:
            raise FrameError("of a client's task nobody knows whose it is")
        if message.method != PROGRESS:
            return None
        found = inner_id(_id_in(message, "progressToken"))
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
    return _id_in(notification, "requestId") if notification.method == CANCELLED else None


def with_task(name: str, named: Raw) -> Raw:
    """Return an object with the server's `taskId` replaced by the client's. Raises `FrameError`."""
    found = members(named) if is_object(named) else {}
    task = as_string(found.get(TASK_MEMBER))
    if not task:
        raise FrameError("a task without an id")
    return Raw(with_members(found, {TASK_MEMBER: merged_name(name, task)}))


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


def _id_in(notification: Notification, member: str) -> MessageId | None:
    try:
        raw = notification.members.get(member)
        return message_id(raw) if raw is not None else None
    except FrameError:
        return None
