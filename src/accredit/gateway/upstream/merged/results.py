"""Maps the URIs and the ids of tasks in one server's results for the client of several. No I/O.

- [uris] These URIs are mapped, as clients may use them in requests: those of embedded resources and resource links, in
  the `content` of a tool's result and in the messages of a prompt, and those of `contents` that were read. The URI in
  the error that answers a read is mapped too.
- [nothing-else] Nothing else is mapped: neither `structuredContent`, nor what a text says, nor the address of an icon.
- [size] A result without such a URI stays byte for byte. A result with such a URI is invalid if it has more than
  `MAX_SPLIT_BYTES`, or `MAX_LISTED_ITEMS` blocks.
- [task-ids] A task's id is mapped wherever one is named: `task.taskId` (2025-11-25), `taskId` (SEP-2663) and `_meta`'s
  `related-task`. Lists of tasks are merged like all lists.

So a server can't name another server's resource: each URI is taken for its own.
"""

import operator
from collections.abc import Callable, Mapping
from functools import partial

from msgspec import Raw

from accredit.base.steps import Steps
from accredit.errors import FrameError
from accredit.gateway.upstream.merged.messages import merged_task, with_task
from accredit.jsonrpc.arrays import RewrittenArray, elements
from accredit.jsonrpc.brackets import check_brackets
from accredit.jsonrpc.encode import with_members
from accredit.jsonrpc.frames import Success
from accredit.jsonrpc.long_text import may_hold_any, object_in_steps
from accredit.jsonrpc.methods import TASK_MEMBER, TASK_METHODS
from accredit.jsonrpc.objects import as_string, is_array, is_object, may_hold, members
from accredit.jsonrpc.responses import Edit
from accredit.jsonrpc.tasks import RELATED_TASK
from accredit.limits import ITEMS_AT_ONCE, MAX_SPLIT_BYTES, SHORT_MESSAGE_BYTES
from accredit.policy.merging import merged_uri

_URI = b'"uri"'
_TASK = TASK_MEMBER.encode("ascii")
_Mapped = Callable[[str, Raw], Steps[Raw]]


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
    """Return what maps the URI in the error that answers a read (SEP-2164), or None for other methods."""
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
        if places and (yield from may_hold_any(response.result, _URI)):
            response = yield from _map_uris(server, places, response)
        if tasks and is_object(response.result) and (yield from may_hold_any(response.result, _TASK)):
            response = yield from _map_tasks(server, response)
        return (yield from outer(response)) if outer is not None else response.text

    return edit


def _map_uris(server: str, places: Mapping[str, _Mapped], response: Success) -> Steps[Success]:
    """Return the response with its URIs mapped. Raises `FrameError` by [size]."""
    yield
    for name, mapped in places.items():
        result = yield from response.members()
        if name in result and (yield from may_hold_any(result[name], _URI)):
            if len(result[name]) > MAX_SPLIT_BYTES:
                raise FrameError(f"{name} with URIs, of more than {MAX_SPLIT_BYTES} bytes", bound=True)
            yield from check_brackets(result[name], f"{name} with URIs")
            yield
            response = yield from _with_mapped(server, response, result, name, mapped)
    return response


def _map_tasks(server: str, response: Success) -> Steps[Success]:
    """Return the response with the ids of tasks mapped. Raises `FrameError`."""
    found = yield from response.members()
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
    return (yield from response.with_result(found, changes))


def _with_mapped(
    server: str, response: Success, result: Mapping[str, Raw], name: str, mapped: _Mapped
) -> Steps[Success]:
    """Return the response with the URIs in one array mapped; itself if nothing changes. Raises `FrameError`."""
    if not is_array(result[name]):
        return response
    message = yield from response.message()
    changed, most = False, len(response.text) + MAX_SPLIT_BYTES
    edited = RewrittenArray(name, message, result, response.id, most)
    for number, item in enumerate((yield from elements(result[name], name))):
        if number % ITEMS_AT_ONCE == 0 or len(item) > SHORT_MESSAGE_BYTES:
            yield
        new = yield from _mapped_item(server, item, mapped)
        changed = changed or new is not item
        edited.add(new)
    return edited.end() if changed else response


def _each(server: str, value: Raw, mapped: _Mapped) -> Steps[list[Raw] | Raw]:
    """Return an array with each item mapped; the value itself if nothing changes, or it is no array."""
    if not is_array(value):
        return value
    items = yield from elements(value, "content")
    changed: list[Raw] = []
    for number, item in enumerate(items):
        if number % ITEMS_AT_ONCE == 0 or len(item) > SHORT_MESSAGE_BYTES:
            yield
        changed.append((yield from _mapped_item(server, item, mapped)))
    return value if all(map(operator.is_, items, changed)) else changed


def _mapped_item(server: str, item: Raw, mapped: _Mapped) -> Steps[Raw]:
    is_one = is_object(item) and (yield from may_hold_any(item, _URI))
    return (yield from mapped(server, item)) if is_one else item


def _contents(server: str, item: Raw) -> Steps[Raw]:
    """Return a resource's contents with its URI mapped."""
    found = yield from object_in_steps(item)
    own = as_string(found.get("uri"))
    return item if own is None else Raw(with_members(found, {"uri": merged_uri(server, own)}))


def _block(server: str, item: Raw) -> Steps[Raw]:
    """Return a content block, with the URI of an embedded resource or a resource link mapped."""
    found = yield from object_in_steps(item)
    kind = as_string(found.get("type"))
    if kind == "resource_link":
        return (yield from _contents(server, item))
    resource = found.get("resource")
    if kind != "resource" or resource is None or not is_object(resource):
        return item
    new = yield from _contents(server, resource)
    return item if new is resource else Raw(with_members(found, {"resource": new}))


def _message(server: str, item: Raw) -> Steps[Raw]:
    """Return a prompt's message, whose content is one block or several, mapped."""
    found = yield from object_in_steps(item)
    content = found.get("content")
    if content is None:
        return item
    new = (yield from _block(server, content)) if is_object(content) else (yield from _each(server, content, _block))
    return item if new is content else Raw(with_members(found, {"content": new}))


_PLACES: Mapping[str, tuple[str, _Mapped]] = {
    "tools/call": ("content", _block),
    "tasks/result": ("content", _block),
    "prompts/get": ("messages", _message),
    "resources/read": ("contents", _contents),
}
"""The array with URIs in a result of each method, and the mapping of its items."""
