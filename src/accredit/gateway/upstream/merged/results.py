"""URIs in one server's results, under the names that they have at the merged endpoint. No I/O.

1. Mapped are the URIs of embedded resources and resource links, in the `content` of a tool's result and in the messages
   of a prompt, and those of `contents` that were read: what a client may ask for by them. So is the URI in the error
   that a read is answered with.
2. Nothing else is: neither `structuredContent`, nor what a text says, nor the address of an icon.
3. A result without such a URI stays byte for byte. One with more than `MAX_SPLIT_BYTES` where there are some is none.

A server can't name another's resource so: whatever it says is taken for its own.
"""

import operator
from collections.abc import Callable, Mapping
from functools import partial

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from accredit.errors import FrameError
from accredit.jsonrpc.encode import with_members
from accredit.jsonrpc.frames import Success
from accredit.jsonrpc.long_text import Steps, pairs_in_steps
from accredit.jsonrpc.objects import as_string, is_object, may_hold, members
from accredit.jsonrpc.responses import Edit
from accredit.limits import ITEMS_AT_ONCE, LONG_ANSWER_BYTES, MAX_SPLIT_BYTES, SHORT_MESSAGE_BYTES
from accredit.policy.merging import merged_uri

_URI = b'"uri"'
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_Mapped = Callable[[str, Raw], Steps[Raw]]


def with_merged_uris(server: str, method: str, outer: Edit | None) -> Edit | None:
    """Return the edit for one server's response to a request of this method; `outer` edits what comes of it."""
    place = _PLACES.get(method)
    if place is None:
        return outer
    return _edit(server, dict([place]), outer)


def with_merged_uris_anywhere(server: str, outer: Edit | None) -> Edit:
    """Return the edit for a response of which nobody knows any more what it answers: it goes by its shape."""
    return _edit(server, dict(_PLACES.values()), outer)


def failure_edit(server: str, method: str) -> Callable[[bytes], bytes] | None:
    """Return what maps the URI in the error that a read is answered with (SEP-2164), or None for other methods."""
    return partial(_merged_failure, server) if method == "resources/read" else None


def _merged_failure(server: str, text: bytes) -> bytes:
    """Return a body with the URI in its `error.data` mapped; any other as it is."""
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


def _edit(server: str, places: Mapping[str, _Mapped], outer: Edit | None) -> Edit:
    def edit(response: Success) -> Steps[bytes]:
        if may_hold(response.result, _URI):
            response = yield from _mapped(server, places, response)
        return (yield from outer(response)) if outer is not None else response.text

    return edit


def _mapped(server: str, places: Mapping[str, _Mapped], response: Success) -> Steps[Success]:
    """Return the response with its URIs mapped. Raises `FrameError` by rule 3."""
    yield
    result = yield from _split(response.result)
    changes: dict[str, object] = {}
    for name, mapped in places.items():
        if name in result and may_hold(result[name], _URI):
            if len(result[name]) > MAX_SPLIT_BYTES:
                raise FrameError(f"{name} with URIs, of more than {MAX_SPLIT_BYTES} bytes", bound=True)
            changed = yield from _each(server, result[name], mapped)
            if changed is not result[name]:
                changes[name] = changed
    if not changes:
        return response
    yield
    new_result = Raw(with_members(result, changes))
    yield
    text = with_members((yield from _split(Raw(response.text))), {"result": new_result})
    return replace(response, result=new_result, text=text)


def _each(server: str, value: Raw, mapped: _Mapped) -> Steps[list[Raw] | Raw]:
    """Return an array with each of its items mapped; the value itself if that changes nothing, or it is no array."""
    try:
        items = _decode_list(value)
    except (msgspec.MsgspecError, RecursionError):
        return value
    changed: list[Raw] = []
    for number, item in enumerate(items):
        if number % ITEMS_AT_ONCE == 0 or len(item) > SHORT_MESSAGE_BYTES:
            yield
        is_one = is_object(item) and may_hold(item, _URI)
        changed.append((yield from mapped(server, item)) if is_one else item)
    return value if all(map(operator.is_, items, changed)) else changed


def _contents(server: str, item: Raw) -> Steps[Raw]:
    """Return contents of a resource, with the URI that they have here."""
    found = yield from _split(item)
    own = as_string(found.get("uri"))
    return item if own is None else Raw(with_members(found, {"uri": merged_uri(server, own)}))


def _block(server: str, item: Raw) -> Steps[Raw]:
    """Return a block of content; of an embedded resource and of a link to one, with the URI that it has here."""
    found = yield from _split(item)
    kind = as_string(found.get("type"))
    if kind == "resource_link":
        return (yield from _contents(server, item))
    resource = found.get("resource")
    if kind != "resource" or resource is None or not is_object(resource):
        return item
    new = yield from _contents(server, resource)
    return item if new is resource else Raw(with_members(found, {"resource": new}))


def _message(server: str, item: Raw) -> Steps[Raw]:
    """Return a message of a prompt, whose content is one block or several."""
    found = yield from _split(item)
    content = found.get("content")
    if content is None:
        return item
    new = (yield from _block(server, content)) if is_object(content) else (yield from _each(server, content, _block))
    return item if new is content else Raw(with_members(found, {"content": new}))


def _split(value: Raw) -> Steps[dict[str, Raw]]:
    if not is_object(value):
        return {}
    if len(value) <= LONG_ANSWER_BYTES:
        return members(value)
    return dict((yield from pairs_in_steps(bytes(value))))


_PLACES: Mapping[str, tuple[str, _Mapped]] = {
    "tools/call": ("content", _block),
    "tasks/result": ("content", _block),
    "prompts/get": ("messages", _message),
    "resources/read": ("contents", _contents),
}
"""Where a result of each method has URIs, and what each item there becomes."""
