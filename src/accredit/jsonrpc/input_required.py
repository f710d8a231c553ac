"""The `input_required` result of revision 2026-07-28, as an intermediary must check it. No I/O.

Source: basic/patterns/mrtr (SEP-2322). In this order:

- [methods] only `tools/call`, `prompts/get` and `resources/read` may be answered so;
- [members] it holds `inputRequests` (an object, not empty), or `requestState` (a string), or both;
- [entries] every entry of `inputRequests` is an object with one of three methods. If it has `params`, they are an
  object. Members are named so that all readers take them alike;
- [declared-kinds] the client declared that kind of input in this request. `elicitation: {}` declares forms only. If
  readers could take an elicitation for either kind, the client must have declared both.
"""

from collections.abc import Mapping

from msgspec import Raw

from accredit.base.text import excerpt
from accredit.errors import FrameError, MessageId
from accredit.jsonrpc.frames import Notification, Request
from accredit.jsonrpc.methods import INPUT_REQUIRED_METHODS, META_CAPABILITIES, META_SUBSCRIPTION, Era
from accredit.jsonrpc.objects import (
    Names,
    as_string,
    is_object,
    may_name,
    members,
    message_id,
    pairs,
    unambiguous_members,
)

MAX_INPUT_REQUESTS = 1_024
"""The most input requests of one result or task, some 10 microseconds each. Real ones have a few: a person answers
them."""


_TOLD = Names("inputRequests")
_ENTRY = Names("method", "params")
_ELICITATION = Names("mode", "url")
_CAPABILITY = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


def check_input_required(request: Request, result: dict[str, Raw]) -> None:
    """Check the members of an `input_required` result that answers `request`. Raises `FrameError`."""
    if request.method not in INPUT_REQUIRED_METHODS:
        raise FrameError(f"input_required in answer to {excerpt(request.method)}")
    state = result.get("requestState")
    if state is not None and as_string(state) is None:
        raise FrameError('"requestState" is not a string')
    asked = result.get("inputRequests")
    if asked is not None and not is_object(asked):
        raise FrameError('"inputRequests" is not an object')
    entries = pairs(asked) if asked is not None else []
    if not entries and state is None:
        raise FrameError("input_required with neither inputRequests nor requestState")
    _check_entries(request, entries)


def check_told_of_task(notification: Notification, open_requests: Mapping[MessageId, Request]) -> None:
    """Check the `inputRequests` of a `notifications/tasks`, by the same rules as those of a result. They may ask only
    for what was declared by the subscription that the notification names; if it names none, by the only open request.
    Raises `FrameError`."""
    if notification.params is None or not may_name(notification.params, b"inputRequests"):
        return
    found = unambiguous_members(notification.params, _TOLD)
    if "inputRequests" not in found:
        return
    named = notification.meta.get(META_SUBSCRIPTION)
    only = next(iter(open_requests.values())) if len(open_requests) == 1 else None
    request = open_requests.get(message_id(named)) if named is not None else only
    check_input_requests(request, found["inputRequests"])


def check_input_requests(request: Request | None, asked: Raw) -> None:
    """Check the `inputRequests` of a task ([entries] and [declared-kinds]). They may ask only for what `request`
    declares. If it is None, the request is unknown, and counts as declaring nothing. Raises `FrameError`."""
    if not is_object(asked):
        raise FrameError('"inputRequests" is not an object')
    _check_entries(request, pairs(asked))


def shows_pages(request: Request) -> bool:
    """Return whether a request, in the legacy era an `initialize`, declares that its client can show people the page at
    a URL."""
    try:
        elicitation = _declared_capabilities(request).get("elicitation")
        return elicitation is not None and is_object(elicitation) and "url" in members(elicitation)
    except FrameError:
        return False


def _check_entries(request: Request | None, entries: list[tuple[str, Raw]]) -> None:
    if len(entries) > MAX_INPUT_REQUESTS:
        raise FrameError(f"more than {MAX_INPUT_REQUESTS} input requests at once", bound=True)
    if entries:
        declared = _declared_capabilities(request)
        for _, entry in entries:
            _check_entry(entry, declared)


def _declared_capabilities(request: Request | None) -> dict[str, Raw]:
    if request is None:
        return {}
    begins = request.method == "initialize" and request.era is Era.LEGACY
    capabilities = request.members.get("capabilities") if begins else request.meta.get(META_CAPABILITIES)
    return members(capabilities) if is_object(capabilities) and capabilities is not None else {}


def _check_entry(entry: Raw, declared: dict[str, Raw]) -> None:
    if not is_object(entry):
        raise FrameError("an input request that is not an object")
    found = unambiguous_members(entry, _ENTRY)
    method = as_string(found.get("method")) or ""
    params = found.get("params")
    if method not in _CAPABILITY:
        raise FrameError(f"an input request of unknown kind: {excerpt(method)}")
    if params is not None and not is_object(params):
        raise FrameError("an input request whose params are not an object")
    capability = declared.get(_CAPABILITY[method])
    if not is_object(capability):
        raise FrameError(f"an input request that the client did not declare: {method}")
    if method == "elicitation/create" and capability is not None:
        _check_mode(params, members(capability))


def _check_mode(params: Raw | None, declared: dict[str, Raw]) -> None:
    found = unambiguous_members(params, _ELICITATION) if params is not None else {}
    mode = as_string(found["mode"]) if "mode" in found else "form"
    if mode not in ("form", "url"):
        raise FrameError("an elicitation of unknown mode")
    if mode not in declared and (mode == "url" or declared):
        kind = "URL" if mode == "url" else "form"
        raise FrameError(f"a {kind} elicitation that the client did not declare")
    if "mode" not in found and "url" in found and "url" not in declared:
        # The specification takes it for a form; the official SDK goes by the members and takes it for a URL.
        raise FrameError("an elicitation without a mode that has a URL, which the client did not declare")
