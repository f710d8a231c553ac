"""Maps the names in messages between a client and several servers: in a server's messages (`ToClientMapper`) and
results (`result_edit`) for the client, and in a client's messages for their server (`addressee`). No I/O.

Of a server's message:

- [requests] a request's id and a progress token in it are mapped (`ids`), and so is the id of the request that it
  cancels. The id of an elicitation is not mapped: errors name it too, and it gives access to nothing;
- [progress] progress passes, with the client's token, if it is about a call that this server was given;
- [values] the URI of a resource, the id of a task and the name of a logger are mapped, with the server's name;
- [acknowledgement] the same values are mapped in the acknowledgement of a subscription.

Of a result, these are mapped, as clients may use them in requests:

- [uris] the URIs of embedded resources and resource links, in the `content` of a tool's result and in the messages of a
  prompt, and those of `contents` that were read. The URI in the error that answers a read is mapped too;
- [task-ids] a task's id wherever one is named: `task.taskId` (2025-11-25), `taskId` (SEP-2663) and `_meta`'s
  `related-task`. Lists of tasks are merged like all lists (`answers`);
- [nothing-else] nothing else is mapped: no `structuredContent`, no text, no address of an icon;
- [size] a result without such a URI stays byte for byte. A result with such a URI is invalid if it has more than
  `MAX_SPLIT_BYTES`, `MAX_LISTED_ITEMS` blocks or messages, or `MAX_MESSAGE_BLOCKS` blocks in a message.

So a server can't name another server's resource: each URI is mapped as its own. A client's answer goes back under the
server's own names. An answer with another server's task in it goes to no server. A notification that lacks the member
its method requires is dropped, as nothing tells who should get it. Parts without an id keep their bytes.
"""

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from msgspec import Raw

from accredit.base.steps import Steps
from accredit.errors import FrameError, MessageId
from accredit.gateway.upstream.merged.ids import ProgressTokens, inner_id, outer_id
from accredit.jsonrpc.arrays import RewrittenArray, elements
from accredit.jsonrpc.encode import to_json, with_members
from accredit.jsonrpc.frames import Failure, Notification, Request, Success, member_id
from accredit.jsonrpc.methods import CANCELLED, META_PROGRESS, TASK_MEMBER, TASK_METHODS, TASK_NOTIFICATION
from accredit.jsonrpc.objects import as_string, is_array, is_object, may_hold, may_name, members, message_id
from accredit.jsonrpc.responses import Edit
from accredit.jsonrpc.tasks import RELATED_TASK
from accredit.limits import ITEMS_AT_ONCE, MAX_MERGED_ITEMS, MAX_SPLIT_BYTES, SHORT_MESSAGE_BYTES
from accredit.policy.merging import member_of_name, merged_name, merged_uri

MAX_MESSAGE_BLOCKS = 4_096
"""The most blocks of one message of a prompt, if they name a resource. They are mapped in one step, some 10
microseconds each. Real messages have one."""

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
PROGRESS = "notifications/progress"
_CLIENTS_TASK = "notifications/tasks/status"
_URI = b'"uri"'
_TASK = TASK_MEMBER.encode("ascii")
_Mapped = Callable[[str, Raw], Raw]
_C = TypeVar("_C", Request, Notification)


class ToClientMapper:
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


def result_edit(server: str, method: str, outer: Edit | None) -> Edit | None:
    """Return the edit for one server's response to a request of this method; `outer` edits its result."""
    place = _PLACES.get(method)
    may_name_task = method in TASK_METHODS or method == "tools/call"
    if place is None and not may_name_task:
        return outer
    return _edit(server, dict([place] if place is not None else []), outer, tasks=may_name_task)


def resumed_edit(server: str, outer: Edit | None) -> Edit:
    """Return the edit for a response whose request is unknown: it maps whichever members it finds."""
    return _edit(server, dict(_PLACES.values()), outer, tasks=True)


def failure_edit(server: str, method: str) -> Callable[[bytes], bytes] | None:
    """Return the function that maps the URI in the error that answers a read (SEP-2164), or None for other methods."""
    return partial(_merged_failure, server) if method == "resources/read" else None


def _merged_failure(server: str, text: bytes) -> bytes:
    """Return a body with the URI in its `error.data` mapped; any other unchanged."""
    if len(text) > SHORT_MESSAGE_BYTES or not may_hold(Raw(text), b'"error"'):
        return text
    try:
        message = members(text)
        error = members(message.get("error", b""))
        data = members(error.get("data", b""))
    except FrameError:
        return text
    own = as_string(data.get("uri"))
    if own is None:
        return text
    mapped = Raw(with_members(data, {"uri": merged_uri(server, own)}))
    return with_members(message, {"error": Raw(with_members(error, {"data": mapped}))})


def _edit(server: str, places: Mapping[str, _Mapped], outer: Edit | None, *, tasks: bool) -> Edit:
    def edit(response: Success) -> Steps[bytes]:
        if places and may_hold(response.result, _URI):
            response = yield from _map_uris(server, places, response)
        if tasks and is_object(response.result) and may_hold(response.result, _TASK):
            response = _map_tasks(server, response)
        return (yield from outer(response)) if outer is not None else response.text

    return edit


def _map_uris(server: str, places: Mapping[str, _Mapped], response: Success) -> Steps[Success]:
    """Return the response with its URIs mapped. Raises `FrameError` if they are too many or too long ([size])."""
    yield
    for name, mapped in places.items():
        result = response.members()
        if name in result and may_hold(result[name], _URI):
            if len(result[name]) > MAX_SPLIT_BYTES:
                raise FrameError(f"{name} with URIs, of more than {MAX_SPLIT_BYTES} bytes", bound=True)
            yield
            response = yield from _with_mapped(server, response, result, name, mapped)
    return response


def _map_tasks(server: str, response: Success) -> Success:
    """Return the response with the ids of tasks mapped. Raises `FrameError`."""
    found = response.members()
    changes: dict[str, object] = {}
    task, meta = found.get("task"), found.get("_meta")
    if TASK_MEMBER in found:
        changes[TASK_MEMBER] = merged_task(server, found[TASK_MEMBER])
    if task is not None and is_object(task) and TASK_MEMBER in members(task):
        changes["task"] = with_task(server, task)
    if meta is not None and is_object(meta) and RELATED_TASK in (in_meta := members(meta)):
        changes["_meta"] = {**in_meta, RELATED_TASK: with_task(server, in_meta[RELATED_TASK])}
    if not changes:
        return response
    return response.with_result(found, changes)


def _with_mapped(
    server: str, response: Success, result: Mapping[str, Raw], name: str, mapped: _Mapped
) -> Steps[Success]:
    """Return the response with the URIs in one array mapped; itself if nothing changes. Raises `FrameError`."""
    if not is_array(result[name]):
        return response
    message = response.message()
    changed, most = False, len(response.text) + MAX_SPLIT_BYTES
    edited = RewrittenArray(name, message, result, response.id, most)
    for number, item in enumerate(elements(result[name], name)):
        if number % ITEMS_AT_ONCE == 0 or len(item) > SHORT_MESSAGE_BYTES:
            yield
        new = _mapped_item(server, item, mapped)
        changed = changed or new is not item
        edited.add(new)
    return edited.end() if changed else response


def _each(server: str, value: Raw) -> list[Raw] | Raw:
    """Return the blocks of a message with their URIs mapped; the value itself if nothing changes, or it is not an
    array."""
    if not is_array(value):
        return value
    items = elements(value, "content", MAX_MESSAGE_BLOCKS)
    changed = [_mapped_item(server, item, _block) for item in items]
    return value if all(map(operator.is_, items, changed)) else changed


def _mapped_item(server: str, item: Raw, mapped: _Mapped) -> Raw:
    return mapped(server, item) if is_object(item) and may_hold(item, _URI) else item


def _contents(server: str, item: Raw) -> Raw:
    """Return a resource's contents with its URI mapped."""
    found = members(item)
    own = as_string(found.get("uri"))
    return item if own is None else Raw(with_members(found, {"uri": merged_uri(server, own)}))


def _block(server: str, item: Raw) -> Raw:
    """Return a content block, with the URI of an embedded resource or a resource link mapped."""
    found = members(item)
    kind = as_string(found.get("type"))
    if kind == "resource_link":
        return _contents(server, item)
    resource = found.get("resource")
    if kind != "resource" or resource is None or not is_object(resource):
        return item
    new = _contents(server, resource)
    return item if new is resource else Raw(with_members(found, {"resource": new}))


def _message(server: str, item: Raw) -> Raw:
    """Return a prompt's message, whose content is one block or several, mapped."""
    found = members(item)
    content = found.get("content")
    if content is None:
        return item
    new = _block(server, content) if is_object(content) else _each(server, content)
    return item if new is content else Raw(with_members(found, {"content": new}))


_PLACES: Mapping[str, tuple[str, _Mapped]] = {
    "tools/call": ("content", _block),
    "tasks/result": ("content", _block),
    "prompts/get": ("messages", _message),
    "resources/read": ("contents", _contents),
}
"""The array with URIs in a result of each method, and the mapping of its items."""


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
    return elements(raw, "what should be an array", MAX_MERGED_ITEMS)
